//! Deprecation of versions.

use std::collections::HashMap;

use parsers::npm::{Deprecation, NpmName};
use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter,
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
use crate::packages::deletion::package_target;
use crate::packages::protection::{self, PackageChange};
use crate::spaces::projects::lock_for_insert;

/// Maximum number of rows of one statement, because databases limit the number of parameters.
const MAX_ROWS: usize = 4_000;

/// Changes the deprecation of versions. Versions that do not exist are ignored.
///
/// # Errors
/// Returns `NotFound` if no version of the package exists, and `Forbidden` if a protection rule does not allow uploads.
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
    let changed = async |transaction: &DatabaseTransaction| {
        lock_for_insert(transaction, access.project.id).await?;
        protection::check(transaction, access, protected(name), PackageChange::Push).await?;
        let versions = packages::of_project(access.project.id)
            .filter(packages::Column::PackageType.eq(PackageType::Npm))
            .filter(packages::Column::LookupName.eq(name.as_str()))
            .filter(packages::Column::Status.eq(PackageStatus::Default))
            .all(transaction)
            .await?;
        if versions.is_empty() {
            return Err(Error::not_found("Package"));
        }
        let versions = versions
            .into_iter()
            .filter(|version| messages.contains_key(&version.version));
        apply(transaction, access, versions.collect(), &messages).await
    };
    Ok(NpmChange {
        name: name.to_string(),
        versions: backend.database.transaction(changed).await?,
    })
}

/// Stores the messages that differ from the stored ones. Returns their versions.
async fn apply(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
    versions: Vec<packages::Model>,
    messages: &HashMap<String, Option<String>>,
) -> Result<Vec<String>> {
    let documents = documents(transaction, &versions).await?;
    let (mut rows, mut events, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    for version in &versions {
        let (Some(text), Some(message)) = (documents.get(&version.id), messages.get(&version.version)) else {
            continue;
        };
        let mut document = StoredManifest::parse(text)?;
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
    for rows in rows.chunks(MAX_ROWS) {
        let replaced = OnConflict::column(package_metadata::Column::PackageId)
            .update_column(package_metadata::Column::Content)
            .to_owned();
        package_metadata::Entity::insert_many(rows.to_vec())
            .on_conflict(replaced)
            .exec_without_returning(transaction)
            .await?;
    }
    if !changed.is_empty() {
        packages::Entity::update_many()
            .col_expr(packages::Column::UpdatedAt, Expr::value(now()))
            .filter(is_among(
                transaction.get_database_backend(),
                packages::Column::Id.into_expr(),
                changed.iter().map(|version| version.id),
            ))
            .exec(transaction)
            .await?;
    }
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
