//! All email addresses of users, primary and secondary.

use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;

/// All email addresses of users, primary and secondary: one row for each address. The unique key prevents
/// two users from having the same address.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "taken_emails")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The folded address; unique.
    pub email_key: String,
    /// The user.
    pub user_id: i64,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Assigns an address to a user; a violation of `uq_taken_emails_email_key` means that it is taken.
///
/// # Errors
/// Any database error.
pub async fn take(db: &impl ConnectionTrait, email_key: &str, user_id: i64) -> Result<(), DbErr> {
    let row = ActiveModel {
        email_key: Set(email_key.to_owned()),
        user_id: Set(user_id),
        ..Default::default()
    };
    row.insert(db).await.map(drop)
}

/// Releases an address of a user.
///
/// # Errors
/// Any database error.
pub async fn release(db: &impl ConnectionTrait, email_key: &str, user_id: i64) -> Result<(), DbErr> {
    Entity::delete_many()
        .filter(Column::EmailKey.eq(email_key))
        .filter(Column::UserId.eq(user_id))
        .exec(db)
        .await
        .map(drop)
}
