//! Digests of blobs and manifests, and hashing that can be resumed in another request.

use std::fmt;

use sha2::digest::common::hazmat::SerializableState;
use sha2::{Digest as _, Sha256};

use crate::registry::error::{RegistryError, RegistryErrorCode};

/// Prefix of the only supported algorithm.
const ALGORITHM: &str = "sha256:";

/// A SHA-256 digest, as `sha256:` and 64 lowercase hex digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

impl Digest {
    /// Parses a digest.
    ///
    /// # Errors
    /// Returns `DIGEST_INVALID` if it is malformed or uses another algorithm.
    pub fn parse(text: &str) -> Result<Self, RegistryError> {
        let digits = text.strip_prefix(ALGORITHM).filter(|digits| {
            let plain = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            digits.len() == 64 && digits.bytes().all(plain)
        });
        let wrong = "a digest must be sha256: followed by 64 lowercase hex digits";
        digits
            .map(|_| Self(text.to_owned()))
            .ok_or_else(|| RegistryError::new(RegistryErrorCode::DigestInvalid, wrong))
    }

    /// Computes the digest of bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut hashing = DigestState::default();
        hashing.update(bytes);
        hashing.digest()
    }

    /// Returns the digest as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Incremental hash. Its state can be stored, so that any node can resume it.
#[derive(Clone, Default)]
pub(super) struct DigestState(Sha256);

impl DigestState {
    /// Restores a state from [`Self::state`], or returns `None` if its format is unknown.
    pub(super) fn resume(state: &str) -> Option<Self> {
        let bytes = hex::decode(state).ok()?;
        let bytes = bytes.as_slice().try_into().ok()?;
        Sha256::deserialize(&bytes).ok().map(Self)
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the state in hex digits.
    pub(super) fn state(&self) -> String {
        hex::encode(self.0.serialize())
    }

    /// Returns the digest of the data so far.
    pub(super) fn digest(&self) -> Digest {
        Digest(format!("{ALGORITHM}{}", hex::encode(self.0.clone().finalize())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_parses_only_canonical_form() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").as_str(), empty);
        assert!(Digest::parse(empty).is_ok_and(|digest| digest.as_str() == empty));
        for wrong in [
            "",
            "sha256:",
            &empty[7..],
            &empty.to_uppercase(),
            &empty.replace("e3b0", "E3B0"),
            &empty.replace("sha256", "sha512"),
            &empty[..70],
            &format!("{empty}0"),
            &empty.replace("e3b0", "g3b0"),
        ] {
            assert!(Digest::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn hashing_resumes_from_saved_state() {
        let bytes: Vec<u8> = (0..1_000_u32).map(|number| (number % 251) as u8).collect();
        for cut in [0, 1, 63, 64, 65, 500, 1_000] {
            let mut first = DigestState::default();
            first.update(&bytes[..cut]);
            let mut second = DigestState::resume(&first.state()).expect("a state");
            second.update(&bytes[cut..]);
            assert_eq!(second.digest(), Digest::of(&bytes), "{cut}");
        }
        assert!(DigestState::resume("").is_none() && DigestState::resume("00").is_none());
    }
}
