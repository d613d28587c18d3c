//! Saved states of a test server: a data directory, the password of its administrator, and its clock.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use domain::secrets::Token;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Error;

/// The file with the description of a snapshot.
const MANIFEST: &str = "snapshot.json";
/// The data directory in a snapshot.
const DATA: &str = "data";
/// Version of the format of snapshots.
const FORMAT: u32 = 1;
/// Maximum size of the description, in bytes.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// Description of a snapshot.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    /// Version of the server that saved it, for people.
    version: String,
    /// Random ID, by which a replaced snapshot is recognized.
    id: String,
    /// Password of the administrator.
    password: String,
    /// Time at which the clock was frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    frozen_at: Option<DateTime<Utc>>,
    /// SHA-256 of each file in hex, if they are checked before use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    checksums: BTreeMap<PathBuf, String>,
}

/// A snapshot whose description was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot {
    path: PathBuf,
    id: String,
    /// Password of the administrator.
    pub(super) password: String,
    /// Time at which the clock was frozen when the state was saved.
    pub(super) frozen_at: Option<DateTime<Utc>>,
}

/// Whether the files of a snapshot are checked before use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checked {
    /// The files have checksums.
    Yes,
    /// The files are not read before they are copied.
    No,
}

impl Snapshot {
    /// Reads the description of a snapshot, and its files if they are checked. Blocks.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`].
    pub(super) fn read(path: &Path, checked: Checked) -> Result<Self, Error> {
        let refused = |cause: String| Error::NoSnapshot {
            path: path.to_owned(),
            cause,
        };
        let file = path.join(MANIFEST);
        let io = |cause: io::Error| refused(format!("{MANIFEST}: {cause}"));
        if std::fs::metadata(&file).map_err(io)?.len() > MAX_MANIFEST_BYTES {
            return Err(refused(format!("{MANIFEST} is too large")));
        }
        let text = std::fs::read(&file).map_err(io)?;
        let manifest: Manifest =
            serde_json::from_slice(&text).map_err(|error| refused(format!("{MANIFEST}: {error}")))?;
        if manifest.format != FORMAT {
            return Err(refused(format!(
                "it has the format {}, and this version supports the format {FORMAT}",
                manifest.format
            )));
        }
        if checked == Checked::Yes {
            let found = checksums(&path.join(DATA)).map_err(|cause| refused(cause.to_string()))?;
            if found != manifest.checksums {
                return Err(refused(
                    "its files have other contents than when they were saved".to_owned(),
                ));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            id: manifest.id,
            password: manifest.password,
            frozen_at: manifest.frozen_at,
        })
    }

    /// Saves a copy of a data directory that no process changes. The target appears at once, or not at all. Blocks.
    ///
    /// # Errors
    /// [`Error::Exists`] if the target exists, [`Error::Io`].
    pub(super) fn save(
        data: &Path,
        target: &Path,
        password: &str,
        frozen_at: Option<DateTime<Utc>>,
        checked: Checked,
    ) -> Result<Self, Error> {
        if target.symlink_metadata().is_ok() {
            return Err(Error::Exists(target.to_owned()));
        }
        let parent = target
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).map_err(Error::io(parent))?;
        let new = tempfile::Builder::new()
            .prefix(".holdfast-snapshot-")
            .tempdir_in(parent);
        let new = new.map_err(Error::io(parent))?;
        let copy = new.path().join(DATA);
        copy_directory(data, &copy).map_err(Error::io(target))?;
        let manifest = Manifest {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            id: Token::generate("").expose().to_owned(),
            password: password.to_owned(),
            frozen_at,
            checksums: match checked {
                Checked::Yes => checksums(&copy).map_err(Error::io(target))?,
                Checked::No => BTreeMap::new(),
            },
        };
        let text = serde_json::to_vec_pretty(&manifest).map_err(|error| Error::io(target)(error.into()))?;
        std::fs::write(new.path().join(MANIFEST), text).map_err(Error::io(target))?;
        match std::fs::rename(new.path(), target) {
            Ok(()) => drop(new.keep()),
            Err(error) if is_taken(&error) => return Err(Error::Exists(target.to_owned())),
            Err(error) => return Err(Error::io(target)(error)),
        }
        Ok(Self {
            path: target.to_owned(),
            id: manifest.id,
            password: password.to_owned(),
            frozen_at,
        })
    }

    /// Returns whether the snapshot was not removed or replaced since it was read. Blocks.
    pub(super) fn is_current(&self) -> bool {
        Self::read(&self.path, Checked::No).is_ok_and(|found| found == *self)
    }

    /// Copies the data directory to a path that does not exist. Blocks.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn copy_data(&self, target: &Path) -> Result<(), Error> {
        copy_directory(&self.path.join(DATA), target).map_err(Error::io(&self.path))
    }
}

/// Returns whether a directory cannot be renamed because the target exists.
fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory
    )
}

/// Copies a directory. Objects of repositories never change, so they are linked if both are in one file system.
fn copy_directory(source: &Path, target: &Path) -> io::Result<()> {
    copy_level(source, target, false)
}

fn copy_level(source: &Path, target: &Path, are_objects: bool) -> io::Result<()> {
    std::fs::create_dir(target)?;
    for entry in std::fs::read_dir(source)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        let copy = target.join(&name);
        if kind.is_dir() {
            let below = are_objects || (name == "objects" && is_repository(source));
            copy_level(&entry.path(), &copy, below)?;
        } else if kind.is_file() && !(are_objects && std::fs::hard_link(entry.path(), &copy).is_ok()) {
            std::fs::copy(entry.path(), &copy)?;
        }
    }
    Ok(())
}

fn is_repository(directory: &Path) -> bool {
    directory.extension().is_some_and(|extension| extension == "git")
}

/// Returns the SHA-256 of each file below a directory in hex.
fn checksums(directory: &Path) -> io::Result<BTreeMap<PathBuf, String>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(below) = waiting.pop() {
        for entry in std::fs::read_dir(directory.join(&below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                waiting.push(path);
            } else {
                let contents = std::fs::read(entry.path())?;
                found.insert(path, hex::encode(Sha256::digest(contents)));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(directory: &Path) -> PathBuf {
        let data = directory.join("source");
        let objects = data.join("repositories/ab/x.git/objects/12");
        std::fs::create_dir_all(&objects).expect("a directory");
        std::fs::write(objects.join("34"), "object").expect("a file");
        std::fs::write(data.join("holdfast.db"), "rows").expect("a file");
        data
    }

    #[test]
    fn saved_snapshot_is_read_and_copied() {
        let directory = tempfile::tempdir().expect("a directory");
        let (source, target) = (data(directory.path()), directory.path().join("a/snapshot"));
        let time = DateTime::from_timestamp_micros(1_577_836_800_000_001);
        Snapshot::save(&source, &target, "secret", time, Checked::No).expect("a snapshot");
        let snapshot = Snapshot::read(&target, Checked::No).expect("a snapshot");
        assert_eq!((snapshot.password.as_str(), snapshot.frozen_at), ("secret", time));
        let copy = directory.path().join("copy");
        snapshot.copy_data(&copy).expect("a copy");
        let read = |path: &str| std::fs::read_to_string(copy.join(path)).expect("a file");
        assert_eq!(read("repositories/ab/x.git/objects/12/34"), "object");
        std::fs::write(copy.join("holdfast.db"), "changed").expect("a file");
        let saved = std::fs::read_to_string(target.join("data/holdfast.db")).expect("a file");
        assert_eq!(saved, "rows");
        let again = Snapshot::save(&source, &target, "secret", None, Checked::No);
        assert!(matches!(again, Err(Error::Exists(_))), "{again:?}");
    }

    #[test]
    fn damaged_snapshots_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let (source, target) = (data(directory.path()), directory.path().join("snapshot"));
        Snapshot::save(&source, &target, "secret", None, Checked::Yes).expect("a snapshot");
        assert!(Snapshot::read(&target, Checked::Yes).is_ok());
        std::fs::write(target.join("data/holdfast.db"), "damaged").expect("a file");
        let error = Snapshot::read(&target, Checked::Yes)
            .expect_err("damage")
            .to_string();
        assert!(error.contains("other contents"), "{error}");
        for text in [
            "",
            "{}",
            "{\"format\": 2, \"version\": \"\", \"id\": \"\", \"password\": \"\"}",
        ] {
            std::fs::write(target.join(MANIFEST), text).expect("a file");
            let refused = Snapshot::read(&target, Checked::No);
            assert!(matches!(refused, Err(Error::NoSnapshot { .. })), "{text}");
        }
        let missing = Snapshot::read(&directory.path().join("missing"), Checked::No);
        assert!(matches!(missing, Err(Error::NoSnapshot { .. })));
    }
}
