//! Public SSH keys and their fingerprints. Git is served only over HTTP, so a key grants no access yet.

use std::collections::BTreeMap;

use ssh_key::{Algorithm, Fingerprint, HashAlg};

use crate::kernel::error::Error;

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// The key in OpenSSH format, on one line, with single spaces.
    pub text: String,
    /// The SHA-256 fingerprint in OpenSSH format.
    pub fingerprint: String,
}

impl PublicKey {
    /// Parses a key in OpenSSH format, with or without a comment; line breaks are ignored. Returns `None` for
    /// an invalid key or an algorithm that OpenSSH does not support.
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

/// Returns whether a text is a SHA-256 fingerprint in OpenSSH format.
#[must_use]
pub fn is_sha256_fingerprint(text: &str) -> bool {
    text.parse::<Fingerprint>()
        .is_ok_and(|fingerprint| fingerprint.algorithm() == HashAlg::Sha256)
}

/// Returns the validation error of an invalid key, for `key` and `fingerprint` with a prefix.
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
    fn fingerprint_ignores_comment_and_line_breaks() {
        let plain = PublicKey::parse(KEY).expect("a key");
        let commented = PublicKey::parse(&format!("  {KEY} ada@laptop \n")).expect("a key");
        assert!(plain.fingerprint.starts_with("SHA256:"));
        assert_eq!(plain.fingerprint, commented.fingerprint);
        assert_eq!(commented.text, format!("{KEY} ada@laptop"));
        // Line breaks and spaces as added by mail programs and terminals.
        let (begin, end) = KEY.split_at(40);
        let broken = PublicKey::parse(&format!("{begin}\r\n{end}  ada \t at home\n")).expect("a key");
        assert_eq!(broken.fingerprint, plain.fingerprint);
        assert_eq!(broken.text, format!("{KEY} ada at home"));
    }

    /// Keys and fingerprints created by OpenSSH. Elliptic curves need a feature of the library.
    #[test]
    fn ecdsa_keys_have_openssh_fingerprints() {
        for (text, fingerprint) in [
            (
                "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBNHNIe+GkXm8xgZpaugUdrMtqvAK6AZN0jcdzSZTBImgEZfHN+xgDIpkoHVrtXNHwE9A6wpmXO1RRVlOj6inxyw=",
                "SHA256:EdHbx7KxNNXazGQUCllJQlRR79EPhrq2GWvOuOxtzv8",
            ),
            (
                "ecdsa-sha2-nistp384 AAAAE2VjZHNhLXNoYTItbmlzdHAzODQAAAAIbmlzdHAzODQAAABhBJ6OqwisRNeQhygvuhTRdwOeh17Re828Z4J8rRl32GqRSAYJ9exUCwMZdNbDCgz/Ktjcdp6KlQACjpkUdThn4MAvasGUocCYDfWZyNwRdylf3zhHKykLzCO/AHWd/0yAng==",
                "SHA256:OFx0JikXGgVapAprpm40ZjsIIwqohkCQLCahedHtKcQ",
            ),
            (
                "ecdsa-sha2-nistp521 AAAAE2VjZHNhLXNoYTItbmlzdHA1MjEAAAAIbmlzdHA1MjEAAACFBAFZRiaOIov4B9SyPwzOIOu3p/rlBl2XciHE0jcwhiRPPcZcVSWdEQv58rdwS7e73+Q+0mX/bWjL71ZK0SCXB4MmRAABso8NygBDtd6OjBbkd6rDvEjokbeKKLxgbjAm5TTqY6Tz0mWI68n8HNmA0v9jh3nhHoIZTpTs+4CFgS/dlhrzFw==",
                "SHA256:u2vCcbI3A9ZYyDRpMCCbax3Aie28aaKh1U0ixFcQtgE",
            ),
        ] {
            let key = PublicKey::parse(text).expect("a key");
            assert_eq!((key.text.as_str(), key.fingerprint.as_str()), (text, fingerprint));
        }
    }

    #[test]
    fn invalid_public_key_is_rejected() {
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
    /// Texts that start like keys, and keys of every supported algorithm with a few characters changed. The
    /// seed is fixed.
    #[test]
    fn accepted_public_keys_round_trip() {
        use base64::{Engine, engine::general_purpose::STANDARD};
        use rand::{RngExt, SeedableRng};

        let mut random = rand::rngs::StdRng::seed_from_u64(0x5eed_c206);
        let piece = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
        let ed25519 = |random: &mut rand::rngs::StdRng| {
            let point: [u8; 32] = random.random();
            let bytes = [piece(b"ssh-ed25519"), piece(&point)].concat();
            format!("ssh-ed25519 {}", STANDARD.encode(bytes))
        };
        let rsa = |random: &mut rand::rngs::StdRng| {
            let mut modulus: [u8; 129] = random.random();
            (modulus[0], modulus[1]) = (0, modulus[1] | 0x80);
            let bytes = [piece(b"ssh-rsa"), piece(&[1, 0, 1]), piece(&modulus)].concat();
            format!("ssh-rsa {}", STANDARD.encode(bytes))
        };
        let ecdsa = |random: &mut rand::rngs::StdRng| {
            let mut point: [u8; 65] = random.random();
            point[0] = 4;
            let bytes = [piece(b"ecdsa-sha2-nistp256"), piece(b"nistp256"), piece(&point)].concat();
            format!("ecdsa-sha2-nistp256 {}", STANDARD.encode(bytes))
        };
        let security_key = |random: &mut rand::rngs::StdRng| {
            let point: [u8; 32] = random.random();
            let name = "sk-ssh-ed25519@openssh.com";
            let bytes = [piece(name.as_bytes()), piece(&point), piece(b"ssh:")].concat();
            format!("{name} {}", STANDARD.encode(bytes))
        };
        let letters: Vec<char> = "AZaz09+/= \t\r\n\0-@.:\u{e4}\u{a0}\u{2028}\u{1f4a5}"
            .chars()
            .collect();
        let (mut accepted, mut rejected) = (0, 0);
        for round in 0..8_000 {
            let text = match round % 4 {
                0 => ed25519(&mut random),
                1 => rsa(&mut random),
                2 => ecdsa(&mut random),
                _ => security_key(&mut random),
            };
            let parsed = PublicKey::parse(&text).unwrap_or_else(|| panic!("{text} is refused"));
            assert_eq!(parsed.text, text);
            let mut text: Vec<char> = format!("{text} ada@laptop").chars().collect();
            for _ in 0..random.random_range(0..4) {
                let letter = letters[random.random_range(0..letters.len())];
                match random.random_range(0..4) {
                    0 => text[0] = letter,
                    1 => text.insert(random.random_range(0..=text.len()), letter),
                    2 => drop(text.drain(random.random_range(0..text.len())..)),
                    _ => {
                        let at = random.random_range(0..text.len());
                        text[at] = letter;
                    }
                }
                if text.is_empty() {
                    text.push(letter);
                }
            }
            let text: String = text.into_iter().collect();
            let Some(read) = PublicKey::parse(&text) else {
                rejected += 1;
                continue;
            };
            accepted += 1;
            assert!(
                !read.text.contains(char::is_control) && !read.text.contains("  "),
                "{text:?}"
            );
            assert_eq!(PublicKey::parse(&read.text).as_ref(), Some(&read), "{text:?}");
            // The comment is not part of the fingerprint.
            let bare: Vec<&str> = read.text.split(' ').take(2).collect();
            let bare = PublicKey::parse(&bare.join(" ")).map(|key| key.fingerprint);
            assert_eq!(bare.as_ref(), Some(&read.fingerprint), "{text:?}");
        }
        assert!(accepted > 2_000 && rejected > 2_000, "{accepted} and {rejected}");
    }
}
