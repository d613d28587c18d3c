//! Custom attributes that administrators set on projects, groups and users.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::SelectStatement;
use sea_orm::{DbBackend, QueryOrder, QuerySelect, QueryTrait};

use super::row_conditions::by_code_points;

/// Owner of a custom attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeOwner {
    /// The project with this ID.
    Project(i64),
    /// The group with this ID.
    Group(i64),
    /// The user with this ID.
    User(i64),
}

/// Custom attributes that administrators set on projects, groups and users.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "custom_attributes")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project, if it is the owner.
    pub project_id: Option<i64>,
    /// The group, if it is the owner.
    pub namespace_id: Option<i64>,
    /// The user, if it is the owner.
    pub user_id: Option<i64>,
    /// The key; unique for its owner.
    pub key: String,
    /// The value.
    pub value: String,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AttributeOwner {
    /// Returns the column of the owner.
    #[must_use]
    pub fn column(self) -> Column {
        match self {
            Self::Project(_) => Column::ProjectId,
            Self::Group(_) => Column::NamespaceId,
            Self::User(_) => Column::UserId,
        }
    }

    /// Returns the ID of the owner.
    #[must_use]
    pub fn id(self) -> i64 {
        match self {
            Self::Project(id) | Self::Group(id) | Self::User(id) => id,
        }
    }
}

/// Selects the attributes of an owner.
pub fn of(owner: AttributeOwner) -> Select<Entity> {
    Entity::find().filter(owner.column().eq(owner.id()))
}

/// Orders attributes by key.
#[must_use]
pub fn by_key(database: DbBackend, attributes: Select<Entity>) -> Select<Entity> {
    attributes.order_by_asc(by_code_points(database, Column::Key.into_expr()))
}

/// Returns the attributes of several owners in one statement, ordered by key. `column` references the owners.
///
/// # Errors
/// Any database error.
pub async fn of_owners(
    db: &impl ConnectionTrait,
    column: Column,
    ids: impl IntoIterator<Item = i64>,
) -> Result<Vec<Model>, DbErr> {
    let attributes = Entity::find().filter(column.is_in(ids));
    by_key(db.get_database_backend(), attributes).all(db).await
}

/// Selects the values of `column` for owners of an attribute with this value, for use in conditions.
pub fn owners_with(column: Column, key: &str, value: &str) -> SelectStatement {
    Entity::find()
        .select_only()
        .column(column)
        .filter(column.is_not_null())
        .filter(Column::Key.eq(key))
        .filter(Column::Value.eq(value))
        .into_query()
}
