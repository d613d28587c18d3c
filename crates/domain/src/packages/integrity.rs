//! Compares the rows of package files with the object storage, for `doctor`.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::{package_blobs, package_files};

use super::content::FOLDER;
use crate::integrations::object_storage::UnknownObjects;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::query::batch_after;

/// Number of rows that are read at a time.
const BATCH: u64 = 200;

/// Result of a check of all package files.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PackageFindings {
    /// Number of files.
    pub files: u64,
    /// Problems, one line each.
    pub problems: Vec<String>,
}

/// Checks all files. Objects are located and measured, not read.
///
/// # Errors
/// Returns an error if the database or the storage cannot be read.
pub async fn check(backend: &Backend) -> Result<PackageFindings> {
    let mut unknown = UnknownObjects::read(&backend.objects, FOLDER).await?;
    let (mut findings, mut after) = (PackageFindings::default(), 0);
    loop {
        let db = backend.database.read();
        let blobs = package_blobs::Entity::find();
        let blobs = batch_after(db, blobs, package_blobs::Column::Id, after, BATCH).await?;
        let Some(last) = blobs.last() else { break };
        after = last.id;
        for blob in &blobs {
            unknown.remove(&blob.key);
        }
    }
    after = 0;
    loop {
        let db = backend.database.read();
        let files = package_files::Entity::find()
            .find_also_related(package_blobs::Entity)
            .filter(package_files::Column::Id.gt(after))
            .order_by_asc(package_files::Column::Id)
            .limit(BATCH)
            .all(db)
            .await?;
        let Some((last, _)) = files.last() else { break };
        after = last.id;
        for (file, blob) in files {
            findings.files += 1;
            let size = match &blob {
                Some(blob) => backend.objects.size(&blob.key).await?,
                None => None,
            };
            let is_complete = size.and_then(|size| i64::try_from(size).ok()) == Some(file.size);
            // A file can be deleted concurrently.
            let exists = package_files::Entity::find_by_id(file.id);
            if !is_complete && exists.one(db).await?.is_some() {
                findings.problems.push(format!(
                    "package file {} of the package {}: its object is missing or has the wrong length",
                    file.id, file.package_id
                ));
            }
        }
    }
    let unknown = unknown.existing(&backend.objects).await?;
    let problems = unknown
        .iter()
        .map(|key| format!("object {key}: it belongs to no package file"));
    findings.problems.extend(problems);
    Ok(findings)
}
