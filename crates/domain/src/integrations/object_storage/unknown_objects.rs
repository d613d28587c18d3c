//! Objects that no row of the database names.

use std::collections::HashSet;

use super::{Error, ObjectStorage};

/// The objects of a folder that are not known yet.
#[derive(Debug)]
pub struct UnknownObjects {
    keys: HashSet<String>,
}

impl UnknownObjects {
    /// Reads the keys of a folder. Call this before the rows are read: a row is written before its object, so an object
    /// that is written concurrently is known.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    pub async fn read(objects: &ObjectStorage, folder: &str) -> Result<Self, Error> {
        let keys = objects.keys(Some(folder)).await?.into_iter().collect();
        Ok(Self { keys })
    }

    /// Removes an object that a row names.
    pub fn remove(&mut self, key: &str) {
        self.keys.remove(key);
    }

    /// Returns the keys of the remaining objects in order, without those that were deleted in the meantime.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    pub async fn existing(self, objects: &ObjectStorage) -> Result<Vec<String>, Error> {
        let mut existing = Vec::new();
        for key in self.keys {
            if objects.size(&key).await?.is_some() {
                existing.push(key);
            }
        }
        existing.sort_unstable();
        Ok(existing)
    }
}
