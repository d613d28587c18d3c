//! Container registry repositories of projects.

use chrono::{DateTime, Utc};
use sea_orm::QuerySelect;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::LockType;

/// Container registry repositories of projects.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "registry_repositories")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The part of the image name after the project's path; may be empty.
    pub name: String,
    /// When a bulk deletion of tags was last requested, which is possible once an hour.
    pub tags_cleared_at: Option<DateTime<Utc>>,
    /// When its deletion started; from then on it is invisible and its name is free.
    pub deletion_started_at: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the repositories of a project that are not being deleted.
pub fn of_project(project_id: i64) -> Select<Entity> {
    not_deleted().filter(Column::ProjectId.eq(project_id))
}

/// Selects all repositories that are not being deleted.
pub fn not_deleted() -> Select<Entity> {
    Entity::find().filter(Column::DeletionStartedAt.is_null())
}

/// Locks a repository until the transaction ends against other calls of this function; used to change its
/// manifests and tags, or to delete it. Returns none if it does not exist or is being deleted.
///
/// # Errors
/// Any database error.
pub async fn lock_for_push(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    let found = not_deleted()
        .filter(Column::Id.eq(id))
        .lock(LockType::NoKeyUpdate);
    found.one(db).await
}

/// Prevents the deletion of a repository until the transaction ends, and nothing else. Returns none if it
/// does not exist or is being deleted.
///
/// # Errors
/// Any database error.
pub async fn lock_shared(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    let found = not_deleted().filter(Column::Id.eq(id)).lock(LockType::KeyShare);
    found.one(db).await
}
