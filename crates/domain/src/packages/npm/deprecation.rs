//! Deprecation of versions.

use std::collections::HashMap;

use parsers::npm::{Deprecation, NpmName};
use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder,
};
use storage::entities::packages::{self, PackageStatus, PackageType};
use storage::entities::row_conditions::is_among;
use storage::entities::{now, package_metadata};

use super::manifest::StoredManifest;
use super::protected;
use super::publishing::NpmChange;
use crate::audit::{self, AuditEvent, AuditKind};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::packages::client_lists::{self, PackageScope};
use crate::packages::deletion::package_target;
use crate::packages::protection::{self, PackageChange};
use crate::spaces::projects::lock_for_insert;

/// Maximum number of versions whose documents are in memory at the same time.
const BATCH: usize = 100;
/// Factor between the size of a batch of documents and its memory: the documents are in the rows that were read, in the
/// changed texts, and in the parameters and the message of the statement that stores them.
const MEMORY_FACTOR: u64 = 4;

/// Changes the deprecation of versions. Versions that do not exist are ignored.
///
/// # Errors
/// Returns `NotFound` if no version of the package exists, and `Forbidden` if a protection rule does not allow uploads.
/// Returns `Overloaded` if too little memory is left.
pub(super) async fn change(
    backend: &Backend,
    access: &ProjectAccess,
    name: &NpmName,
    changes: Vec<Deprecation>,
) -> Result<NpmChange> {
    let messages: HashMap<String, Option<String>> = changes
        .into_iter()
        .map(|change| (change.version.as_str().to_owned(), change.message))
        .collect();
    // Before the transaction, so that a request without memory does not lock the project.
    let memory = batch_memory(backend, access, name, &messages).await?;
    access.caller.reserve_memory(memory)?;
    let work = async |transaction: &DatabaseTransaction| {
        lock_for_insert(transaction, access.project.id).await?;
        protection::check(transaction, access, protected(name), PackageChange::Push).await?;
        let versions = packages::of_project(access.project.id)
            .filter(packages::Column::PackageType.eq(PackageType::Npm))
            .filter(packages::Column::LookupName.eq(name.as_str()))
            .filter(packages::Column::Status.eq(PackageStatus::Default))
            .order_by_asc(packages::Column::Id)
            .all(transaction)
            .await?;
        if versions.is_empty() {
            return Err(Error::not_found("Package"));
        }
        let versions: Vec<_> = versions
            .into_iter()
            .filter(|version| messages.contains_key(&version.version))
            .collect();
        let mut changed = Vec::new();
        for batch in versions.chunks(BATCH) {
            changed.extend(apply(transaction, access, batch, &messages).await?);
        }
        Ok::<_, Error>(changed)
    };
    let versions = backend.database.transaction(work).await?;
    access.caller.release_memory(memory);
    Ok(NpmChange {
        name: name.to_string(),
        versions,
    })
}

/// Returns the memory for the largest possible batch of documents.
async fn batch_memory(
    backend: &Backend,
    access: &ProjectAccess,
    name: &NpmName,
    messages: &HashMap<String, Option<String>>,
) -> Result<u64> {
    let scope = PackageScope::Project(access);
    let found = client_lists::versions(backend, &scope, PackageType::Npm, name.as_str()).await?;
    let mut sizes: Vec<u64> = found
        .into_iter()
        .filter_map(|listed| {
            let message = messages.get(&listed.version)?.as_ref();
            let added = message.map_or(0, |text| text.len() as u64);
            Some(listed.document_bytes.saturating_add(added))
        })
        .collect();
    // The versions can change until the transaction starts, and so the batches.
    sizes.sort_unstable();
    let largest = sizes.into_iter().rev().take(BATCH).fold(0, u64::saturating_add);
    Ok(largest.saturating_mul(MEMORY_FACTOR))
}

/// Stores the messages of a batch of versions that differ from the stored ones. Returns their versions.
async fn apply(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
    versions: &[packages::Model],
    messages: &HashMap<String, Option<String>>,
) -> Result<Vec<String>> {
    let mut documents = documents(transaction, versions).await?;
    let (mut rows, mut events, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    for version in versions {
        let (Some(text), Some(message)) = (documents.remove(&version.id), messages.get(&version.version))
        else {
            continue;
        };
        let mut document = StoredManifest::parse(&text)?;
        if document.deprecated == *message {
            continue;
        }
        let former = std::mem::replace(&mut document.deprecated, message.clone());
        rows.push(package_metadata::ActiveModel {
            package_id: Set(version.id),
            content: Set(document.to_text()?),
            ..Default::default()
        });
        events.push(
            AuditEvent::new(
                AuditKind::PackageDeprecationChanged,
                access.audit_entity(),
                package_target(version),
            )
            .from(former.unwrap_or_default())
            .to(message.as_deref().unwrap_or_default()),
        );
        changed.push(version);
    }
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let replaced = OnConflict::column(package_metadata::Column::PackageId)
        .update_column(package_metadata::Column::Content)
        .to_owned();
    package_metadata::Entity::insert_many(rows)
        .on_conflict(replaced)
        .exec_without_returning(transaction)
        .await?;
    packages::Entity::update_many()
        .col_expr(packages::Column::UpdatedAt, Expr::value(now()))
        .filter(is_among(
            transaction.get_database_backend(),
            packages::Column::Id.into_expr(),
            changed.iter().map(|version| version.id),
        ))
        .exec(transaction)
        .await?;
    audit::record_all(transaction, &access.caller, events).await?;
    Ok(changed
        .into_iter()
        .map(|version| version.version.clone())
        .collect())
}

/// Returns the documents about versions by the ID of the version.
async fn documents(
    transaction: &DatabaseTransaction,
    versions: &[packages::Model],
) -> Result<HashMap<i64, String>> {
    let ids = versions.iter().map(|version| version.id);
    let found = package_metadata::Entity::find()
        .filter(is_among(
            transaction.get_database_backend(),
            package_metadata::Column::PackageId.into_expr(),
            ids,
        ))
        .all(transaction)
        .await?;
    Ok(found
        .into_iter()
        .map(|row| (row.package_id, row.content))
        .collect())
}
