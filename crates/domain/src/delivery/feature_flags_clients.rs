//! Clients of feature flags: SDKs that evaluate the flags of a project, with the Unleash protocol. They authenticate
//! with the instance ID of the project. It is compared by its digest, and stored encrypted, because it can be read
//! again.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, IntoActiveModel};
use storage::entities::feature_flags_clients::{self as clients, ActiveModel, Model};
use storage::entities::projects::FeatureAccess;
use storage::entities::{feature_flags, now, projects};

use super::feature_flags::{FlagDetail, details};
use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ProjectAccess;
use crate::identity::project_features::FEATURE_FLAGS_DISABLED;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::secrets::{self, EncryptedColumn, EncryptionContext, Secret, Token, constant_time_eq};
use crate::spaces::projects::lock_for_insert;

/// Prefix of instance IDs, which secret scanners recognize.
const PREFIX: &str = "hfffc-";

/// Returns the instance ID of a project. Creates it if the project has none.
///
/// # Errors
/// Returns `Forbidden` if the feature flags are not available to the caller, and `NotFound` if the project was deleted.
pub async fn instance_id(backend: &Backend, access: &ProjectAccess) -> Result<Secret<String>> {
    access.check_feature_flags()?;
    let found = clients::of_project(access.project.id);
    let found = match found.one(backend.database.read()).await? {
        Some(found) => found,
        None => {
            backend
                .database
                .transaction(async |transaction| match lock(transaction, access).await? {
                    Some(created_meanwhile) => Ok(created_meanwhile),
                    None => insert(backend, transaction, access).await,
                })
                .await?
        }
    };
    decrypted(backend, &found)
}

/// Replaces the instance ID of a project and returns the new one.
///
/// # Errors
/// Fails like [`instance_id`].
pub async fn reset_instance_id(backend: &Backend, access: &ProjectAccess) -> Result<Secret<String>> {
    access.check_feature_flags()?;
    let replaced = backend
        .database
        .transaction(async |transaction| {
            let replaced = match lock(transaction, access).await? {
                Some(former) => {
                    let mut row = former.into_active_model();
                    set_instance_id(backend, transaction, &mut row).await?;
                    row.update(transaction).await?
                }
                None => insert(backend, transaction, access).await?,
            };
            let target = AuditTarget::new("FeatureFlagsClient", replaced.id, access.project.path.clone());
            let kind = AuditKind::FeatureFlagsInstanceIdReset;
            let event = AuditEvent::new(kind, access.audit_entity(), target);
            audit::record(transaction, &access.caller, event).await?;
            Ok::<_, Error>(replaced)
        })
        .await?;
    decrypted(backend, &replaced)
}

fn decrypted(backend: &Backend, client: &Model) -> Result<Secret<String>> {
    let context = context(&client.digest);
    Ok(backend.keyring.decrypt(&client.instance_id_encrypted, &context)?)
}

/// Locks the project and returns its row, if it has one.
async fn lock(transaction: &DatabaseTransaction, access: &ProjectAccess) -> Result<Option<Model>> {
    lock_for_insert(transaction, access.project.id).await?;
    Ok(clients::of_project(access.project.id).one(transaction).await?)
}

async fn insert(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
) -> Result<Model> {
    let mut row = ActiveModel {
        project_id: Set(access.project.id),
        created_at: Set(now()),
        ..Default::default()
    };
    set_instance_id(backend, transaction, &mut row).await?;
    Ok(row.insert(transaction).await?)
}

async fn set_instance_id(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    row: &mut ActiveModel,
) -> Result<()> {
    let token = Token::generate(PREFIX);
    let digest = token.digest();
    let encryptor = backend.keyring.encryptor(transaction).await?;
    row.instance_id_encrypted = Set(encryptor.encrypt(token.expose(), &context(&digest))?);
    row.digest = Set(digest);
    row.updated_at = Set(now());
    Ok(())
}

/// Checks the instance ID of a client. The project is given by its ID or full path. Returns the ID of the project.
///
/// # Errors
/// Returns `Unauthorized` if the instance ID is absent or wrong, or if the project does not exist. Returns `Forbidden`
/// if the feature flags are disabled.
pub async fn check(backend: &Backend, project: &str, instance_id: Option<&str>) -> Result<i64> {
    let sent = instance_id.ok_or(Error::Unauthorized)?;
    let db = backend.database.read();
    let (project, _) = projects::by_reference(db, project)
        .await?
        .ok_or(Error::Unauthorized)?;
    let client = clients::of_project(project.id).one(db).await?;
    let client = client.ok_or(Error::Unauthorized)?;
    if !constant_time_eq(&secrets::digest(sent), &client.digest) {
        return Err(Error::Unauthorized);
    }
    match project.feature_flags_access_level {
        FeatureAccess::Disabled => Err(Error::forbidden_because(FEATURE_FLAGS_DISABLED)),
        FeatureAccess::Private | FeatureAccess::Enabled => Ok(project.id),
    }
}

/// Returns the flags of a project that apply to an environment, oldest first, with only the strategies that apply to
/// it.
///
/// # Errors
/// Returns `Overloaded` if too little memory is left for the strategies.
pub async fn features(
    backend: &Backend,
    caller: &Caller,
    project_id: i64,
    environment: &str,
) -> Result<Vec<FlagDetail>> {
    let db = backend.database.read();
    let flags = feature_flags::of_project(project_id).all(db).await?;
    let mut found = details(db, caller, flags, Some(environment)).await?;
    // Clients would turn on a flag without strategies for everyone.
    found.retain(|detail| !detail.strategies.is_empty());
    Ok(found)
}

/// Returns the context that an encrypted instance ID is bound to.
fn context(digest: &str) -> EncryptionContext {
    EncryptedColumn::FeatureFlagsInstanceId.context(&[&digest])
}
