//! OpenPGP keys and detached signatures (RFC 9580).
//!
//! A key consists of a primary key, its user IDs and its subkeys. Anyone can add parts to a key, so each part counts only if
//! the primary key signed it.

mod packets;
#[cfg(test)]
mod tests;

use chrono::{DateTime, TimeDelta, Utc};
use pgp::composed::{Deserializable, DetachedSignature, SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType};
use pgp::types::{Duration, Fingerprint, KeyDetails, KeyId, KeyVersion, Tag, Timestamp};
use storage::entities::now;

/// First line of a key.
pub const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
/// Last line of a key.
pub const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";
/// Maximum number of signatures of a key that are verified.
const MAX_SIGNATURES: usize = 200;
/// Hash algorithms for which other contents with the same signature can be found.
const BROKEN_HASHES: [HashAlgorithm; 3] = [HashAlgorithm::Md5, HashAlgorithm::Sha1, HashAlgorithm::Ripemd160];

/// A public key.
#[derive(Debug, Clone)]
pub struct PublicKey(SignedPublicKey);

/// A user ID of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserId {
    /// The name; can be empty.
    pub name: String,
    /// The email address; can be empty.
    pub email: String,
}

/// The part of a key that signed a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// The key ID of the primary key or subkey: 16 hexadecimal digits in upper case.
    pub key_id: String,
    /// Whether it is a subkey.
    pub is_subkey: bool,
}

impl PublicKey {
    /// Parses one ASCII-armored public key. Returns `None` for other texts, for several keys, for a key of an obsolete or
    /// unknown version, and for a key with more bits than the server accepts.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.matches(BEGIN).count() != 1 || !text.starts_with(BEGIN) || !text.ends_with(END) {
            return None;
        }
        let packets = packets::of_key(text)?;
        let mut keys = SignedPublicKey::from_bytes_many(packets.as_slice()).ok()?;
        let key = keys.next()?.ok()?;
        let is_known = matches!(key.primary_key.version(), KeyVersion::V4 | KeyVersion::V6);
        let is_single = keys.next().is_none();
        let of_users = key.details.users.iter().map(|user| user.signatures.len());
        let of_subkeys = key.public_subkeys.iter().map(|subkey| subkey.signatures.len());
        let of_key = key.details.direct_signatures.len() + key.details.revocation_signatures.len();
        let signatures = of_key + of_users.chain(of_subkeys).sum::<usize>();
        (is_known && is_single && signatures <= MAX_SIGNATURES).then_some(Self(key))
    }

    /// Returns the fingerprint of the primary key: hexadecimal digits in upper case.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        format!("{:X}", self.0.primary_key.fingerprint())
    }

    /// Returns the key ID of the primary key.
    #[must_use]
    pub fn key_id(&self) -> String {
        hexadecimal(&self.0.primary_key.legacy_key_id())
    }

    /// Returns the key IDs of the primary key and of all subkeys that can sign contents, now or at another time.
    #[must_use]
    pub fn signing_key_ids(&self) -> Vec<String> {
        let subkeys = self.0.public_subkeys.iter();
        let signing = subkeys.filter(|subkey| self.binding(subkey).is_some());
        let ids = signing.map(|subkey| hexadecimal(&subkey.key.legacy_key_id()));
        std::iter::once(self.key_id()).chain(ids).collect()
    }

    /// Returns whether the key can sign contents at a time: it is not revoked, has a user ID, and had not expired.
    #[must_use]
    pub fn is_usable(&self, time: DateTime<Utc>) -> bool {
        self.valid_statement(time).is_some()
    }

    /// Returns the newest signature that states the expiration of the key, if the key can sign contents at a time.
    fn valid_statement(&self, time: DateTime<Utc>) -> Option<&Signature> {
        let primary = &self.0.primary_key;
        let revocations = &self.0.details.revocation_signatures;
        let is_revoked = revocations
            .iter()
            .any(|signature| signature.verify_key(primary).is_ok());
        if is_revoked {
            return None;
        }
        self.newest_statement()
            .filter(|statement| is_within(primary.created_at(), statement.key_expiration_time(), time))
    }

    /// Returns the user IDs that the primary key signed and did not revoke, the primary user ID first.
    #[must_use]
    pub fn user_ids(&self) -> Vec<UserId> {
        let mut found: Vec<(bool, UserId)> = self.statements_about_users().collect();
        // The sort keeps the order of the others.
        found.sort_by_key(|(is_primary, _)| !is_primary);
        found.into_iter().map(|(_, id)| id).collect()
    }

    fn statements_about_users(&self) -> impl Iterator<Item = (bool, UserId)> {
        self.0.details.users.iter().filter_map(|user| {
            let statement = self.statement_about(&user.signatures, |signature| {
                signature.verify_certification(&self.0.primary_key, Tag::UserId, &user.id)
            })?;
            let id = UserId::parse(user.id.as_str()?);
            Some((statement.is_primary(), id))
        })
    }

    /// Returns the newest signature that the primary key made, unless it is a revocation.
    fn statement_about<'a>(
        &self,
        signatures: &'a [Signature],
        verified: impl Fn(&Signature) -> pgp::errors::Result<()>,
    ) -> Option<&'a Signature> {
        let own = signatures.iter().filter(|signature| verified(signature).is_ok());
        own.max_by_key(|signature| signature.created())
            .filter(|signature| signature.typ() != Some(SignatureType::CertRevocation))
    }

    /// Returns the newest signature that states the expiration of the key.
    fn newest_statement(&self) -> Option<&Signature> {
        let primary = &self.0.primary_key;
        let details = &self.0.details;
        let users = details.users.iter().filter_map(|user| {
            self.statement_about(&user.signatures, |signature| {
                signature.verify_certification(primary, Tag::UserId, &user.id)
            })
        });
        let direct = self.statement_about(&details.direct_signatures, |signature| {
            signature.verify_key(primary)
        });
        users.chain(direct).max_by_key(|signature| signature.created())
    }

    /// Returns the newest signature of the primary key that lets a subkey sign contents, unless the subkey is revoked.
    fn binding<'a>(&self, subkey: &'a SignedPublicSubKey) -> Option<&'a Signature> {
        let primary = &self.0.primary_key;
        let own: Vec<&Signature> = subkey
            .signatures
            .iter()
            .filter(|signature| signature.verify_subkey_binding(primary, &subkey.key).is_ok())
            .collect();
        let is_revocation = |signature: &&Signature| signature.typ() == Some(SignatureType::SubkeyRevocation);
        if own.iter().any(is_revocation) {
            return None;
        }
        let newest = own.into_iter().max_by_key(|signature| signature.created())?;
        // The subkey must confirm that it belongs to the primary key. Otherwise, anyone could add the subkey of another.
        let confirmation = newest.embedded_signature()?;
        let is_confirmed = confirmation
            .verify_primary_key_binding(&subkey.key, primary)
            .is_ok();
        (newest.key_flags().sign() && is_confirmed).then_some(newest)
    }

    /// Returns the part of the key that made a signature of a content, if the key was usable at that time.
    #[must_use]
    pub fn verify(&self, signature: &ContentSignature, content: &[u8]) -> Option<SigningKey> {
        let time = signature.created_at()?;
        if signature.has_broken_hash() || signature.is_expired(time) {
            return None;
        }
        let flags = self.valid_statement(time)?.key_flags();
        let signed_by = |key_id: KeyId, is_subkey| SigningKey {
            key_id: hexadecimal(&key_id),
            is_subkey,
        };
        let primary = &self.0.primary_key;
        // Old keys do not state what they are for.
        let is_for_signing = flags.sign() || flags == pgp::packet::KeyFlags::default();
        if is_for_signing && signature.0.verify(primary, content).is_ok() {
            return Some(signed_by(primary.legacy_key_id(), false));
        }
        let found = self.0.public_subkeys.iter().find(|subkey| {
            signature.0.verify(&subkey.key, content).is_ok()
                && self.binding(subkey).is_some_and(|binding| {
                    is_within(subkey.key.created_at(), binding.key_expiration_time(), time)
                })
        });
        found.map(|subkey| signed_by(subkey.key.legacy_key_id(), true))
    }
}

impl UserId {
    /// Parses `Name (comment) <email>`, or an email address alone.
    fn parse(text: &str) -> Self {
        let text = text.trim();
        let parts = text.strip_suffix('>').and_then(|text| text.rsplit_once('<'));
        let (name, email) = match parts {
            Some(parts) => parts,
            None if text.contains('@') && !text.contains(char::is_whitespace) => ("", text),
            None => (text, ""),
        };
        Self {
            name: name.trim().to_owned(),
            email: email.trim().to_owned(),
        }
    }
}

/// A signature that is separate from its content.
#[derive(Debug, Clone)]
pub struct ContentSignature(DetachedSignature);

impl ContentSignature {
    /// Parses one ASCII-armored signature of a binary or a text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let packets = packets::of_signatures(text.trim())?;
        let mut signatures = DetachedSignature::from_bytes_many(packets.as_slice()).ok()?;
        let signature = signatures.next()?.ok()?;
        signatures.next().is_none().then_some(Self(signature))
    }

    /// Returns the key IDs that the signature states. They are not verified.
    #[must_use]
    pub fn issuers(&self) -> Vec<String> {
        let signature = &self.0.signature;
        let ids = signature.issuer_key_id().into_iter().map(hexadecimal);
        let of_fingerprints = signature.issuer_fingerprint().into_iter().filter_map(key_id_of);
        let mut issuers: Vec<String> = ids.chain(of_fingerprints).collect();
        issuers.sort_unstable();
        issuers.dedup();
        issuers
    }

    fn created_at(&self) -> Option<DateTime<Utc>> {
        self.0.signature.created().and_then(date)
    }

    fn has_broken_hash(&self) -> bool {
        self.0
            .signature
            .hash_alg()
            .is_none_or(|algorithm| BROKEN_HASHES.contains(&algorithm))
    }

    fn is_expired(&self, created_at: DateTime<Utc>) -> bool {
        let period = self.0.signature.signature_expiration_time();
        seconds(period).is_some_and(|period| created_at + period < now())
    }
}

/// Returns the key ID that a fingerprint contains.
fn key_id_of(fingerprint: &Fingerprint) -> Option<String> {
    let bytes = fingerprint.as_bytes();
    let id = match fingerprint {
        Fingerprint::V4(_) => bytes.last_chunk::<8>(),
        Fingerprint::V6(_) => bytes.first_chunk::<8>(),
        _ => None,
    };
    id.map(hex::encode_upper)
}

fn hexadecimal(id: &KeyId) -> String {
    hex::encode_upper(id.as_ref())
}

fn date(timestamp: Timestamp) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(timestamp.as_secs().into(), 0)
}

/// Returns a period; `None` if it is unlimited.
fn seconds(period: Option<Duration>) -> Option<TimeDelta> {
    period
        .map(Duration::as_secs)
        .filter(|&seconds| seconds > 0)
        .map(|seconds| TimeDelta::seconds(seconds.into()))
}

/// Returns whether a time is within the period that begins with the creation of a key.
fn is_within(created_at: Timestamp, period: Option<Duration>, time: DateTime<Utc>) -> bool {
    date(created_at).is_some_and(|created_at| {
        created_at <= time && seconds(period).is_none_or(|period| time < created_at + period)
    })
}
