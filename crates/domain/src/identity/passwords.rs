//! Rules for passwords.

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
