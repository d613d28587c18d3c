//! Copies of the objects of the object storage.

use std::collections::BTreeMap;
use std::io::{self, Read};
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
    /// Why objects cannot be read. The texts contain no keys.
    pub(super) failures: BTreeMap<String, String>,
}

/// The result of copying one object.
enum Outcome {
    Copied(ObjectEntry),
    Missing,
    /// The object cannot be read.
    Failed(String),
}

/// Copies all objects. Objects of an earlier copy are not read again. An object that is deleted meanwhile is omitted.
///
/// # Errors
/// Returns an error if the storage cannot be listed or the backup cannot be written. An object that cannot be read is a
/// failure in the result.
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
    let (entries, changed) = compare(Arc::clone(store), listed, known).await?;
    let total = changed.len() as u64;
    let mut copies = ObjectCopiesByKey {
        entries,
        ..ObjectCopiesByKey::default()
    };
    let mut copied = stream::iter(changed)
        .map(|object| async move { (object.key.clone(), copy_one(storage, store, object).await) })
        .buffer_unordered(CONCURRENCY);
    let mut done = 0;
    while let Some((key, outcome)) = copied.next().await {
        done += 1;
        report(BackupEvent::Objects { done, total });
        match outcome? {
            Outcome::Copied(entry) => {
                copies.entries.insert(key, entry);
            }
            Outcome::Missing => {}
            Outcome::Failed(cause) => {
                copies.failures.insert(key, cause);
            }
        }
    }
    Ok(copies)
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

async fn copy_one(storage: &ObjectStorage, store: &Arc<FileStore>, object: ObjectInfo) -> Result<Outcome> {
    let reader = match storage.reader(&object.key).await {
        Err(error) if error.is_not_found() => return Ok(Outcome::Missing),
        Err(error) => return Ok(Outcome::Failed(cause(&error))),
        Ok(reader) => reader,
    };
    let store = Arc::clone(store);
    let mut source = SourceObject {
        reader: SyncIoBridge::new(reader),
        failure: None,
    };
    blocking(move || match (store.add(&mut source), source.failure) {
        (Ok(file), _) => Ok(Outcome::Copied(ObjectEntry {
            key: object.key,
            version: object.version,
            file,
        })),
        (Err(_), Some(failure)) => Ok(Outcome::Failed(failure)),
        (Err(error), None) => Err(Error::internal(error)),
    })
    .await
}

/// An object of the instance. Distinguishes errors of reading from those of writing.
struct SourceObject<R> {
    reader: R,
    failure: Option<String>,
}

impl<R: Read> Read for SourceObject<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer);
        if let Err(error) = &read
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.failure = Some(cause(error));
        }
        read
    }
}

/// Returns why an object cannot be read. Errors of the storage contain the key, which is secret, so only an error of
/// the operating system is part of the text.
fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut next = Some(error);
    while let Some(error) = next {
        let code = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error);
        if let Some(code) = code {
            return io::Error::from_raw_os_error(code).to_string();
        }
        next = error.source();
    }
    "the object storage returned an error".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns some bytes and then an error.
    struct Torn(bool);

    impl Read for Torn {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0 {
                return Err(io::Error::from_raw_os_error(5));
            }
            self.0 = true;
            buffer.fill(b'x');
            Ok(buffer.len())
        }
    }

    #[test]
    fn source_object_records_failure_without_key() {
        let mut source = SourceObject {
            reader: Torn(false),
            failure: None,
        };
        assert!(source.read_to_end(&mut Vec::new()).is_err());
        let failure = source.failure.expect("a failure");
        assert!(failure.contains("os error 5"), "{failure}");
        let secret = io::Error::other("projects/1/uploads/secret");
        assert_eq!(cause(&secret), "the object storage returned an error");
    }
}
