//! OpenPGP keys and signatures that GnuPG created.

macro_rules! sample {
    ($file:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/crates/domain/src/kernel/public_keys/openpgp/samples/",
            $file
        ))
    };
}

/// Key of `Ada Lovelace <ada@example.com>`, whose subkey signs.
pub const ADA: &str = sample!("ada.asc");
/// Fingerprint of [`ADA`].
pub const ADA_FINGERPRINT: &str = "FA2484F7F21019347391E391A805B594A15353A3";
/// Key ID of [`ADA`].
pub const ADA_KEY_ID: &str = "A805B594A15353A3";
/// Key ID of the subkey of [`ADA`] that signs.
pub const ADA_SUBKEY_ID: &str = "4F0DC8EF304BA737";
/// Signature by [`ADA`].
pub const ADA_SIGNATURE: &str = sample!("ada.sig");
/// The secret key of [`ADA`].
pub const ADA_SECRET: &str = sample!("ada_secret.asc");
/// RSA key of `Ada R <ada@example.com>`.
pub const RSA: &str = sample!("rsa.asc");
/// Signature by [`RSA`].
pub const RSA_SIGNATURE: &str = sample!("rsa.sig");
/// Key of `Ada P <ada@example.com>`.
pub const P256: &str = sample!("p256.asc");
/// An expired key.
pub const EXPIRED: &str = sample!("expired.asc");
/// A revoked key.
pub const REVOKED: &str = sample!("revoked.asc");
/// Key of `Ben <ben@example.com>`.
pub const BEN: &str = sample!("user_ids.asc");
/// Signature by [`BEN`].
pub const BEN_SIGNATURE: &str = sample!("user_ids.sig");
