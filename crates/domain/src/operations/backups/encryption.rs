//! Encryption of the files of backups (ADR 47).
//!
//! A random key encrypts the files. A key that is derived from the passphrase encrypts this key. Each file is divided into
//! chunks, which are encrypted with XChaCha20-Poly1305 by the STREAM construction. So a chunk that is changed, moved or
//! removed is detected, also at the end of a file.

use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use cryptography::{
    ChunkDecryptor, ChunkEncryptor, Cipher, KEY_LENGTH, NONCE_LENGTH, STREAM_PREFIX_LENGTH as PREFIX_LENGTH,
    TAG_LENGTH, derive_key,
};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::rejected;
use crate::kernel::error::{Error, Result};
use crate::secrets::Secret;

/// Length of a chunk before encryption in bytes.
const CHUNK_LENGTH: usize = 64 << 10;
/// Length of the salt in bytes.
const SALT_LENGTH: usize = 16;
/// Memory of the key derivation in KiB.
const MEMORY_KIB: u32 = 64 << 10;
/// Passes of the key derivation.
const PASSES: u32 = 3;
/// Maximum memory in KiB and passes that a header can request.
const MAX_COST: (u32, u32) = (1 << 20, 16);
/// Minimum length of a passphrase in characters.
const MIN_PASSPHRASE: usize = 16;
/// Maximum length of a file with a passphrase in bytes.
const MAX_PASSPHRASE_BYTES: u64 = 4096;

/// The parameters of the encryption, which are not secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct EncryptionHeader {
    memory_kib: u32,
    passes: u32,
    salt: String,
    sealed_key: String,
}

/// The keys of a directory of backups.
pub(super) struct BackupKey {
    content: [u8; KEY_LENGTH],
    names: [u8; KEY_LENGTH],
}

/// Reads a passphrase: the content of a file without the end of its last line.
///
/// # Errors
/// Returns `Error::Rejected` if the file cannot be read, is too long or not text, or if the passphrase is too short.
pub fn read_passphrase(path: &Path) -> Result<Secret> {
    let name = path.display();
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(MAX_PASSPHRASE_BYTES + 1).read_to_string(&mut text));
    read.map_err(|error| rejected(format!("passphrase file {name}: {error}")))?;
    if text.len() as u64 > MAX_PASSPHRASE_BYTES {
        return Err(rejected(format!(
            "passphrase file {name} is too long (maximum is {MAX_PASSPHRASE_BYTES} bytes)"
        )));
    }
    let passphrase = text.trim_end_matches(['\r', '\n']);
    if passphrase.chars().count() < MIN_PASSPHRASE {
        return Err(rejected(format!(
            "the passphrase in {name} is too short (minimum is {MIN_PASSPHRASE} characters); \
             `openssl rand -base64 32` creates one"
        )));
    }
    Ok(Secret::new(passphrase.to_owned()))
}

impl EncryptionHeader {
    /// Creates a random key that is protected by a passphrase.
    pub(super) fn create(passphrase: &Secret) -> Result<(Self, BackupKey)> {
        let (salt, master): ([u8; SALT_LENGTH], [u8; KEY_LENGTH]) = (rand::random(), rand::random());
        let cipher = derive(passphrase, &salt, MEMORY_KIB, PASSES)?;
        let nonce: [u8; NONCE_LENGTH] = rand::random();
        let sealed = cipher.encrypt(&nonce, &master, b"");
        let sealed = sealed.ok_or_else(|| Error::internal("failed to encrypt a key"))?;
        let header = Self {
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            salt: hex::encode(salt),
            sealed_key: hex::encode([nonce.as_slice(), &sealed].concat()),
        };
        Ok((header, BackupKey::of(&master)?))
    }

    /// Decrypts the key.
    pub(super) fn open(&self, passphrase: &Secret) -> Result<BackupKey> {
        let damaged = || rejected("the header of the backups is damaged".to_owned());
        if self.memory_kib > MAX_COST.0 || self.passes > MAX_COST.1 {
            return Err(damaged());
        }
        let salt = hex::decode(&self.salt).map_err(|_| damaged())?;
        let sealed = hex::decode(&self.sealed_key).map_err(|_| damaged())?;
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LENGTH>().ok_or_else(damaged)?;
        let cipher = derive(passphrase, &salt, self.memory_kib, self.passes).map_err(|_| damaged())?;
        let master = cipher.decrypt(nonce, sealed, b"");
        let wrong = "the passphrase is wrong, or the header of the backups is damaged";
        let master: [u8; KEY_LENGTH] = master
            .and_then(|master| master.try_into().ok())
            .ok_or_else(|| rejected(wrong.to_owned()))?;
        BackupKey::of(&master)
    }
}

fn derive(passphrase: &Secret, salt: &[u8], memory_kib: u32, passes: u32) -> Result<Cipher> {
    let key =
        derive_key(passphrase.expose().as_bytes(), salt, memory_kib, passes).map_err(Error::internal)?;
    Ok(Cipher::new(&key))
}

/// Returns the HMAC-SHA-256 of a text.
fn authenticate(key: &[u8; KEY_LENGTH], text: &[u8]) -> Result<[u8; KEY_LENGTH]> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(Error::internal)?;
    mac.update(text);
    Ok(mac.finalize().into_bytes().into())
}

impl BackupKey {
    fn of(master: &[u8; KEY_LENGTH]) -> Result<Self> {
        Ok(Self {
            content: authenticate(master, b"holdfast backup content")?,
            names: authenticate(master, b"holdfast backup names")?,
        })
    }

    /// Returns the name of a file with a digest, which reveals nothing of the content.
    pub(super) fn name(&self, digest: &[u8; KEY_LENGTH]) -> Result<String> {
        Ok(hex::encode(authenticate(&self.names, digest)?))
    }
}

/// Returns the size of an encrypted file in bytes. `size` is that of its content.
pub(super) fn sealed_size(size: u64) -> u64 {
    let chunks = size.div_ceil(CHUNK_LENGTH as u64).max(1);
    PREFIX_LENGTH as u64 + size + chunks * TAG_LENGTH as u64
}

/// Encrypts a file while it is written.
pub(super) struct SealingWriter<W> {
    target: W,
    stream: ChunkEncryptor,
    chunk: Vec<u8>,
}

fn failed() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "it cannot be decrypted")
}

impl<W: Write> SealingWriter<W> {
    pub(super) fn begin(mut target: W, key: &BackupKey) -> io::Result<Self> {
        let prefix: [u8; PREFIX_LENGTH] = rand::random();
        target.write_all(&prefix)?;
        Ok(Self {
            target,
            stream: ChunkEncryptor::new(&key.content, &prefix),
            chunk: Vec::with_capacity(CHUNK_LENGTH),
        })
    }

    /// Writes the last chunk and returns the target.
    pub(super) fn finish(mut self) -> io::Result<W> {
        let sealed = self.stream.last(&self.chunk);
        self.target.write_all(&sealed.ok_or_else(failed)?)?;
        Ok(self.target)
    }
}

impl<W: Write> Write for SealingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.chunk.len() == CHUNK_LENGTH {
            let sealed = self.stream.next(&self.chunk);
            self.target.write_all(&sealed.ok_or_else(failed)?)?;
            self.chunk.clear();
        }
        let length = bytes.len().min(CHUNK_LENGTH - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}

/// Decrypts a file while it is read.
pub(super) struct OpeningReader<R> {
    source: R,
    /// `None` after the last chunk.
    stream: Option<ChunkDecryptor>,
    /// The next encrypted chunk. Whether it is the last one is known when the chunk after it was read.
    next: Vec<u8>,
    plain: Vec<u8>,
    position: usize,
}

impl<R: Read> OpeningReader<R> {
    pub(super) fn begin(mut source: R, key: &BackupKey) -> io::Result<Self> {
        let mut prefix = [0; PREFIX_LENGTH];
        source.read_exact(&mut prefix).map_err(|_| failed())?;
        let next = read_chunk(&mut source)?;
        Ok(Self {
            source,
            stream: Some(ChunkDecryptor::new(&key.content, &prefix)),
            next,
            plain: Vec::new(),
            position: 0,
        })
    }
}

fn read_chunk(source: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut chunk = Vec::with_capacity(CHUNK_LENGTH + TAG_LENGTH);
    source
        .take((CHUNK_LENGTH + TAG_LENGTH) as u64)
        .read_to_end(&mut chunk)?;
    Ok(chunk)
}

impl<R: Read> Read for OpeningReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.position == self.plain.len() {
            let Some(mut stream) = self.stream.take() else {
                return Ok(0);
            };
            let current = std::mem::take(&mut self.next);
            self.next = read_chunk(&mut self.source)?;
            let opened = if self.next.is_empty() {
                stream.last(&current)
            } else {
                let opened = stream.next(&current);
                self.stream = Some(stream);
                opened
            };
            self.plain = opened.ok_or_else(failed)?;
            self.position = 0;
        }
        let length = buffer.len().min(self.plain.len() - self.position);
        buffer[..length].copy_from_slice(&self.plain[self.position..self.position + length]);
        self.position += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> BackupKey {
        BackupKey::of(&[7; KEY_LENGTH]).expect("a key")
    }

    fn seal(content: &[u8]) -> Vec<u8> {
        let mut writer = SealingWriter::begin(Vec::new(), &key()).expect("a writer");
        for piece in content.chunks(10_007) {
            writer.write_all(piece).expect("writing");
        }
        writer.finish().expect("the end")
    }

    fn open(sealed: &[u8]) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        OpeningReader::begin(sealed, &key())?.read_to_end(&mut content)?;
        Ok(content)
    }

    #[test]
    fn files_of_every_length_are_decrypted_and_reveal_only_their_size() {
        for length in [
            0,
            1,
            CHUNK_LENGTH - 1,
            CHUNK_LENGTH,
            CHUNK_LENGTH + 1,
            3 * CHUNK_LENGTH,
        ] {
            let content = vec![b'a'; length];
            let sealed = seal(&content);
            assert_eq!(sealed.len() as u64, sealed_size(length as u64), "{length}");
            assert!(!sealed.windows(8).any(|window| window == b"aaaaaaaa"), "{length}");
            assert!(open(&sealed).expect("a content") == content, "{length}");
        }
        assert_ne!(seal(b"same"), seal(b"same"));
    }

    #[test]
    fn changed_truncated_extended_and_reordered_files_are_rejected() {
        let content: Vec<u8> = (0..2 * CHUNK_LENGTH + 9).map(|n| (n % 251) as u8).collect();
        let sealed = seal(&content);
        let chunk = CHUNK_LENGTH + TAG_LENGTH;
        for position in [0, PREFIX_LENGTH, PREFIX_LENGTH + chunk - 1, sealed.len() - 1] {
            let mut changed = sealed.clone();
            changed[position] ^= 1;
            assert!(open(&changed).is_err(), "byte {position}");
        }
        for length in [
            0,
            5,
            PREFIX_LENGTH,
            PREFIX_LENGTH + chunk,
            PREFIX_LENGTH + 2 * chunk,
            sealed.len() - 1,
        ] {
            assert!(open(&sealed[..length]).is_err(), "length {length}");
        }
        assert!(open(&[&sealed[..], b"x"].concat()).is_err());
        let (first, second) = (
            PREFIX_LENGTH..PREFIX_LENGTH + chunk,
            PREFIX_LENGTH + chunk..PREFIX_LENGTH + 2 * chunk,
        );
        let parts = [
            &sealed[..PREFIX_LENGTH],
            &sealed[second.clone()],
            &sealed[first],
            &sealed[second.end..],
        ];
        assert!(open(&parts.concat()).is_err());
    }

    #[test]
    fn only_the_passphrase_opens_the_key() {
        let (header, key) =
            EncryptionHeader::create(&Secret::new("the right passphrase".to_owned())).expect("a header");
        let opened = header
            .open(&Secret::new("the right passphrase".to_owned()))
            .expect("the key");
        assert!(opened.content == key.content && opened.names == key.names && key.names != key.content);
        let wrong = header.open(&Secret::new("another passphrase".to_owned()));
        assert!(wrong.is_err_and(|error| error.to_string().contains("the passphrase is wrong")));
        for header in [
            EncryptionHeader {
                memory_kib: u32::MAX,
                ..header.clone()
            },
            EncryptionHeader {
                passes: 17,
                ..header.clone()
            },
            EncryptionHeader {
                salt: "zz".to_owned(),
                ..header.clone()
            },
            EncryptionHeader {
                sealed_key: "00".to_owned(),
                ..header.clone()
            },
        ] {
            let opened = header.open(&Secret::new("the right passphrase".to_owned()));
            assert!(opened.is_err_and(|error| error.to_string().contains("damaged")));
        }
    }

    #[test]
    fn passphrase_file_is_checked() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("passphrase");
        assert!(read_passphrase(&path).is_err());
        for (text, expected) in [
            (b"sixteen letters!\n".to_vec(), Some("sixteen letters!")),
            (
                b" inner  spaces remain \r\n".to_vec(),
                Some(" inner  spaces remain "),
            ),
            (b"short\n".to_vec(), None),
            (vec![b'x'; 5000], None),
            (vec![0xff; 20], None),
        ] {
            std::fs::write(&path, text).expect("a file");
            let found = read_passphrase(&path).ok().map(Secret::into_exposed);
            assert_eq!(found.as_deref(), expected);
        }
    }
}
