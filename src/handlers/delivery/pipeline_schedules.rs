//! Pipeline schedules of projects.

use domain::delivery::pipeline_schedules as schedules;
use domain::delivery::pipeline_schedules::{FullScheduleDetail, ScheduleUpdate};
use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::PipelineSchedulesApi;
use crate::app::App;
use crate::handlers::delivery::pipelines::given;
use crate::views::delivery::pipeline::variable;
use crate::views::delivery::pipeline_schedule::{detail, pipeline_schedule};
use crate::views::enums::Convert;
use contract::{
    CreatePipelineScheduleRequest, CreatePipelineScheduleVariableRequest, DeletePipelineScheduleRequest,
    DeletePipelineScheduleVariableRequest, GetPipelineScheduleRequest, ListPipelineSchedulesRequest,
    PipelineSchedule, PipelineScheduleDetail, PipelineSchedulePlayed, PipelineScheduleScope,
    PipelineVariable, PlayPipelineScheduleRequest, TakeOwnershipOfPipelineScheduleRequest,
    UpdatePipelineScheduleRequest, UpdatePipelineScheduleVariableRequest,
};

impl App {
    fn schedule(&self, access: &ProjectAccess, found: FullScheduleDetail) -> PipelineScheduleDetail {
        detail(self.at(&self.path_of(access)), found)
    }
}

impl PipelineSchedulesApi for App {
    async fn list_pipeline_schedules(
        &self,
        access: ProjectAccess,
        request: ListPipelineSchedulesRequest,
        page: PageRequest,
    ) -> Result<Page<PipelineSchedule>> {
        let active = request
            .scope
            .map(|scope| matches!(scope, PipelineScheduleScope::Active));
        let page = schedules::list(&self.backend, &access, active, &page).await?;
        Ok(page.map(|row| pipeline_schedule(&self.backend.instance.base_url, row)))
    }

    async fn create_pipeline_schedule(
        &self,
        access: ProjectAccess,
        request: CreatePipelineScheduleRequest,
    ) -> Result<PipelineScheduleDetail> {
        let body = request.body;
        let new = ScheduleUpdate {
            description: Some(body.description),
            ref_name: Some(body.r#ref),
            cron: Some(body.cron),
            cron_timezone: Some(body.cron_timezone),
            active: Some(body.active),
        };
        let created = schedules::create(&self.backend, &access, new).await?;
        Ok(self.schedule(&access, created))
    }

    async fn get_pipeline_schedule(
        &self,
        access: ProjectAccess,
        request: GetPipelineScheduleRequest,
    ) -> Result<PipelineScheduleDetail> {
        let found = schedules::get(&self.backend, &access, request.pipeline_schedule_id).await?;
        Ok(self.schedule(&access, found))
    }

    async fn update_pipeline_schedule(
        &self,
        access: ProjectAccess,
        request: UpdatePipelineScheduleRequest,
    ) -> Result<PipelineScheduleDetail> {
        let (id, body) = (request.pipeline_schedule_id, request.body);
        let change = ScheduleUpdate {
            description: body.description,
            ref_name: body.r#ref,
            cron: body.cron,
            cron_timezone: body.cron_timezone,
            active: body.active,
        };
        let changed = schedules::update(&self.backend, &access, id, change).await?;
        Ok(self.schedule(&access, changed))
    }

    async fn delete_pipeline_schedule(
        &self,
        access: ProjectAccess,
        request: DeletePipelineScheduleRequest,
    ) -> Result<PipelineScheduleDetail> {
        let (id, since) = (request.pipeline_schedule_id, request.if_unmodified_since);
        let was = schedules::delete(&self.backend, &access, id, since.as_deref()).await?;
        Ok(self.schedule(&access, was))
    }

    async fn take_ownership_of_pipeline_schedule(
        &self,
        access: ProjectAccess,
        request: TakeOwnershipOfPipelineScheduleRequest,
    ) -> Result<PipelineScheduleDetail> {
        let id = request.pipeline_schedule_id;
        let schedule_detail = schedules::take_ownership(&self.backend, &access, id).await?;
        Ok(self.schedule(&access, schedule_detail))
    }

    async fn play_pipeline_schedule(
        &self,
        access: ProjectAccess,
        request: PlayPipelineScheduleRequest,
    ) -> Result<PipelineSchedulePlayed> {
        schedules::play(&self.backend, &access, request.pipeline_schedule_id).await?;
        Ok(PipelineSchedulePlayed {
            message: "201 Created".to_owned(),
        })
    }

    async fn create_pipeline_schedule_variable(
        &self,
        access: ProjectAccess,
        request: CreatePipelineScheduleVariableRequest,
    ) -> Result<PipelineVariable> {
        let (id, new) = (request.pipeline_schedule_id, given(request.body));
        let created = schedules::create_variable(&self.backend, &access, id, new).await?;
        Ok(variable(created))
    }

    async fn update_pipeline_schedule_variable(
        &self,
        access: ProjectAccess,
        request: UpdatePipelineScheduleVariableRequest,
    ) -> Result<PipelineVariable> {
        let (id, key, body) = (request.pipeline_schedule_id, request.key, request.body);
        let (value, kind) = (body.value.into(), body.variable_type.map(Convert::convert));
        let changed = schedules::update_variable(&self.backend, &access, id, &key, value, kind).await?;
        Ok(variable(changed))
    }

    async fn delete_pipeline_schedule_variable(
        &self,
        access: ProjectAccess,
        request: DeletePipelineScheduleVariableRequest,
    ) -> Result<PipelineVariable> {
        let (id, key, since) = (
            request.pipeline_schedule_id,
            request.key,
            request.if_unmodified_since,
        );
        let was = schedules::delete_variable(&self.backend, &access, id, &key, since.as_deref()).await?;
        Ok(variable(was))
    }
}
