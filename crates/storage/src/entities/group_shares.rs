//! Groups that were given access to another group.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, SelectTwo};

use super::{AccessLevel, unexpired};

/// Groups that were given access to another group.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "group_shares")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The group that is shared.
    pub namespace_id: i64,
    /// The group it is shared with.
    pub with_group_id: i64,
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
        from = "Column::WithGroupId",
        to = "super::namespaces::Column::Id"
    )]
    WithGroup,
}

impl Related<super::namespaces::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::WithGroup.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// The shares of a group that have not ended, with the groups they are for, in the order they were made.
pub fn of(namespace_id: i64, today: NaiveDate) -> SelectTwo<Entity, super::namespaces::Entity> {
    Entity::find()
        .filter(Column::NamespaceId.eq(namespace_id))
        .filter(unexpired(Column::ExpiresAt, today))
        .find_also_related(super::namespaces::Entity)
        .order_by_asc(Column::Id)
}
