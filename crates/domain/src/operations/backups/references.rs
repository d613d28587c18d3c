//! The repositories and objects that a copy of the database refers to.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

use super::snapshot::Snapshot;
use crate::accounts::avatars::AvatarOwner;
use crate::accounts::uploads;
use crate::kernel::error::Result;
use crate::packages;
use crate::registry;
use crate::transfers::{exports, imports};

/// The row that refers to an object. Its text contains no key, because the keys of uploads are secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ObjectOwner {
    Upload { id: i64, project_id: i64 },
    ProjectAvatar(i64),
    GroupAvatar(i64),
    UserAvatar(i64),
    Blob(i64),
    PackageFile(i64),
    Export(i64),
    Import(i64),
}

impl fmt::Display for ObjectOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upload { id, project_id } => write!(f, "upload {id} of the project {project_id}"),
            Self::ProjectAvatar(id) => write!(f, "avatar of the project {id}"),
            Self::GroupAvatar(id) => write!(f, "avatar of the group {id}"),
            Self::UserAvatar(id) => write!(f, "avatar of the user {id}"),
            Self::Blob(id) => write!(f, "blob {id} of the container registry"),
            Self::PackageFile(id) => write!(f, "package file {id}"),
            Self::Export(id) => write!(f, "archive of the group export {id}"),
            Self::Import(id) => write!(f, "archive of the group import {id}"),
        }
    }
}

/// A blob of the container registry.
#[derive(Debug, Clone)]
pub(super) struct BlobContent {
    pub(super) digest: String,
    pub(super) size: u64,
    /// The keys of its parts, by their position.
    pub(super) pieces: BTreeMap<u64, String>,
}

/// All references of a database.
#[derive(Debug, Default)]
pub(super) struct References {
    /// All projects.
    pub(super) projects: BTreeSet<i64>,
    /// The projects that have a repository. The others are being deleted, or are forks whose copy has not started.
    pub(super) repositories: BTreeSet<i64>,
    /// The objects by key.
    pub(super) objects: BTreeMap<String, ObjectOwner>,
    /// The keys of all parts of blobs and of uploads of blobs, and of all contents of package files.
    pub(super) pieces: HashSet<String>,
    /// The blobs by ID.
    pub(super) blobs: HashMap<i64, BlobContent>,
}

/// Returns the owner of an avatar by its ID.
type AvatarOf = fn(i64) -> (AvatarOwner, ObjectOwner);

impl References {
    /// Reads the references of a copy of the database.
    ///
    /// # Errors
    /// Returns `Error::Rejected` if the copy is malformed.
    pub(super) async fn read(snapshot: &Snapshot) -> Result<Self> {
        let mut found = Self::default();
        found.read_owners(snapshot).await?;
        found.read_uploads(snapshot).await?;
        found.read_archives(snapshot).await?;
        found.read_registry(snapshot).await?;
        found.read_packages(snapshot).await?;
        Ok(found)
    }

    async fn read_owners(&mut self, snapshot: &Snapshot) -> Result<()> {
        let columns = ["id", "deletion_started_at", "import_status", "avatar"];
        let mut receive = |row: Vec<Option<String>>| {
            let [id, deletion, import, avatar] = fields(row);
            let id = number(id.as_deref());
            self.projects.insert(id);
            if deletion.is_some() {
                return Ok(());
            }
            if !matches!(import.as_deref(), Some("scheduled" | "started" | "failed")) {
                self.repositories.insert(id);
            }
            if avatar.is_some() {
                let key = AvatarOwner::Project(id).object_key();
                self.objects.insert(key, ObjectOwner::ProjectAvatar(id));
            }
            Ok(())
        };
        snapshot.rows("projects", &columns, &mut receive).await?;
        let owners: [(&str, AvatarOf); 2] = [
            ("namespaces", |id| {
                (AvatarOwner::Group(id), ObjectOwner::GroupAvatar(id))
            }),
            ("users", |id| (AvatarOwner::User(id), ObjectOwner::UserAvatar(id))),
        ];
        for (table, owner_of) in owners {
            let mut receive = |row: Vec<Option<String>>| {
                let [id, deletion, avatar] = fields(row);
                if deletion.is_none() && avatar.is_some() {
                    let (avatar, owner) = owner_of(number(id.as_deref()));
                    self.objects.insert(avatar.object_key(), owner);
                }
                Ok(())
            };
            let columns = ["id", "deletion_started_at", "avatar"];
            snapshot.rows(table, &columns, &mut receive).await?;
        }
        Ok(())
    }

    async fn read_uploads(&mut self, snapshot: &Snapshot) -> Result<()> {
        let being_deleted: HashSet<i64> = {
            let mut deleted = HashSet::new();
            let mut receive = |row: Vec<Option<String>>| {
                let [id, deletion] = fields(row);
                if deletion.is_some() {
                    deleted.insert(number(id.as_deref()));
                }
                Ok(())
            };
            snapshot
                .rows("projects", &["id", "deletion_started_at"], &mut receive)
                .await?;
            deleted
        };
        let mut receive = |row: Vec<Option<String>>| {
            let [id, project_id, secret, stored_at] = fields(row);
            let (id, project_id) = (number(id.as_deref()), number(project_id.as_deref()));
            if let (Some(secret), Some(_), false) = (secret, stored_at, being_deleted.contains(&project_id)) {
                let key = uploads::object_key(project_id, &secret);
                self.objects.insert(key, ObjectOwner::Upload { id, project_id });
            }
            Ok(())
        };
        let columns = ["id", "project_id", "secret", "stored_at"];
        snapshot.rows("project_uploads", &columns, &mut receive).await
    }

    async fn read_archives(&mut self, snapshot: &Snapshot) -> Result<()> {
        let mut receive = |row: Vec<Option<String>>| {
            let [id, secret, stored_at] = fields(row);
            if let (Some(secret), Some(_)) = (secret, stored_at) {
                let owner = ObjectOwner::Export(number(id.as_deref()));
                self.objects.insert(exports::object_key(&secret), owner);
            }
            Ok(())
        };
        let columns = ["id", "secret", "stored_at"];
        snapshot.rows("group_exports", &columns, &mut receive).await?;
        let mut receive = |row: Vec<Option<String>>| {
            let [id, secret, group_id] = fields(row);
            // The archive is stored before its group is created.
            if let (Some(secret), Some(_)) = (secret, group_id) {
                let owner = ObjectOwner::Import(number(id.as_deref()));
                self.objects.insert(imports::object_key(&secret), owner);
            }
            Ok(())
        };
        let columns = ["id", "secret", "namespace_id"];
        snapshot.rows("group_imports", &columns, &mut receive).await
    }

    async fn read_registry(&mut self, snapshot: &Snapshot) -> Result<()> {
        let mut receive = |row: Vec<Option<String>>| {
            let [id, digest, size, unreferenced] = fields(row);
            // An unreferenced blob may be deleted at any time, and a restore deletes its row.
            if let (Some(digest), None) = (digest, unreferenced) {
                let blob = BlobContent {
                    digest,
                    size: number(size.as_deref()).unsigned_abs(),
                    pieces: BTreeMap::new(),
                };
                self.blobs.insert(number(id.as_deref()), blob);
            }
            Ok(())
        };
        let columns = ["id", "digest", "size", "unreferenced_since"];
        snapshot.rows("registry_blobs", &columns, &mut receive).await?;
        let mut receive = |row: Vec<Option<String>>| {
            let [blob_id, key, start] = fields(row);
            let Some(key) = key else { return Ok(()) };
            self.pieces.insert(key.clone());
            let blob_id = number(blob_id.as_deref());
            if let Some(blob) = self.blobs.get_mut(&blob_id) {
                blob.pieces
                    .insert(number(start.as_deref()).unsigned_abs(), key.clone());
                self.objects.insert(key, ObjectOwner::Blob(blob_id));
            }
            Ok(())
        };
        let columns = ["blob_id", "key", "start"];
        snapshot.rows("registry_pieces", &columns, &mut receive).await
    }

    async fn read_packages(&mut self, snapshot: &Snapshot) -> Result<()> {
        let mut receive = |row: Vec<Option<String>>| {
            let [file_id, key] = fields(row);
            let Some(key) = key else { return Ok(()) };
            self.pieces.insert(key.clone());
            if let Some(file_id) = file_id {
                let owner = ObjectOwner::PackageFile(number(Some(&file_id)));
                self.objects.insert(key, owner);
            }
            Ok(())
        };
        snapshot
            .rows("package_blobs", &["file_id", "key"], &mut receive)
            .await
    }

    /// Returns whether an object belongs to the container registry or to packages, but to no row. Nothing would delete it
    /// after a restore.
    pub(super) fn is_unknown_piece(&self, key: &str) -> bool {
        let is_of_table = registry::is_object_key(key) || packages::is_object_key(key);
        is_of_table && !self.pieces.contains(key)
    }
}

/// Returns the values of a row with a fixed number of columns.
fn fields<const N: usize>(row: Vec<Option<String>>) -> [Option<String>; N] {
    let mut values = row.into_iter();
    std::array::from_fn(|_| values.next().flatten())
}

/// Returns an ID, or 0 for null.
fn number(text: Option<&str>) -> i64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}
