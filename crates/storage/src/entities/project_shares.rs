//! Groups that were given access to a project.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, SelectTwo};

use super::AccessLevel;

/// Groups that were given access to a project.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "project_shares")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project that is shared.
    pub project_id: i64,
    /// The group it is shared with.
    pub group_id: i64,
    /// The most its members may do.
    pub access_level: AccessLevel,
    /// The day the share ends: from then on it grants nothing.
    pub expires_at: Option<NaiveDate>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When the row was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The group it is shared with.
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

/// The shares of several projects with the groups they are for, in one statement, in the order they were made.
pub fn of(project_ids: impl IntoIterator<Item = i64>) -> SelectTwo<Entity, super::namespaces::Entity> {
    Entity::find()
        .filter(Column::ProjectId.is_in(project_ids))
        .find_also_related(super::namespaces::Entity)
        .order_by_asc(Column::Id)
}
