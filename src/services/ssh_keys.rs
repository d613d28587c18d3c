//! Public SSH keys: read, and told apart by their fingerprints.

use std::collections::BTreeMap;

use ssh_key::{Algorithm, HashAlg};

use crate::error::{Error, Result};

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// The key as OpenSSH writes it, on one line.
    pub text: String,
    /// The SHA-256 of the key, as OpenSSH shows it.
    pub fingerprint: String,
}

impl PublicKey {
    /// Reads a key as OpenSSH writes it, with or without a comment.
    ///
    /// # Errors
    /// 400 under `key` and `fingerprint` for what is none, or of an algorithm that OpenSSH does not know.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.chars().any(char::is_control) {
            return Err(invalid());
        }
        let key = ssh_key::PublicKey::from_openssh(text).map_err(|_| invalid())?;
        if matches!(key.algorithm(), Algorithm::Other(_)) {
            return Err(invalid());
        }
        Ok(Self {
            fingerprint: key.fingerprint(HashAlg::Sha256).to_string(),
            text: text.to_owned(),
        })
    }
}

fn invalid() -> Error {
    Error::InvalidAttributes(BTreeMap::from([
        ("key".into(), vec!["is invalid".into()]),
        ("fingerprint".into(), vec!["cannot be generated".into()]),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

    #[test]
    fn the_fingerprint_is_that_of_openssh_whatever_the_comment() {
        let plain = PublicKey::parse(KEY).expect("a key");
        let commented = PublicKey::parse(&format!("  {KEY} ada@laptop \n")).expect("a key");
        assert!(plain.fingerprint.starts_with("SHA256:"));
        assert_eq!(plain.fingerprint, commented.fingerprint);
        assert_eq!(commented.text, format!("{KEY} ada@laptop"));
    }

    #[test]
    fn what_is_no_public_key_is_refused() {
        let two = format!("{KEY}\n{KEY}");
        let renamed = KEY.replace("ssh-ed25519", "ssh-rsa");
        let cut = &KEY[..KEY.len() - 8];
        let private = "-----BEGIN OPENSSH PRIVATE KEY-----";
        for bad in [
            "",
            "x",
            "ssh-ed25519",
            "ssh-ed25519 AAAA",
            &two,
            &renamed,
            cut,
            private,
        ] {
            assert!(PublicKey::parse(bad).is_err(), "{bad}");
        }
    }
}
