//! Pipeline schedules of projects (specification 2.7).

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{QueryOrder, QuerySelect};

use super::users;

/// Pipeline schedules of projects.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "pipeline_schedules")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project it belongs to.
    pub project_id: i64,
    /// Whose pipelines it makes; none when the user is gone.
    pub owner_id: Option<i64>,
    /// What it is for.
    pub description: String,
    /// The branch or tag, which need not be there.
    pub ref_name: String,
    /// When it runs, as a cron expression.
    pub cron: String,
    /// The zone on whose clocks that is read, as its caller named it.
    pub cron_timezone: String,
    /// When it runs next, if it is active.
    pub next_run_at: DateTime<Utc>,
    /// Whether it runs.
    pub active: bool,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// Whose pipelines it makes.
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

/// The schedules of a project.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::ProjectId.eq(project_id))
}

/// The ids of schedules that are due at an instant, those that wait longest first, at most so many.
///
/// # Errors
/// Whatever the database reports.
pub async fn due(db: &impl ConnectionTrait, now: DateTime<Utc>, most: u64) -> Result<Vec<i64>, DbErr> {
    Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::Active.eq(true))
        .filter(Column::NextRunAt.lte(now))
        .order_by_asc(Column::NextRunAt)
        .limit(most)
        .into_tuple()
        .all(db)
        .await
}

/// Ends that schedules of a user run.
///
/// # Errors
/// Whatever the database reports.
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
