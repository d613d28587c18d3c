//! The object by which a storage outside of the data directory names its instance.
//!
//! Keys contain plain IDs, so two instances must not use one storage. A storage in the data directory has no such
//! object, because the data directory names its instance.

use tokio::io::AsyncReadExt;

use super::{Error, Key, ObjectStorage};

/// Key of the object.
pub(super) const MARKER: &str = "instance-id";
/// Bytes that are read of the object at most. An ID is shorter.
const MAX_BYTES: u64 = 256;

impl ObjectStorage {
    /// Returns the ID of the instance that the storage names, if it names one.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    pub async fn instance_id(&self) -> Result<Option<String>, Error> {
        let reader = match self.reader(MARKER).await {
            Err(error) if error.is_not_found() => return Ok(None),
            reader => reader?,
        };
        let mut content = Vec::new();
        reader.take(MAX_BYTES).read_to_end(&mut content).await?;
        Ok(Some(String::from_utf8_lossy(&content).trim().to_owned()))
    }

    /// Names the instance of the storage.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    pub async fn set_instance_id(&self, instance_id: &str) -> Result<(), Error> {
        let content = format!("{instance_id}\n").into_bytes();
        self.store_object(&Key::from(MARKER), content.as_slice()).await
    }
}
