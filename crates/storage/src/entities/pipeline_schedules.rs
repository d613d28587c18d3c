//! Pipeline schedules of projects.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{ExprTrait, QueryOrder, QuerySelect};

use super::{jobs, users};

/// Pipeline schedules of projects.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "pipeline_schedules")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The owner, who also owns the created pipelines; none if deleted.
    pub owner_id: Option<i64>,
    /// The description.
    pub description: String,
    /// The branch or tag, which may not exist.
    pub ref_name: String,
    /// The cron expression.
    pub cron: String,
    /// The time zone of the cron expression, as given by the client.
    pub cron_timezone: String,
    /// When it runs next, if it is active.
    pub next_run_at: DateTime<Utc>,
    /// Whether it is active.
    pub active: bool,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The owner.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::OwnerId",
        to = "super::users::Column::Id"
    )]
    Owner,
}

impl Related<users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Owner.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the schedules of a project.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::ProjectId.eq(project_id))
}

/// Returns the IDs and the times of at most `most` schedules that are due at `now`, longest overdue first. Excludes
/// schedules for which a job of this kind waits or runs; the key of such a job is the ID of the schedule.
///
/// # Errors
/// Any database error.
pub async fn due(
    db: &impl ConnectionTrait,
    kind: &str,
    now: DateTime<Utc>,
    most: u64,
) -> Result<Vec<(i64, DateTime<Utc>)>, DbErr> {
    // The keys are converted and not the IDs: this query does not depend on the schedule and runs once.
    let with_job = Query::select()
        .expr(Expr::col((jobs::Entity, jobs::Column::DedupKey)).cast_as("bigint"))
        .from(jobs::Entity)
        .and_where(Expr::col((jobs::Entity, jobs::Column::Kind)).eq(kind))
        .and_where(Expr::col((jobs::Entity, jobs::Column::DedupKey)).is_not_null())
        .and_where(Expr::col((jobs::Entity, jobs::Column::DeadAt)).is_null())
        .take();
    Entity::find()
        .select_only()
        .column(Column::Id)
        .column(Column::NextRunAt)
        .filter(Column::Active.eq(true))
        .filter(Column::NextRunAt.lte(now))
        .filter(Column::Id.not_in_subquery(with_job))
        .order_by_asc(Column::NextRunAt)
        .limit(most)
        .into_tuple()
        .all(db)
        .await
}

/// Returns the active schedules whose next time is after `now`.
///
/// # Errors
/// Any database error.
pub async fn after(db: &impl ConnectionTrait, now: DateTime<Utc>) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::Active.eq(true))
        .filter(Column::NextRunAt.gt(now))
        .all(db)
        .await
}

/// Sets the next time of a schedule, unless the schedule has changed since it was read.
///
/// # Errors
/// Any database error.
pub async fn set_earlier(
    db: &impl ConnectionTrait,
    schedule: &Model,
    next: DateTime<Utc>,
) -> Result<(), DbErr> {
    Entity::update_many()
        .col_expr(Column::NextRunAt, Expr::value(next))
        .filter(Column::Id.eq(schedule.id))
        .filter(Column::Cron.eq(schedule.cron.as_str()))
        .filter(Column::NextRunAt.eq(schedule.next_run_at))
        .exec(db)
        .await
        .map(drop)
}

/// Deactivates the schedules of a user.
///
/// # Errors
/// Any database error.
pub async fn deactivate_of(
    db: &impl ConnectionTrait,
    owner_id: i64,
    now: DateTime<Utc>,
) -> Result<(), DbErr> {
    Entity::update_many()
        .col_expr(Column::Active, Expr::value(false))
        .col_expr(Column::UpdatedAt, Expr::value(now))
        .filter(Column::OwnerId.eq(owner_id))
        .filter(Column::Active.eq(true))
        .exec(db)
        .await
        .map(drop)
}
