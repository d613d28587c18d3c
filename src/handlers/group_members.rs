//! Members of a group.

use crate::api::contract::{
    AddGroupMemberRequest, GetAnyGroupMemberRequest, GetGroupMemberRequest, GroupMembersApi,
    ListAllGroupMembersRequest, ListGroupMembersRequest, Member, RemoveGroupMemberRequest,
    UpdateGroupMemberRequest,
};
use crate::api::types::Page;
use crate::app::App;
use crate::error::Result;
use crate::services::access::GroupAccess;
use crate::services::members::{self, MemberFilter};
use crate::views::member::member;

impl GroupMembersApi for App {
    async fn list_group_members(
        &self,
        access: GroupAccess,
        request: ListGroupMembersRequest,
    ) -> Result<Page<Member>> {
        let filter = MemberFilter {
            query: request.query,
            user_ids: request.user_ids,
        };
        let page = members::list(&self.backend, &access.into(), &filter, &request.page).await?;
        Ok(page.map(|found| member(&self.backend.instance.base_url, found)))
    }

    async fn list_all_group_members(
        &self,
        access: GroupAccess,
        request: ListAllGroupMembersRequest,
    ) -> Result<Page<Member>> {
        let filter = MemberFilter {
            query: request.query,
            user_ids: request.user_ids,
        };
        let page = members::list_all(&self.backend, &access.into(), &filter, &request.page).await?;
        Ok(page.map(|found| member(&self.backend.instance.base_url, found)))
    }

    async fn get_group_member(&self, access: GroupAccess, request: GetGroupMemberRequest) -> Result<Member> {
        let found = members::direct(&self.backend, &access.into(), request.user_id).await?;
        Ok(member(&self.backend.instance.base_url, found))
    }

    async fn get_any_group_member(
        &self,
        access: GroupAccess,
        request: GetAnyGroupMemberRequest,
    ) -> Result<Member> {
        let found = members::any(&self.backend, &access.into(), request.user_id).await?;
        Ok(member(&self.backend.instance.base_url, found))
    }

    async fn add_group_member(&self, access: GroupAccess, request: AddGroupMemberRequest) -> Result<Member> {
        let new = request.body;
        let expires_at = new.expires_at.take();
        let added = members::add(
            &self.backend,
            &access.into(),
            new.user_id,
            new.access_level,
            expires_at,
        )
        .await?;
        Ok(member(&self.backend.instance.base_url, added))
    }

    async fn update_group_member(
        &self,
        access: GroupAccess,
        request: UpdateGroupMemberRequest,
    ) -> Result<Member> {
        let change = request.body;
        let changed = members::edit(
            &self.backend,
            &access.into(),
            request.user_id,
            change.access_level,
            change.expires_at,
        )
        .await?;
        Ok(member(&self.backend.instance.base_url, changed))
    }

    async fn remove_group_member(
        &self,
        access: GroupAccess,
        request: RemoveGroupMemberRequest,
    ) -> Result<()> {
        let condition = request.if_unmodified_since.as_deref();
        members::remove(&self.backend, &access.into(), request.user_id, condition).await
    }
}
