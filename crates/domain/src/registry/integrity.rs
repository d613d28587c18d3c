//! Compares the rows of blobs with the object storage, for `doctor`.

use sea_orm::EntityTrait;
use storage::entities::{registry_blobs, registry_pieces};

use crate::integrations::object_storage::UnknownObjects;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::query::batch_after;
use crate::registry::upload_stream::FOLDER;

/// Number of blobs that are read at a time.
const BATCH: u64 = 200;

/// Result of a check of all blobs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BlobFindings {
    /// Number of blobs.
    pub blobs: u64,
    /// Problems, one line each.
    pub problems: Vec<String>,
}

/// Checks all blobs. Objects are located and measured, not read.
///
/// # Errors
/// Returns an error if the database or the storage cannot be read.
pub async fn check(backend: &Backend) -> Result<BlobFindings> {
    let mut unknown = UnknownObjects::read(&backend.objects, FOLDER).await?;
    let mut findings = check_blobs(backend).await?;
    let mut after = 0;
    loop {
        let db = backend.database.read();
        let pieces = registry_pieces::Entity::find();
        let pieces = batch_after(db, pieces, registry_pieces::Column::Id, after, BATCH).await?;
        let Some(last) = pieces.last() else { break };
        after = last.id;
        for piece in &pieces {
            unknown.remove(&piece.key);
        }
    }
    let unknown = unknown.existing(&backend.objects).await?;
    let problems = unknown
        .iter()
        .map(|key| format!("object {key}: it belongs to no blob"));
    findings.problems.extend(problems);
    Ok(findings)
}

async fn check_blobs(backend: &Backend) -> Result<BlobFindings> {
    let (mut findings, mut after) = (BlobFindings::default(), 0);
    loop {
        let db = backend.database.read();
        let blobs = registry_blobs::Entity::find();
        let blobs = batch_after(db, blobs, registry_blobs::Column::Id, after, BATCH).await?;
        let Some(last) = blobs.last() else {
            return Ok(findings);
        };
        after = last.id;
        for blob in blobs {
            findings.blobs += 1;
            // A blob can be deleted concurrently.
            if let Some(problem) = check_blob(backend, &blob).await?
                && registry_blobs::Entity::find_by_id(blob.id)
                    .one(db)
                    .await?
                    .is_some()
            {
                findings.problems.push(format!("blob {}: {problem}", blob.digest));
            }
        }
    }
}

async fn check_blob(backend: &Backend, blob: &registry_blobs::Model) -> Result<Option<String>> {
    let mut end = 0;
    for piece in registry_pieces::of_blob(backend.database.read(), blob.id).await? {
        let size = backend.objects.size(&piece.key).await?;
        if size.and_then(|size| i64::try_from(size).ok()) != Some(piece.size) || piece.start != end {
            return Ok(Some(format!(
                "the object {} is missing or has the wrong length",
                piece.key
            )));
        }
        end += piece.size;
    }
    Ok((end != blob.size).then(|| format!("only {end} of {} bytes exist", blob.size)))
}
