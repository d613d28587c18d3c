//! Pipeline triggers: tokens with which external systems start pipelines of projects.

use domain::delivery::pipeline_triggers;
use domain::identity::access::{InstanceAccess, ProjectAccess};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::PipelineTriggersApi;
use crate::app::App;
use crate::views::delivery::pipeline::pipeline;
use crate::views::delivery::pipeline_trigger::pipeline_trigger;
use contract::{
    CreatePipelineTriggerRequest, DeletePipelineTriggerRequest, GetPipelineTriggerRequest, Pipeline,
    PipelineTrigger, TriggerPipelineOfRefRequest, TriggerPipelineRequest, TriggerVariables,
    UpdatePipelineTriggerRequest,
};

impl App {
    fn trigger(&self, row: pipeline_triggers::TriggerDetail) -> PipelineTrigger {
        pipeline_trigger(&self.backend.instance.base_url, row)
    }

    async fn run_trigger(
        &self,
        project: &str,
        token: String,
        ref_name: &str,
        variables: Option<TriggerVariables>,
    ) -> Result<Pipeline> {
        let (token, variables) = (token.into(), variables.unwrap_or_default());
        let started = pipeline_triggers::run(&self.backend, project, token, ref_name, variables).await?;
        Ok(pipeline(self.at(&started.path), started.row))
    }
}

impl PipelineTriggersApi for App {
    async fn list_pipeline_triggers(
        &self,
        access: ProjectAccess,
        page: PageRequest,
    ) -> Result<Page<PipelineTrigger>> {
        let page = pipeline_triggers::list(&self.backend, &access, &page).await?;
        Ok(page.map(|row| self.trigger(row)))
    }

    async fn create_pipeline_trigger(
        &self,
        access: ProjectAccess,
        request: CreatePipelineTriggerRequest,
    ) -> Result<PipelineTrigger> {
        let created = pipeline_triggers::create(&self.backend, &access, request.body.description).await?;
        Ok(self.trigger(created))
    }

    async fn get_pipeline_trigger(
        &self,
        access: ProjectAccess,
        request: GetPipelineTriggerRequest,
    ) -> Result<PipelineTrigger> {
        let found = pipeline_triggers::get(&self.backend, &access, request.trigger_id).await?;
        Ok(self.trigger(found))
    }

    async fn update_pipeline_trigger(
        &self,
        access: ProjectAccess,
        request: UpdatePipelineTriggerRequest,
    ) -> Result<PipelineTrigger> {
        let (id, description) = (request.trigger_id, request.body.description);
        let changed = pipeline_triggers::update(&self.backend, &access, id, description).await?;
        Ok(self.trigger(changed))
    }

    async fn delete_pipeline_trigger(
        &self,
        access: ProjectAccess,
        request: DeletePipelineTriggerRequest,
    ) -> Result<()> {
        let (id, since) = (request.trigger_id, request.if_unmodified_since);
        pipeline_triggers::delete(&self.backend, &access, id, since.as_deref()).await
    }

    async fn trigger_pipeline(&self, _: InstanceAccess, request: TriggerPipelineRequest) -> Result<Pipeline> {
        let body = request.body;
        self.run_trigger(&request.id, body.token, &body.r#ref, body.variables)
            .await
    }

    async fn trigger_pipeline_of_ref(
        &self,
        _: InstanceAccess,
        request: TriggerPipelineOfRefRequest,
    ) -> Result<Pipeline> {
        let body = request.body;
        self.run_trigger(&request.id, body.token, &request.r#ref, body.variables)
            .await
    }
}
