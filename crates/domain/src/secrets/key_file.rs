//! The file that contains the keys of an instance.
//!
//! A file with one key contains its 32 bytes. A file with several keys is text: the line [`HEADER`], and one key
//! per line in base64url, oldest first. Older versions support only the first form, and refuse the second form
//! because of its length. The database names the current key, so the order of the keys is not important for encryption.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use super::error::Error;
use super::key::{KEY_LENGTH, Key};
use super::secret::Secret;

/// First line of a file with several keys.
const HEADER: &str = "holdfast-keys v1";
/// Maximum number of keys in a file. A rotation needs two.
pub const MAX_KEYS: usize = 16;
/// Maximum length of a file in bytes. A file with the maximum number of keys is shorter.
const MAX_LENGTH: u64 = 4096;

/// The keys of a file, oldest first, with the path of the file.
pub struct KeyFile {
    path: PathBuf,
    keys: Vec<Secret<[u8; KEY_LENGTH]>>,
    version: FileVersion,
}

/// Identifies one state of a file, except for changes that the times of the file system do not distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileVersion([i64; 6]);

impl FileVersion {
    fn of(metadata: &Metadata) -> Self {
        // The number is only compared, so an overflow has no effect.
        let [inode, length] = [metadata.ino(), metadata.len()].map(u64::cast_signed);
        Self([
            inode,
            length,
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        ])
    }

    /// Returns the state of a file.
    pub(super) fn read(path: &Path) -> std::io::Result<Self> {
        Ok(Self::of(&std::fs::metadata(path)?))
    }
}

impl KeyFile {
    /// Reads a file, or creates it atomically with one key, readable only by its owner. Several processes may
    /// start at once. Blocks.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::KeyFile`] if the file is malformed.
    pub fn open(path: &Path) -> Result<Self, Error> {
        match Self::read(path) {
            Err(Error::Io(error)) if error.kind() == ErrorKind::NotFound => {}
            found => return found,
        }
        let created = write_temporary(path, &rand::random::<[u8; KEY_LENGTH]>()).and_then(|file| {
            // Fails if the path exists.
            file.persist_noclobber(path).map_err(|error| error.error)?;
            sync_directory(path)
        });
        match created {
            // Another process created the file first; its key is used.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => created?,
        }
        Self::read(path)
    }

    /// Reads a file, which must exist. Blocks.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.permissions().mode() & 0o077 != 0 {
            tracing::warn!(path = %path.display(), "found a key file that other users can read");
        }
        let mut bytes = Vec::new();
        file.take(MAX_LENGTH + 1).read_to_end(&mut bytes)?;
        Ok(Self {
            path: path.to_owned(),
            keys: parse(&bytes)?,
            version: FileVersion::of(&metadata),
        })
    }

    /// Returns the fingerprints of the keys, oldest first.
    #[must_use]
    pub fn fingerprints(&self) -> Vec<String> {
        let keys = self.keys().into_iter();
        keys.map(|key| key.fingerprint).collect()
    }

    /// Returns the keys, oldest first.
    pub(super) fn keys(&self) -> Vec<Key> {
        self.keys.iter().map(|key| Key::new(key.expose())).collect()
    }

    pub(super) fn version(&self) -> FileVersion {
        self.version
    }

    /// Adds a new key, replaces the file, and returns the fingerprint of the key. One process changes a file at a time.
    /// Blocks.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::KeyFile`] if the file has the maximum number of keys.
    pub fn add_key(&mut self) -> Result<String, Error> {
        if self.keys.len() >= MAX_KEYS {
            return Err(Error::KeyFile(format!(
                "it already has the maximum of {MAX_KEYS} keys"
            )));
        }
        let known = self.keys();
        // Encrypted values name their key by its short ID, so two keys must not share one.
        let (bytes, key) = loop {
            let bytes: [u8; KEY_LENGTH] = rand::random();
            let key = Key::new(&bytes);
            if known.iter().all(|known| known.id != key.id) {
                break (bytes, key);
            }
        };
        self.keys.push(Secret::new(bytes));
        self.replace()?;
        Ok(key.fingerprint)
    }

    /// Removes all keys that are not needed, and replaces the file. `is_needed` receives the prefix of the values
    /// that are encrypted with a key. Returns the number of removed keys. Never removes all keys. Blocks.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::KeyFile`] if no key would be left.
    pub fn retain(&mut self, is_needed: impl Fn(&str) -> bool) -> Result<usize, Error> {
        let count = self.keys.len();
        let kept = self
            .keys
            .iter()
            .filter(|key| is_needed(&Key::new(key.expose()).prefix()));
        let kept: Vec<_> = kept.cloned().collect();
        if kept.is_empty() {
            return Err(Error::KeyFile("it has none of the keys in use".to_owned()));
        }
        if kept.len() < count {
            self.keys = kept;
            self.replace()?;
        }
        Ok(count - self.keys.len())
    }

    fn replace(&mut self) -> Result<(), Error> {
        let bytes = Secret::new(format(&self.keys));
        // Always the same name, so that a killed process leaves at most one file with keys, which the next one
        // replaces.
        let new = self.path.with_added_extension("new");
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(bytes.expose())?;
        keep_owner(&file, &self.path)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        sync_directory(&self.path)?;
        self.version = FileVersion::read(&self.path)?;
        Ok(())
    }
}

/// The keys of several key files, each once.
#[derive(Debug, Clone)]
pub struct MergedKeys(Vec<Secret<[u8; KEY_LENGTH]>>);

impl MergedKeys {
    /// Merges the contents of key files, in the order of their age.
    ///
    /// # Errors
    /// [`Error::KeyFile`] if a content is malformed or the result has more than the maximum number of keys.
    pub fn of(contents: &[Secret<Vec<u8>>]) -> Result<Self, Error> {
        let mut keys: Vec<Secret<[u8; KEY_LENGTH]>> = Vec::new();
        for content in contents {
            for key in parse(content.expose())? {
                if !keys.iter().any(|known| known.expose() == key.expose()) {
                    keys.push(key);
                }
            }
        }
        match keys.len() > MAX_KEYS {
            true => Err(Error::KeyFile(format!("it has more than {MAX_KEYS} keys"))),
            false => Ok(Self(keys)),
        }
    }

    /// Returns whether one of the keys has this fingerprint.
    #[must_use]
    pub fn contains(&self, fingerprint: &str) -> bool {
        let mut keys = self.0.iter().map(|key| Key::new(key.expose()));
        keys.any(|key| key.fingerprint == fingerprint)
    }

    /// Writes the keys to a new file, readable only by its owner. Blocks.
    ///
    /// # Errors
    /// Returns an error if the path exists or a file operation fails.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let bytes = Secret::new(format(&self.0));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(bytes.expose())?;
        file.sync_all()?;
        sync_directory(path)
    }
}

/// Gives a new file the owner of the file that it replaces. Otherwise, a server could not read a key that root has
/// replaced.
fn keep_owner(new: &File, former: &Path) -> std::io::Result<()> {
    let (former, created) = (std::fs::metadata(former)?, new.metadata()?);
    if (former.uid(), former.gid()) == (created.uid(), created.gid()) {
        return Ok(());
    }
    std::os::unix::fs::fchown(new, Some(former.uid()), Some(former.gid()))
}

fn format(keys: &[Secret<[u8; KEY_LENGTH]>]) -> Vec<u8> {
    if let [key] = keys {
        return key.expose().to_vec();
    }
    let mut text = format!("{HEADER}\n");
    for key in keys {
        URL_SAFE_NO_PAD.encode_string(key.expose(), &mut text);
        text.push('\n');
    }
    text.into_bytes()
}

fn parse(bytes: &[u8]) -> Result<Vec<Secret<[u8; KEY_LENGTH]>>, Error> {
    if let Ok(key) = <[u8; KEY_LENGTH]>::try_from(bytes) {
        return Ok(vec![Secret::new(key)]);
    }
    let malformed = |cause: String| Error::KeyFile(cause);
    let text = std::str::from_utf8(bytes).ok();
    let lines = text.and_then(|text| text.strip_prefix(HEADER)?.strip_prefix('\n'));
    let Some(lines) = lines else {
        return Err(malformed(format!(
            "it must contain {KEY_LENGTH} bytes, or the line `{HEADER}` and one key per line, but has {} bytes of \
             another form; restore it from a backup",
            bytes.len()
        )));
    };
    // A line without its end may be cut off.
    let Some(lines) = lines.strip_suffix('\n') else {
        return Err(malformed(
            "its last line is incomplete; restore it from a backup".to_owned(),
        ));
    };
    let mut keys: Vec<Secret<[u8; KEY_LENGTH]>> = Vec::new();
    for (index, line) in lines.split('\n').enumerate() {
        let number = index + 2;
        let bytes = URL_SAFE_NO_PAD
            .decode(line)
            .ok()
            .and_then(|bytes| bytes.try_into().ok());
        let key: [u8; KEY_LENGTH] = bytes.ok_or_else(|| {
            malformed(format!(
                "line {number} is not a key of {KEY_LENGTH} bytes in base64url; restore it from a backup"
            ))
        })?;
        if keys.iter().any(|known| *known.expose() == key) {
            return Err(malformed(format!("line {number} repeats a key; delete the line")));
        }
        if keys.len() == MAX_KEYS {
            return Err(malformed(format!("it has more than {MAX_KEYS} keys")));
        }
        keys.push(Secret::new(key));
    }
    Ok(keys)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Writes a temporary file with the mode 0600 next to a path.
fn write_temporary(path: &Path, bytes: &[u8]) -> std::io::Result<tempfile::NamedTempFile> {
    let directory = parent(path);
    std::fs::create_dir_all(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

fn sync_directory(path: &Path) -> std::io::Result<()> {
    File::open(parent(path))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        (directory, path)
    }

    #[test]
    fn keys_are_added_and_removed() {
        let (directory, path) = file(&[7; KEY_LENGTH]);
        let mut keys = KeyFile::open(&path).unwrap();
        let first = keys.fingerprints();
        // A killed process left a file behind.
        std::fs::write(path.with_extension("new"), "partial").unwrap();
        let second = keys.add_key().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with("holdfast-keys v1\nBwcHBwc") && text.lines().count() == 3,
            "{text}"
        );
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let mut again = KeyFile::read(&path).unwrap();
        assert_eq!(again.fingerprints(), [first[0].clone(), second.clone()]);
        assert_eq!(again.retain(|_| true).unwrap(), 0);
        assert!(again.retain(|_| false).is_err());
        let prefix = again.keys()[1].prefix();
        assert_eq!(again.retain(|key| key == prefix).unwrap(), 1);
        // A file with one key has the form that all versions read.
        assert_eq!(std::fs::read(&path).unwrap().len(), KEY_LENGTH);
        assert_eq!(KeyFile::read(&path).unwrap().fingerprints(), [second]);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn merged_keys_are_written_once_each() {
        let (directory, first) = file(&[7; KEY_LENGTH]);
        let mut keys = KeyFile::open(&first).unwrap();
        let contents = || Secret::new(std::fs::read(&first).unwrap());
        let before = contents();
        keys.add_key().unwrap();
        let merged = MergedKeys::of(&[before, contents(), Secret::new(vec![9; KEY_LENGTH])]).unwrap();
        let path = directory.path().join("merged");
        merged.write(&path).unwrap();
        let found = KeyFile::read(&path).unwrap().fingerprints();
        assert_eq!(found.len(), 3);
        assert_eq!(found[..2], keys.fingerprints());
        assert!(found.iter().all(|key| merged.contains(key)) && !merged.contains("other"));
        assert!(merged.write(&path).is_err());
        assert!(MergedKeys::of(&[Secret::new(b"x".to_vec())]).is_err());
        let many: Vec<_> = (0..=u8::try_from(MAX_KEYS).unwrap())
            .map(|byte| Secret::new(vec![byte; KEY_LENGTH]))
            .collect();
        assert!(MergedKeys::of(&many).is_err() && MergedKeys::of(&many[1..]).is_ok());
    }

    #[test]
    fn file_has_a_maximum_number_of_keys() {
        let (_directory, path) = file(&[7; KEY_LENGTH]);
        let mut keys = KeyFile::open(&path).unwrap();
        for _ in 1..MAX_KEYS {
            keys.add_key().unwrap();
        }
        assert!(matches!(keys.add_key(), Err(Error::KeyFile(_))));
        assert_eq!(KeyFile::read(&path).unwrap().keys.len(), MAX_KEYS);
        let text = std::fs::read_to_string(&path).unwrap();
        let more = format!("{text}{}\n", URL_SAFE_NO_PAD.encode([9; KEY_LENGTH]));
        std::fs::write(&path, more).unwrap();
        assert!(matches!(KeyFile::read(&path), Err(Error::KeyFile(_))));
    }

    #[test]
    fn malformed_files_are_rejected_with_a_cause() {
        let key = URL_SAFE_NO_PAD.encode([7; KEY_LENGTH]);
        let long = "x".repeat(5000);
        for (content, cause) in [
            (String::new(), "0 bytes of another form"),
            ("x".repeat(KEY_LENGTH - 1), "31 bytes of another form"),
            ("x".repeat(KEY_LENGTH + 1), "33 bytes of another form"),
            (long, "4097 bytes of another form"),
            (format!("holdfast-keys v2\n{key}\n"), "of another form"),
            (HEADER.to_owned(), "of another form"),
            (format!("{HEADER}\n"), "its last line is incomplete"),
            (format!("{HEADER}\n\n"), "line 2 is not a key"),
            (format!("{HEADER}\n{key}"), "its last line is incomplete"),
            (
                format!("{HEADER}\n{key}\n{}\n", &key[..40]),
                "line 3 is not a key",
            ),
            (format!("{HEADER}\n{key}\n{key}\n"), "line 3 repeats a key"),
            (format!("{HEADER}\r\n{key}\r\n"), "of another form"),
        ] {
            let (_directory, path) = file(content.as_bytes());
            let error = KeyFile::open(&path).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(cause), "{content}: {error}");
            assert!(!error.contains(&key), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), content.as_bytes());
        }
    }
}
