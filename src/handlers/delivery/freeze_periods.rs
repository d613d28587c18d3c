//! Freeze periods of projects.

use domain::delivery::freeze_periods::{self, FreezePeriodUpdate};
use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::FreezePeriodsApi;
use crate::app::App;
use crate::views::delivery::freeze_period::freeze_period;
use contract::{
    CreateFreezePeriodRequest, DeleteFreezePeriodRequest, FreezePeriod, GetFreezePeriodRequest,
    UpdateFreezePeriodRequest,
};

impl FreezePeriodsApi for App {
    async fn list_freeze_periods(
        &self,
        access: ProjectAccess,
        page: PageRequest,
    ) -> Result<Page<FreezePeriod>> {
        let page = freeze_periods::list(&self.backend, &access, &page).await?;
        Ok(page.map(freeze_period))
    }

    async fn create_freeze_period(
        &self,
        access: ProjectAccess,
        request: CreateFreezePeriodRequest,
    ) -> Result<FreezePeriod> {
        let body = request.body;
        let new = FreezePeriodUpdate {
            freeze_start: Some(body.freeze_start),
            freeze_end: Some(body.freeze_end),
            cron_timezone: Some(body.cron_timezone),
        };
        let created = freeze_periods::create(&self.backend, &access, new).await?;
        Ok(freeze_period(created))
    }

    async fn get_freeze_period(
        &self,
        access: ProjectAccess,
        request: GetFreezePeriodRequest,
    ) -> Result<FreezePeriod> {
        let found = freeze_periods::get(&self.backend, &access, request.freeze_period_id).await?;
        Ok(freeze_period(found))
    }

    async fn update_freeze_period(
        &self,
        access: ProjectAccess,
        request: UpdateFreezePeriodRequest,
    ) -> Result<FreezePeriod> {
        let (id, body) = (request.freeze_period_id, request.body);
        let change = FreezePeriodUpdate {
            freeze_start: body.freeze_start,
            freeze_end: body.freeze_end,
            cron_timezone: body.cron_timezone,
        };
        let changed = freeze_periods::update(&self.backend, &access, id, change).await?;
        Ok(freeze_period(changed))
    }

    async fn delete_freeze_period(
        &self,
        access: ProjectAccess,
        request: DeleteFreezePeriodRequest,
    ) -> Result<()> {
        let (id, since) = (request.freeze_period_id, request.if_unmodified_since);
        freeze_periods::delete(&self.backend, &access, id, since.as_deref()).await
    }
}
