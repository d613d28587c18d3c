//! Random tokens and their digests.

use rand::{RngExt, distr::Alphanumeric};
use sha2::{Digest, Sha256};

use super::Secret;

/// How many random characters a token has: 32 of 62 kinds are 190 bits.
const LENGTH: usize = 32;

/// A token that opens something: letters and digits, so that it needs no escaping anywhere.
#[derive(Debug, Clone)]
pub struct Token(Secret<String>);

impl Token {
    /// A new token. The prefix, which may be empty, lets people and scanners tell kinds of tokens apart.
    pub fn generate(prefix: &str) -> Self {
        let mut random = rand::rng();
        let body = std::iter::repeat_with(|| char::from(random.sample(Alphanumeric))).take(LENGTH);
        Self(Secret::new(prefix.chars().chain(body).collect()))
    }

    /// The token itself: to be shown to its holder, once.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// What is kept of the token.
    pub fn digest(&self) -> String {
        digest(self.expose())
    }
}

/// The SHA-256 of a token, in hex: 64 characters.
pub fn digest(token: &str) -> String {
    digest_bytes(token.as_bytes())
}

pub(super) fn digest_bytes(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
