//! Which projects have which deploy keys (specification 4.8).

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// Which projects have which deploy keys.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "project_deploy_keys")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The key.
    pub deploy_key_id: i64,
    /// Whether the key may push to the project.
    pub can_push: bool,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The key.
    #[sea_orm(
        belongs_to = "super::deploy_keys::Entity",
        from = "Column::DeployKeyId",
        to = "super::deploy_keys::Column::Id"
    )]
    Key,
}

impl Related<super::deploy_keys::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Key.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// What a project has, the oldest key first.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .order_by_asc(Column::DeployKeyId)
}
