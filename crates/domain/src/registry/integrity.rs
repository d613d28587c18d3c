//! Compares the rows of blobs with the object storage, for `doctor`.

use std::collections::HashSet;

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::{registry_blobs, registry_pieces};

use crate::kernel::Backend;
use crate::kernel::error::Result;
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
    // Before the rows: an object that is written concurrently has its row already.
    let mut unknown: HashSet<String> = backend.objects.keys(Some(FOLDER)).await?.into_iter().collect();
    let mut findings = check_blobs(backend).await?;
    let mut after = 0;
    loop {
        let pieces: Vec<(i64, String)> = registry_pieces::Entity::find()
            .select_only()
            .column(registry_pieces::Column::Id)
            .column(registry_pieces::Column::Key)
            .filter(registry_pieces::Column::Id.gt(after))
            .order_by_asc(registry_pieces::Column::Id)
            .limit(BATCH)
            .into_tuple()
            .all(backend.database.read())
            .await?;
        let Some((last, _)) = pieces.last() else { break };
        after = *last;
        for (_, key) in &pieces {
            unknown.remove(key);
        }
    }
    let mut unknown: Vec<String> = unknown.into_iter().collect();
    unknown.sort_unstable();
    for key in unknown {
        // An object that was deleted concurrently is not a problem.
        if backend.objects.size(&key).await?.is_some() {
            findings
                .problems
                .push(format!("object {key}: it belongs to no blob"));
        }
    }
    Ok(findings)
}

async fn check_blobs(backend: &Backend) -> Result<BlobFindings> {
    let (mut findings, mut after) = (BlobFindings::default(), 0);
    loop {
        let blobs = registry_blobs::Entity::find()
            .filter(registry_blobs::Column::Id.gt(after))
            .order_by_asc(registry_blobs::Column::Id)
            .limit(BATCH)
            .all(backend.database.read())
            .await?;
        let Some(last) = blobs.last() else {
            return Ok(findings);
        };
        after = last.id;
        for blob in blobs {
            findings.blobs += 1;
            if let Some(problem) = check_blob(backend, &blob).await? {
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
