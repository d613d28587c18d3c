//! Time-based one-time passwords (RFC 6238), with the parameters that all authenticator apps support: SHA-1, six
//! digits and steps of 30 seconds.

use chrono::{DateTime, Utc};
use totp_rs::{Builder, Totp};

use crate::kernel::error::{Error, Result};
use crate::secrets::Secret;

/// Length of a secret in bytes, as RFC 4226 recommends.
const SECRET_LENGTH: usize = 20;
/// Number of digits of a code.
pub(super) const CODE_LENGTH: usize = 6;
/// Number of steps before and after the current one whose codes are accepted, for clocks that differ.
const SKEW: u16 = 1;

/// A secret that an authenticator app shares with the server, in Base32.
#[derive(Debug)]
pub(super) struct SharedSecret(Secret<String>);

impl SharedSecret {
    pub(super) fn generate() -> Self {
        let bytes: [u8; SECRET_LENGTH] = rand::random();
        Self(totp_rs::Secret::new_stack(bytes).to_base32().into())
    }

    pub(super) fn new(text: Secret<String>) -> Self {
        Self(text)
    }

    /// Returns the secret in Base32, which users can enter in an app.
    pub(super) fn expose(&self) -> &str {
        self.0.expose()
    }

    /// Returns the time step whose code this is, if the step is accepted at a time.
    pub(super) fn step_of(&self, code: &str, instant: DateTime<Utc>) -> Result<Option<i64>> {
        let seconds = u64::try_from(instant.timestamp()).map_err(Error::internal)?;
        let step = self.totp("", "")?.check(code, seconds);
        step.map(i64::try_from).transpose().map_err(Error::internal)
    }

    /// Returns the URI that transfers the secret to an app, for an account at an issuer.
    pub(super) fn uri(&self, issuer: &str, account: &str) -> Result<String> {
        self.totp(issuer, account)?.to_url().map_err(Error::internal)
    }

    fn totp(&self, issuer: &str, account: &str) -> Result<Totp> {
        let secret = totp_rs::Secret::try_from_base32(self.expose()).map_err(Error::internal)?;
        // Colons separate the two in the URI.
        let name = |text: &str| text.replace(':', " ");
        Builder::new()
            .with_secret(secret)
            .with_skew(SKEW)
            .with_issuer(Some(name(issuer)))
            .with_account_name(name(account))
            .build()
            .map_err(Error::internal)
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    /// The secret of the test vectors of RFC 6238, appendix B: `12345678901234567890`.
    const RFC_SECRET: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";

    fn rfc_secret() -> SharedSecret {
        SharedSecret::new(RFC_SECRET.to_owned().into())
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    #[test]
    fn codes_match_test_vectors_of_rfc_6238() {
        // The vectors have eight digits; a code with six digits is their end.
        for (seconds, code) in [
            (59, "94287082"),
            (1_111_111_109, "07081804"),
            (1_111_111_111, "14050471"),
            (1_234_567_890, "89005924"),
            (2_000_000_000, "69279037"),
            (20_000_000_000, "65353130"),
        ] {
            let found = rfc_secret().step_of(&code[2..], at(seconds)).unwrap();
            assert_eq!(found, Some(seconds / 30), "{seconds}");
        }
    }

    #[test]
    fn codes_are_accepted_one_step_early_and_late() {
        let (code, step) = ("005924", 1_234_567_890 / 30);
        let start = at(step * 30);
        for (seconds, accepted) in [
            (-31, false),
            (-30, true),
            (0, true),
            (29, true),
            (59, true),
            (60, false),
        ] {
            let found = rfc_secret()
                .step_of(code, start + TimeDelta::seconds(seconds))
                .unwrap();
            assert_eq!(found, accepted.then_some(step), "{seconds}");
        }
    }

    #[test]
    fn malformed_codes_match_no_step() {
        for code in ["", "5924", "89005924", "+05924", "00592a", "００５９２４"] {
            assert_eq!(
                rfc_secret().step_of(code, at(1_234_567_890)).unwrap(),
                None,
                "{code}"
            );
        }
    }

    #[test]
    fn generated_secrets_have_160_bits_and_differ() {
        let (first, second) = (SharedSecret::generate(), SharedSecret::generate());
        assert_eq!(first.expose().len(), SECRET_LENGTH * 8 / 5);
        assert_ne!(first.expose(), second.expose());
    }

    #[test]
    fn uri_contains_secret_issuer_and_account() {
        let uri = rfc_secret().uri("git.example.com:8443", "ada lovelace").unwrap();
        let uri = url::Url::parse(&uri).unwrap();
        assert_eq!((uri.scheme(), uri.host_str()), ("otpauth", Some("totp")));
        assert_eq!(uri.path(), "/git.example.com%208443:ada%20lovelace");
        let pairs: Vec<_> = uri.query_pairs().collect();
        assert!(pairs.contains(&("secret".into(), RFC_SECRET.into())), "{pairs:?}");
        assert!(
            pairs.contains(&("issuer".into(), "git.example.com 8443".into())),
            "{pairs:?}"
        );
    }
}
