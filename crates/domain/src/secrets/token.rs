//! Random tokens and their digests.

use rand::{RngExt, distr::Alphanumeric};
use sha2::{Digest, Sha256};

use super::secret::Secret;

/// Number of random characters in a token: 32 of 62 possible characters are 190 bits.
const LENGTH: usize = 32;

/// A random token of letters and digits, which needs no escaping.
#[derive(Debug, Clone)]
pub struct Token(Secret<String>);

impl Token {
    /// Generates a token. The prefix, which may be empty, identifies the kind of the token for users and
    /// scanners.
    pub fn generate(prefix: &str) -> Self {
        let mut random = rand::rng();
        let body = std::iter::repeat_with(|| char::from(random.sample(Alphanumeric))).take(LENGTH);
        Self(Secret::new(prefix.chars().chain(body).collect()))
    }

    /// Returns the token, which is displayed to its owner once.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// Returns the stored form of the token.
    pub fn digest(&self) -> String {
        digest(self.expose())
    }
}

/// Returns the SHA-256 of a token in hex: 64 characters.
pub fn digest(token: &str) -> String {
    digest_bytes(token.as_bytes())
}

pub(super) fn digest_bytes(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
