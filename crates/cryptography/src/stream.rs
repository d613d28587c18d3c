//! Encryption of a file in chunks, by the STREAM construction. A chunk that is changed, moved or removed is detected, also at
//! the end of the file.

use aead_stream::{DecryptorBE32, EncryptorBE32};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};

use super::KEY_LENGTH;

/// Length of the random part of the nonces of a file in bytes. The other 5 bytes are a counter and the mark of the last chunk.
pub const STREAM_PREFIX_LENGTH: usize = 19;

/// Encrypts the chunks of a file in order. A file has at most 2^32 chunks.
pub struct ChunkEncryptor(EncryptorBE32<XChaCha20Poly1305>);

impl ChunkEncryptor {
    /// Starts a file. No two files with the same key may have the same `prefix`.
    #[must_use]
    pub fn new(key: &[u8; KEY_LENGTH], prefix: &[u8; STREAM_PREFIX_LENGTH]) -> Self {
        let cipher = XChaCha20Poly1305::new(key.into());
        Self(EncryptorBE32::from_aead(cipher, &(*prefix).into()))
    }

    /// Encrypts a chunk that is not the last one. Returns `None` after 2^32 chunks.
    #[must_use]
    pub fn next(&mut self, chunk: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt_next(chunk).ok()
    }

    /// Encrypts the last chunk, which can be empty. Returns `None` after 2^32 chunks.
    #[must_use]
    pub fn last(self, chunk: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt_last(chunk).ok()
    }
}

/// Decrypts the chunks of a file in order.
pub struct ChunkDecryptor(DecryptorBE32<XChaCha20Poly1305>);

impl ChunkDecryptor {
    /// Starts a file that was encrypted with this key and prefix.
    #[must_use]
    pub fn new(key: &[u8; KEY_LENGTH], prefix: &[u8; STREAM_PREFIX_LENGTH]) -> Self {
        let cipher = XChaCha20Poly1305::new(key.into());
        Self(DecryptorBE32::from_aead(cipher, &(*prefix).into()))
    }

    /// Decrypts a chunk that is not the last one. Returns `None` if the chunk is not the next chunk of the file.
    #[must_use]
    pub fn next(&mut self, sealed: &[u8]) -> Option<Vec<u8>> {
        self.0.decrypt_next(sealed).ok()
    }

    /// Decrypts the last chunk. Returns `None` if the chunk is not the last chunk of the file.
    #[must_use]
    pub fn last(self, sealed: &[u8]) -> Option<Vec<u8>> {
        self.0.decrypt_last(sealed).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; KEY_LENGTH] = [5; KEY_LENGTH];
    const PREFIX: [u8; STREAM_PREFIX_LENGTH] = [6; STREAM_PREFIX_LENGTH];

    #[test]
    fn chunks_decrypt_only_in_order() {
        let mut encryptor = ChunkEncryptor::new(&KEY, &PREFIX);
        let first = encryptor.next(b"first").expect("a chunk");
        let second = encryptor.next(b"second").expect("a chunk");
        let last = encryptor.last(b"").expect("a chunk");

        let mut decryptor = ChunkDecryptor::new(&KEY, &PREFIX);
        assert_eq!(decryptor.next(&first).as_deref(), Some(b"first".as_slice()));
        assert_eq!(decryptor.next(&second).as_deref(), Some(b"second".as_slice()));
        assert_eq!(decryptor.last(&last).as_deref(), Some(b"".as_slice()));

        let mut decryptor = ChunkDecryptor::new(&KEY, &PREFIX);
        assert_eq!(decryptor.next(&second), None);
        let decryptor = ChunkDecryptor::new(&KEY, &PREFIX);
        // The file was cut after its first chunk.
        assert_eq!(decryptor.last(&first), None);
    }
}
