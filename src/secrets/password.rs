//! Passwords.

use std::sync::OnceLock;

use argon2::{
    Argon2,
    password_hash::{self, PasswordHasher, PasswordVerifier},
};

use super::Error;

/// Hashes a password with argon2id (19 MiB, two passes, one lane: the crate's and OWASP's parameters) and a
/// random salt, in PHC form. Takes tens of milliseconds of a processor: to be called under `spawn_blocking`.
///
/// # Errors
/// [`Error::Password`] when no salt can be had.
pub fn hash_password(password: &str) -> Result<String, Error> {
    let hash = Argon2::default()
        .hash_password(password.as_bytes())
        .map_err(Error::Password)?;
    Ok(hash.to_string())
}

/// Whether a password is the one that was hashed. Without a hash (no such user, or one without a password) the
/// answer is no, but takes as long as any other. To be called under `spawn_blocking`.
///
/// # Errors
/// [`Error::Password`] when the hash is malformed.
pub fn verify_password(password: &str, hash: Option<&str>) -> Result<bool, Error> {
    static NOBODY: OnceLock<String> = OnceLock::new();
    let (hash, somebody) = match hash {
        Some(hash) => (hash, true),
        None => {
            if NOBODY.get().is_none() {
                // Losing a race to set it is as good as winning.
                let _ = NOBODY.set(hash_password("nobody")?);
            }
            (NOBODY.get().map_or("", String::as_str), false)
        }
    };
    match Argon2::default().verify_password(password.as_bytes(), hash) {
        Ok(()) => Ok(somebody),
        Err(password_hash::Error::PasswordInvalid) => Ok(false),
        Err(error) => Err(Error::Password(error)),
    }
}
