//! Encryption of a message.

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};

use super::KEY_LENGTH;

/// Length of a nonce in bytes. Random nonces of this length do not repeat.
pub const NONCE_LENGTH: usize = 24;
/// Number of bytes by which an encrypted message is longer than the message.
pub const TAG_LENGTH: usize = 16;

/// A key of XChaCha20-Poly1305.
#[derive(Clone)]
pub struct Cipher(XChaCha20Poly1305);

impl Cipher {
    /// Creates a cipher with a key.
    #[must_use]
    pub fn new(key: &[u8; KEY_LENGTH]) -> Self {
        Self(XChaCha20Poly1305::new(key.into()))
    }

    /// Encrypts a message. `context` is authenticated, but not part of the result. Returns `None` if the message is longer
    /// than 256 GiB, the limit of the cipher.
    #[must_use]
    pub fn encrypt(&self, nonce: &[u8; NONCE_LENGTH], message: &[u8], context: &[u8]) -> Option<Vec<u8>> {
        let payload = Payload {
            msg: message,
            aad: context,
        };
        self.0.encrypt(&XNonce::from(*nonce), payload).ok()
    }

    /// Decrypts a message. Returns `None` if the message, the nonce or the context was changed, or if the key is wrong.
    #[must_use]
    pub fn decrypt(&self, nonce: &[u8; NONCE_LENGTH], sealed: &[u8], context: &[u8]) -> Option<Vec<u8>> {
        let payload = Payload {
            msg: sealed,
            aad: context,
        };
        self.0.decrypt(&XNonce::from(*nonce), payload).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_nonce_and_context_decrypt() {
        let (cipher, nonce) = (Cipher::new(&[1; KEY_LENGTH]), [2; NONCE_LENGTH]);
        let sealed = cipher
            .encrypt(&nonce, b"message", b"context")
            .expect("a short message");
        assert_eq!(sealed.len(), b"message".len() + TAG_LENGTH);
        assert_eq!(
            cipher.decrypt(&nonce, &sealed, b"context").as_deref(),
            Some(b"message".as_slice())
        );
        let mut changed = sealed.clone();
        changed[0] ^= 1;
        assert_eq!(cipher.decrypt(&nonce, &changed, b"context"), None);
        assert_eq!(cipher.decrypt(&nonce, &sealed, b"other"), None);
        assert_eq!(cipher.decrypt(&[3; NONCE_LENGTH], &sealed, b"context"), None);
        assert_eq!(
            cipher.decrypt(&nonce, &sealed[..TAG_LENGTH - 1], b"context"),
            None
        );
        let other = Cipher::new(&[4; KEY_LENGTH]);
        assert_eq!(other.decrypt(&nonce, &sealed, b"context"), None);
    }

    /// The test vector of section A.3.1 of draft-irtf-cfrg-xchacha-03, so a new version of the library reads stored values.
    #[test]
    fn messages_have_the_standard_format() {
        let key: Vec<u8> = (0x80..0xa0).collect();
        let nonce: Vec<u8> = (0x40..0x58).collect();
        let context = hex::decode("50515253c0c1c2c3c4c5c6c7").expect("hex digits");
        let message = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
        let cipher = Cipher::new(key.as_slice().try_into().expect("a key"));
        let sealed = cipher
            .encrypt(nonce.as_slice().try_into().expect("a nonce"), message, &context)
            .expect("a short message");
        assert_eq!(
            hex::encode(&sealed[message.len()..]),
            "c0875924c1c7987947deafd8780acf49"
        );
        assert_eq!(hex::encode(&sealed[..16]), "bd6d179d3e83d43b9576579493c0e939");
    }
}
