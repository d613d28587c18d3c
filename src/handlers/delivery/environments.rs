//! Environments of projects.

use domain::delivery::environments::{self, EnvironmentFilter, EnvironmentUpdate};
use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::EnvironmentsApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views::delivery::environment::{detail, environment, listed};
use crate::views::enums::Convert;
use crate::views::spaces::project::simple;
use contract::{
    CreateEnvironmentRequest, DeleteEnvironmentRequest, Environment, GetEnvironmentRequest,
    ListEnvironmentsRequest, StopEnvironmentRequest, UpdateEnvironmentRequest,
};

impl EnvironmentsApi for App {
    async fn list_environments(
        &self,
        access: ProjectAccess,
        request: ListEnvironmentsRequest,
        page: PageRequest,
    ) -> Result<Page<Environment>> {
        let filter = EnvironmentFilter {
            name: request.name,
            search: request.search,
            state: request.states.map(Convert::convert),
        };
        let page_request = page;
        let (page, project) = environments::list(&self.backend, &access, filter, &page_request).await?;
        let project = || project.as_ref().map(|row| simple(&self.backend.instance, row));
        Ok(page.map(|row| listed(row, project())))
    }

    async fn create_environment(
        &self,
        access: ProjectAccess,
        request: CreateEnvironmentRequest,
    ) -> Result<Environment> {
        let body = request.body;
        let change = EnvironmentUpdate {
            name: Some(body.name),
            external_url: body.external_url.map(Some),
            slug: body.slug,
        };
        let created = environments::create(&self.backend, &access, change).await?;
        Ok(environment(created))
    }

    async fn get_environment(
        &self,
        access: ProjectAccess,
        request: GetEnvironmentRequest,
    ) -> Result<Environment> {
        let (found, last) = environments::get(&self.backend, &access, request.environment_id).await?;
        Ok(detail(self.at(&self.path_of(&access)), found, last))
    }

    async fn update_environment(
        &self,
        access: ProjectAccess,
        request: UpdateEnvironmentRequest,
    ) -> Result<Environment> {
        let (id, body) = (request.environment_id, request.body);
        let change = EnvironmentUpdate {
            name: body.name,
            external_url: body.external_url.into_patch().into_update(),
            slug: body.slug,
        };
        let changed = environments::update(&self.backend, &access, id, change).await?;
        Ok(environment(changed))
    }

    async fn delete_environment(
        &self,
        access: ProjectAccess,
        request: DeleteEnvironmentRequest,
    ) -> Result<()> {
        let (id, since) = (request.environment_id, request.if_unmodified_since);
        environments::delete(&self.backend, &access, id, since.as_deref()).await
    }

    async fn stop_environment(
        &self,
        access: ProjectAccess,
        request: StopEnvironmentRequest,
    ) -> Result<Environment> {
        let stopped = environments::stop(&self.backend, &access, request.environment_id).await?;
        Ok(environment(stopped))
    }
}
