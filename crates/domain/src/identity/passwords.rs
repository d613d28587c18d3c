//! Rules for passwords, and changes by their users.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};
use storage::entities::{now, users};

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::secrets;

/// Minimum length of a password, in characters.
const MIN_PASSWORD_LENGTH: usize = 8;
/// Maximum length of a password, in characters. Hashing more would only cost time.
const MAX_PASSWORD_LENGTH: usize = 128;

/// Hashes a password on a blocking thread.
///
/// # Errors
/// Returns a validation error if it is too short or too long.
pub async fn hash_password(password: String) -> Result<String> {
    let length = password.chars().count();
    if length < MIN_PASSWORD_LENGTH {
        let text = format!("is too short (minimum is {MIN_PASSWORD_LENGTH} characters)");
        return Err(Error::attribute("password", text));
    }
    if length > MAX_PASSWORD_LENGTH {
        let text = format!("is too long (maximum is {MAX_PASSWORD_LENGTH} characters)");
        return Err(Error::attribute("password", text));
    }
    let hash = tokio::task::spawn_blocking(move || secrets::hash_password(&password));
    Ok(hash.await.map_err(Error::internal)??)
}

/// Replaces a user's password by one that the user chose.
///
/// # Errors
/// Returns the errors of [`hash_password`].
pub async fn set_password(backend: &Backend, user: users::Model, password: String) -> Result<users::Model> {
    let mut row = user.into_active_model();
    row.password_hash = Set(Some(hash_password(password).await?));
    row.password_change_required = Set(false);
    row.updated_at = Set(now());
    Ok(row.update(backend.database.write()).await?)
}
