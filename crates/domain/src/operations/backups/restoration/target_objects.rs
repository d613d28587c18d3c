//! The objects that a restore writes into the object storage.

use std::fs::File;
use std::io::{self, Seek};
use std::path::Path;
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::{CONCURRENCY, Plan};
use crate::integrations::object_storage::ObjectStorage;
use crate::kernel::error::Result;
use crate::operations::backups::file_store::FileStore;
use crate::operations::backups::manifest::ObjectEntry;
use crate::operations::backups::{BackupEvent, Reporter, blocking, damaged};

/// Restores the objects of a plan.
pub(super) async fn restore_objects(
    plan: &Plan,
    data_dir: &Path,
    url: Option<&str>,
    report: Reporter<'_>,
) -> Result<()> {
    let storage = ObjectStorage::open(url, data_dir)?;
    let (mut done, total) = (0, plan.objects.len() as u64);
    let mut restored = stream::iter(plan.objects.values())
        .map(|entry| restore_object(&plan.store, &storage, entry))
        .buffer_unordered(CONCURRENCY);
    while let Some(outcome) = restored.next().await {
        outcome?;
        done += 1;
        report(BackupEvent::Objects { done, total });
    }
    Ok(())
}

async fn restore_object(store: &Arc<FileStore>, storage: &ObjectStorage, entry: &ObjectEntry) -> Result<()> {
    let (store, spool, file) = (Arc::clone(store), storage.clone(), entry.file);
    // Read completely before it is stored, because its end decides whether it is sound.
    let spooled = blocking(move || {
        let copy = || -> io::Result<File> {
            let mut spooled = spool.spool()?;
            io::copy(&mut store.read(file)?, &mut spooled)?;
            spooled.rewind()?;
            Ok(spooled)
        };
        copy().map_err(|error| damaged("object", error))
    })
    .await?;
    Ok(storage
        .put(&entry.key, tokio::fs::File::from_std(spooled))
        .await?)
}
