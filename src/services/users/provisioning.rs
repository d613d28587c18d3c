//! Accounts that the identity provider of a group makes and changes (specification 4.19), within its own transaction.

use sea_orm::{ActiveValue::Set, DatabaseTransaction, IntoActiveModel};
use storage::entities::{now, users};

use super::{NewUser, drafted, emails, insert, names, rename, save};
use crate::error::{Error, Result};
use crate::services::settings::Settings;

/// Makes an account whose address counts as confirmed, because the provider says so; nobody keeps it from them by having added
/// it to their own without ever confirming it.
///
/// # Errors
/// As [`super::create`].
pub(in crate::services) async fn create(
    transaction: &DatabaseTransaction,
    in_force: &Settings,
    new: NewUser,
) -> Result<users::Model> {
    names::check_username(&new.username)?;
    names::check_email(&new.email)?;
    let mut row = drafted(in_force, new, None);
    row.confirmed_at = Set(Some(now()));
    emails::claim(transaction, None, row.email_key.as_ref()).await?;
    insert(transaction, row).await
}

/// Changes what an account is called and where mail for it goes, which counts as confirmed. The personal namespace follows.
///
/// # Errors
/// As [`super::update`]; 403 for administrators, whose accounts no group changes.
pub(in crate::services) async fn change(
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
