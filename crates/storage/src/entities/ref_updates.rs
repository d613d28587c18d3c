//! Write-ahead log of ref updates. A row is written before a reference moves and marked as applied afterwards, so that
//! updates of a killed server can be recovered.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// Origin of a ref update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum RefUpdateKind {
    /// `git push`.
    Push,
    /// The API.
    Api,
}

/// State of a ref update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum RefUpdateState {
    /// Not confirmed: in progress, or interrupted by a killed server.
    Pending,
    /// Applied.
    Applied,
}

/// Write-ahead log of ref updates. A row is written before a reference moves and marked as applied afterwards, so that
/// updates of a killed server can be recovered.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "ref_updates")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The user who updates the references.
    pub user_id: Option<i64>,
    /// The origin.
    pub kind: RefUpdateKind,
    /// The ref changes, as JSON.
    pub changes: String,
    /// The state.
    pub state: RefUpdateState,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
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

impl Related<super::projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Returns pending updates, or only those that were created before `before`, oldest first.
///
/// # Errors
/// Any database error.
pub async fn pending(db: &impl ConnectionTrait, before: Option<DateTime<Utc>>) -> Result<Vec<Model>, DbErr> {
    let mut pending = Entity::find().filter(Column::State.eq(RefUpdateState::Pending));
    if let Some(before) = before {
        pending = pending.filter(Column::CreatedAt.lt(before));
    }
    pending.order_by_asc(Column::Id).all(db).await
}

/// Returns the applied updates of a project since `since`, in creation order.
///
/// # Errors
/// Any database error.
pub async fn applied(
    db: &impl ConnectionTrait,
    project_id: i64,
    since: DateTime<Utc>,
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .filter(Column::State.eq(RefUpdateState::Applied))
        .filter(Column::CreatedAt.gte(since))
        .order_by_asc(Column::Id)
        .all(db)
        .await
}
