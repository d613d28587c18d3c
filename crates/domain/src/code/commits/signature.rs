//! Signatures of commits, and whether they belong to the committer.

use git::CommitSignature;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::user_keys::KeyUsage;
use storage::entities::{fold, gpg_key_ids, gpg_keys, user_emails, user_keys, users};

use crate::code::commits::ssh_signatures;
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::public_keys::openpgp::{ContentSignature, PublicKey, UserId};

/// Maximum number of OpenPGP keys with the key ID of a signature that are tried.
const MAX_CANDIDATES: u64 = 3;
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
    /// The signature is valid, and the committer owns the key, which does not state the email address of the commit.
    SameUserDifferentEmail,
    /// The signature is valid, and the owner of the key has none of the email addresses that the key states.
    UnverifiedKey,
}

/// The OpenPGP key of a signature.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenPgpSigner {
    /// The ID of the key of a user.
    pub gpg_key_id: Option<i64>,
    /// The key ID of the primary key; without a key of a user, the key ID that the signature states.
    pub primary_key_id: Option<String>,
    /// The ID of the subkey, if a subkey signed.
    pub subkey_id: Option<i64>,
    /// The user ID of the key that has the email address of the committer, or the primary one.
    pub user_id: Option<UserId>,
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
    /// The OpenPGP key; empty for other formats.
    pub openpgp: OpenPgpSigner,
}

/// Returns the signature of a commit and verifies it against the SSH keys and OpenPGP keys of users.
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
    let CommitSignature { signature, content } =
        repository.commit_signature(id).await?.ok_or_else(missing)?;
    let text = String::from_utf8_lossy(&signature);
    let format = SignatureFormat::of(&text).ok_or_else(missing)?;
    let committer = repository.commit(id).await?.committer;
    let mut found = VerifiedSignature {
        format,
        status: VerificationStatus::Unverified,
        key: None,
        openpgp: OpenPgpSigner::default(),
    };
    match format {
        SignatureFormat::Ssh => {
            (found.status, found.key) = verify_ssh(backend, &text, &content, &committer).await?
        }
        SignatureFormat::OpenPgp => {
            (found.status, found.openpgp) = verify_openpgp(backend, &text, content, &committer.email).await?;
        }
        SignatureFormat::X509 => {}
    }
    Ok(found)
}

async fn verify_ssh(
    backend: &Backend,
    text: &str,
    content: &[u8],
    committer: &git::Signature,
) -> Result<(VerificationStatus, Option<user_keys::Model>)> {
    let checked = ssh_signatures::check(text, GIT_NAMESPACE, content);
    let Some(checked) = checked.filter(|checked| checked.is_valid) else {
        return Ok((VerificationStatus::Unverified, None));
    };
    let db = backend.database.read();
    let keys = user_keys::Entity::find()
        .filter(user_keys::Column::Fingerprint.eq(checked.fingerprint))
        .filter(user_keys::Column::UsageType.ne(KeyUsage::Auth));
    let Some((key, user)) = users::find_with_user(db, keys).await? else {
        return Ok((VerificationStatus::UnknownKey, None));
    };
    // The signature contains no time, so the time of the commit counts, as for Git.
    if key.is_expired_at(committer.time.to_utc()) {
        return Ok((VerificationStatus::Unverified, None));
    }
    let is_owner = is_confirmed(backend, &user, &committer.email).await?;
    let status = match is_owner {
        true => VerificationStatus::Verified,
        false => VerificationStatus::OtherUser,
    };
    Ok((status, Some(key)))
}

/// Returns whether a user has a confirmed email address.
async fn is_confirmed(backend: &Backend, user: &users::Model, email: &str) -> Result<bool> {
    let email = fold(email);
    if user.confirmed_at.is_some() && user.email_key == email {
        return Ok(true);
    }
    let secondary = user_emails::of_user(user.id)
        .filter(user_emails::Column::EmailKey.eq(email))
        .filter(user_emails::Column::ConfirmedAt.is_not_null());
    Ok(secondary.one(backend.database.read()).await?.is_some())
}

/// The key of a user that made a signature.
struct ValidKey {
    row: gpg_keys::Model,
    owner: users::Model,
    /// The key ID of the primary key.
    primary_key_id: String,
    user_ids: Vec<UserId>,
    /// The ID of the row of the subkey, if a subkey signed.
    subkey_row: Option<i64>,
}

async fn verify_openpgp(
    backend: &Backend,
    text: &str,
    content: Vec<u8>,
    email: &str,
) -> Result<(VerificationStatus, OpenPgpSigner)> {
    let Some(signature) = ContentSignature::parse(text) else {
        return Ok((VerificationStatus::Unverified, OpenPgpSigner::default()));
    };
    let issuers = signature.issuers();
    let stated = OpenPgpSigner {
        primary_key_id: issuers.first().cloned(),
        ..OpenPgpSigner::default()
    };
    let candidates = gpg_key_ids::Entity::find()
        .find_also_related(gpg_keys::Entity)
        .and_also_related(users::Entity)
        .filter(gpg_key_ids::Column::KeyId.is_in(issuers))
        .filter(users::Column::DeletionStartedAt.is_null())
        .order_by_asc(gpg_key_ids::Column::Id)
        .limit(MAX_CANDIDATES)
        .all(backend.database.read())
        .await?;
    if candidates.is_empty() {
        return Ok((VerificationStatus::UnknownKey, stated));
    }
    // The algorithms need milliseconds for large keys.
    let verified = tokio::task::spawn_blocking(move || first_valid(candidates, &signature, &content));
    let Some(valid) = verified.await.map_err(Error::internal)? else {
        return Ok((VerificationStatus::Unverified, stated));
    };
    let email = fold(email);
    let status = status_of_openpgp(backend, &valid.owner, &valid.user_ids, &email).await?;
    let named = valid.user_ids.iter().find(|id| fold(&id.email) == email);
    let signer = OpenPgpSigner {
        gpg_key_id: Some(valid.row.id),
        primary_key_id: Some(valid.primary_key_id),
        subkey_id: valid.subkey_row,
        user_id: named.or(valid.user_ids.first()).cloned(),
    };
    Ok((status, signer))
}

/// Returns the first key that made a signature of a content.
fn first_valid(
    candidates: Vec<(gpg_key_ids::Model, Option<gpg_keys::Model>, Option<users::Model>)>,
    signature: &ContentSignature,
    content: &[u8],
) -> Option<ValidKey> {
    candidates.into_iter().find_map(|(key_id, row, owner)| {
        let (row, owner) = (row?, owner?);
        let key = PublicKey::parse(&row.key)?;
        let signed_by = key.verify(signature, content)?;
        Some(ValidKey {
            row,
            owner,
            primary_key_id: key.key_id(),
            user_ids: key.user_ids(),
            subkey_row: signed_by.is_subkey.then_some(key_id.id),
        })
    })
}

/// Returns the status of a valid signature by a key of this owner with these user IDs.
async fn status_of_openpgp(
    backend: &Backend,
    owner: &users::Model,
    user_ids: &[UserId],
    email: &str,
) -> Result<VerificationStatus> {
    let stated: Vec<String> = user_ids.iter().map(|id| fold(&id.email)).collect();
    let states_email = stated.iter().any(|stated| stated == email);
    if states_email && is_confirmed(backend, owner, email).await? {
        return Ok(VerificationStatus::Verified);
    }
    let secondary = user_emails::of_user(owner.id)
        .filter(user_emails::Column::ConfirmedAt.is_not_null())
        .all(backend.database.read())
        .await?;
    let primary = owner.confirmed_at.map(|_| owner.email_key.clone());
    let confirmed: Vec<String> = primary
        .into_iter()
        .chain(secondary.into_iter().map(|email| email.email_key))
        .collect();
    Ok(match stated.iter().any(|stated| confirmed.contains(stated)) {
        false => VerificationStatus::UnverifiedKey,
        true if confirmed.iter().any(|confirmed| confirmed == email) => {
            VerificationStatus::SameUserDifferentEmail
        }
        true => VerificationStatus::OtherUser,
    })
}
