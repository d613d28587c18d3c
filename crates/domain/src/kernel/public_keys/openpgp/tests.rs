//! The samples were created by GnuPG; see their README.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use pgp::composed::{ArmorOptions, Deserializable, DetachedSignature};
use pgp::ser::Serialize;

use super::{ContentSignature, PublicKey, SigningKey, UserId};

const CONTENT: &[u8] = include_bytes!("samples/content");
const ADA: &str = include_str!("samples/ada.asc");
const ADA_SIGNATURE: &str = include_str!("samples/ada.sig");
const RSA: &str = include_str!("samples/rsa.asc");
const RSA_SIGNATURE: &str = include_str!("samples/rsa.sig");
const P256: &str = include_str!("samples/p256.asc");
const EXPIRED: &str = include_str!("samples/expired.asc");
const REVOKED: &str = include_str!("samples/revoked.asc");
const REVOKED_SUBKEY: &str = include_str!("samples/revoked_subkey.asc");
const USER_IDS: &str = include_str!("samples/user_ids.asc");

fn key(text: &str) -> PublicKey {
    PublicKey::parse(text).unwrap()
}

fn verified(key: &PublicKey, signature: &str, content: &[u8]) -> Option<SigningKey> {
    key.verify(&ContentSignature::parse(signature).unwrap(), content)
}

fn ids(found: &[UserId]) -> Vec<(&str, &str)> {
    let ids = found.iter();
    ids.map(|id| (id.name.as_str(), id.email.as_str())).collect()
}

fn time(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

#[test]
fn signatures_of_gnupg_are_verified() {
    for (text, signature, key_id, is_subkey) in [
        (ADA, ADA_SIGNATURE, "4F0DC8EF304BA737", true),
        (RSA, RSA_SIGNATURE, "0FFFC0387F84EF9A", false),
        (P256, include_str!("samples/p256.sig"), "2B6AA3F047BC794D", false),
        (
            USER_IDS,
            include_str!("samples/user_ids.sig"),
            "442E72B24761EA0B",
            false,
        ),
    ] {
        let key = key(text);
        let parsed = ContentSignature::parse(signature).unwrap();
        assert_eq!(parsed.issuers(), [key_id]);
        assert!(key.signing_key_ids().contains(&key_id.to_owned()));
        let expected = SigningKey {
            key_id: key_id.to_owned(),
            is_subkey,
        };
        assert_eq!(key.verify(&parsed, CONTENT), Some(expected));
        assert_eq!(key.verify(&parsed, b"another content"), None);
    }
    assert_eq!(verified(&key(RSA), ADA_SIGNATURE, CONTENT), None);
}

#[test]
fn key_states_fingerprint_and_user_ids() {
    let ada = key(ADA);
    assert_eq!(ada.fingerprint(), "FA2484F7F21019347391E391A805B594A15353A3");
    assert_eq!(ada.key_id(), "A805B594A15353A3");
    // The subkey that encrypts is not listed.
    assert_eq!(ada.signing_key_ids(), ["A805B594A15353A3", "4F0DC8EF304BA737"]);
    assert_eq!(ids(&ada.user_ids()), [("Ada Lovelace", "ada@example.com")]);
    assert_eq!(ids(&key(USER_IDS).user_ids()), [("Ben", "ben@example.com")]);
    for (text, name, email) in [
        ("ada@example.com", "", "ada@example.com"),
        ("<ada@example.com>", "", "ada@example.com"),
        ("Ada (work) <ada@example.com>", "Ada (work)", "ada@example.com"),
        ("Ada <b> <ada@example.com> ", "Ada <b>", "ada@example.com"),
        ("Ada", "Ada", ""),
        ("Ada at home@", "Ada at home@", ""),
    ] {
        assert_eq!(ids(&[UserId::parse(text)]), [(name, email)], "{text}");
    }
}

#[test]
fn expired_key_verifies_only_earlier_signatures() {
    let expired = key(EXPIRED);
    assert!(verified(&expired, include_str!("samples/expired_early.sig"), CONTENT).is_some());
    assert_eq!(
        verified(&expired, include_str!("samples/expired.sig"), CONTENT),
        None
    );
    assert!(!expired.is_usable(Utc::now()));
    assert!(expired.is_usable(time("2023-05-01T00:00:00Z")));
    assert!(
        !expired.is_usable(time("2022-12-31T00:00:00Z")),
        "before its creation"
    );
}

#[test]
fn revoked_keys_and_weak_hashes_verify_nothing() {
    let revoked = key(REVOKED);
    assert!(!revoked.is_usable(time("2023-01-02T00:00:00Z")));
    assert_eq!(
        verified(&revoked, include_str!("samples/revoked.sig"), CONTENT),
        None
    );
    let subkey = key(REVOKED_SUBKEY);
    assert!(subkey.is_usable(Utc::now()));
    assert_eq!(subkey.signing_key_ids().len(), 1);
    assert_eq!(
        verified(&subkey, include_str!("samples/revoked_subkey.sig"), CONTENT),
        None
    );
    assert_eq!(
        verified(&key(RSA), include_str!("samples/rsa_sha1.sig"), CONTENT),
        None
    );
}

#[test]
fn foreign_parts_of_a_key_do_not_count() {
    let (ada, ben) = (key(ADA).0, key(USER_IDS).0);
    let mut forged = ben.clone();
    forged.public_subkeys.clone_from(&ada.public_subkeys);
    forged.details.users.extend(ada.details.users.clone());
    forged
        .details
        .revocation_signatures
        .clone_from(&key(REVOKED).0.details.revocation_signatures);
    let armored = forged.to_armored_string(ArmorOptions::default()).unwrap();
    let forged = key(&armored);
    assert_eq!(verified(&forged, ADA_SIGNATURE, CONTENT), None);
    assert_eq!(forged.signing_key_ids(), [forged.key_id()]);
    assert_eq!(ids(&forged.user_ids()), [("Ben", "ben@example.com")]);
    assert!(forged.is_usable(Utc::now()));

    let mut without_statements = ben;
    without_statements.details.users.clear();
    let armored = without_statements
        .to_armored_string(ArmorOptions::default())
        .unwrap();
    assert!(!key(&armored).is_usable(Utc::now()));
}

#[test]
fn only_one_armored_public_key_is_accepted() {
    assert!(PublicKey::parse(&format!("\r\n{ADA}\n")).is_some());
    assert!(PublicKey::parse(&ADA.replace('\n', "\r\n")).is_some());
    let truncated: Vec<&str> = ADA.lines().filter(|line| !line.starts_with("Im0rHM")).collect();
    let both = {
        let mut packets = Vec::new();
        for key in [key(ADA), key(RSA)] {
            packets.extend(key.0.to_bytes().unwrap());
        }
        packets
    };
    let several = armored(&both);
    for text in [
        "",
        "x",
        include_str!("samples/ada_secret.asc"),
        ADA_SIGNATURE,
        &format!("{ADA}{RSA}"),
        &format!("x{ADA}"),
        &truncated.join("\n"),
        &several,
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n-----END PGP PUBLIC KEY BLOCK-----",
        "-----BEGIN PGP PUBLIC KEY BLOCK-----",
    ] {
        assert!(PublicKey::parse(text).is_none(), "{text}");
    }
}

/// Returns packets with the lines around a public key, without a checksum.
fn armored(packets: &[u8]) -> String {
    let text = STANDARD.encode(packets);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    format!("{}\n\n{}\n{}", super::BEGIN, lines.join("\n"), super::END)
}

/// Returns a number of the OpenPGP format: all bits are 1, except those of the last byte.
fn number(bits: u16, last: u8) -> Vec<u8> {
    let mut bytes = vec![u8::MAX; usize::from(bits) / 8];
    *bytes.last_mut().unwrap() = last;
    [bits.to_be_bytes().to_vec(), bytes].concat()
}

/// Returns the packet of a subkey.
fn subkey(algorithm: u8, numbers: &[Vec<u8>]) -> Vec<u8> {
    let body = [&[4, 0, 0, 0, 1, algorithm], numbers.concat().as_slice()].concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    // The tag in the new format, and a length of four bytes.
    [[0xc0 | 14, 0xff].as_slice(), &length, &body].concat()
}

#[test]
fn keys_with_large_numbers_are_not_parsed() {
    // With `y = p - 1` and an even `q`, the library accepts the numbers of a DSA key, after it computed a power of `y`.
    let dsa = |p, q| {
        subkey(
            17,
            &[number(p, 0xff), number(q, 0xfe), number(8, 2), number(p, 0xfe)],
        )
    };
    let rsa = |bits| subkey(1, &[number(bits, 0xff), number(24, 1)]);
    let ada = key(ADA).0.to_bytes().unwrap();
    let is_accepted = |subkey: &[u8]| PublicKey::parse(&armored(&[&ada, subkey].concat())).is_some();
    assert!(is_accepted(&dsa(3072, 256)));
    assert!(!is_accepted(&dsa(3072, 264)));
    assert!(!is_accepted(&dsa(3080, 256)));
    assert!(!is_accepted(&dsa(16384, 16384)));
    assert!(is_accepted(&rsa(8192)));
    assert!(!is_accepted(&rsa(8200)));
    assert!(!is_accepted(&subkey(17, &[])));
    assert!(is_accepted(&rsa(2048).repeat(97)));
    assert!(
        !is_accepted(&rsa(2048).repeat(98)),
        "with the primary key and its subkeys"
    );
}

#[test]
fn signatures_with_other_packets_are_not_parsed() {
    let signature = ContentSignature::parse(ADA_SIGNATURE)
        .unwrap()
        .0
        .to_bytes()
        .unwrap();
    assert!(ContentSignature::parse(&armored(&signature)).is_some());
    let key = subkey(1, &[number(2048, 0xff), number(24, 1)]);
    let marker = [0xc0 | 10, 3, b'P', b'G', b'P'];
    for other in [key.as_slice(), &marker] {
        assert!(ContentSignature::parse(&armored(&[&signature, other].concat())).is_none());
        assert!(ContentSignature::parse(&armored(&[other, &signature].concat())).is_none());
    }
}

#[test]
fn damaged_signatures_are_not_accepted() {
    for text in [
        "",
        "-----BEGIN PGP SIGNATURE-----\n\nx\n-----END PGP SIGNATURE-----",
        "-----BEGIN PGP SIGNATURE-----",
        "-----BEGIN PGP MESSAGE-----\n\nx\n-----END PGP MESSAGE-----",
        ADA,
    ] {
        assert!(ContentSignature::parse(text).is_none(), "{text}");
    }
    // Each byte of the signature matters, except those of the part that is not signed: it contains the key ID again.
    let ada = key(ADA);
    let whole = ContentSignature::parse(ADA_SIGNATURE).unwrap();
    let packet = whole.0.to_bytes().unwrap();
    let mut accepted = 0;
    for position in 0..packet.len() {
        let mut damaged = packet.clone();
        damaged[position] ^= 1 << (position % 8);
        let Ok(parsed) = DetachedSignature::from_bytes(damaged.as_slice()) else {
            continue;
        };
        accepted += usize::from(ada.verify(&ContentSignature(parsed), CONTENT).is_some());
    }
    assert!(accepted <= 12, "{accepted}");
}
