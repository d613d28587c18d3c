//! Behavior of secrets.

use std::collections::HashSet;

use super::*;

fn ring(byte: u8) -> Keyring {
    Keyring::new(&Secret::new([byte; KEY_LENGTH]))
}

#[test]
fn decrypt_requires_same_context() {
    let ring = ring(1);
    for value in ["", "a token", "päss\u{1f511}", &"x".repeat(100_000)] {
        let sealed = ring.encrypt(value, "hooks.token:1").unwrap();
        assert!(value.is_empty() || !sealed.contains(value));
        assert_eq!(ring.decrypt(&sealed, "hooks.token:1").unwrap().expose(), value);
        assert!(matches!(
            ring.decrypt(&sealed, "hooks.token:2"),
            Err(Error::Authentication)
        ));
    }
}

#[test]
fn keyed_digest_depends_on_value_context_and_key() {
    let digest = ring(1).keyed_digest("192.0.2.1", "addresses");
    assert_eq!(digest.len(), 64);
    assert_eq!(ring(1).keyed_digest("192.0.2.1", "addresses"), digest);
    let others = [
        ring(1).keyed_digest("192.0.2.2", "addresses"),
        ring(1).keyed_digest("192.0.2.1", "address"),
        ring(1).keyed_digest("s192.0.2.1", "addresse"),
        ring(2).keyed_digest("192.0.2.1", "addresses"),
        super::digest("192.0.2.1"),
    ];
    let distinct: HashSet<_> = others.iter().chain([&digest]).collect();
    assert_eq!(distinct.len(), others.len() + 1);
}

#[test]
fn encrypt_returns_different_text_each_time() {
    let ring = ring(1);
    let sealed: HashSet<_> = (0..100).map(|_| ring.encrypt("v", "p").unwrap()).collect();
    assert_eq!(sealed.len(), 100);
}

#[test]
fn decrypt_rejects_modified_values() {
    let ring = ring(1);
    let sealed = ring.encrypt("value", "p").unwrap();
    let body = sealed.rfind('.').unwrap() + 1;
    for position in body..sealed.len() - 1 {
        let mut changed = sealed.clone().into_bytes();
        changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(
            matches!(ring.decrypt(&changed, "p"), Err(Error::Authentication)),
            "at {position}"
        );
    }
}

#[test]
fn decrypt_rejects_malformed_values() {
    let ring = ring(1);
    let sealed = ring.encrypt("value", "p").unwrap();
    let id = sealed.split('.').nth(1).unwrap();
    for bad in [
        "",
        "v1",
        "v2.x.y",
        &format!("v1.{id}"),
        &format!("v1.{id}.AAAA"),
        &format!("v1.{id}.*"),
    ] {
        assert!(matches!(ring.decrypt(bad, "p"), Err(Error::Malformed)), "{bad}");
    }
}

#[test]
fn decrypt_accepts_previous_key_and_rejects_unknown_key() {
    let sealed = ring(1).encrypt("value", "p").unwrap();
    assert!(matches!(ring(2).decrypt(&sealed, "p"), Err(Error::UnknownKey(_))));
    let rotated = ring(2).with_previous(&Secret::new([1; KEY_LENGTH]));
    assert_eq!(rotated.decrypt(&sealed, "p").unwrap().expose(), "value");
    assert!(rotated.is_outdated(&sealed));
    assert!(!rotated.is_outdated(&rotated.encrypt("value", "p").unwrap()));
}

#[test]
fn open_creates_private_key_file_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/key");
    let sealed = Keyring::open(&path).unwrap().encrypt("value", "p").unwrap();
    assert_eq!(
        Keyring::open(&path)
            .unwrap()
            .decrypt(&sealed, "p")
            .unwrap()
            .expose(),
        "value"
    );
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), KEY_LENGTH as u64);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(
        std::fs::read_dir(directory.path().join("new")).unwrap().count(),
        1,
        "nothing left behind"
    );
}

#[test]
fn concurrent_opens_agree_on_one_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let rings: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| Keyring::open(&path).unwrap()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let sealed = rings[0].encrypt("value", "p").unwrap();
    assert!(rings.iter().all(|ring| ring.decrypt(&sealed, "p").is_ok()));
}

#[test]
fn open_rejects_key_file_of_wrong_length() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    for length in [0, KEY_LENGTH - 1, KEY_LENGTH + 1] {
        std::fs::write(&path, vec![7; length]).unwrap();
        assert!(matches!(Keyring::open(&path), Err(Error::KeyLength)), "{length}");
    }
}

#[test]
fn generated_tokens_are_long_unique_and_alphanumeric() {
    let tokens: HashSet<_> = (0..1000)
        .map(|_| Token::generate("hf_").expose().to_owned())
        .collect();
    assert_eq!(tokens.len(), 1000);
    for token in &tokens {
        let body = token.strip_prefix("hf_").unwrap();
        assert!(body.len() >= 20 && body.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
}

#[test]
fn digest_is_sha_256_in_hex() {
    assert_eq!(
        digest("abc"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    let token = Token::generate("");
    assert_eq!(token.digest(), digest(token.expose()));
}

#[test]
fn verify_password_accepts_only_correct_password() {
    let hash = hash_password("correct horse").unwrap();
    assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
    assert!(verify_password("correct horse", Some(&hash)).unwrap());
    assert!(!verify_password("wrong horse", Some(&hash)).unwrap());
    assert!(!verify_password("nobody", None).unwrap());
    assert!(matches!(
        verify_password("x", Some("not a hash")),
        Err(Error::Password(_))
    ));
    assert_ne!(hash, hash_password("correct horse").unwrap());
}

#[test]
fn debug_output_omits_secrets() {
    let shown = format!(
        "{:?} {:?} {:?}",
        Secret::new("hunter2"),
        Token::generate("hunter2"),
        ring(42)
    );
    assert!(!shown.contains("hunter2") && !shown.contains("42, 42"), "{shown}");
}

#[test]
fn constant_time_eq_compares_correctly() {
    assert!(constant_time_eq("same", "same"));
    assert!(!constant_time_eq("same", "sane"));
    assert!(!constant_time_eq("same", "sam"));
}
