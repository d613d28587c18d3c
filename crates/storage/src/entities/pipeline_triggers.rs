//! Triggers: tokens by which systems outside start pipelines of a project.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

use super::users;

/// Triggers: tokens by which systems outside start pipelines of a project.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "pipeline_triggers")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project it belongs to.
    pub project_id: i64,
    /// Who made it, and whose pipelines it makes.
    pub owner_id: i64,
    /// What it is for.
    pub description: String,
    /// The SHA-256 of the token in hex; unique.
    pub digest: String,
    /// The token, encrypted for this row: its owner may read it again.
    pub token_encrypted: String,
    /// The first letters of the token, which others are shown.
    pub beginning: String,
    /// When it was used last.
    pub last_used_at: Option<DateTime<Utc>>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// Who made it.
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

/// The triggers of a project in the order they were made.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .order_by_asc(Column::Id)
}
