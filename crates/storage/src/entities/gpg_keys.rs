//! OpenPGP keys of users.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// OpenPGP keys of users.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "gpg_keys")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The user.
    pub user_id: i64,
    /// The ASCII-armored public key.
    pub key: String,
    /// The fingerprint of the primary key: hexadecimal digits in upper case; unique.
    pub fingerprint: String,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The user.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::UserId",
        to = "super::users::Column::Id"
    )]
    User,
    /// The key IDs.
    #[sea_orm(has_many = "super::gpg_key_ids::Entity")]
    KeyIds,
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

impl Related<super::gpg_key_ids::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::KeyIds.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the keys of a user in creation order.
pub fn of_user(user_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::UserId.eq(user_id))
        .order_by_asc(Column::Id)
}
