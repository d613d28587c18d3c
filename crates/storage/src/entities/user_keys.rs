//! SSH keys of users.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// Use of an SSH key, with the values of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum KeyUsage {
    /// Authentication and signatures.
    AuthAndSigning,
    /// Only authentication.
    Auth,
    /// Only signatures.
    Signing,
}

/// SSH keys of users.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "user_keys")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The user.
    pub user_id: i64,
    /// The name that the owner chose.
    pub title: String,
    /// The public key in OpenSSH format.
    pub key: String,
    /// The SHA-256 fingerprint of the key in OpenSSH format; unique.
    pub fingerprint: String,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the key expires; none if the key never expires.
    pub expires_at: Option<DateTime<Utc>>,
    /// The permitted use.
    pub usage_type: KeyUsage,
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
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// Returns whether the key is expired at a time.
    #[must_use]
    pub fn is_expired_at(&self, time: DateTime<Utc>) -> bool {
        self.expires_at.is_some_and(|end| end <= time)
    }
}

/// Selects the keys of a user in creation order.
pub fn of_user(user_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::UserId.eq(user_id))
        .order_by_asc(Column::Id)
}
