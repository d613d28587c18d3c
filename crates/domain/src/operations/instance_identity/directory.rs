//! The files by which a data directory names its instance.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{DatabaseKind, Error, FILE, KEY, REPOSITORIES, STORE};
use crate::operations::lock_file;

/// Version of the file format.
const FORMAT: u32 = 1;

/// The content of [`FILE`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IdentityFile {
    format: u32,
    /// ID of the instance.
    pub(super) instance_id: String,
    /// The kind of its database.
    pub(super) database: DatabaseKind,
}

impl IdentityFile {
    pub(super) fn new(instance_id: String, database: DatabaseKind) -> Self {
        Self {
            format: FORMAT,
            instance_id,
            database,
        }
    }

    /// Reads the file of a data directory. Returns `None` if it does not exist.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>, Error> {
        let path = directory.join(FILE);
        let Some(text) = read(&path)? else {
            return Ok(None);
        };
        let damaged = |cause: String| Error::Damaged {
            path: path.clone(),
            cause,
        };
        let record: Self = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        match record.format {
            FORMAT => Ok(Some(record)),
            format => Err(damaged(format!("it has the unknown format {format}"))),
        }
    }

    /// Writes the file atomically. Another node may have written the same content; different content is an error.
    pub(super) fn write(&self, directory: &Path) -> Result<(), Error> {
        let path = directory.join(FILE);
        create(&path, &self.text(&path)?)?;
        match Self::read(directory)? {
            Some(found) if found == *self => Ok(()),
            found => Err(Error::Instance {
                path: directory.to_owned(),
                expected: found.map(|found| found.instance_id).unwrap_or_default(),
                found: Some(self.instance_id.clone()),
            }),
        }
    }

    /// Replaces the file of the same instance atomically and durably.
    pub(super) fn replace(&self, directory: &Path) -> Result<(), Error> {
        let path = directory.join(FILE);
        match Self::read(directory)? {
            Some(former) if former.instance_id == self.instance_id => {}
            former => {
                return Err(Error::Instance {
                    path: directory.to_owned(),
                    expected: former.map(|former| former.instance_id).unwrap_or_default(),
                    found: Some(self.instance_id.clone()),
                });
            }
        }
        let text = self.text(&path)?;
        let replaced = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(directory)?;
            file.write_all(text.as_bytes())?;
            lock_file::adopt_owner(file.as_file(), directory)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            File::open(directory)?.sync_all()
        };
        replaced().map_err(|cause| Error::Io {
            path: path.clone(),
            cause,
        })
    }

    fn text(&self, path: &Path) -> Result<String, Error> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::Damaged {
            path: path.to_owned(),
            cause: error.to_string(),
        })?;
        Ok(format!("{text}\n"))
    }
}

/// The parts of an instance that exist in a data directory.
#[derive(Debug)]
pub(super) struct DirectoryContents {
    /// Whether it has a key.
    pub(super) has_key: bool,
    /// Whether it has any repository.
    pub(super) has_repositories: bool,
    /// The ID of the repository store.
    pub(super) store: Option<String>,
}

impl DirectoryContents {
    /// Reads a data directory that need not exist.
    pub(super) fn read(directory: &Path) -> Result<Self, Error> {
        let repositories = directory.join(REPOSITORIES);
        Ok(Self {
            has_key: directory.join(KEY).is_file(),
            has_repositories: has_repositories(&repositories).map_err(|cause| Error::Io {
                path: repositories.clone(),
                cause,
            })?,
            store: store(directory)?,
        })
    }
}

/// Whether there is a directory in which repositories are kept, which has two hex digits for a name.
fn has_repositories(directory: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let name = entry?.file_name();
        let name = name.as_encoded_bytes();
        if name.len() == 2 && name.iter().all(u8::is_ascii_hexdigit) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn store(directory: &Path) -> Result<Option<String>, Error> {
    let path = directory.join(REPOSITORIES).join(STORE);
    Ok(read(&path)?.map(|text| text.trim().to_owned()))
}

/// Returns the ID of the repository store, which is made up when there is none.
pub(super) fn store_id(directory: &Path) -> Result<String, Error> {
    let path = directory.join(REPOSITORIES).join(STORE);
    create(&path, &format!("{}\n", uuid::Uuid::new_v4()))?;
    store(directory)?.ok_or_else(|| Error::Io {
        path,
        cause: ErrorKind::NotFound.into(),
    })
}

fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidData => Err(Error::Damaged {
            path: path.to_owned(),
            cause: error.to_string(),
        }),
        Err(cause) => Err(Error::Io {
            path: path.to_owned(),
            cause,
        }),
    }
}

/// Writes a file whole or not at all, durably, unless it exists.
fn create(path: &Path, text: &str) -> Result<(), Error> {
    let written = || -> io::Result<()> {
        if path.exists() {
            return Ok(());
        }
        let directory = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        match file.persist_noclobber(path) {
            Ok(_) => {}
            Err(failed) if failed.error.kind() == ErrorKind::AlreadyExists => return Ok(()),
            Err(failed) => return Err(failed.error),
        }
        File::open(directory)?.sync_all()
    };
    written().map_err(|cause| Error::Io {
        path: path.to_owned(),
        cause,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_record_round_trips_and_is_never_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(IdentityFile::read(directory.path()).expect("no file"), None);
        let record = IdentityFile::new("a".to_owned(), DatabaseKind::Postgresql);
        record.write(directory.path()).expect("a file");
        record.write(directory.path()).expect("the same file");
        let other = IdentityFile::new("b".to_owned(), DatabaseKind::Postgresql);
        let error = other.write(directory.path()).expect_err("another file");
        assert!(matches!(error, Error::Instance { .. }), "{error}");
        assert_eq!(
            IdentityFile::read(directory.path()).expect("a file"),
            Some(record)
        );
        assert_eq!(fs::read_dir(directory.path()).expect("entries").count(), 1);
    }

    #[test]
    fn instance_record_is_replaced_only_for_the_same_instance() {
        let directory = tempfile::tempdir().expect("a directory");
        let record = |id: &str, kind| IdentityFile::new(id.to_owned(), kind);
        let error = record("a", DatabaseKind::Postgresql)
            .replace(directory.path())
            .expect_err("no file");
        assert!(matches!(error, Error::Instance { .. }), "{error}");
        record("a", DatabaseKind::Sqlite)
            .write(directory.path())
            .expect("a file");
        let error = record("b", DatabaseKind::Postgresql)
            .replace(directory.path())
            .expect_err("another");
        assert!(matches!(error, Error::Instance { .. }), "{error}");
        let moved = record("a", DatabaseKind::Postgresql);
        moved.replace(directory.path()).expect("the same instance");
        assert_eq!(IdentityFile::read(directory.path()).expect("a file"), Some(moved));
        assert_eq!(fs::read_dir(directory.path()).expect("entries").count(), 1);
    }

    #[test]
    fn damaged_record_error_names_file_and_remedy() {
        let directory = tempfile::tempdir().expect("a directory");
        for text in [
            &b"{"[..],
            b"",
            b"\xff",
            b"{\"format\": 2, \"instance_id\": \"a\", \"database\": \"sqlite\"}",
        ] {
            fs::write(directory.path().join(FILE), text).expect("a file");
            let error = IdentityFile::read(directory.path())
                .expect_err("a damaged file")
                .to_string();
            assert!(
                error.contains("instance.json is damaged") && error.contains("remove it"),
                "{error}"
            );
        }
    }

    #[test]
    fn concurrent_starts_agree_on_one_store_id() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join(REPOSITORIES)).expect("a directory");
        let ids: Vec<String> = std::thread::scope(|scope| {
            let tasks: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| store_id(directory.path()).expect("an ID")))
                .collect();
            tasks
                .into_iter()
                .map(|task| task.join().expect("a thread"))
                .collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0] && id.len() == 36), "{ids:?}");
    }

    #[test]
    fn write_error_names_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = store_id(directory.path()).expect_err("no directory").to_string();
        assert!(error.contains("repositories/.store-id: "), "{error}");
    }
}
