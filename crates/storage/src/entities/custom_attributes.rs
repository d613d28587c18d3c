//! Keys and values that administrators attach to projects, groups and users.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::SelectStatement;
use sea_orm::{QueryOrder, QuerySelect, QueryTrait};

/// What an attribute is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The project with this id.
    Project(i64),
    /// The group with this id.
    Group(i64),
    /// The user with this id.
    User(i64),
}

/// Keys and values that administrators attach to projects, groups and users.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "custom_attributes")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project it is attached to, if it is one.
    pub project_id: Option<i64>,
    /// The group it is attached to, if it is one.
    pub namespace_id: Option<i64>,
    /// The user it is attached to, if it is one.
    pub user_id: Option<i64>,
    /// The name; unique on what it is attached to.
    pub key: String,
    /// The value.
    pub value: String,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When the row was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Owner {
    /// The column that names what an attribute is attached to.
    #[must_use]
    pub fn column(self) -> Column {
        match self {
            Self::Project(_) => Column::ProjectId,
            Self::Group(_) => Column::NamespaceId,
            Self::User(_) => Column::UserId,
        }
    }

    /// The id of what an attribute is attached to.
    #[must_use]
    pub fn id(self) -> i64 {
        match self {
            Self::Project(id) | Self::Group(id) | Self::User(id) => id,
        }
    }
}

/// The attributes of one thing, by key.
pub fn of(owner: Owner) -> Select<Entity> {
    Entity::find()
        .filter(owner.column().eq(owner.id()))
        .order_by_asc(Column::Key)
}

/// The attributes of several projects in one statement, by key.
///
/// # Errors
/// Whatever the database reports.
pub async fn of_projects(
    db: &impl ConnectionTrait,
    ids: impl IntoIterator<Item = i64>,
) -> Result<Vec<Model>, DbErr> {
    all(db, Column::ProjectId.is_in(ids)).await
}

/// The attributes of several groups in one statement, by key.
///
/// # Errors
/// Whatever the database reports.
pub async fn of_groups(
    db: &impl ConnectionTrait,
    ids: impl IntoIterator<Item = i64>,
) -> Result<Vec<Model>, DbErr> {
    all(db, Column::NamespaceId.is_in(ids)).await
}

async fn all(db: &impl ConnectionTrait, which: Expr) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(which)
        .order_by_asc(Column::Key)
        .all(db)
        .await
}

/// The ids in `column` of what carries an attribute with this value, as a statement for conditions.
pub fn carriers(column: Column, key: &str, value: &str) -> SelectStatement {
    Entity::find()
        .select_only()
        .column(column)
        .filter(column.is_not_null())
        .filter(Column::Key.eq(key))
        .filter(Column::Value.eq(value))
        .into_query()
}
