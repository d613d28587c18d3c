//! Verification of SSH signatures, in the format of `ssh-keygen -Y sign`.

#[cfg(test)]
mod tests;

use ring::digest;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use ssh_key::public::{EcdsaPublicKey, KeyData};
use ssh_key::{Algorithm, HashAlg, LineEnding, SshSig};

/// First line of a signature.
pub const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
/// Last line of a signature.
const END: &str = "-----END SSH SIGNATURE-----";
/// Version of the format.
const VERSION: u32 = 1;
/// Length of the lines of a signature that the library reads and writes.
const LINE_LENGTH: usize = 70;
/// Size in bytes of the flags and the counter that a security key adds to its signatures.
const TRAILER_BYTES: usize = 5;

/// An SSH signature of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedSignature {
    /// The SHA-256 fingerprint of the key in OpenSSH format.
    pub fingerprint: String,
    /// Whether the key signed the content. False for keys with the algorithms DSA and ECDSA on the curve P-521, which are not
    /// supported.
    pub is_valid: bool,
}

/// Checks a signature of a content. Returns `None` if the signature is malformed or is for another namespace.
#[must_use]
pub fn check(text: &str, namespace: &str, content: &[u8]) -> Option<CheckedSignature> {
    let text = wrapped(text)?;
    let signature = SshSig::from_pem(&text).ok()?;
    // The library ignores some lengths of fields, which are not signed.
    if signature.to_pem(LineEnding::LF).ok()? != text {
        return None;
    }
    // The version is not signed either. The library also accepts earlier versions, which do not exist.
    if signature.version() != VERSION || signature.namespace() != namespace {
        return None;
    }
    let signed = SshSig::signed_data(namespace, signature.hash_alg(), content).ok()?;
    let key = signature.public_key();
    Some(CheckedSignature {
        fingerprint: key.fingerprint(HashAlg::Sha256).to_string(),
        is_valid: is_valid(key, &signature, &signed).unwrap_or(false),
    })
}

/// Returns a signature with lines of equal length. Programs other than OpenSSH use other lengths.
fn wrapped(text: &str) -> Option<String> {
    let base64 = text.trim().strip_prefix(BEGIN)?.strip_suffix(END)?;
    let characters: Vec<char> = base64
        .chars()
        .filter(|character| !character.is_ascii_whitespace())
        .collect();
    let mut wrapped = format!("{BEGIN}\n");
    for line in characters.chunks(LINE_LENGTH) {
        wrapped.extend(line);
        wrapped.push('\n');
    }
    wrapped.push_str(END);
    wrapped.push('\n');
    Some(wrapped)
}

fn is_valid(key: &KeyData, signature: &SshSig, signed: &[u8]) -> Option<bool> {
    let bytes = signature.signature_bytes();
    let algorithm = signature.signature().algorithm();
    match key {
        KeyData::Ed25519(key) => {
            (algorithm == Algorithm::Ed25519).then(|| verify(&signature::ED25519, &key.0, signed, bytes))
        }
        KeyData::SkEd25519(key) => {
            let (bytes, signed) = of_security_key(key.application(), signed, bytes)?;
            let is_same = algorithm == Algorithm::SkEd25519;
            is_same.then(|| verify(&signature::ED25519, &key.public_key().0, &signed, bytes))
        }
        KeyData::Ecdsa(key) => {
            let (verifier, size): (&'static dyn VerificationAlgorithm, usize) = match key {
                EcdsaPublicKey::NistP256(_) => (&signature::ECDSA_P256_SHA256_FIXED, 32),
                EcdsaPublicKey::NistP384(_) => (&signature::ECDSA_P384_SHA384_FIXED, 48),
                EcdsaPublicKey::NistP521(_) => return None,
            };
            let bytes = fixed_width(bytes, size)?;
            (algorithm == key.algorithm()).then(|| verify(verifier, key.as_sec1_bytes(), signed, &bytes))
        }
        KeyData::SkEcdsaSha2NistP256(key) => {
            let (bytes, signed) = of_security_key(key.application(), signed, bytes)?;
            let bytes = fixed_width(bytes, 32)?;
            let is_same = algorithm == Algorithm::SkEcdsaSha2NistP256;
            let verifier = &signature::ECDSA_P256_SHA256_FIXED;
            is_same.then(|| verify(verifier, key.ec_point().as_bytes(), &signed, &bytes))
        }
        KeyData::Rsa(key) => {
            let verifier = match algorithm {
                Algorithm::Rsa {
                    hash: Some(HashAlg::Sha256),
                } => &signature::RSA_PKCS1_2048_8192_SHA256,
                Algorithm::Rsa {
                    hash: Some(HashAlg::Sha512),
                } => &signature::RSA_PKCS1_2048_8192_SHA512,
                _ => return None,
            };
            let key = RsaPublicKeyComponents {
                n: key.n.as_positive_bytes()?,
                e: key.e.as_positive_bytes()?,
            };
            Some(key.verify(verifier, signed, bytes).is_ok())
        }
        _ => None,
    }
}

fn verify(verifier: &'static dyn VerificationAlgorithm, key: &[u8], signed: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(verifier, key)
        .verify(signed, signature)
        .is_ok()
}

/// Separates the signature of a security key from its trailer, and returns it with the bytes that the security key signed.
fn of_security_key<'a>(application: &str, signed: &[u8], signature: &'a [u8]) -> Option<(&'a [u8], Vec<u8>)> {
    let (signature, trailer) = signature.split_at_checked(signature.len().checked_sub(TRAILER_BYTES)?)?;
    let sha256 = |bytes: &[u8]| digest::digest(&digest::SHA256, bytes);
    let mut whole = sha256(application.as_bytes()).as_ref().to_vec();
    whole.extend_from_slice(trailer);
    whole.extend_from_slice(sha256(signed).as_ref());
    Some((signature, whole))
}

/// Converts the two numbers of an ECDSA signature to bytes of equal length.
fn fixed_width(mut numbers: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut fixed = Vec::with_capacity(2 * size);
    for _ in 0..2 {
        let (length, rest) = numbers.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (number, rest) = rest.split_at_checked(length)?;
        let start = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
        let digits = number.get(start..)?;
        fixed.resize(fixed.len() + size.checked_sub(digits.len())?, 0);
        fixed.extend_from_slice(digits);
        numbers = rest;
    }
    numbers.is_empty().then_some(fixed)
}
