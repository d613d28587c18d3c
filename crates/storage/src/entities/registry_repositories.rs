//! Repositories of container images, which projects have (specification 2.17).

use chrono::{DateTime, Utc};
use sea_orm::QuerySelect;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::LockType;

/// Repositories of container images, which projects have (specification 2.17).
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "registry_repositories")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// What follows the path of the project in the name of the image; empty where nothing does.
    pub name: String,
    /// When tags were last asked to be deleted in bulk, which is possible once an hour.
    pub tags_cleared_at: Option<DateTime<Utc>>,
    /// When its deletion began; from then on it is not there for anybody, and its name is free.
    pub deletion_started_at: Option<DateTime<Utc>>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The repositories of a project that are not being deleted.
pub fn of_project(project_id: i64) -> Select<Entity> {
    live().filter(Column::ProjectId.eq(project_id))
}

/// All repositories that are not being deleted.
pub fn live() -> Select<Entity> {
    Entity::find().filter(Column::DeletionStartedAt.is_null())
}

/// Locks a repository until the transaction ends, against others who do the same: for those who change its manifests and
/// tags, or delete it. None when it is not there or is being deleted.
///
/// # Errors
/// Whatever the database reports.
pub async fn hold(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    let found = live().filter(Column::Id.eq(id)).lock(LockType::NoKeyUpdate);
    found.one(db).await
}

/// Keeps a repository from being removed until the transaction ends, and from nothing else. None when it is not there or is
/// being deleted.
///
/// # Errors
/// Whatever the database reports.
pub async fn keep(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    let found = live().filter(Column::Id.eq(id)).lock(LockType::KeyShare);
    found.one(db).await
}
