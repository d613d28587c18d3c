//! Deletes the objects of deleted files and of abandoned uploads.

use chrono::TimeDelta;
use sea_orm::EntityTrait;
use storage::entities::now;
use storage::entities::package_blobs::{self, Entity, Model};

use crate::integrations::object_storage::SweepProgress;
use crate::kernel::Backend;
use crate::kernel::error::Result;

/// Age from which an upload is abandoned; longer than any upload.
const ABANDONED_AFTER: TimeDelta = TimeDelta::hours(24);
/// Number of objects that are read at a time.
const BATCH: u64 = 500;

/// Deletes all garbage and returns the number of objects. An object that cannot be deleted remains for the next sweep.
///
/// # Errors
/// Returns an error if a database query fails, or if an object could not be deleted.
pub async fn sweep(backend: &Backend) -> Result<u64> {
    let (mut progress, mut after) = (SweepProgress::new(), 0);
    loop {
        let db = backend.database.write();
        let garbage = package_blobs::garbage(db, now() - ABANDONED_AFTER, after, BATCH).await?;
        let Some(last) = garbage.last() else {
            return progress.finish();
        };
        after = last.id;
        for blob in garbage {
            // An upload that is still in progress fails then.
            if blob.attached_at.is_none() && !package_blobs::attach(db, blob.id, None).await? {
                continue;
            }
            if !progress.record(remove(backend, &blob).await) {
                return progress.finish();
            }
        }
    }
}

/// Deletes a condemned object, and then its row: a row without an object is found again.
pub(super) async fn remove(backend: &Backend, blob: &Model) -> Result<()> {
    backend.objects.discard(&blob.key).await?;
    Entity::delete_by_id(blob.id)
        .exec(backend.database.write())
        .await?;
    Ok(())
}
