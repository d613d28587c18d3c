//! Pipeline schedules.

use domain::delivery::pipeline_schedules::{FullScheduleDetail, ScheduleDetail};

use crate::views::accounts::users::creator;
use crate::views::delivery::pipeline::{self, ProjectLocation};
use contract::{PipelineSchedule, PipelineScheduleDetail};

/// Returns a schedule in the format of lists.
#[must_use]
pub fn pipeline_schedule(base: &str, row: ScheduleDetail) -> PipelineSchedule {
    let ScheduleDetail { schedule, owner } = row;
    PipelineSchedule {
        id: schedule.id,
        description: schedule.description,
        r#ref: schedule.ref_name,
        cron: schedule.cron,
        cron_timezone: schedule.cron_timezone,
        next_run_at: schedule.next_run_at.into(),
        active: schedule.active,
        created_at: schedule.created_at.into(),
        updated_at: schedule.updated_at.into(),
        owner: creator(base, owner),
    }
}

/// Returns a schedule with details.
#[must_use]
pub fn detail(at: ProjectLocation<'_>, detail: FullScheduleDetail) -> PipelineScheduleDetail {
    let shown = pipeline_schedule(at.base, detail.row);
    PipelineScheduleDetail {
        id: shown.id,
        description: shown.description,
        r#ref: shown.r#ref,
        cron: shown.cron,
        cron_timezone: shown.cron_timezone,
        next_run_at: shown.next_run_at,
        active: shown.active,
        created_at: shown.created_at,
        updated_at: shown.updated_at,
        owner: shown.owner,
        last_pipeline: detail.last_pipeline.map(|last| pipeline::reference(at, &last)),
        variables: detail.variables.into_iter().map(pipeline::variable).collect(),
    }
}
