//! The objects that a restore writes into the object storage.

use std::fs::File;
use std::future::ready;
use std::io::{self, Seek};
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::{CONCURRENCY, Plan, RestoreOptions};
use crate::integrations::object_storage::ObjectStorage;
use crate::kernel::error::Result;
use crate::operations::backups::file_store::FileStore;
use crate::operations::backups::manifest::{BackupManifest, ObjectEntry};
use crate::operations::backups::{BackupEvent, Reporter, blocking, damaged, rejected};
use crate::operations::instance_identity::UnfinishedRestore;

/// Refuses an object storage outside of the data directory that is not empty, unless it belongs to the interrupted
/// restore or its objects are replaced. Writes nothing.
///
/// # Errors
/// Returns `Error::Rejected` if the storage has objects or belongs to another instance, and an error if the storage
/// fails.
pub(super) async fn check_objects(
    options: &RestoreOptions,
    manifest: &BackupManifest,
    earlier: Option<&UnfinishedRestore>,
) -> Result<()> {
    // Objects in the data directory are new, because the data directory is empty.
    let Some(url) = options.object_store_url.as_deref() else {
        return Ok(());
    };
    let Some(storage) = ObjectStorage::open_existing(url)? else {
        return Ok(());
    };
    if options.replace_objects {
        return Ok(());
    }
    let problem = match (storage.instance_id().await?, earlier) {
        (Some(found), Some(earlier)) if found == earlier.instance_id => return Ok(()),
        (Some(found), _) => format!("belongs to the instance {found}"),
        (None, _) => match storage.list().try_next().await? {
            None => return Ok(()),
            Some(_) => "is not empty".to_owned(),
        },
    };
    let effect = match manifest.object_count() {
        Some(_) => "which deletes its objects",
        None => "which changes none of its objects, because the backup excludes them",
    };
    Err(rejected(format!(
        "the object storage {problem}; set --object-store-url to an empty directory or bucket, or, if the restored \
         instance replaces the instance of this storage, add --replace-objects, {effect}"
    )))
}

/// Restores the objects of a plan, and names the instance of an object storage outside of the data directory. Deletes
/// the objects that the backup lacks, unless it excludes the objects.
pub(super) async fn restore_objects(
    plan: &Plan,
    options: &RestoreOptions,
    instance_id: &str,
    report: Reporter<'_>,
) -> Result<()> {
    let url = options.object_store_url.as_deref();
    let storage = ObjectStorage::open(url, &options.data_dir)?;
    // Before the first object, so that another attempt recognizes the objects as its own.
    if url.is_some() {
        storage.set_instance_id(instance_id).await?;
    }
    let (mut done, total) = (0, plan.objects.len() as u64);
    let mut restored = stream::iter(plan.objects.values())
        .map(|entry| restore_object(&plan.store, &storage, entry))
        .buffer_unordered(CONCURRENCY);
    while let Some(outcome) = restored.next().await {
        outcome?;
        done += 1;
        report(BackupEvent::Objects { done, total });
    }
    match plan.manifest.object_count() {
        Some(_) => delete_other_objects(plan, &storage).await,
        None => Ok(()),
    }
}

async fn delete_other_objects(plan: &Plan, storage: &ObjectStorage) -> Result<()> {
    let others: Vec<String> = storage
        .list()
        .try_filter(|object| ready(!plan.objects.contains_key(&object.key)))
        .map_ok(|object| object.key)
        .try_collect()
        .await?;
    let mut deleted = stream::iter(&others)
        .map(|key| storage.delete(key))
        .buffer_unordered(CONCURRENCY);
    while let Some(outcome) = deleted.next().await {
        outcome?;
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
