//! Addresses of users beside the primary one. Nobody signs in with them.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    PaginatorTrait, QueryFilter,
};

use super::names;
use crate::api::types::{Page, PageRequest};
use crate::database::Violation;
use crate::entities::user_emails::{self, Column, Entity, Model};
use crate::entities::{fold, now, users};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::listing::page_of;
use crate::services::preconditions::unmodified_since;

/// A page of a user's further addresses, in the order they were added.
///
/// # Errors
/// Whatever the database reports.
pub async fn list(backend: &Backend, user_id: i64, page: &PageRequest) -> Result<Page<Model>> {
    page_of(backend.database.read(), user_emails::of_user(user_id), page).await
}

/// One further address of a user.
///
/// # Errors
/// 404.
pub async fn get(backend: &Backend, user_id: i64, id: i64) -> Result<Model> {
    let found = user_emails::of_user(user_id)
        .filter(Column::Id.eq(id))
        .one(backend.database.read())
        .await?;
    found.ok_or_else(|| Error::not_found("Email"))
}

/// Adds an address to a user.
///
/// # Errors
/// 400 for what is none, and for one that somebody has, as primary address or beside it.
pub async fn add(backend: &Backend, user_id: i64, email: String, confirmed: bool) -> Result<Model> {
    names::check_email(&email)?;
    let taken = || Error::attribute("email", "has already been taken");
    backend
        .database
        .transaction(async |transaction| {
            let primary = users::Entity::find()
                .filter(users::Column::EmailKey.eq(fold(&email)))
                .count(transaction)
                .await?;
            if primary > 0 {
                return Err(taken());
            }
            let row = user_emails::ActiveModel {
                user_id: Set(user_id),
                email_key: Set(fold(&email)),
                email: Set(email),
                confirmed_at: Set(confirmed.then(now)),
                created_at: Set(now()),
                ..Default::default()
            };
            row.insert(transaction)
                .await
                .map_err(|error| match Violation::of(&error) {
                    Some(Violation::Unique(_)) => taken(),
                    _ => error.into(),
                })
        })
        .await
}

/// Removes a further address of a user.
///
/// # Errors
/// 404, and 412 when it is newer than the caller's date.
pub async fn remove(backend: &Backend, user_id: i64, id: i64, since: Option<&str>) -> Result<()> {
    let email = get(backend, user_id, id).await?;
    unmodified_since(since, email.created_at)?;
    let done = Entity::delete_by_id(email.id)
        .exec(backend.database.write())
        .await?;
    match done.rows_affected {
        0 => Err(Error::not_found("Email")),
        _ => Ok(()),
    }
}

/// Makes room for a primary address: it is no further address of another user, and no longer one of this user.
///
/// # Errors
/// 409 when another user has it.
pub(super) async fn give_way(
    transaction: &DatabaseTransaction,
    email_key: &str,
    user_id: Option<i64>,
) -> Result<()> {
    let Some(found) = by_key(transaction, email_key).await? else {
        return Ok(());
    };
    if Some(found.user_id) != user_id {
        return Err(Error::Conflict("Email has already been taken".into()));
    }
    Entity::delete_by_id(found.id).exec(transaction).await?;
    Ok(())
}

async fn by_key(db: &impl ConnectionTrait, key: &str) -> Result<Option<Model>> {
    Ok(Entity::find().filter(Column::EmailKey.eq(key)).one(db).await?)
}
