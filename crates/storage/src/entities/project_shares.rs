//! Shares of projects with groups.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, SelectTwo};

use super::AccessLevel;

/// Shares of projects with groups.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "project_shares")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The shared project.
    pub project_id: i64,
    /// The group with access.
    pub group_id: i64,
    /// The maximum role of its members.
    pub access_level: AccessLevel,
    /// The date from which the share grants no access.
    pub expires_at: Option<NaiveDate>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The group with access.
    #[sea_orm(
        belongs_to = "super::namespaces::Entity",
        from = "Column::GroupId",
        to = "super::namespaces::Column::Id"
    )]
    Group,
    /// The project.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
}

impl Related<super::namespaces::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Group.def()
    }
}

impl Related<super::projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the shares of several projects with the groups that have access, in creation order.
pub fn of(project_ids: impl IntoIterator<Item = i64>) -> SelectTwo<Entity, super::namespaces::Entity> {
    Entity::find()
        .filter(Column::ProjectId.is_in(project_ids))
        .find_also_related(super::namespaces::Entity)
        .order_by_asc(Column::Id)
}
