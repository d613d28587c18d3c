//! Pipelines of projects.

use domain::delivery::pipelines::{self, PipelineFilter, Variable};
use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::kernel::urls;

use crate::api::routes::PipelinesApi;
use crate::app::App;
use crate::views::delivery::pipeline::{ProjectLocation, pipeline, reference, variable};
use crate::views::enums::Convert;
use contract::{
    CancelPipelineRequest, CreatePipelineRequest, DeletePipelineRequest, GetLatestPipelineRequest,
    GetPipelineRequest, ListPipelineVariablesRequest, ListPipelinesRequest, Pipeline, PipelineOrder,
    PipelineReference, PipelineScope, PipelineVariable, PipelineVariableCreate, RetryPipelineRequest,
    SortDirection,
};

impl App {
    /// Returns the full path of a project, below which its pipeline pages are.
    pub(crate) fn path_of(&self, access: &ProjectAccess) -> String {
        urls::project_path(&access.namespace, &access.project)
    }

    /// Returns the location of a project's pages.
    pub(crate) fn at<'a>(&'a self, path: &'a str) -> ProjectLocation<'a> {
        let base = &self.backend.instance.base_url;
        ProjectLocation { base, path }
    }
}

/// Converts a variable of a request.
pub(crate) fn given(sent: PipelineVariableCreate) -> Variable {
    Variable::new(
        sent.key,
        sent.value.into(),
        sent.variable_type.map(Convert::convert),
    )
}

fn filter(request: ListPipelinesRequest) -> PipelineFilter {
    PipelineFilter {
        scope: request.scope.map(|scope| match scope {
            PipelineScope::Running => pipelines::PipelineScope::Running,
            PipelineScope::Pending => pipelines::PipelineScope::Pending,
            PipelineScope::Finished => pipelines::PipelineScope::Finished,
            PipelineScope::Branches => pipelines::PipelineScope::Branches,
            PipelineScope::Tags => pipelines::PipelineScope::Tags,
        }),
        status: request.status.map(Convert::convert),
        ref_name: request.r#ref,
        sha: request.sha,
        yaml_errors: request.yaml_errors,
        name: request.name,
        username: request.username,
        updated_after: request.updated_after.map(|time| time.to_utc()),
        updated_before: request.updated_before.map(|time| time.to_utc()),
        order: match request.order_by {
            Some(PipelineOrder::Id) | None => pipelines::PipelineOrder::Id,
            Some(PipelineOrder::Status) => pipelines::PipelineOrder::Status,
            Some(PipelineOrder::Ref) => pipelines::PipelineOrder::Ref,
            Some(PipelineOrder::UpdatedAt) => pipelines::PipelineOrder::UpdatedAt,
            Some(PipelineOrder::UserId) => pipelines::PipelineOrder::UserId,
        },
        ascending: matches!(request.sort, Some(SortDirection::Asc)),
    }
}

impl PipelinesApi for App {
    async fn list_pipelines(
        &self,
        access: ProjectAccess,
        request: ListPipelinesRequest,
        page: PageRequest,
    ) -> Result<Page<PipelineReference>> {
        let page_request = page;
        let page = pipelines::list(&self.backend, &access, filter(request), &page_request).await?;
        let path = self.path_of(&access);
        Ok(page.map(|row| reference(self.at(&path), &row)))
    }

    async fn create_pipeline(
        &self,
        access: ProjectAccess,
        request: CreatePipelineRequest,
    ) -> Result<Pipeline> {
        let body = request.body;
        let variables = body
            .variables
            .unwrap_or_default()
            .into_iter()
            .map(given)
            .collect();
        let created = pipelines::create(&self.backend, &access, &body.r#ref, variables).await?;
        Ok(pipeline(self.at(&self.path_of(&access)), created))
    }

    async fn get_pipeline(&self, access: ProjectAccess, request: GetPipelineRequest) -> Result<Pipeline> {
        let found = pipelines::get(&self.backend, &access, request.pipeline_id).await?;
        Ok(pipeline(self.at(&self.path_of(&access)), found))
    }

    async fn get_latest_pipeline(
        &self,
        access: ProjectAccess,
        request: GetLatestPipelineRequest,
    ) -> Result<Pipeline> {
        let found = pipelines::latest(&self.backend, &access, request.r#ref.as_deref()).await?;
        Ok(pipeline(self.at(&self.path_of(&access)), found))
    }

    async fn delete_pipeline(&self, access: ProjectAccess, request: DeletePipelineRequest) -> Result<()> {
        let (id, since) = (request.pipeline_id, request.if_unmodified_since);
        pipelines::delete(&self.backend, &access, id, since.as_deref()).await
    }

    async fn list_pipeline_variables(
        &self,
        access: ProjectAccess,
        request: ListPipelineVariablesRequest,
        page: PageRequest,
    ) -> Result<Page<PipelineVariable>> {
        let (id, page) = (request.pipeline_id, page);
        let page = pipelines::list_variables(&self.backend, &access, id, &page).await?;
        Ok(page.map(variable))
    }

    async fn cancel_pipeline(
        &self,
        access: ProjectAccess,
        request: CancelPipelineRequest,
    ) -> Result<Pipeline> {
        let canceled = pipelines::cancel(&self.backend, &access, request.pipeline_id).await?;
        Ok(pipeline(self.at(&self.path_of(&access)), canceled))
    }

    async fn retry_pipeline(&self, access: ProjectAccess, request: RetryPipelineRequest) -> Result<Pipeline> {
        let retried = pipelines::retry(&self.backend, &access, request.pipeline_id).await?;
        Ok(pipeline(self.at(&self.path_of(&access)), retried))
    }
}
