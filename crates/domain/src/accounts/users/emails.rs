//! Secondary email addresses of users, which cannot be used to sign in.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, PaginatorTrait,
    QueryFilter,
};
use storage::database::Violation;
use storage::entities::user_emails::{self, Column, Entity, Model};
use storage::entities::{fold, now, taken_emails, users};

use super::names;
use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions::check_unmodified_since;
use crate::kernel::query::page_of;

/// Maximum number of secondary addresses of a user.
const MAX_EMAILS: u64 = 100;

/// Lists a user's secondary addresses in the order of creation.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn list(backend: &Backend, user_id: i64, page: &PageRequest) -> Result<Page<Model>> {
    page_of(backend.database.read(), user_emails::of_user(user_id), page).await
}

/// Returns a secondary address of a user.
///
/// # Errors
/// Returns `NotFound` if the address does not exist.
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
/// Returns a validation error for an invalid address, for one that any user has as primary or secondary
/// address, and beyond the maximum number. Returns `NotFound` if the user was deleted in the meantime.
pub async fn add(
    backend: &Backend,
    actor: &Actor,
    user: &users::Model,
    email: String,
    confirmed: bool,
) -> Result<Model> {
    let user_id = user.id;
    names::check_email(&email)?;
    let map_unique_error = |error: DbErr| match Violation::of(&error) {
        Some(Violation::Unique(_)) => Error::attribute("email", "has already been taken"),
        _ => error.into(),
    };
    backend
        .database
        .transaction(async |transaction| {
            // Lock the user, so that parallel requests cannot exceed the limit together, and that a deletion finds the
            // address.
            let locked = users::lock(transaction, user_id).await?;
            locked.ok_or_else(|| Error::not_found("User"))?;
            if user_emails::of_user(user_id).count(transaction).await? >= MAX_EMAILS {
                let text = format!("are too many (maximum is {MAX_EMAILS})");
                return Err(Error::attribute("emails", text));
            }
            taken_emails::take(transaction, &fold(&email), user_id)
                .await
                .map_err(map_unique_error)?;
            let at = now();
            let row = user_emails::ActiveModel {
                user_id: Set(user_id),
                email_key: Set(fold(&email)),
                email: Set(email),
                confirmed_at: Set(confirmed.then_some(at)),
                created_at: Set(at),
                ..Default::default()
            };
            let email = row.insert(transaction).await.map_err(map_unique_error)?;
            audit::record(transaction, actor, event(AuditKind::UserEmailAdded, user, &email)).await?;
            Ok(email)
        })
        .await
}

fn event(kind: AuditKind, user: &users::Model, email: &Model) -> AuditEvent {
    let target = AuditTarget::new("Email", email.id, email.email.clone());
    AuditEvent::new(kind, AuditEntity::user(user), target)
}

/// Deletes a secondary address of a user.
///
/// # Errors
/// Returns `NotFound` if the address does not exist, or `PreconditionFailed` if it was created after the
/// given date.
pub async fn remove(
    backend: &Backend,
    actor: &Actor,
    user: &users::Model,
    id: i64,
    since: Option<&str>,
) -> Result<()> {
    let email = get(backend, user.id, id).await?;
    check_unmodified_since(since, email.created_at)?;
    backend
        .database
        .transaction(async |transaction| {
            let done = Entity::delete_by_id(email.id).exec(transaction).await?;
            if done.rows_affected == 0 {
                return Err(Error::not_found("Email"));
            }
            taken_emails::release(transaction, &email.email_key, user.id).await?;
            audit::record(
                transaction,
                actor,
                event(AuditKind::UserEmailRemoved, user, &email),
            )
            .await
        })
        .await
}

/// Deletes an unconfirmed secondary address of any user except this one.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn release_unconfirmed(
    transaction: &DatabaseTransaction,
    actor: &Actor,
    user_id: Option<i64>,
    email_key: &str,
) -> Result<()> {
    let unconfirmed = Entity::find()
        .filter(Column::EmailKey.eq(email_key))
        .filter(Column::ConfirmedAt.is_null())
        .one(transaction)
        .await?;
    let Some(unconfirmed) = unconfirmed.filter(|unconfirmed| Some(unconfirmed.user_id) != user_id) else {
        return Ok(());
    };
    let done = Entity::delete_by_id(unconfirmed.id).exec(transaction).await?;
    if done.rows_affected == 0 {
        return Ok(());
    }
    taken_emails::release(transaction, email_key, unconfirmed.user_id).await?;
    let owner = users::Entity::find_by_id(unconfirmed.user_id)
        .one(transaction)
        .await?;
    let Some(owner) = owner else { return Ok(()) };
    let event = event(AuditKind::UserEmailRemoved, &owner, &unconfirmed);
    audit::record(transaction, actor, event).await
}

/// Reserves an address as the primary one of a user and deletes it from the secondary ones.
///
/// # Errors
/// Returns a unique violation if another user has it.
pub(super) async fn make_primary(
    transaction: &DatabaseTransaction,
    user_id: i64,
    email_key: &str,
) -> Result<(), DbErr> {
    let own = Entity::delete_many()
        .filter(Column::UserId.eq(user_id))
        .filter(Column::EmailKey.eq(email_key))
        .exec(transaction)
        .await?;
    match own.rows_affected {
        0 => taken_emails::take(transaction, email_key, user_id).await,
        _ => Ok(()),
    }
}
