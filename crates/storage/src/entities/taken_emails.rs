//! The addresses for mail that somebody has, as the primary one or beside it.

use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;

/// The addresses for mail that somebody has, as the primary one or beside it: one row an address, whose unique key
/// keeps two users from having the same.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "taken_emails")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The address folded; unique.
    pub email_key: String,
    /// Who has it.
    pub user_id: i64,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Gives a user an address; a violation of `uq_taken_emails_email_key` says that somebody has it.
///
/// # Errors
/// Whatever the database reports.
pub async fn take(db: &impl ConnectionTrait, email_key: &str, user_id: i64) -> Result<(), DbErr> {
    let row = ActiveModel {
        email_key: Set(email_key.to_owned()),
        user_id: Set(user_id),
        ..Default::default()
    };
    row.insert(db).await.map(drop)
}

/// Takes an address away from a user.
///
/// # Errors
/// Whatever the database reports.
pub async fn release(db: &impl ConnectionTrait, email_key: &str, user_id: i64) -> Result<(), DbErr> {
    Entity::delete_many()
        .filter(Column::EmailKey.eq(email_key))
        .filter(Column::UserId.eq(user_id))
        .exec(db)
        .await
        .map(drop)
}
