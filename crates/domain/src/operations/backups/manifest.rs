//! Descriptions of the content of a backup.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::file_store::{FileStore, StoredFile};
use super::header::FORMAT;
use super::identifier::BackupId;
use super::postgresql::TableCopy;
use super::ref_changes::MovedRefs;
use super::rejected;
use crate::kernel::error::{Error, Result};
use crate::operations::instance_identity::DatabaseKind;

/// Description of a backup.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BackupManifest {
    pub(super) format: u32,
    /// Name of the backup.
    pub id: BackupId,
    /// Version of the program that wrote it.
    pub version: String,
    /// Time at which it was started. Nothing that was acknowledged before is missing.
    pub started_at: DateTime<Utc>,
    /// Time at which its database copy was taken.
    pub created_at: DateTime<Utc>,
    /// ID of the instance; none if the instance is from a version without IDs.
    pub(super) instance_id: Option<String>,
    pub(super) database: DatabaseCopy,
    pub(super) key: StoredFile,
    pub(super) repositories: Vec<RepositoryEntry>,
    pub(super) objects: ObjectCopies,
    /// Refs that the database may not know.
    pub(super) moved_refs: Vec<MovedRefs>,
    /// What the database refers to, although the instance did not have it. One line each.
    pub problems: Vec<String>,
}

/// The copy of the database.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DatabaseCopy {
    pub(super) kind: DatabaseKind,
    /// The applied migrations.
    pub(super) migrations: Vec<String>,
    /// The file of an SQLite database.
    pub(super) file: Option<StoredFile>,
    /// The tables of a PostgreSQL database, each after the tables it references.
    pub(super) tables: Vec<TableCopy>,
}

/// The copy of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RepositoryEntry {
    pub(super) project_id: i64,
    /// A [`RepositoryListing`].
    pub(super) listing: StoredFile,
}

/// The state of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RepositoryListing {
    pub(super) head: String,
    pub(super) references: StoredFile,
    pub(super) objects: Vec<ListedFile>,
}

/// A file of objects. Size, time and number identify it in the next backup without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ListedFile {
    pub(super) name: String,
    pub(super) modified: i64,
    pub(super) inode: u64,
    pub(super) file: StoredFile,
}

/// The copies of the objects of the object storage.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ObjectCopies {
    /// The objects are excluded; contains the kind of the storage.
    Excluded(String),
    /// Lists of [`ObjectEntry`].
    Included { count: u64, listings: Vec<StoredFile> },
}

/// The copy of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ObjectEntry {
    pub(super) key: String,
    /// Changes when the object is replaced.
    pub(super) version: String,
    pub(super) file: StoredFile,
}

/// Maximum number of objects in one list.
const LISTING_LENGTH: usize = 5_000;

impl BackupManifest {
    /// Returns the number of repositories.
    #[must_use]
    pub fn repository_count(&self) -> usize {
        self.repositories.len()
    }

    /// Returns the number of objects; none if they are excluded.
    #[must_use]
    pub fn object_count(&self) -> Option<u64> {
        match &self.objects {
            ObjectCopies::Excluded(_) => None,
            ObjectCopies::Included { count, .. } => Some(*count),
        }
    }

    /// Returns the kind of the excluded object storage, if it is excluded.
    #[must_use]
    pub fn excluded_objects(&self) -> Option<&str> {
        match &self.objects {
            ObjectCopies::Excluded(kind) => Some(kind),
            ObjectCopies::Included { .. } => None,
        }
    }

    /// Returns the kind of the database.
    #[must_use]
    pub fn database_kind(&self) -> DatabaseKind {
        self.database.kind
    }

    /// Reads the manifest of a backup. Blocks.
    pub(super) fn read(store: &FileStore, id: &BackupId) -> io::Result<Self> {
        let manifest: Self = store.read_description(store.manifest(id)?)?;
        let damaged = |text: &str| Err(io::Error::new(ErrorKind::InvalidData, text));
        if manifest.format != FORMAT {
            return damaged("it has an unsupported format");
        }
        if manifest.id != *id {
            return damaged("it is the file of another backup");
        }
        Ok(manifest)
    }

    /// Finds a backup by its name, or the newest one. Blocks.
    ///
    /// # Errors
    /// Returns `Error::Rejected` if it does not exist or is damaged.
    pub(super) fn find(store: &FileStore, id: Option<&str>) -> Result<Self> {
        let known = store.backups().map_err(Error::internal)?;
        let directory = store.directory().display();
        let found = match id {
            Some(id) => known.iter().find(|known| known.as_str() == id),
            None => known.last(),
        };
        let found = found.ok_or_else(|| match id {
            Some(id) => rejected(format!(
                "{directory} does not contain a complete backup with the name {id}; `holdfast backup list` lists them"
            )),
            None => rejected(format!("{directory} does not contain a complete backup")),
        })?;
        Self::read(store, found).map_err(|error| rejected(format!("the backup {found} is damaged: {error}")))
    }

    /// Returns the copies of the objects by key. Blocks.
    pub(super) fn read_objects(&self, store: &FileStore) -> io::Result<BTreeMap<String, ObjectEntry>> {
        let mut entries = BTreeMap::new();
        if let ObjectCopies::Included { listings, .. } = &self.objects {
            for listing in listings {
                let part: Vec<ObjectEntry> = store.read_description(*listing)?;
                entries.extend(part.into_iter().map(|entry| (entry.key.clone(), entry)));
            }
        }
        Ok(entries)
    }

    /// Returns all files that the backup consists of. Blocks.
    pub(super) fn files(&self, store: &FileStore) -> io::Result<Vec<StoredFile>> {
        let mut files = self.content(store)?;
        files.push(store.manifest(&self.id)?);
        Ok(files)
    }

    /// Returns all files of the backup except for the manifest. Blocks.
    pub(super) fn content(&self, store: &FileStore) -> io::Result<Vec<StoredFile>> {
        let mut files = vec![self.key];
        files.extend(self.database.files());
        for entry in &self.repositories {
            let listing: RepositoryListing = store.read_description(entry.listing)?;
            files.extend([entry.listing, listing.references]);
            files.extend(listing.objects.iter().map(|object| object.file));
        }
        if let ObjectCopies::Included { listings, .. } = &self.objects {
            files.extend(listings);
        }
        files.extend(self.read_objects(store)?.values().map(|entry| entry.file));
        Ok(files)
    }
}

impl DatabaseCopy {
    /// Returns the files of the copy.
    pub(super) fn files(&self) -> impl Iterator<Item = StoredFile> {
        let tables = self.tables.iter().map(|table| table.file);
        self.file.into_iter().chain(tables)
    }
}

impl ObjectCopies {
    /// Stores the lists of objects. Blocks.
    pub(super) fn write<'a>(
        store: &FileStore,
        entries: impl Iterator<Item = &'a ObjectEntry>,
    ) -> io::Result<Self> {
        let entries: Vec<&ObjectEntry> = entries.collect();
        let mut listings = Vec::new();
        for part in entries.chunks(LISTING_LENGTH) {
            listings.push(store.add_description(&part)?);
        }
        Ok(Self::Included {
            count: entries.len() as u64,
            listings,
        })
    }
}
