//! Proof Key for Code Exchange (RFC 7636).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::Fault;
use crate::secrets::constant_time_eq;

/// Transformation of a verifier into its challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// SHA-256.
    S256,
    /// No transformation.
    Plain,
}

impl Method {
    /// Returns the name in requests and in the database.
    pub fn word(self) -> &'static str {
        match self {
            Self::S256 => "S256",
            Self::Plain => "plain",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [Self::S256, Self::Plain]
            .into_iter()
            .find(|method| method.word() == word)
    }
}

/// Returns the challenge of a request, which is required for public applications.
///
/// # Errors
/// Returns [`Fault::InvalidRequest`] if the challenge is missing or malformed.
pub fn challenge(
    challenge: Option<String>,
    method: Option<&str>,
    required: bool,
) -> Result<Option<(String, Method)>, Fault> {
    let Some(challenge) = challenge else {
        return match (method, required) {
            (Some(_), _) => Err(Fault::InvalidRequest("code_challenge is missing")),
            (None, true) => Err(Fault::InvalidRequest(
                "code_challenge is missing; applications without a secret must use PKCE",
            )),
            (None, false) => Ok(None),
        };
    };
    let method = Method::from_word(method.unwrap_or("plain")).ok_or(Fault::InvalidRequest(
        "code_challenge_method must be S256 or plain",
    ))?;
    if !is_verifier(&challenge) {
        return Err(Fault::InvalidRequest(
            "code_challenge must be 43 to 128 letters, digits, or any of -._~",
        ));
    }
    Ok(Some((challenge, method)))
}

/// Returns whether a verifier matches a challenge. Without a challenge, a verifier is refused, so that an
/// attacker cannot remove the challenge from a request unnoticed.
pub fn answers(challenge: Option<(&str, &str)>, verifier: Option<&str>) -> bool {
    match (challenge, verifier) {
        (None, None) => true,
        (None, Some(_)) | (Some(_), None) => false,
        (Some((challenge, method)), Some(verifier)) => {
            let answer = match Method::from_word(method) {
                Some(Method::S256) => URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes())),
                Some(Method::Plain) => verifier.to_owned(),
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
    fn a_verifier_answers_its_own_challenge_only() {
        assert!(answers(Some((CHALLENGE, "S256")), Some(VERIFIER)));
        assert!(answers(Some((VERIFIER, "plain")), Some(VERIFIER)));
        assert!(!answers(Some((CHALLENGE, "plain")), Some(VERIFIER)));
        assert!(!answers(Some((VERIFIER, "S256")), Some(VERIFIER)));
        assert!(!answers(Some((CHALLENGE, "S256")), Some(CHALLENGE)));
    }

    #[test]
    fn neither_side_can_leave_its_part_out() {
        assert!(answers(None, None));
        assert!(!answers(Some((CHALLENGE, "S256")), None));
        assert!(!answers(None, Some(VERIFIER)));
    }

    #[test]
    fn challenges_are_checked_when_they_are_sent() {
        let sent = |text: &str, method| challenge(Some(text.to_owned()), method, true);
        assert_eq!(
            sent(CHALLENGE, Some("S256")).expect("one").expect("one").1,
            Method::S256
        );
        assert_eq!(sent(CHALLENGE, None).expect("one").expect("one").1, Method::Plain);
        assert!(sent(CHALLENGE, Some("s256")).is_err() && sent("short", Some("S256")).is_err());
        assert!(sent(&"a".repeat(129), None).is_err() && sent(&format!("{CHALLENGE}="), None).is_err());
        assert!(challenge(None, None, true).is_err() && challenge(None, Some("S256"), false).is_err());
        assert!(challenge(None, None, false).is_ok_and(|none| none.is_none()));
    }
}
