//! Verification of backups: every byte is read again.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use git::{ObjectFile, RepositoryFiles, RepositoryId, RepositoryStore};
use sha2::{Digest, Sha256};

use super::file_store::{Access, FileDigest, FileStore, StoredFile, is_file_name};
use super::identifier::BackupId;
use super::manifest::{BackupManifest, ObjectCopies, ObjectEntry, RepositoryListing};
use super::references::{BlobContent, References};
use super::retention::needed_files;
use super::snapshot::Snapshot;
use super::{BackupEvent, Reporter, blocking, cause, rejected};
use crate::kernel::error::{Error, Result};
use crate::operations::check::Check;
use crate::secrets::Secret;

/// Maximum length of the refs of a repository in bytes.
const MAX_REFERENCES_BYTES: u64 = 1 << 30;
/// Mode of the files of objects, as Git creates them.
const OBJECT_MODE: u32 = 0o400;

/// Options of a verification.
#[derive(Debug)]
pub struct VerifyOptions {
    /// The directory of the backups.
    pub directory: PathBuf,
    /// The passphrase, if the backups are encrypted.
    pub passphrase: Option<Secret>,
    /// Name of the only backup to verify; none for all.
    pub backup: Option<String>,
}

/// Result of a verification.
#[derive(Debug)]
pub struct VerifySummary {
    /// The verified backups.
    pub backups: Vec<BackupId>,
    /// The checks.
    pub checks: Vec<Check>,
    /// Backups without the objects of the object storage.
    pub without_objects: Vec<BackupId>,
    /// Number of files of an interrupted backup, which the next backup deletes.
    pub interrupted: u64,
}

/// Verifies backups without an instance: the digest of every file, the integrity of the database copy, its references, the
/// repositories by `git fsck`, and the digests of container images. Also finds files that no backup refers to. Needs space for
/// the largest repository and the database in the directory for temporary files.
///
/// # Errors
/// Returns `Error::Rejected` if the directory contains no backups, is in use, or if the passphrase does not match. Damage is
/// a problem in the result.
pub async fn verify(options: VerifyOptions, report: Reporter<'_>) -> Result<VerifySummary> {
    let VerifyOptions {
        directory,
        passphrase,
        backup,
    } = options;
    let (store, ids) = blocking(move || {
        let store = FileStore::open(&directory, passphrase.as_ref(), Access::Read)?;
        let mut ids = store.backups().map_err(Error::internal)?;
        if let Some(backup) = &backup {
            ids.retain(|id| id.as_str() == backup);
        }
        match ids.is_empty() {
            true => Err(rejected(format!(
                "{} does not contain a complete backup{}",
                directory.display(),
                backup
                    .map(|name| format!(" with the name {name}"))
                    .unwrap_or_default()
            ))),
            false => Ok((Arc::new(store), ids)),
        }
    })
    .await?;
    let mut verification = Verification::new(Arc::clone(&store), Extent::Repositories)?;
    let mut without_objects = Vec::new();
    for id in &ids {
        if verification.check_backup(id, report).await? {
            without_objects.push(id.clone());
        }
    }
    let (unexpected, interrupted) = blocking(move || unexpected_files(&store)).await?;
    let mut checks = verification.into_checks();
    checks.push(unexpected);
    Ok(VerifySummary {
        backups: ids,
        checks,
        without_objects,
        interrupted,
    })
}

/// Checks that a backup can be restored completely, without `git fsck`.
///
/// # Errors
/// Returns `Error::Rejected` with the first problem if it cannot.
pub(super) async fn check_for_restore(
    store: &Arc<FileStore>,
    id: &BackupId,
    report: Reporter<'_>,
) -> Result<()> {
    let mut verification = Verification::new(Arc::clone(store), Extent::Files)?;
    verification.check_backup(id, report).await?;
    let checks = verification.into_checks();
    let problems: Vec<&String> = checks.iter().flat_map(|check| &check.problems).collect();
    match problems.first() {
        None => Ok(()),
        Some(first) => Err(rejected(format!(
            "the backup {id} is damaged ({first}){}; nothing was written. `holdfast backup verify` lists all problems",
            match problems.len() {
                1 => String::new(),
                2 => ", and 1 more problem".to_owned(),
                count => format!(", and {} more problems", count - 1),
            }
        ))),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All files, the database and the digests of images.
    Files,
    /// Also the objects of repositories, by `git fsck`; and what the instance already lacked.
    Repositories,
}

struct Verification {
    store: Arc<FileStore>,
    extent: Extent,
    directory: tempfile::TempDir,
    repositories: Option<RepositoryStore>,
    /// Files that were read completely and are sound.
    sound: HashSet<FileDigest>,
    /// Lists of repositories that were checked.
    listings: HashSet<FileDigest>,
    /// Digests of blobs that were checked.
    digests: HashSet<String>,
    files: Check,
    databases: Check,
    references: Check,
    fsck: Check,
    images: Check,
}

impl Verification {
    fn new(store: Arc<FileStore>, extent: Extent) -> Result<Self> {
        let directory = tempfile::tempdir().map_err(Error::internal)?;
        let repositories = match extent {
            Extent::Files => None,
            Extent::Repositories => Some(RepositoryStore::new(directory.path().join("repositories"), 2)?),
        };
        Ok(Self {
            store,
            extent,
            directory,
            repositories,
            sound: HashSet::new(),
            listings: HashSet::new(),
            digests: HashSet::new(),
            files: Check::new("files"),
            databases: Check::new("tables of the database copies"),
            references: Check::new("references of the database copies"),
            fsck: Check::new("repositories"),
            images: Check::new("blobs of container images"),
        })
    }

    fn into_checks(self) -> Vec<Check> {
        let mut checks = vec![self.files, self.databases, self.references];
        if self.extent == Extent::Repositories {
            checks.push(self.fsck);
        }
        checks.push(self.images);
        checks
    }

    /// Checks a backup and returns whether it excludes the objects.
    async fn check_backup(&mut self, id: &BackupId, report: Reporter<'_>) -> Result<bool> {
        let (store, wanted) = (Arc::clone(&self.store), id.clone());
        let read = blocking(move || {
            let manifest = BackupManifest::read(&store, &wanted);
            Ok(manifest
                .and_then(|manifest| Ok((manifest.read_objects(&store), store.manifest(&wanted)?, manifest))))
        });
        let (objects, description, manifest) = match read.await? {
            Ok(read) => read,
            Err(error) => {
                self.record_manifest(id, error, report).await?;
                return Ok(false);
            }
        };
        self.check_file(description, "manifest", report).await?;
        self.check_file(manifest.key, "key file", report).await?;
        if let ObjectCopies::Included { listings, .. } = &manifest.objects {
            for listing in listings {
                self.check_file(*listing, "list of objects", report).await?;
            }
        }
        let references = self.check_database(&manifest, report).await?;
        if let (Some(references), Ok(objects)) = (&references, &objects) {
            self.check_references(&manifest, objects, references);
            self.check_images(objects, references, report).await?;
        }
        // The damaged list was reported.
        let objects = objects.unwrap_or_default();
        for entry in &manifest.repositories {
            self.check_repository(entry.project_id, entry.listing, report)
                .await?;
        }
        for entry in objects.values() {
            let owner = references
                .as_ref()
                .and_then(|references| references.objects.get(&entry.key));
            let what = owner.map_or("object".to_owned(), ToString::to_string);
            self.check_file(entry.file, &what, report).await?;
        }
        if self.extent == Extent::Repositories {
            let known = manifest.problems.iter();
            let known =
                known.map(|problem| format!("backup {id}: {problem} (the instance already lacked it)"));
            self.references.problems.extend(known);
        }
        Ok(manifest.excluded_objects().is_some())
    }

    /// Records that the manifest of a backup, or the file that names it, cannot be read.
    async fn record_manifest(&mut self, id: &BackupId, error: io::Error, report: Reporter<'_>) -> Result<()> {
        let (store, wanted) = (Arc::clone(&self.store), id.clone());
        match blocking(move || Ok(store.manifest(&wanted))).await? {
            Ok(file) => self.record(file, &format!("manifest of the backup {id}"), Err(error), report),
            Err(error) => self
                .files
                .problems
                .push(format!("backup {id}: {}", cause(&error))),
        }
        Ok(())
    }

    /// Reads a file that was not yet read.
    async fn check_file(&mut self, file: StoredFile, what: &str, report: Reporter<'_>) -> Result<()> {
        if self.sound.contains(&file.digest) {
            return Ok(());
        }
        let store = Arc::clone(&self.store);
        let read = blocking(move || {
            let read = store.read(file);
            Ok(read.and_then(|mut reader| io::copy(&mut reader, &mut io::sink())))
        });
        let read = read.await?.map(drop);
        self.record(file, what, read, report);
        Ok(())
    }

    fn record(&mut self, file: StoredFile, what: &str, read: io::Result<()>, report: Reporter<'_>) {
        self.files.checked += 1;
        match read {
            Ok(()) => {
                self.sound.insert(file.digest);
            }
            Err(error) => {
                let name = self.store.name(file.digest).unwrap_or_default();
                let problem = format!("{what}: {} (file {name})", cause(&error));
                self.files.problems.push(problem);
            }
        }
        report(BackupEvent::Files {
            done: self.files.checked,
        });
    }

    /// Checks the copy of the database, and returns its references if it can be read.
    async fn check_database(
        &mut self,
        manifest: &BackupManifest,
        report: Reporter<'_>,
    ) -> Result<Option<References>> {
        let id = &manifest.id;
        let snapshot = match Snapshot::extract(&self.store, &manifest.database, self.directory.path()).await {
            Ok(snapshot) => snapshot,
            Err(Error::Rejected(text)) => {
                let before = self.files.problems.len();
                for file in manifest.database.files() {
                    self.check_file(file, "copy of the database", report).await?;
                }
                if self.files.problems.len() == before {
                    self.files.problems.push(format!("backup {id}: {text}"));
                }
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        for file in manifest.database.files() {
            self.files.checked += u64::from(self.sound.insert(file.digest));
        }
        let checked = async {
            let (tables, problems) = snapshot.check().await?;
            Ok::<_, Error>((tables, problems, References::read(&snapshot).await?))
        };
        match checked.await {
            Ok((tables, problems, references)) => {
                self.databases.checked += tables;
                let problems = problems
                    .into_iter()
                    .map(|problem| format!("backup {id}: {problem}"));
                self.databases.problems.extend(problems);
                Ok(Some(references))
            }
            Err(Error::Rejected(text)) => {
                self.databases.problems.push(format!("backup {id}: {text}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Compares the references of the database with the content of the backup. What the instance already lacked is known.
    fn check_references(
        &mut self,
        manifest: &BackupManifest,
        objects: &BTreeMap<String, ObjectEntry>,
        references: &References,
    ) {
        let id = &manifest.id;
        let copied: HashSet<i64> = manifest
            .repositories
            .iter()
            .map(|entry| entry.project_id)
            .collect();
        let mut missing: Vec<String> = Vec::new();
        self.references.checked += references.repositories.len() as u64;
        let lost = references.repositories.iter().filter(|id| !copied.contains(id));
        missing.extend(lost.map(|id| format!("project {id}: its repository is missing")));
        if manifest.excluded_objects().is_none() {
            self.references.checked += references.objects.len() as u64;
            let lost = references
                .objects
                .iter()
                .filter(|(key, _)| !objects.contains_key(*key));
            missing.extend(lost.map(|(_, owner)| format!("{owner}: its object is missing")));
        }
        let known: HashSet<&String> = manifest.problems.iter().collect();
        let unknown = missing.iter().filter(|problem| {
            let cannot_be_read = problem.replace("is missing", "cannot be read");
            !known
                .iter()
                .any(|known| known == problem || known.starts_with(&cannot_be_read))
        });
        self.references
            .problems
            .extend(unknown.map(|problem| format!("backup {id}: {problem}")));
    }

    /// Computes the digests of blobs from their parts.
    async fn check_images(
        &mut self,
        objects: &BTreeMap<String, ObjectEntry>,
        references: &References,
        report: Reporter<'_>,
    ) -> Result<()> {
        let mut blobs: Vec<&BlobContent> = references.blobs.values().collect();
        blobs.sort_unstable_by(|left, right| left.digest.cmp(&right.digest));
        for blob in blobs {
            let parts = blob.pieces.iter();
            let parts: Option<Vec<(u64, StoredFile)>> = parts
                .map(|(start, key)| Some((*start, objects.get(key)?.file)))
                .collect();
            // A missing part is a missing reference, or the objects are excluded.
            let Some(parts) = parts else { continue };
            if !self.digests.insert(blob.digest.clone()) {
                continue;
            }
            self.images.checked += 1;
            let (store, read_parts) = (Arc::clone(&self.store), parts.clone());
            let read = blocking(move || Ok(read_blob(&store, &read_parts))).await?;
            let result = match read {
                Ok((digest, size)) => {
                    for (_, file) in &parts {
                        if !self.sound.contains(&file.digest) {
                            self.record(*file, "blob", Ok(()), report);
                        }
                    }
                    match digest == blob.digest && size == blob.size {
                        true => Ok(()),
                        false => Err(format!("its content has the digest {digest} and {size} bytes")),
                    }
                }
                // The file is reported with the other objects, too.
                Err(error) => Err(cause(&error)),
            };
            if let Err(problem) = result {
                self.images
                    .problems
                    .push(format!("blob {}: {problem}", blob.digest));
            }
        }
        Ok(())
    }

    async fn check_repository(
        &mut self,
        project_id: i64,
        listing: StoredFile,
        report: Reporter<'_>,
    ) -> Result<()> {
        if !self.listings.insert(listing.digest) {
            return Ok(());
        }
        let what = format!("repository of the project {project_id}");
        let store = Arc::clone(&self.store);
        let read = blocking(move || Ok(store.read_description::<RepositoryListing>(listing)));
        let found = match read.await? {
            Ok(found) => found,
            Err(error) => {
                self.record(listing, &what, Err(error), report);
                return Ok(());
            }
        };
        self.record(listing, &what, Ok(()), report);
        let Some(repositories) = self.repositories.clone() else {
            self.check_file(found.references, &what, report).await?;
            for object in &found.objects {
                self.check_file(object.file, &what, report).await?;
            }
            return Ok(());
        };
        self.fsck.checked += 1;
        let before = self.files.problems.len();
        let id = RepositoryId::of_project(project_id);
        let created = create_repository(&self.store, &repositories, &id, &found).await;
        if let Err(error) = created {
            // The damaged files are named one by one.
            self.check_file(found.references, &what, report).await?;
            for object in &found.objects {
                self.check_file(object.file, &what, report).await?;
            }
            if self.files.problems.len() == before {
                self.fsck.problems.push(format!("{what}: {error}"));
            }
        } else {
            let files = found.objects.iter().map(|object| object.file);
            for file in files.chain([found.references]) {
                if !self.sound.contains(&file.digest) {
                    self.record(file, &what, Ok(()), report);
                }
            }
            let problems = repositories.repository(&id).fsck().await?;
            let problems = problems
                .into_iter()
                .map(|line| format!("{what}: git fsck: {line}"));
            self.fsck.problems.extend(problems);
        }
        Ok(repositories.remove(&id).await?)
    }
}

/// Creates a repository from a backup. Checks all its files.
///
/// # Errors
/// Returns an error if a file is missing or damaged, a name is malformed, or a disk fails.
pub(super) async fn create_repository(
    store: &Arc<FileStore>,
    repositories: &RepositoryStore,
    id: &RepositoryId,
    listing: &RepositoryListing,
) -> Result<()> {
    let (reader, references) = (Arc::clone(store), listing.references);
    let references = blocking(move || {
        let mut text = Vec::new();
        let read = reader.read(references);
        let read = read.and_then(|reader| reader.take(MAX_REFERENCES_BYTES).read_to_end(&mut text));
        read.map_err(|error| super::damaged("refs", error))?;
        Ok(text)
    })
    .await?;
    let objects: Vec<(String, StoredFile)> = listing
        .objects
        .iter()
        .map(|object| (object.name.clone(), object.file))
        .collect();
    let files = RepositoryFiles {
        head: listing.head.clone(),
        references,
        objects: listing
            .objects
            .iter()
            .map(|object| ObjectFile {
                name: object.name.clone(),
                size: object.file.size,
                modified: object.modified,
                inode: object.inode,
            })
            .collect(),
    };
    let store = Arc::clone(store);
    let fill = move |directory: &Path| {
        for (name, file) in objects {
            store.extract(file, &directory.join(&name), OBJECT_MODE)?;
        }
        Ok(())
    };
    Ok(repositories.create_from(id, files, fill).await?)
}

/// Returns the digest and the size of a blob.
fn read_blob(store: &FileStore, parts: &[(u64, StoredFile)]) -> io::Result<(String, u64)> {
    let (mut hash, mut size) = (Sha256::new(), 0);
    let mut buffer = vec![0; 256 << 10];
    for (start, file) in parts {
        if *start != size {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a part is missing"));
        }
        let mut reader = store.read(*file)?;
        loop {
            let length = reader.read(&mut buffer)?;
            if length == 0 {
                break;
            }
            hash.update(&buffer[..length]);
            size += length as u64;
        }
    }
    Ok((format!("sha256:{}", hex::encode(hash.finalize())), size))
}

/// Finds files that no backup refers to. They are no problem if a backup was interrupted, which may have left them.
fn unexpected_files(store: &FileStore) -> Result<(Check, u64)> {
    let mut check = Check::new("files of the directory");
    let ids = store.backups().map_err(Error::internal)?;
    let needed = match needed_files(store, &ids) {
        Ok(needed) => needed,
        Err(error) => {
            check
                .problems
                .push(format!("files without a backup cannot be found: {error}"));
            return Ok((check, 0));
        }
    };
    check.checked = store.names(|_| true).map_err(Error::internal)?.len() as u64;
    let unexpected = store
        .names(|name| !needed.contains(name))
        .map_err(Error::internal)?;
    // An interrupted backup leaves no entries with other names.
    let (files, others): (Vec<_>, Vec<_>) = unexpected.into_iter().partition(|name| is_file_name(name));
    let (interrupted, problems) = match store.has_incoming() {
        true => (files.len() as u64, others),
        false => (0, [files, others].concat()),
    };
    let lines = problems
        .into_iter()
        .map(|name| format!("file {name}: no backup refers to it"));
    check.problems.extend(lines);
    Ok((check, interrupted))
}
