//! Job token scopes of projects.

use domain::identity::access::ProjectAccess;
use domain::identity::job_token_scopes;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::spaces::projects::{self, ProjectFilter, ProjectOrder};

use crate::api::routes::JobTokenScopesApi;
use crate::app::App;
use crate::views::identity::job_token_scope as view;
use crate::views::spaces::project::simple;
use contract::{
    AddJobTokenScopeGroupRequest, AddJobTokenScopeProjectRequest, JobTokenScope, JobTokenScopeGroup,
    JobTokenScopeGroupEntry, JobTokenScopeProject, RemoveJobTokenScopeGroupRequest,
    RemoveJobTokenScopeProjectRequest, SimpleProject, UpdateJobTokenScopeRequest,
};

impl JobTokenScopesApi for App {
    async fn get_job_token_scope(&self, access: ProjectAccess) -> Result<JobTokenScope> {
        Ok(view::scope(&access.project))
    }

    async fn update_job_token_scope(
        &self,
        access: ProjectAccess,
        request: UpdateJobTokenScopeRequest,
    ) -> Result<()> {
        job_token_scopes::update(&self.backend, &access, request.body.enabled).await
    }

    async fn list_job_token_scope_projects(
        &self,
        access: ProjectAccess,
        page: PageRequest,
    ) -> Result<Page<SimpleProject>> {
        let filter = ProjectFilter {
            job_token_scope_of: Some(access.project.id),
            order: ProjectOrder::Id,
            ascending: true,
            ..ProjectFilter::default()
        };
        let found = projects::list(&self.backend, &access.caller, &filter, &page).await?;
        Ok(found.map(|row| simple(&self.backend.instance, &row)))
    }

    async fn add_job_token_scope_project(
        &self,
        access: ProjectAccess,
        request: AddJobTokenScopeProjectRequest,
    ) -> Result<JobTokenScopeProject> {
        let id = request.body.target_project_id;
        let target_project_id = job_token_scopes::add_project(&self.backend, &access, id).await?;
        Ok(JobTokenScopeProject {
            source_project_id: access.project.id,
            target_project_id,
        })
    }

    async fn remove_job_token_scope_project(
        &self,
        access: ProjectAccess,
        request: RemoveJobTokenScopeProjectRequest,
    ) -> Result<()> {
        let (id, condition) = (request.target_project_id, request.if_unmodified_since);
        job_token_scopes::remove_project(&self.backend, &access, id, condition.as_deref()).await
    }

    async fn list_job_token_scope_groups(
        &self,
        access: ProjectAccess,
        page: PageRequest,
    ) -> Result<Page<JobTokenScopeGroup>> {
        let found = job_token_scopes::list_groups(&self.backend, &access, &page).await?;
        Ok(found.map(|group| view::group(&self.backend.instance, group)))
    }

    async fn add_job_token_scope_group(
        &self,
        access: ProjectAccess,
        request: AddJobTokenScopeGroupRequest,
    ) -> Result<JobTokenScopeGroupEntry> {
        let id = request.body.target_group_id;
        let target_group_id = job_token_scopes::add_group(&self.backend, &access, id).await?;
        Ok(JobTokenScopeGroupEntry {
            source_project_id: access.project.id,
            target_group_id,
        })
    }

    async fn remove_job_token_scope_group(
        &self,
        access: ProjectAccess,
        request: RemoveJobTokenScopeGroupRequest,
    ) -> Result<()> {
        let (id, condition) = (request.target_group_id, request.if_unmodified_since);
        job_token_scopes::remove_group(&self.backend, &access, id, condition.as_deref()).await
    }
}
