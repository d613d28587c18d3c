//! The file that describes a directory of backups.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::encryption::{BackupKey, EncryptionHeader};
use super::rejected;
use crate::kernel::error::{Error, Result};
use crate::secrets::Secret;

/// Version of the layout. Version 1 had one backup in each directory.
pub(super) const FORMAT: u32 = 2;
/// Name of the file.
const HEADER: &str = "holdfast-backups.json";
/// Name of the file of a backup of version 1.
const FORMER_MANIFEST: &str = "manifest.json";
/// Maximum length of the header in bytes.
const MAX_HEADER_BYTES: u64 = 64 << 10;

/// Format of a directory, and parameters of its encryption.
// A damaged name of a field must not be taken for an absent field.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    format: u32,
    encryption: Option<EncryptionHeader>,
}

impl Header {
    /// Returns the header of a directory, if it has one.
    ///
    /// # Errors
    /// Returns `Error::Rejected` if it cannot be read or is damaged.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(HEADER);
        let at = |error: &dyn std::fmt::Display| rejected(format!("{}: {error}", path.display()));
        let mut text = Vec::new();
        match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(&error)),
            Ok(file) => {
                let read = file.take(MAX_HEADER_BYTES).read_to_end(&mut text);
                read.map_err(|error| at(&error))?;
            }
        }
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| at(&format!("it is damaged ({error})")))
    }

    /// Creates an empty directory with a header. The backups are encrypted if there is a passphrase.
    ///
    /// # Errors
    /// Returns `Error::Rejected` if the directory has other content.
    pub(super) fn create(directory: &Path, passphrase: Option<&Secret>) -> Result<Self> {
        prepare(directory)?;
        let encryption = passphrase.map(EncryptionHeader::create).transpose()?;
        let header = Self {
            format: FORMAT,
            encryption: encryption.map(|(header, _)| header),
        };
        let write = || -> io::Result<()> {
            let path = directory.join(new_header());
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&path)?;
            file.write_all(&serde_json::to_vec_pretty(&header)?)?;
            file.sync_all()?;
            fs::rename(path, directory.join(HEADER))?;
            File::open(directory)?.sync_all()
        };
        write().map_err(Error::internal)?;
        Ok(header)
    }

    /// Returns the key of encrypted backups.
    ///
    /// # Errors
    /// Returns `Error::Rejected` if the directory has another format, or if the passphrase is missing, superfluous or wrong.
    pub(super) fn key(&self, directory: &Path, passphrase: Option<&Secret>) -> Result<Option<BackupKey>> {
        if self.format != FORMAT {
            return Err(rejected(format!(
                "{} was written by a newer version of Holdfast (format {}); use that version",
                directory.display(),
                self.format
            )));
        }
        Ok(match (&self.encryption, passphrase) {
            (Some(encryption), Some(passphrase)) => Some(encryption.open(passphrase)?),
            (None, None) => None,
            (Some(_), None) => {
                return Err(rejected(format!(
                    "the backups in {} are encrypted; pass --passphrase-file",
                    directory.display()
                )));
            }
            (None, Some(_)) => {
                return Err(rejected(format!(
                    "the backups in {} are not encrypted; omit --passphrase-file, or use another directory",
                    directory.display()
                )));
            }
        })
    }
}

/// Returns the error for a directory without a header.
pub(super) fn no_backup(directory: &Path) -> Error {
    let hint = match directory.join(FORMER_MANIFEST).exists() {
        true => "it contains a backup of an older version, which only that version can restore",
        false => "name the directory that was passed to `holdfast backup`",
    };
    rejected(format!(
        "{} does not contain a complete backup; {hint}",
        directory.display()
    ))
}

/// Name of the header until it is complete.
fn new_header() -> String {
    format!("{HEADER}.new")
}

/// Creates a directory that only its owner can access, or checks that an existing one is empty.
fn prepare(directory: &Path) -> Result<()> {
    let create = || -> io::Result<bool> {
        fs::create_dir_all(directory)?;
        // A directory with other content keeps its mode: the path may be wrong.
        for entry in fs::read_dir(directory)? {
            if entry?.file_name() != *new_header() {
                return Ok(false);
            }
        }
        fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        Ok(true)
    };
    match create() {
        Ok(true) => Ok(()),
        Ok(false) => Err(rejected(format!(
            "{} is not empty and contains no backups of this version; use an empty directory, or one with earlier backups",
            directory.display()
        ))),
        Err(error) => Err(rejected(format!("{}: {error}", directory.display()))),
    }
}
