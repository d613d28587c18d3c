//! Members of a group.

use domain::identity::access::GroupAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::GroupMembersApi;
use crate::app::App;
use crate::handlers::spaces::members::member_filter;
use contract::{
    AddGroupMemberRequest, GetAnyGroupMemberRequest, GetGroupMemberRequest, ListAllGroupMembersRequest,
    ListGroupMembersRequest, Member, OverrideGroupMemberRequest, RemoveGroupMemberRequest,
    StopOverridingGroupMemberRequest, UpdateGroupMemberRequest,
};

impl GroupMembersApi for App {
    async fn list_group_members(
        &self,
        access: GroupAccess,
        request: ListGroupMembersRequest,
        page: PageRequest,
    ) -> Result<Page<Member>> {
        self.members(access, member_filter(request.member_filter), page)
            .await
    }

    async fn list_all_group_members(
        &self,
        access: GroupAccess,
        request: ListAllGroupMembersRequest,
        page: PageRequest,
    ) -> Result<Page<Member>> {
        self.all_members(access, member_filter(request.member_filter), page)
            .await
    }

    async fn get_group_member(&self, access: GroupAccess, request: GetGroupMemberRequest) -> Result<Member> {
        self.direct_member(access, request.user_id).await
    }

    async fn get_any_group_member(
        &self,
        access: GroupAccess,
        request: GetAnyGroupMemberRequest,
    ) -> Result<Member> {
        self.any_member(access, request.user_id).await
    }

    async fn add_group_member(&self, access: GroupAccess, request: AddGroupMemberRequest) -> Result<Member> {
        self.add_member(access, request.body).await
    }

    async fn update_group_member(
        &self,
        access: GroupAccess,
        request: UpdateGroupMemberRequest,
    ) -> Result<Member> {
        self.update_member(access, request.user_id, request.body).await
    }

    async fn remove_group_member(
        &self,
        access: GroupAccess,
        request: RemoveGroupMemberRequest,
    ) -> Result<()> {
        self.remove_member(access, request.user_id, request.if_unmodified_since)
            .await
    }

    async fn override_group_member(
        &self,
        access: GroupAccess,
        request: OverrideGroupMemberRequest,
    ) -> Result<Member> {
        self.override_member(access, request.user_id, true).await
    }

    async fn stop_overriding_group_member(
        &self,
        access: GroupAccess,
        request: StopOverridingGroupMemberRequest,
    ) -> Result<Member> {
        self.override_member(access, request.user_id, false).await
    }
}
