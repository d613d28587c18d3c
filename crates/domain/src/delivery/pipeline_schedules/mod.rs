//! Pipeline schedules of projects. `kernel::cron` computes their times, and [`scheduler`] runs them.

mod scheduler;
mod update;
mod variables;

use sea_orm::sea_query::ExprTrait;
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, EntityTrait, FromQueryResult, QueryFilter,
    QueryOrder, QuerySelect, QueryTrait, Select,
};

pub use crate::delivery::pipeline_schedules::scheduler::{
    correct_times, enqueue_due, play, run_due, run_job,
};
pub use crate::delivery::pipeline_schedules::update::{
    ScheduleUpdate, create, delete, take_ownership, update,
};
pub use variables::{create as create_variable, delete as delete_variable, update as update_variable};

use storage::entities::pipeline_schedules::{self, Column, Model};
use storage::entities::{pipelines, users};

use crate::delivery::access::check_can_read;
use crate::delivery::pipelines::Variable;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::policy::Role;
use crate::kernel::query::count_for_page;

/// A schedule with its owner.
#[derive(Debug, Clone)]
pub struct ScheduleDetail {
    /// The schedule.
    pub schedule: Model,
    /// The owner; `None` if the user was deleted.
    pub owner: Option<users::Model>,
}

/// A schedule with data that is loaded only for a single one.
#[derive(Debug, Clone)]
pub struct FullScheduleDetail {
    /// The schedule.
    pub row: ScheduleDetail,
    /// The last pipeline that it created.
    pub last_pipeline: Option<pipelines::Model>,
    /// The variables for its pipelines.
    pub variables: Vec<Variable>,
}

/// Lists the schedules of a project, newest first; `active` selects active or inactive ones.
///
/// # Errors
/// Returns `Forbidden` if pipelines are not visible to the caller.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    active: Option<bool>,
    page: &PageRequest,
) -> Result<Page<ScheduleDetail>> {
    check_can_read(access)?;
    let db = backend.database.read();
    let mut query = pipeline_schedules::of_project(access.project.id);
    if let Some(active) = active {
        query = query.filter(Column::Active.eq(active));
    }
    let all = query.clone().into_query();
    let found = query
        .find_also_related(users::Entity)
        .order_by_desc(Column::Id)
        .offset(page.offset())
        .limit(page.limit() + 1)
        .all(db)
        .await?;
    let total = count_for_page(db, page, found.len(), all).await?;
    let rows = found
        .into_iter()
        .map(|(schedule, owner)| ScheduleDetail { schedule, owner });
    Ok(Page::new(page, rows.collect(), total))
}

/// Returns a schedule of a project.
///
/// # Errors
/// Returns `NotFound` if the schedule does not exist and `Forbidden` if pipelines are not visible to the
/// caller. Fails if a value cannot be decrypted.
pub async fn get(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<FullScheduleDetail> {
    check_can_read(access)?;
    let found = pipeline_schedules::of_project(access.project.id).filter(Column::Id.eq(id));
    load(backend, found).await
}

/// Loads the details of a changed schedule.
async fn detail(backend: &Backend, schedule: Model) -> Result<FullScheduleDetail> {
    let mut detail = load(backend, pipeline_schedules::Entity::find_by_id(schedule.id)).await?;
    detail.row.schedule = schedule;
    Ok(detail)
}

/// Returns a selected schedule with its details.
async fn load(backend: &Backend, schedule: Select<pipeline_schedules::Entity>) -> Result<FullScheduleDetail> {
    let mut query = schedule.find_also_related(users::Entity).into_query();
    pipelines::join_newest(&mut query, |column| {
        let created = column(pipelines::Column::ScheduleId).eq(Column::Id.into_expr());
        Condition::all().add(created)
    });
    let row = backend.database.read().query_one(&query).await?;
    let row = row.ok_or_else(not_found)?;
    let last_pipeline = pipelines::read_joined(&row)?;
    let row = ScheduleDetail {
        schedule: Model::from_query_result(&row, "A_")?,
        owner: users::Model::from_query_result_optional(&row, "B_")?,
    };
    Ok(FullScheduleDetail {
        variables: variables::all(backend, row.schedule.id).await?,
        last_pipeline,
        row,
    })
}

async fn find(db: &impl ConnectionTrait, access: &ProjectAccess, id: i64) -> Result<Model> {
    let found = pipeline_schedules::of_project(access.project.id).filter(Column::Id.eq(id));
    found.one(db).await?.ok_or_else(not_found)
}

/// Returns a schedule that the caller may change, locked until the transaction ends. Maintainers may change
/// all schedules, others their own.
async fn lock(transaction: &DatabaseTransaction, access: &ProjectAccess, id: i64) -> Result<Model> {
    let found = pipeline_schedules::of_project(access.project.id).filter(Column::Id.eq(id));
    let found = found.lock_exclusive().one(transaction).await?;
    let schedule = found.ok_or_else(not_found)?;
    let own = schedule.owner_id == Some(access.caller.signed_in()?.id);
    match own || access.has_role(Role::Maintainer) {
        true => Ok(schedule),
        false => Err(Error::forbidden()),
    }
}

fn not_found() -> Error {
    Error::not_found("Pipeline Schedule")
}
