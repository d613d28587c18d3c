//! Proof Key for Code Exchange (RFC 7636).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::OauthError;
use crate::secrets::constant_time_eq;

/// Transformation of a verifier into its challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChallengeMethod {
    /// SHA-256.
    S256,
    /// No transformation.
    Plain,
}

impl ChallengeMethod {
    /// Returns the name in requests and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::S256 => "S256",
            Self::Plain => "plain",
        }
    }

    fn from_name(word: &str) -> Option<Self> {
        [Self::S256, Self::Plain]
            .into_iter()
            .find(|method| method.name() == word)
    }
}

/// Returns the challenge of a request, which is required for public applications.
///
/// # Errors
/// Returns [`OauthError::InvalidRequest`] if the challenge is missing or malformed.
pub fn challenge(
    challenge: Option<String>,
    method: Option<&str>,
    required: bool,
) -> Result<Option<(String, ChallengeMethod)>, OauthError> {
    let Some(challenge) = challenge else {
        return match (method, required) {
            (Some(_), _) => Err(OauthError::InvalidRequest("code_challenge is missing")),
            (None, true) => Err(OauthError::InvalidRequest(
                "code_challenge is missing; applications without a secret must use PKCE",
            )),
            (None, false) => Ok(None),
        };
    };
    let method = ChallengeMethod::from_name(method.unwrap_or("plain")).ok_or(OauthError::InvalidRequest(
        "code_challenge_method must be S256 or plain",
    ))?;
    if !is_verifier(&challenge) {
        return Err(OauthError::InvalidRequest(
            "code_challenge must be 43 to 128 letters, digits, or any of -._~",
        ));
    }
    Ok(Some((challenge, method)))
}

/// Returns whether a verifier matches a challenge. Without a challenge, a verifier is refused, so that an
/// attacker cannot remove the challenge from a request unnoticed.
pub fn is_match(challenge: Option<(&str, &str)>, verifier: Option<&str>) -> bool {
    match (challenge, verifier) {
        (None, None) => true,
        (None, Some(_)) | (Some(_), None) => false,
        (Some((challenge, method)), Some(verifier)) => {
            let answer = match ChallengeMethod::from_name(method) {
                Some(ChallengeMethod::S256) => URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes())),
                Some(ChallengeMethod::Plain) => verifier.to_owned(),
                None => return false,
            };
            is_verifier(verifier) && constant_time_eq(&answer, challenge)
        }
    }
}

fn is_verifier(text: &str) -> bool {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    (43..=128).contains(&text.len()) && text.bytes().all(unreserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example of RFC 7636, appendix B.
    const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

    #[test]
    fn verifier_matches_only_its_challenge() {
        assert!(is_match(Some((CHALLENGE, "S256")), Some(VERIFIER)));
        assert!(is_match(Some((VERIFIER, "plain")), Some(VERIFIER)));
        assert!(!is_match(Some((CHALLENGE, "plain")), Some(VERIFIER)));
        assert!(!is_match(Some((VERIFIER, "S256")), Some(VERIFIER)));
        assert!(!is_match(Some((CHALLENGE, "S256")), Some(CHALLENGE)));
    }

    #[test]
    fn challenge_and_verifier_require_each_other() {
        assert!(is_match(None, None));
        assert!(!is_match(Some((CHALLENGE, "S256")), None));
        assert!(!is_match(None, Some(VERIFIER)));
    }

    #[test]
    fn challenge_rejects_invalid_value_and_method() {
        let sent = |text: &str, method| challenge(Some(text.to_owned()), method, true);
        assert_eq!(
            sent(CHALLENGE, Some("S256")).expect("one").expect("one").1,
            ChallengeMethod::S256
        );
        assert_eq!(
            sent(CHALLENGE, None).expect("one").expect("one").1,
            ChallengeMethod::Plain
        );
        assert!(sent(CHALLENGE, Some("s256")).is_err() && sent("short", Some("S256")).is_err());
        assert!(sent(&"a".repeat(129), None).is_err() && sent(&format!("{CHALLENGE}="), None).is_err());
        assert!(challenge(None, None, true).is_err() && challenge(None, Some("S256"), false).is_err());
        assert!(challenge(None, None, false).is_ok_and(|none| none.is_none()));
    }
}
