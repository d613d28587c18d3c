//! Intents and record of changes to references. A row is written before a reference moves and settled after, so
//! that what a killed server was doing can be found.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// Which way a change came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// By `git push`.
    Push,
    /// By a call of the interface.
    Api,
}

/// Whether a change is known to have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is about to happen, or its server was killed.
    Pending,
    /// It happened.
    Applied,
}

/// Intents and record of changes to references. A row is written before a reference moves and settled after, so
/// that what a killed server was doing can be found.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "ref_updates")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// Who moves the references.
    pub user_id: Option<i64>,
    /// Which way the change came.
    pub kind: Kind,
    /// What moves, as JSON.
    pub changes: String,
    /// Whether it is known to have happened.
    pub state: State,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
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

/// The intents made before an instant and never settled, oldest first.
///
/// # Errors
/// Whatever the database reports.
pub async fn unsettled(db: &impl ConnectionTrait, before: DateTime<Utc>) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::State.eq(State::Pending))
        .filter(Column::CreatedAt.lt(before))
        .order_by_asc(Column::Id)
        .all(db)
        .await
}

/// What is recorded of a project since an instant, in the order it was announced.
///
/// # Errors
/// Whatever the database reports.
pub async fn settled(
    db: &impl ConnectionTrait,
    project_id: i64,
    since: DateTime<Utc>,
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .filter(Column::State.eq(State::Applied))
        .filter(Column::CreatedAt.gte(since))
        .order_by_asc(Column::Id)
        .all(db)
        .await
}
