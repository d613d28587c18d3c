//! Repositories from which projects fetch their branches and tags. The settings of the updates are columns of the
//! project.

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder, QuerySelect};

use super::projects;
use super::remote_mirrors::MirrorStatus;

/// Repositories from which projects fetch their branches and tags.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "pull_mirrors")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The URL with masked credentials.
    pub url: String,
    /// The credentials of the URL, encrypted.
    pub credentials_encrypted: Option<String>,
    /// The status of the last update, which is never `ToRetry`.
    pub update_status: MirrorStatus,
    /// Number of updates that failed since the last successful one.
    pub failures: i32,
    /// When the next update is due; `None` after too many failures.
    pub next_update_at: Option<DateTime<Utc>>,
    /// When the last update ended.
    pub last_update_at: Option<DateTime<Utc>>,
    /// When the last update started.
    pub last_update_started_at: Option<DateTime<Utc>>,
    /// When the last successful update ended.
    pub last_successful_update_at: Option<DateTime<Utc>>,
    /// The error of the last update, without credentials.
    pub last_error: Option<String>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When its URL or credentials were last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The project.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
}

impl Related<projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the mirror of a project.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::ProjectId.eq(project_id))
}

/// Locks the mirror of a project until the transaction ends; returns none if the project has no mirror.
///
/// # Errors
/// Any database error.
pub async fn lock(db: &impl ConnectionTrait, project_id: i64) -> Result<Option<Model>, DbErr> {
    of_project(project_id).lock_exclusive().one(db).await
}

/// Returns the IDs of mirrors whose update is due, longest first, but at most `limit`. A time that is more than
/// `longest` in the future was set before the clock was set back.
///
/// # Errors
/// Any database error.
pub async fn due(
    db: &impl ConnectionTrait,
    now: DateTime<Utc>,
    longest: TimeDelta,
    limit: u64,
) -> Result<Vec<i64>, DbErr> {
    Entity::find()
        .select_only()
        .column(Column::Id)
        .inner_join(projects::Entity)
        .filter(is_due(now, longest))
        .filter(projects::Column::Mirror.eq(true))
        .filter(projects::Column::Archived.eq(false))
        .filter(projects::Column::DeletionStartedAt.is_null())
        .filter(projects::Column::MarkedForDeletionOn.is_null())
        .order_by_asc(Column::NextUpdateAt)
        .limit(limit)
        .into_tuple()
        .all(db)
        .await
}

/// Returns the condition that the next update of a mirror is due.
#[must_use]
pub fn is_due(now: DateTime<Utc>, longest: TimeDelta) -> Condition {
    Condition::any()
        .add(Column::NextUpdateAt.lte(now))
        .add(Column::NextUpdateAt.gt(now + longest))
}
