//! Lookups of SSH keys and deploy keys, for administrators.

use chrono::{DateTime, Utc};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};
use storage::entities::user_keys::KeyUsage;
use storage::entities::{deploy_keys, project_deploy_keys, user_keys, users};

use crate::accounts::users::listing::{UserProfile, full_profile};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::public_keys::ssh::is_sha256_fingerprint;

/// An SSH key of a user, or a deploy key.
#[derive(Debug, Clone)]
pub struct FoundKey {
    /// The ID among the keys of its kind.
    pub id: i64,
    /// The title.
    pub title: String,
    /// The public key in OpenSSH format.
    pub key: String,
    /// When it was added.
    pub created_at: DateTime<Utc>,
    /// When the key expires. Deploy keys never expire.
    pub expires_at: Option<DateTime<Utc>>,
    /// The permitted use.
    pub usage_type: KeyUsage,
    /// The user; `None` for a deploy key.
    pub user: Option<UserProfile>,
    /// The projects of a deploy key, oldest first.
    pub projects: Vec<project_deploy_keys::Model>,
}

/// Returns an SSH key of any user.
///
/// # Errors
/// Returns `NotFound` if it does not exist.
pub async fn get(backend: &Backend, id: i64) -> Result<FoundKey> {
    let keys = user_keys::Entity::find_by_id(id);
    let found = users::find_with_user(backend.database.read(), keys).await?;
    let (key, user) = found.ok_or_else(not_found)?;
    of_user(backend, key, user).await
}

/// Returns the SSH key or deploy key with a SHA-256 fingerprint in the format of OpenSSH.
///
/// # Errors
/// Returns `Rejected` if the text is not a fingerprint. Returns `NotFound` if no key has it.
pub async fn find(backend: &Backend, fingerprint: &str) -> Result<FoundKey> {
    if !is_sha256_fingerprint(fingerprint) {
        return Err(Error::Rejected(
            "Failed to return the key: fingerprint must be a SHA-256 fingerprint in the form 'SHA256:<Base64>'".into(),
        ));
    }
    let db = backend.database.read();
    let keys = user_keys::Entity::find().filter(user_keys::Column::Fingerprint.eq(fingerprint));
    if let Some((key, user)) = users::find_with_user(db, keys).await? {
        return of_user(backend, key, user).await;
    }
    let key = deploy_keys::Entity::find()
        .filter(deploy_keys::Column::Fingerprint.eq(fingerprint))
        .one(db)
        .await?
        .ok_or_else(not_found)?;
    let projects = project_deploy_keys::Entity::find()
        .filter(project_deploy_keys::Column::DeployKeyId.eq(key.id))
        .order_by_asc(project_deploy_keys::Column::Id)
        .all(db)
        .await?;
    Ok(FoundKey {
        id: key.id,
        title: key.title,
        key: key.key,
        created_at: key.created_at,
        expires_at: None,
        usage_type: KeyUsage::AuthAndSigning,
        user: None,
        projects,
    })
}

async fn of_user(backend: &Backend, key: user_keys::Model, user: users::Model) -> Result<FoundKey> {
    Ok(FoundKey {
        id: key.id,
        title: key.title,
        key: key.key,
        created_at: key.created_at,
        expires_at: key.expires_at,
        usage_type: key.usage_type,
        user: Some(full_profile(backend, user).await?),
        projects: Vec::new(),
    })
}

fn not_found() -> Error {
    Error::not_found("Key")
}
