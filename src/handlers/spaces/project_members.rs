//! Members of a project.

use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::ProjectMembersApi;
use crate::app::App;
use crate::handlers::spaces::members::member_filter;
use contract::{
    AddProjectMemberRequest, GetAnyProjectMemberRequest, GetProjectMemberRequest,
    ListAllProjectMembersRequest, ListProjectMembersRequest, Member, RemoveProjectMemberRequest,
    UpdateProjectMemberRequest,
};

impl ProjectMembersApi for App {
    async fn list_project_members(
        &self,
        access: ProjectAccess,
        request: ListProjectMembersRequest,
        page: PageRequest,
    ) -> Result<Page<Member>> {
        self.members(access, member_filter(request.member_filter), page)
            .await
    }

    async fn list_all_project_members(
        &self,
        access: ProjectAccess,
        request: ListAllProjectMembersRequest,
        page: PageRequest,
    ) -> Result<Page<Member>> {
        self.all_members(access, member_filter(request.member_filter), page)
            .await
    }

    async fn get_project_member(
        &self,
        access: ProjectAccess,
        request: GetProjectMemberRequest,
    ) -> Result<Member> {
        self.direct_member(access, request.user_id).await
    }

    async fn get_any_project_member(
        &self,
        access: ProjectAccess,
        request: GetAnyProjectMemberRequest,
    ) -> Result<Member> {
        self.any_member(access, request.user_id).await
    }

    async fn add_project_member(
        &self,
        access: ProjectAccess,
        request: AddProjectMemberRequest,
    ) -> Result<Member> {
        self.add_member(access, request.body).await
    }

    async fn update_project_member(
        &self,
        access: ProjectAccess,
        request: UpdateProjectMemberRequest,
    ) -> Result<Member> {
        self.update_member(access, request.user_id, request.body).await
    }

    async fn remove_project_member(
        &self,
        access: ProjectAccess,
        request: RemoveProjectMemberRequest,
    ) -> Result<()> {
        self.remove_member(access, request.user_id, request.if_unmodified_since)
            .await
    }
}
