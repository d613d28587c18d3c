//! Accounts that the identity provider of a group creates and updates, within its transaction.

use sea_orm::{ActiveValue::Set, DatabaseTransaction, IntoActiveModel};
use storage::entities::{now, users};

use super::{NewUser, emails, insert, names, new_row, rename, save};
use crate::kernel::error::{Error, Result};
use crate::kernel::settings::InstanceSettings;

/// Creates an account with a confirmed address, because the provider vouches for it. Another user's
/// unconfirmed secondary address does not block it.
///
/// # Errors
/// Returns the errors of [`super::create`].
pub(crate) async fn create(
    transaction: &DatabaseTransaction,
    in_force: &InstanceSettings,
    new: NewUser,
) -> Result<users::Model> {
    names::check_username(&new.username)?;
    names::check_email(&new.email)?;
    let mut row = new_row(in_force, new, None);
    row.confirmed_at = Set(Some(now()));
    emails::claim(transaction, None, row.email_key.as_ref()).await?;
    insert(transaction, row).await
}

/// Updates the names and the address of an account; the address is confirmed. The personal namespace follows.
///
/// # Errors
/// Returns the errors of [`super::update`], and `Forbidden` for administrators, whose accounts a group cannot
/// change.
pub(crate) async fn update(
    transaction: &DatabaseTransaction,
    user: users::Model,
    username: Option<String>,
    name: Option<String>,
    email: Option<String>,
) -> Result<users::Model> {
    if user.admin {
        return Err(Error::forbidden_because(
            "Accounts of administrators cannot be changed by provisioning",
        ));
    }
    let former = user.email_key.clone();
    let confirmed = email.is_some();
    let mut row = user.into_active_model();
    rename(&mut row, username, name, email)?;
    if confirmed {
        row.confirmed_at = Set(Some(now()));
        emails::claim(transaction, Some(*row.id.as_ref()), row.email_key.as_ref()).await?;
    }
    row.updated_at = Set(now());
    save(transaction, row, &former).await
}
