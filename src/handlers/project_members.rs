//! Members of a project.

use crate::api::contract::{
    AddProjectMemberRequest, GetAnyProjectMemberRequest, GetProjectMemberRequest,
    ListAllProjectMembersRequest, ListProjectMembersRequest, Member, ProjectMembersApi,
    RemoveProjectMemberRequest, UpdateProjectMemberRequest,
};
use crate::api::types::Page;
use crate::app::App;
use crate::error::Result;
use crate::services::access::ProjectAccess;
use crate::services::members::{self, MemberFilter};
use crate::views::member::member;

impl ProjectMembersApi for App {
    async fn list_project_members(
        &self,
        access: ProjectAccess,
        request: ListProjectMembersRequest,
    ) -> Result<Page<Member>> {
        let filter = MemberFilter {
            query: request.query,
            user_ids: request.user_ids,
        };
        let page = members::list(&self.backend, &access.into(), &filter, &request.page).await?;
        Ok(page.map(|found| member(&self.backend.instance.base_url, found)))
    }

    async fn list_all_project_members(
        &self,
        access: ProjectAccess,
        request: ListAllProjectMembersRequest,
    ) -> Result<Page<Member>> {
        let filter = MemberFilter {
            query: request.query,
            user_ids: request.user_ids,
        };
        let page = members::list_all(&self.backend, &access.into(), &filter, &request.page).await?;
        Ok(page.map(|found| member(&self.backend.instance.base_url, found)))
    }

    async fn get_project_member(
        &self,
        access: ProjectAccess,
        request: GetProjectMemberRequest,
    ) -> Result<Member> {
        let found = members::direct(&self.backend, &access.into(), request.user_id).await?;
        Ok(member(&self.backend.instance.base_url, found))
    }

    async fn get_any_project_member(
        &self,
        access: ProjectAccess,
        request: GetAnyProjectMemberRequest,
    ) -> Result<Member> {
        let found = members::any(&self.backend, &access.into(), request.user_id).await?;
        Ok(member(&self.backend.instance.base_url, found))
    }

    async fn add_project_member(
        &self,
        access: ProjectAccess,
        request: AddProjectMemberRequest,
    ) -> Result<Member> {
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

    async fn update_project_member(
        &self,
        access: ProjectAccess,
        request: UpdateProjectMemberRequest,
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

    async fn remove_project_member(
        &self,
        access: ProjectAccess,
        request: RemoveProjectMemberRequest,
    ) -> Result<()> {
        let condition = request.if_unmodified_since.as_deref();
        members::remove(&self.backend, &access.into(), request.user_id, condition).await
    }
}
