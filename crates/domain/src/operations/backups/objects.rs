//! Copies of the objects of the object storage.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio_util::io::SyncIoBridge;

use super::file_store::FileStore;
use super::manifest::ObjectEntry;
use super::{BackupEvent, Reporter, blocking};
use crate::integrations::object_storage::{ObjectInfo, ObjectStorage};
use crate::kernel::error::{Error, Result};

/// Objects that are copied at a time.
const CONCURRENCY: usize = 8;

/// The result of copying objects.
#[derive(Debug, Default)]
pub(super) struct ObjectCopiesByKey {
    pub(super) entries: BTreeMap<String, ObjectEntry>,
}

/// Copies all objects. Objects of an earlier copy are not read again. An object that is deleted meanwhile is omitted.
///
/// # Errors
/// Returns an error if the storage cannot be read or the backup cannot be written.
pub(super) async fn copy(
    storage: &ObjectStorage,
    store: &Arc<FileStore>,
    earlier: &BTreeMap<String, ObjectEntry>,
    report: Reporter<'_>,
) -> Result<ObjectCopiesByKey> {
    let listed: Vec<ObjectInfo> = storage.list().try_collect().await?;
    let known = listed
        .iter()
        .map(|object| earlier.get(&object.key).cloned())
        .collect();
    let (mut entries, changed) = compare(Arc::clone(store), listed, known).await?;
    let total = changed.len() as u64;
    let mut copied = stream::iter(changed)
        .map(|object| copy_one(storage, store, object))
        .buffer_unordered(CONCURRENCY);
    let mut done = 0;
    while let Some(entry) = copied.next().await {
        done += 1;
        report(BackupEvent::Objects { done, total });
        if let Some(entry) = entry? {
            entries.insert(entry.key.clone(), entry);
        }
    }
    Ok(ObjectCopiesByKey { entries })
}

/// Divides objects into those that the store has, and those that must be copied.
async fn compare(
    store: Arc<FileStore>,
    listed: Vec<ObjectInfo>,
    known: Vec<Option<ObjectEntry>>,
) -> Result<(BTreeMap<String, ObjectEntry>, Vec<ObjectInfo>)> {
    blocking(move || {
        let (mut unchanged, mut changed) = (BTreeMap::new(), Vec::new());
        for (object, known) in listed.into_iter().zip(known) {
            let is_same = |known: &ObjectEntry| {
                known.version == object.version
                    && known.file.size == object.size
                    // An object that was lost from the store is stored again.
                    && store.contains(known.file)
            };
            match known.filter(is_same) {
                Some(known) => {
                    unchanged.insert(object.key, known);
                }
                None => changed.push(object),
            }
        }
        Ok((unchanged, changed))
    })
    .await
}

async fn copy_one(
    storage: &ObjectStorage,
    store: &Arc<FileStore>,
    object: ObjectInfo,
) -> Result<Option<ObjectEntry>> {
    let reader = match storage.reader(&object.key).await {
        Err(error) if error.is_not_found() => return Ok(None),
        reader => reader?,
    };
    let store = Arc::clone(store);
    let mut reader = SyncIoBridge::new(reader);
    let file = blocking(move || store.add(&mut reader).map_err(Error::internal)).await?;
    Ok(Some(ObjectEntry {
        key: object.key,
        version: object.version,
        file,
    }))
}
