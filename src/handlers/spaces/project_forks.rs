//! Forks of projects.

use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::spaces::projects::ProjectFilter;
use domain::spaces::projects::forks::{self, NewFork};

use crate::api::routes::ProjectForksApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::handlers::spaces::projects::{project_filter, view_options};
use crate::views::enums::Convert;
use contract::{CreateForkRelationRequest, ForkProjectRequest, ListProjectForksRequest, Project};

impl ProjectForksApi for App {
    async fn fork_project(&self, access: ProjectAccess, request: ForkProjectRequest) -> Result<Project> {
        let body = request.body;
        let namespace = body.namespace_id.map(|id| id.to_string());
        let new = NewFork {
            namespace: namespace.or(body.namespace_path).or(body.namespace),
            name: body.name,
            path: body.path,
            description: body.description.into_patch(),
            visibility: body.visibility.map(Convert::convert),
        };
        let fork = forks::fork(&self.backend, &access, new).await?;
        self.changed(fork, true).await
    }

    async fn list_project_forks(
        &self,
        access: ProjectAccess,
        request: ListProjectForksRequest,
        page: PageRequest,
    ) -> Result<Page<Project>> {
        let parts = view_options(&request.project_view_options);
        let filter = ProjectFilter {
            forked_from: Some(access.project.id),
            ..project_filter(request.project_filter)
        };
        self.projects(&access.caller, filter, page, parts).await
    }

    async fn create_fork_relation(
        &self,
        access: ProjectAccess,
        request: CreateForkRelationRequest,
    ) -> Result<Project> {
        let related = forks::relate(&self.backend, access, &request.forked_from_id).await?;
        self.changed(related, true).await
    }

    async fn delete_fork_relation(&self, access: ProjectAccess) -> Result<()> {
        forks::unrelate(&self.backend, &access).await
    }
}
