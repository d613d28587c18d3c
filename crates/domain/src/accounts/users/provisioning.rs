//! Accounts that the identity provider of a group creates and updates, within its transaction.

use sea_orm::{ActiveValue::Set, DatabaseTransaction, IntoActiveModel};
use storage::entities::{now, row_changes, users};

use super::{NewUser, auditing, insert, names, new_row, rename, save};
use crate::audit::{self, Actor};
use crate::kernel::error::{Error, Result};
use crate::kernel::settings::InstanceSettings;

/// Email address that a provider states for a user.
#[derive(Debug, Clone)]
pub(crate) struct ProvidedEmail {
    /// The address.
    pub address: String,
    /// Whether the provider may confirm it.
    pub confirmed: bool,
}

/// Creates an account, whose address is confirmed only on request.
///
/// # Errors
/// Returns the errors of [`super::create`].
pub(crate) async fn create(
    transaction: &DatabaseTransaction,
    actor: &Actor,
    in_force: &InstanceSettings,
    new: NewUser,
    confirmed: bool,
) -> Result<users::Model> {
    names::check_username(&new.username)?;
    names::check_email(&new.email)?;
    let mut row = new_row(in_force, new, None);
    row.provisioned = Set(true);
    row.confirmed_at = Set(confirmed.then(now));
    let user = insert(transaction, row).await?;
    audit::record(transaction, actor, auditing::created(&user)).await?;
    Ok(user)
}

/// Updates the names and the address of an account. A new address is confirmed only on request. The personal
/// namespace follows.
///
/// # Errors
/// Returns the errors of [`super::update`], and `Forbidden` for administrators, whose accounts a group cannot
/// change.
pub(crate) async fn update(
    transaction: &DatabaseTransaction,
    actor: &Actor,
    user: users::Model,
    username: Option<String>,
    name: Option<String>,
    email: Option<ProvidedEmail>,
) -> Result<users::Model> {
    if user.admin {
        return Err(Error::forbidden_because(
            "Accounts of administrators cannot be changed by provisioning",
        ));
    }
    let before = user.clone();
    let confirmed = email.as_ref().is_some_and(|email| email.confirmed);
    let mut row = user.into_active_model();
    rename(&mut row, username, name, email.map(|email| email.address))?;
    if confirmed && row.confirmed_at.as_ref().is_none() {
        row.confirmed_at = Set(Some(now()));
    }
    if !row_changes::is_changed(&row, &before) {
        return Ok(before);
    }
    row.updated_at = Set(now());
    let user = save(transaction, row, &before).await?;
    audit::record_all(transaction, actor, auditing::changes(&before, &user, false)).await?;
    Ok(user)
}

/// Replaces the unconfirmed address of an account that the provider of another group created. The placeholder
/// is random, so that it cannot be taken beforehand.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn replace_unconfirmed(
    transaction: &DatabaseTransaction,
    actor: &Actor,
    user: users::Model,
) -> Result<()> {
    let before = user.clone();
    let placeholder = format!("user-{}-{:016x}@noreply.invalid", user.id, rand::random::<u64>());
    let mut row = user.into_active_model();
    rename(&mut row, None, None, Some(placeholder))?;
    row.updated_at = Set(now());
    let user = save(transaction, row, &before).await?;
    audit::record_all(transaction, actor, auditing::changes(&before, &user, false)).await
}
