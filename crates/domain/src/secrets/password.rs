//! Password hashing.

use std::sync::OnceLock;

use super::error::Error;

/// Hashes a password with argon2id (19 MiB, two passes, one lane: the parameters of the crate and of OWASP)
/// and a random salt, in PHC format. Takes tens of milliseconds of CPU time; call it under `spawn_blocking`.
///
/// # Errors
/// [`Error::Password`] if no salt can be generated.
pub fn hash_password(password: &str) -> Result<String, Error> {
    Ok(cryptography::hash_password(password)?)
}

/// Returns whether a password matches a hash. Without a hash (no such user, or no password) the result is
/// false but takes as long as with one. Call it under `spawn_blocking`.
///
/// # Errors
/// [`Error::Password`] if the hash is malformed.
pub fn verify_password(password: &str, hash: Option<&str>) -> Result<bool, Error> {
    static PLACEHOLDER: OnceLock<String> = OnceLock::new();
    let (hash, has_hash) = match hash {
        Some(hash) => (hash, true),
        None => {
            if PLACEHOLDER.get().is_none() {
                // If another thread set the value first, it is equally valid.
                let _ = PLACEHOLDER.set(hash_password("placeholder")?);
            }
            (PLACEHOLDER.get().map_or("", String::as_str), false)
        }
    };
    Ok(cryptography::password_matches(password, hash)? && has_hash)
}
