//! Hashes of passwords, and keys that are derived from passwords.

use argon2::password_hash::{self, PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};

use super::KEY_LENGTH;

/// Error of a password hash or a key derivation. The text does not contain the password.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// A hash is malformed, or no salt can be generated.
    #[error("{0}")]
    Hash(password_hash::Error),
    /// The parameters of a key derivation are out of range.
    #[error("{0}")]
    Derivation(argon2::Error),
}

/// Hashes a password with argon2id (19 MiB, two passes, one lane: the parameters of the crate and of OWASP) and a random
/// salt, in PHC format. Takes tens of milliseconds of CPU time.
///
/// # Errors
/// Returns an error if no salt can be generated.
pub fn hash_password(password: &str) -> Result<String, PasswordError> {
    let hash = Argon2::default()
        .hash_password(password.as_bytes())
        .map_err(PasswordError::Hash)?;
    Ok(hash.to_string())
}

/// Returns whether a password matches a hash in PHC format. Takes as long as hashing.
///
/// # Errors
/// Returns an error if the hash is malformed.
pub fn password_matches(password: &str, hash: &str) -> Result<bool, PasswordError> {
    match Argon2::default().verify_password(password.as_bytes(), hash) {
        Ok(()) => Ok(true),
        Err(password_hash::Error::PasswordInvalid) => Ok(false),
        Err(error) => Err(PasswordError::Hash(error)),
    }
}

/// Derives a key from a password with argon2id, one lane, `memory_kib` KiB of memory and `passes` passes.
///
/// # Errors
/// Returns an error if the salt or the parameters are out of range.
pub fn derive_key(
    password: &[u8],
    salt: &[u8],
    memory_kib: u32,
    passes: u32,
) -> Result<[u8; KEY_LENGTH], PasswordError> {
    let parameters =
        Params::new(memory_kib, passes, 1, Some(KEY_LENGTH)).map_err(PasswordError::Derivation)?;
    let mut key = [0; KEY_LENGTH];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters)
        .hash_password_into(password, salt, &mut key)
        .map_err(PasswordError::Derivation)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_salted_and_name_their_parameters() {
        let hash = hash_password("correct horse").expect("a hash");
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_ne!(hash, hash_password("correct horse").expect("a hash"));
        assert!(password_matches("correct horse", &hash).expect("a well-formed hash"));
        assert!(!password_matches("wrong horse", &hash).expect("a well-formed hash"));
        assert!(matches!(
            password_matches("correct horse", "not a hash"),
            Err(PasswordError::Hash(_))
        ));
    }

    #[test]
    fn derived_keys_depend_on_all_inputs() {
        let key = derive_key(b"password", b"saltsalt", 64, 1).expect("a key");
        assert_eq!(key, derive_key(b"password", b"saltsalt", 64, 1).expect("a key"));
        for other in [
            derive_key(b"passwords", b"saltsalt", 64, 1),
            derive_key(b"password", b"saltsale", 64, 1),
            derive_key(b"password", b"saltsalt", 72, 1),
            derive_key(b"password", b"saltsalt", 64, 2),
        ] {
            assert_ne!(key, other.expect("a key"));
        }
        for refused in [
            derive_key(b"password", b"salt", 64, 1),
            derive_key(b"password", b"saltsalt", 1, 1),
            derive_key(b"password", b"saltsalt", 64, 0),
        ] {
            assert!(matches!(refused, Err(PasswordError::Derivation(_))));
        }
    }
}
