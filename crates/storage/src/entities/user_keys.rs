//! SSH keys of users.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// SSH keys of users.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "user_keys")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Whose key it is.
    pub user_id: i64,
    /// What its holder calls it.
    pub title: String,
    /// The public key as OpenSSH writes it.
    pub key: String,
    /// The SHA-256 of the key, as OpenSSH shows it; unique.
    pub fingerprint: String,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// Whose it is.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::UserId",
        to = "super::users::Column::Id"
    )]
    User,
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// The keys of a user, in the order they were added.
pub fn of_user(user_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::UserId.eq(user_id))
        .order_by_asc(Column::Id)
}
