//! Signatures of commits, and whether they belong to the committer.

use git::CommitSignature;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::{fold, user_emails, user_keys, users};

use crate::code::commits::ssh_signatures;
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Namespace of the SSH signatures of Git.
const GIT_NAMESPACE: &str = "git";

/// First lines of signatures, as in Git.
const OPENPGP: [&str; 2] = ["-----BEGIN PGP SIGNATURE-----", "-----BEGIN PGP MESSAGE-----"];
const X509: &str = "-----BEGIN SIGNED MESSAGE-----";

/// Format of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureFormat {
    /// SSH.
    Ssh,
    /// OpenPGP.
    OpenPgp,
    /// X.509.
    X509,
}

impl SignatureFormat {
    fn of(signature: &str) -> Option<Self> {
        let signature = signature.trim_start();
        if signature.starts_with(ssh_signatures::BEGIN) {
            return Some(Self::Ssh);
        }
        if OPENPGP.iter().any(|begin| signature.starts_with(begin)) {
            return Some(Self::OpenPgp);
        }
        signature.starts_with(X509).then_some(Self::X509)
    }
}

/// Result of the verification of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerificationStatus {
    /// The signature is valid, and the committer owns the key.
    Verified,
    /// The signature is invalid, or the server cannot verify its format or algorithm.
    Unverified,
    /// The key does not belong to a user.
    UnknownKey,
    /// The signature is valid, and another user owns the key.
    OtherUser,
}

/// A signature with the result of its verification.
#[derive(Debug, Clone)]
pub struct VerifiedSignature {
    /// The format.
    pub format: SignatureFormat,
    /// The result.
    pub status: VerificationStatus,
    /// The SSH key of a user that signed the commit.
    pub key: Option<user_keys::Model>,
}

/// Returns the signature of a commit and verifies it against the SSH keys of users.
///
/// # Errors
/// Returns `NotFound` if the commit does not exist or is not signed.
pub async fn get_signature(
    backend: &Backend,
    access: &ProjectAccess,
    revision: &str,
) -> Result<VerifiedSignature> {
    let repository = repository_access::repository(backend, access)?;
    let id = repository.resolve_commit(revision).await?;
    let missing = || Error::not_found("Signature");
    let signed = repository.commit_signature(id).await?.ok_or_else(missing)?;
    let text = String::from_utf8_lossy(&signed.signature);
    let format = SignatureFormat::of(&text).ok_or_else(missing)?;
    let (status, key) = match format {
        SignatureFormat::Ssh => {
            let email = repository.commit(id).await?.committer.email;
            verify(backend, &text, &signed, &email).await?
        }
        // Users have no OpenPGP keys.
        SignatureFormat::OpenPgp => (VerificationStatus::UnknownKey, None),
        SignatureFormat::X509 => (VerificationStatus::Unverified, None),
    };
    Ok(VerifiedSignature { format, status, key })
}

async fn verify(
    backend: &Backend,
    text: &str,
    signed: &CommitSignature,
    email: &str,
) -> Result<(VerificationStatus, Option<user_keys::Model>)> {
    let checked = ssh_signatures::check(text, GIT_NAMESPACE, &signed.content);
    let Some(checked) = checked.filter(|checked| checked.is_valid) else {
        return Ok((VerificationStatus::Unverified, None));
    };
    let db = backend.database.read();
    let keys = user_keys::Entity::find().filter(user_keys::Column::Fingerprint.eq(checked.fingerprint));
    let Some((key, user)) = users::find_with_user(db, keys).await? else {
        return Ok((VerificationStatus::UnknownKey, None));
    };
    let email = fold(email);
    let is_primary = user.confirmed_at.is_some() && user.email_key == email;
    let is_owner = is_primary || {
        let secondary = user_emails::of_user(user.id)
            .filter(user_emails::Column::EmailKey.eq(email))
            .filter(user_emails::Column::ConfirmedAt.is_not_null());
        secondary.one(db).await?.is_some()
    };
    let status = match is_owner {
        true => VerificationStatus::Verified,
        false => VerificationStatus::OtherUser,
    };
    Ok((status, Some(key)))
}
