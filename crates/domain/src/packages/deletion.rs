//! Deletes packages and their files. The objects of the files are deleted by a job.

use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder};
use storage::entities::package_files;
use storage::entities::packages::{self, PackageType};
use storage::jobs;

use super::access::check_access;
use super::jobs::collect_package_garbage::CollectPackageGarbage;
use super::protection::{self, PackageChange, ProtectedName};
use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions::check_unmodified_since;
use crate::kernel::query::{batch_of_children, delete_batch};
use crate::spaces::projects::lock_for_insert;

/// Number of packages of a deleted project that are deleted at a time.
const BATCH: u64 = 100;
/// Number of files of a deleted project that are deleted at a time. A package can have ten thousand files.
const FILE_BATCH: u64 = 1_000;

/// Deletes a package with all its files.
///
/// # Errors
/// Returns `Error::NotFound` if the project has no such package, and `Error::Forbidden` if the packages of the project
/// are disabled or a protection rule does not allow the deletion. Returns `Error::PreconditionFailed` if the package
/// was changed after `unmodified_since`.
pub async fn delete_package(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    check_access(access)?;
    backend
        .database
        .transaction(async |transaction| {
            let package = lock(transaction, access, id).await?;
            protection::check(
                transaction,
                access,
                ProtectedName::of(&package),
                PackageChange::Delete,
            )
            .await?;
            check_unmodified_since(unmodified_since, package.updated_at)?;
            remove_package(transaction, access, &package).await
        })
        .await
}

/// Deletes a file of a package. The package is deleted with its last file.
///
/// # Errors
/// As [`delete_package`], and `Error::NotFound` if the package has no such file.
pub async fn delete_file(
    backend: &Backend,
    access: &ProjectAccess,
    package_id: i64,
    file_id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    check_access(access)?;
    backend
        .database
        .transaction(async |transaction| {
            let package = lock(transaction, access, package_id).await?;
            protection::check(
                transaction,
                access,
                ProtectedName::of(&package),
                PackageChange::Delete,
            )
            .await?;
            let file = package_files::of_package(package.id)
                .filter(package_files::Column::Id.eq(file_id))
                .one(transaction)
                .await?
                .ok_or_else(|| Error::not_found(""))?;
            check_unmodified_since(unmodified_since, file.created_at)?;
            let event = AuditEvent::new(
                AuditKind::PackageFileDeleted,
                access.audit_entity(),
                file_target(&package, &file),
            );
            audit::record(transaction, &access.caller, event).await?;
            package_files::Entity::delete_by_id(file.id)
                .exec(transaction)
                .await?;
            if package_files::of_package(package.id).count(transaction).await? == 0 {
                return remove_package(transaction, access, &package).await;
            }
            enqueue_collection(transaction).await
        })
        .await
}

/// Locks a package against deletion and new files, after the project against changes of its protection rules.
async fn lock(transaction: &DatabaseTransaction, access: &ProjectAccess, id: i64) -> Result<packages::Model> {
    lock_for_insert(transaction, access.project.id).await?;
    let found = packages::lock(transaction, access.project.id, id).await?;
    found.ok_or_else(|| Error::not_found(""))
}

/// Deletes a package. The metadata of a Maven artifact is deleted with the last version, because it lists the version.
async fn remove_package(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
    package: &packages::Model,
) -> Result<()> {
    remove_row(transaction, access, package).await?;
    if package.package_type == PackageType::Maven && !package.version.is_empty() {
        let rest = packages::of_project(package.project_id)
            .filter(packages::Column::PackageType.eq(PackageType::Maven))
            .filter(packages::Column::LookupName.eq(package.lookup_name.as_str()))
            .order_by_desc(packages::Column::Version)
            .one(transaction)
            .await?;
        // No version is less than the empty one of the metadata.
        if let Some(metadata) = rest.filter(|rest| rest.version.is_empty()) {
            remove_row(transaction, access, &metadata).await?;
        }
    }
    enqueue_collection(transaction).await
}

async fn remove_row(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
    package: &packages::Model,
) -> Result<()> {
    let event = AuditEvent::new(
        AuditKind::PackageDeleted,
        access.audit_entity(),
        package_target(package),
    );
    audit::record(transaction, &access.caller, event).await?;
    packages::Entity::delete_by_id(package.id)
        .exec(transaction)
        .await?;
    Ok(())
}

/// Enqueues the job that deletes the objects of deleted files.
pub(super) async fn enqueue_collection(transaction: &DatabaseTransaction) -> Result<()> {
    jobs::enqueue(transaction, &CollectPackageGarbage {})
        .await
        .map_err(Error::internal)
}

/// Returns the name and the version of a package.
fn full_name(package: &packages::Model) -> String {
    match package.version.is_empty() {
        true => package.name.clone(),
        false => format!("{} {}", package.name, package.version),
    }
}

/// Returns a package as the object of an audit event.
pub(super) fn package_target(package: &packages::Model) -> AuditTarget {
    AuditTarget::new("Package", package.id, full_name(package))
}

/// Returns a file of a package as the object of an audit event.
pub(super) fn file_target(package: &packages::Model, file: &package_files::Model) -> AuditTarget {
    let text = format!("{}: {}", full_name(package), file.file_name);
    AuditTarget::new("PackageFile", file.id, text)
}

/// Deletes all packages of a project that is being deleted, so that the deletion of its row does not cascade to them.
/// Their objects are then garbage.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn delete_all(backend: &Backend, project_id: i64) -> Result<()> {
    loop {
        let column = ("packages", "project_id");
        let ids = batch_of_children(&backend.database, column, &[project_id], BATCH).await?;
        if ids.is_empty() {
            return Ok(());
        }
        delete_files(backend, &ids).await?;
        delete_rows(backend, "packages", &ids).await?;
    }
}

/// Deletes the files of packages, so that the deletion of the packages does not cascade to many rows at a time.
async fn delete_files(backend: &Backend, package_ids: &[i64]) -> Result<()> {
    loop {
        let column = ("package_files", "package_id");
        let ids = batch_of_children(&backend.database, column, package_ids, FILE_BATCH).await?;
        if ids.is_empty() {
            return Ok(());
        }
        delete_rows(backend, "package_files", &ids).await?;
    }
}

async fn delete_rows(backend: &Backend, table: &'static str, ids: &[i64]) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            delete_batch(transaction, table, ids).await?;
            enqueue_collection(transaction).await
        })
        .await
}
