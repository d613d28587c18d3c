//! Public SSH keys: read, and told apart by their fingerprints. Git is served over HTTP alone, so a key opens nothing yet.

use std::collections::BTreeMap;

use ssh_key::{Algorithm, HashAlg};

use crate::error::Error;

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// The key as OpenSSH writes it, on one line, with single spaces.
    pub text: String,
    /// The SHA-256 of the key, as OpenSSH shows it.
    pub fingerprint: String,
}

impl PublicKey {
    /// Reads a key as OpenSSH writes it, with or without a comment; line breaks in it are overlooked. None for what is no key,
    /// or of an algorithm that OpenSSH does not know.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let line = text.trim().replace(['\r', '\n'], "");
        let words: Vec<&str> = line.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
        let text = words.join(" ");
        if text.chars().any(char::is_control) {
            return None;
        }
        let key = ssh_key::PublicKey::from_openssh(&text).ok()?;
        let known = !matches!(key.algorithm(), Algorithm::Other(_));
        known.then(|| Self {
            fingerprint: key.fingerprint(HashAlg::Sha256).to_string(),
            text,
        })
    }
}

/// 400 under `key` and `fingerprint`, each with a prefix, for what is no public key.
#[must_use]
pub fn malformed(prefix: &str) -> Error {
    Error::InvalidAttributes(BTreeMap::from([
        (format!("{prefix}key").into(), vec!["is invalid".into()]),
        (
            format!("{prefix}fingerprint").into(),
            vec!["cannot be generated".into()],
        ),
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
        // As mail programs and terminals leave it.
        let (begin, end) = KEY.split_at(40);
        let broken = PublicKey::parse(&format!("{begin}\r\n{end}  ada \t at home\n")).expect("a key");
        assert_eq!(broken.fingerprint, plain.fingerprint);
        assert_eq!(broken.text, format!("{KEY} ada at home"));
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
            "ssh-ed25519 AAAA\0",
            "ssh-new AAAAB3NzaC1uZXc=",
        ] {
            assert!(PublicKey::parse(bad).is_none(), "{bad}");
        }
    }
}
