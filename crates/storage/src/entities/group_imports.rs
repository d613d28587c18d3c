//! Imports of groups; the content of an archive that is still needed is in the object storage.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{Condition, ExprTrait, QueryOrder, QuerySelect};

use super::jobs;

/// State of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum ImportState {
    /// The group exists, and the archive waits to be read.
    Scheduled,
    /// The archive is being read, or its records are being created.
    Started,
    /// All records were created.
    Finished,
    /// The import failed.
    Failed,
}

/// Imports of groups; the content of an archive that is still needed is in the object storage.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "group_imports")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The created group; none before, and if it was deleted.
    pub namespace_id: Option<i64>,
    /// The user who imports; none if deleted.
    pub user_id: Option<i64>,
    /// The secret part of the archive's storage key: 32 hex digits; none if the archive is no longer needed.
    pub secret: Option<String>,
    /// The state.
    pub state: ImportState,
    /// Why it failed.
    pub error: Option<String>,
    /// The result as JSON.
    pub report: String,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the import that created a group.
///
/// # Errors
/// Any database error.
pub async fn of_group(db: &impl ConnectionTrait, namespace_id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(Column::NamespaceId.eq(namespace_id))
        .one(db)
        .await
}

/// Selects imports that have a group and are not finished.
fn unfinished() -> Select<Entity> {
    Entity::find()
        .filter(Column::NamespaceId.is_not_null())
        .filter(Column::State.is_in([ImportState::Scheduled, ImportState::Started]))
}

/// Returns whether a user has an unfinished import.
///
/// # Errors
/// Any database error.
pub async fn is_importing(db: &impl ConnectionTrait, user_id: i64) -> Result<bool, DbErr> {
    let theirs = unfinished().filter(Column::UserId.eq(user_id));
    Ok(theirs.one(db).await?.is_some())
}

/// Returns unfinished imports without a job of a kind whose deduplication key is the import ID, at most
/// `limit`.
///
/// # Errors
/// Any database error.
pub async fn without_job(db: &impl ConnectionTrait, kind: &str, limit: u64) -> Result<Vec<Model>, DbErr> {
    let id = Expr::col((Entity, Column::Id)).cast_as("text");
    let live = Query::select()
        .expr(Expr::val(1))
        .from(jobs::Entity)
        .and_where(Expr::col((jobs::Entity, jobs::Column::Kind)).eq(kind))
        .and_where(Expr::col((jobs::Entity, jobs::Column::DedupKey)).eq(id))
        .and_where(Expr::col((jobs::Entity, jobs::Column::DeadAt)).is_null())
        .take();
    unfinished()
        .filter(Expr::not_exists(live))
        .order_by_asc(Column::Id)
        .limit(limit)
        .all(db)
        .await
}

/// Returns imports with an archive that is no longer needed, at most `limit`: finished ones, and those
/// without a group that were created before `before`.
///
/// # Errors
/// Any database error.
pub async fn with_obsolete_archive(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<Model>, DbErr> {
    let adrift = Condition::all()
        .add(Column::NamespaceId.is_null())
        .add(Column::CreatedAt.lt(before));
    let ended = Column::State.is_in([ImportState::Finished, ImportState::Failed]);
    Entity::find()
        .filter(Column::Secret.is_not_null())
        .filter(Condition::any().add(ended).add(adrift))
        .order_by_asc(Column::Id)
        .limit(limit)
        .all(db)
        .await
}
