//! The directory of backups: files that are named by their content, and one file for each backup.
//!
//! A file with the same content is stored once for all backups. New files are written to a directory of their own, and
//! renamed into the store when all are durable. Then the file of the backup is written, and the directory of new files is
//! deleted.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, BufWriter, Cursor, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use super::encryption::{self, BackupKey, OpeningReader, SealingWriter};
use super::header::{self, Header};
use super::identifier::BackupId;
use super::rejected;
use crate::kernel::error::Result;
use crate::secrets::Secret;

const LOCK: &str = "lock";
const BACKUPS: &str = "backups";
const FILES: &str = "files";
const INCOMING: &str = "incoming";
/// Size up to which a file is compared before it is written, in bytes.
const SMALL_BYTES: u64 = 1 << 20;
/// Maximum length of the file of a backup, in bytes.
const MAX_BACKUP_FILE_BYTES: u64 = 64 << 10;
/// Maximum length of a description, such as a manifest, in bytes.
const MAX_DESCRIPTION_BYTES: u64 = 512 << 20;

/// The SHA-256 of the content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct FileDigest([u8; 32]);

impl From<FileDigest> for String {
    fn from(digest: FileDigest) -> Self {
        hex::encode(digest.0)
    }
}

impl TryFrom<String> for FileDigest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| "a digest must have 64 hex digits")?;
        Ok(Self(bytes))
    }
}

/// A file in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredFile {
    pub(super) digest: FileDigest,
    /// Size of the content in bytes.
    pub(super) size: u64,
}

/// Purpose for which a directory is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// One process at a time. The directory is created if it does not exist.
    Write,
    /// Several processes at a time, also from a read-only medium.
    Read,
}

/// An opened directory of backups. Its methods block.
pub(super) struct FileStore {
    directory: PathBuf,
    key: Option<BackupKey>,
    _lock: Option<File>,
}

impl FileStore {
    /// Opens a directory of backups.
    ///
    /// # Errors
    /// Returns `Error::Rejected` if it contains other files, has another format, is in use, or if the passphrase is missing,
    /// superfluous or wrong.
    pub(super) fn open(directory: &Path, passphrase: Option<&Secret>, access: Access) -> Result<Self> {
        let at = |error: io::Error| rejected(format!("{}: {error}", directory.display()));
        let header = match Header::read(directory)? {
            Some(header) => header,
            None if access == Access::Write => Header::create(directory, passphrase)?,
            None => return Err(header::no_backup(directory)),
        };
        let key = header.key(directory, passphrase)?;
        let lock = lock(directory, access)?;
        if access == Access::Write {
            for name in [BACKUPS, FILES] {
                create_directory(&directory.join(name)).map_err(at)?;
            }
        }
        Ok(Self {
            directory: directory.to_owned(),
            key,
            _lock: lock,
        })
    }

    /// Returns the path of the directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns whether the files are encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.key.is_some()
    }

    /// Returns whether a backup was interrupted or is still running, or old files could not be deleted.
    pub(super) fn has_incoming(&self) -> bool {
        self.directory.join(INCOMING).exists()
    }

    /// Deletes the incoming files of an interrupted backup and prepares for new files. The directory itself remains, because
    /// an interrupted backup may also have left files in the store.
    pub(super) fn begin(&self) -> io::Result<()> {
        let incoming = self.directory.join(INCOMING);
        create_directory(&incoming)?;
        // A file system can omit entries if others are deleted meanwhile.
        let entries: Vec<_> = fs::read_dir(&incoming)?.collect::<io::Result<_>>()?;
        for entry in entries {
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }

    /// Ends a backup. Its file is written, and the store contains only files of complete backups.
    pub(super) fn end(&self) -> io::Result<()> {
        fs::remove_dir_all(self.directory.join(INCOMING))
    }

    /// Returns the name of a file with this content.
    pub(super) fn name(&self, digest: FileDigest) -> Result<String> {
        match &self.key {
            Some(key) => key.name(&digest.0),
            None => Ok(hex::encode(digest.0)),
        }
    }

    fn stored_path(&self, name: &str) -> PathBuf {
        self.directory.join(FILES).join(&name[..2]).join(name)
    }

    fn incoming_path(&self, name: &str) -> PathBuf {
        self.directory.join(INCOMING).join(name)
    }

    fn stored_size(&self, size: u64) -> u64 {
        match &self.key {
            Some(_) => encryption::sealed_size(size),
            None => size,
        }
    }

    /// Returns the path of a file if it exists with the right size.
    fn locate(&self, file: StoredFile) -> io::Result<PathBuf> {
        let name = self.name(file.digest).map_err(io::Error::other)?;
        let mut found = Err(ErrorKind::NotFound.into());
        for path in [self.stored_path(&name), self.incoming_path(&name)] {
            match fs::metadata(&path) {
                Ok(metadata) if metadata.len() == self.stored_size(file.size) => return Ok(path),
                Ok(metadata) => {
                    found = Err(io::Error::new(
                        ErrorKind::InvalidData,
                        format!(
                            "it has {} instead of {} bytes",
                            metadata.len(),
                            self.stored_size(file.size)
                        ),
                    ));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        found
    }

    /// Returns whether the store has a file with the right size. Its content is not read.
    pub(super) fn contains(&self, file: StoredFile) -> bool {
        self.locate(file).is_ok()
    }

    /// Stores the content of a source, unless the store has it.
    pub(super) fn add(&self, source: &mut dyn Read) -> io::Result<StoredFile> {
        let mut first = Vec::new();
        (&mut *source).take(SMALL_BYTES).read_to_end(&mut first)?;
        if (first.len() as u64) < SMALL_BYTES {
            let file = StoredFile {
                digest: FileDigest(Sha256::digest(&first).into()),
                size: first.len() as u64,
            };
            if !self.contains(file) {
                let written = self.write(&mut first.as_slice())?;
                self.accept(written)?;
            }
            return Ok(file);
        }
        let written = self.write(&mut Cursor::new(first).chain(source))?;
        let file = written.file;
        if !self.contains(file) {
            self.accept(written)?;
        }
        Ok(file)
    }

    /// Stores a description in JSON.
    pub(super) fn add_description(&self, value: &impl Serialize) -> io::Result<StoredFile> {
        self.add(&mut serde_json::to_vec(value)?.as_slice())
    }

    /// Writes a source to a temporary file of the incoming directory.
    fn write(&self, source: &mut dyn Read) -> io::Result<WrittenFile> {
        let temporary = tempfile::NamedTempFile::new_in(self.directory.join(INCOMING))?;
        let mut hashing = HashingReader {
            source,
            hash: Sha256::new(),
            size: 0,
        };
        self.write_sealed(&mut hashing, temporary.as_file())?;
        Ok(WrittenFile {
            file: StoredFile {
                digest: FileDigest(hashing.hash.finalize().into()),
                size: hashing.size,
            },
            temporary,
        })
    }

    fn write_sealed(&self, source: &mut dyn Read, target: &File) -> io::Result<()> {
        let mut target = BufWriter::with_capacity(256 << 10, target);
        match &self.key {
            Some(key) => {
                let mut sealing = SealingWriter::begin(target, key)?;
                io::copy(source, &mut sealing)?;
                sealing.finish()?.flush()
            }
            None => {
                io::copy(source, &mut target)?;
                target.flush()
            }
        }
    }

    fn accept(&self, written: WrittenFile) -> io::Result<()> {
        let name = self.name(written.file.digest).map_err(io::Error::other)?;
        let persisted = written.temporary.persist(self.incoming_path(&name));
        persisted.map(drop).map_err(|failed| failed.error)
    }

    /// Opens a file. The reader fails at the end if the content differs from the digest.
    pub(super) fn read(&self, file: StoredFile) -> io::Result<CheckedReader> {
        let source = BufReader::with_capacity(256 << 10, File::open(self.locate(file)?)?);
        let source: Box<dyn Read + Send> = match &self.key {
            Some(key) => Box::new(OpeningReader::begin(source, key)?),
            None => Box::new(source),
        };
        Ok(CheckedReader {
            source,
            hash: Some(Sha256::new()),
            expected: file.digest,
        })
    }

    /// Writes the content of a file to a new file that only its owner can access, and syncs it.
    pub(super) fn extract(&self, file: StoredFile, path: &Path, mode: u32) -> io::Result<()> {
        let mut target = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(path)?;
        io::copy(&mut self.read(file)?, &mut target)?;
        target.sync_all()
    }

    /// Reads a description in JSON.
    pub(super) fn read_description<T: DeserializeOwned>(&self, file: StoredFile) -> io::Result<T> {
        if file.size > MAX_DESCRIPTION_BYTES {
            return Err(io::Error::new(ErrorKind::InvalidData, "it is too long"));
        }
        let mut text = Vec::new();
        self.read(file)?.read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Makes incoming files with these names durable and moves them into the store. All other incoming files remain until
    /// [`Self::end`].
    pub(super) fn publish(&self, needed: &HashSet<String>) -> io::Result<()> {
        let incoming = self.directory.join(INCOMING);
        // One sync of the file system takes less time than one of each small file.
        rustix::fs::syncfs(File::open(&incoming)?)?;
        let mut directories = vec![self.directory.join(FILES)];
        // A file system can omit entries if others are moved meanwhile.
        let entries: Vec<_> = fs::read_dir(&incoming)?.collect::<io::Result<_>>()?;
        for entry in entries {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| needed.contains(*name)) else {
                continue;
            };
            let target = self.stored_path(name);
            if let Some(directory) = target.parent()
                && !directories.iter().any(|known| known == directory)
            {
                create_directory(directory)?;
                directories.push(directory.to_owned());
            }
            fs::rename(incoming.join(name), target)?;
        }
        directories
            .iter()
            .try_for_each(|directory| File::open(directory)?.sync_all())
    }

    /// Writes the file of a backup, which makes the backup complete.
    pub(super) fn complete(&self, id: &BackupId, manifest: StoredFile) -> io::Result<()> {
        let directory = self.directory.join(BACKUPS);
        let temporary = tempfile::NamedTempFile::new_in(self.directory.join(INCOMING))?;
        self.write_sealed(
            &mut serde_json::to_vec(&manifest)?.as_slice(),
            temporary.as_file(),
        )?;
        temporary.as_file().sync_all()?;
        let persisted = temporary.persist_noclobber(directory.join(id.as_str()));
        persisted.map_err(|failed| failed.error)?;
        File::open(directory)?.sync_all()
    }

    /// Returns the manifest of a backup.
    pub(super) fn manifest(&self, id: &BackupId) -> io::Result<StoredFile> {
        let source = File::open(self.directory.join(BACKUPS).join(id.as_str()))?;
        let source: Box<dyn Read> = match &self.key {
            Some(key) => Box::new(OpeningReader::begin(source, key)?),
            None => Box::new(source),
        };
        let mut text = Vec::new();
        source.take(MAX_BACKUP_FILE_BYTES).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Returns the complete backups, oldest first.
    pub(super) fn backups(&self) -> io::Result<Vec<BackupId>> {
        let mut found = Vec::new();
        let entries = match fs::read_dir(self.directory.join(BACKUPS)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
            entries => entries?,
        };
        for entry in entries {
            let name = entry?.file_name();
            found.extend(name.to_str().and_then(BackupId::parse));
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Deletes the file of a backup. Its content remains until [`Self::delete`].
    pub(super) fn remove(&self, id: &BackupId) -> io::Result<()> {
        let directory = self.directory.join(BACKUPS);
        fs::remove_file(directory.join(id.as_str()))?;
        File::open(directory)?.sync_all()
    }

    /// Returns the names of all stored files for which `condition` is true. Other entries have paths as names.
    pub(super) fn names(&self, condition: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        let root = self.directory.join(FILES);
        for directory in fs::read_dir(&root)? {
            let directory = directory?;
            let parent = directory.file_name().to_string_lossy().into_owned();
            if !directory.file_type()?.is_dir() {
                found.push(parent);
                continue;
            }
            for entry in fs::read_dir(directory.path())? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if !is_file_name(&name) || name[..2] != parent {
                    found.push(format!("{parent}/{name}"));
                } else if condition(&name) {
                    found.push(name);
                }
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Deletes a stored file.
    pub(super) fn delete(&self, name: &str) -> io::Result<u64> {
        let path = self.stored_path(name);
        let size = fs::metadata(&path)?.len();
        fs::remove_file(path)?;
        Ok(size)
    }
}

/// Returns whether a name has the form of a stored file.
pub(super) fn is_file_name(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

struct WrittenFile {
    file: StoredFile,
    temporary: tempfile::NamedTempFile,
}

struct HashingReader<'a> {
    source: &'a mut dyn Read,
    hash: Sha256,
    size: u64,
}

impl Read for HashingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(buffer)?;
        self.hash.update(&buffer[..length]);
        self.size += length as u64;
        Ok(length)
    }
}

/// Reads the content of a stored file, and compares it with its digest at the end.
pub(super) struct CheckedReader {
    source: Box<dyn Read + Send>,
    /// `None` after the end.
    hash: Option<Sha256>,
    expected: FileDigest,
}

impl Read for CheckedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(buffer)?;
        match &mut self.hash {
            Some(hash) if length > 0 => hash.update(&buffer[..length]),
            _ if buffer.is_empty() => {}
            hash => {
                let found = hash.take().map(Sha256::finalize);
                if found.is_some_and(|found| found[..] != self.expected.0) {
                    return Err(io::Error::new(ErrorKind::InvalidData, "its content is damaged"));
                }
            }
        }
        Ok(length)
    }
}

fn create_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Locks the directory. A medium that cannot be written has no lock.
fn lock(directory: &Path, access: Access) -> Result<Option<File>> {
    let path = directory.join(LOCK);
    let at = |error: io::Error| rejected(format!("{}: {error}", path.display()));
    let (file, locked) = match access {
        Access::Write => {
            let mut options = OpenOptions::new();
            let file = options
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path);
            let file = file.map_err(at)?;
            let locked = file.try_lock();
            (file, locked)
        }
        Access::Read => match File::open(&path) {
            Err(_) => return Ok(None),
            Ok(file) => {
                let locked = file.try_lock_shared();
                (file, locked)
            }
        },
    };
    match locked {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(rejected(format!(
            "another command uses the backups in {}; run the command again when it has finished",
            directory.display()
        ))),
        Err(TryLockError::Error(error)) => Err(at(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn directory_of_incoming_files_exists_until_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let store = FileStore::open(directory.path(), None, Access::Write).unwrap();
        store.begin().unwrap();
        let incoming = File::open(directory.path().join(INCOMING)).unwrap();
        fs::create_dir_all(directory.path().join(INCOMING).join("other/folder")).unwrap();
        let file = store.add(&mut &b"content"[..]).unwrap();
        assert!(store.contains(file));
        // As if the first backup had been interrupted.
        store.begin().unwrap();
        assert!(!store.contains(file));

        let file = store.add(&mut &b"content"[..]).unwrap();
        let name = store.name(file.digest).unwrap();
        store.publish(&HashSet::from([name.clone()])).unwrap();
        assert_eq!(store.names(|_| true).unwrap(), [name]);
        assert!(store.has_incoming());
        assert_ne!(
            incoming.metadata().unwrap().nlink(),
            0,
            "the directory was deleted and created again"
        );
        store.end().unwrap();
        assert!(!store.has_incoming());
    }
}
