//! Behavior of secrets.

use std::collections::HashSet;

use super::*;

fn ring(byte: u8) -> Keyring {
    Keyring::in_memory(&[Secret::new([byte; KEY_LENGTH])]).unwrap()
}

#[test]
fn decrypt_requires_same_context() {
    let ring = ring(1);
    for value in ["", "a token", "päss\u{1f511}", &"x".repeat(100_000)] {
        let sealed = ring.known().encrypt(value, "hooks.token:1").unwrap();
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
    let digest = ring(1).known().digest("192.0.2.1", "addresses");
    assert_eq!(digest.len(), 64);
    assert_eq!(ring(1).known().digest("192.0.2.1", "addresses"), digest);
    let others = [
        ring(1).known().digest("192.0.2.2", "addresses"),
        ring(1).known().digest("192.0.2.1", "address"),
        ring(1).known().digest("s192.0.2.1", "addresse"),
        ring(2).known().digest("192.0.2.1", "addresses"),
        super::digest("192.0.2.1"),
    ];
    let distinct: HashSet<_> = others.iter().chain([&digest]).collect();
    assert_eq!(distinct.len(), others.len() + 1);
}

#[test]
fn encrypt_returns_different_text_each_time() {
    let ring = ring(1);
    let sealed: HashSet<_> = (0..100)
        .map(|_| ring.known().encrypt("v", "p").unwrap())
        .collect();
    assert_eq!(sealed.len(), 100);
}

#[test]
fn decrypt_rejects_modified_values() {
    let ring = ring(1);
    let sealed = ring.known().encrypt("value", "p").unwrap();
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
    let sealed = ring.known().encrypt("value", "p").unwrap();
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
    let sealed = ring(1).known().encrypt("value", "p").unwrap();
    assert!(matches!(ring(2).decrypt(&sealed, "p"), Err(Error::UnknownKey(_))));
    let keys = [2, 1].map(|byte| Secret::new([byte; KEY_LENGTH]));
    let rotated = Keyring::in_memory(&keys).unwrap();
    assert_eq!(rotated.decrypt(&sealed, "p").unwrap().expose(), "value");
}

#[test]
fn open_creates_private_key_file_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/key");
    let sealed = Keyring::open(&path)
        .unwrap()
        .known()
        .encrypt("value", "p")
        .unwrap();
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
fn running_server_follows_changes_of_the_key_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let (server, mut file) = (Keyring::open(&path).unwrap(), KeyFile::open(&path).unwrap());
    let first = server.fingerprint();
    let former = server.known().encrypt("former", "p").unwrap();
    let second = file.add_key().unwrap();
    let other = Keyring::open(&path).unwrap();
    assert_eq!(other.fingerprint(), first, "the database names the current key");
    other.adopt(&second).unwrap();
    let sealed = other.known().encrypt("value", "p").unwrap();
    // A value of the new key may be read before the server notices that the key is current.
    assert_eq!(server.decrypt(&sealed, "p").unwrap().expose(), "value");
    assert_eq!(server.fingerprint(), first);
    server.adopt(&second).unwrap();
    assert_eq!(server.fingerprint(), second);
    file.retain(|prefix| sealed.starts_with(prefix)).unwrap();
    assert!(matches!(
        Keyring::open(&path).unwrap().decrypt(&former, "p"),
        Err(Error::UnknownKey(_))
    ));
    // The server may have read the value before it was encrypted again.
    assert_eq!(server.decrypt(&former, "p").unwrap().expose(), "former");
    let error = server.adopt(&"ab".repeat(32)).unwrap_err();
    assert!(
        matches!(&error, Error::MissingKey(start) if start.len() == 16),
        "{error}"
    );
    assert_eq!(server.fingerprint(), second);
}

#[test]
fn damaged_key_file_does_not_disturb_a_running_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let server = Keyring::open(&path).unwrap();
    let sealed = server.known().encrypt("value", "p").unwrap();
    std::fs::write(&path, "holdfast-keys v1\nx").unwrap();
    let foreign = ring(9).known().encrypt("value", "p").unwrap();
    assert!(matches!(server.decrypt(&foreign, "p"), Err(Error::KeyFile(_))));
    assert_eq!(server.decrypt(&sealed, "p").unwrap().expose(), "value");
}

#[test]
fn tokens_are_valid_only_for_the_current_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let server = Keyring::open(&path).unwrap();
    let former = CurrentKey::of(&server).seal_token("token", "kind").unwrap();
    assert_eq!(
        CurrentKey::of(&server)
            .open_token(&former, "kind")
            .unwrap()
            .expose(),
        "token"
    );
    assert!(CurrentKey::of(&server).open_token(&former, "other").is_err());
    server
        .adopt(&KeyFile::open(&path).unwrap().add_key().unwrap())
        .unwrap();
    let current = CurrentKey::of(&server);
    assert!(
        !current.has_sealed(&former)
            && matches!(current.open_token(&former, "kind"), Err(Error::UnknownKey(_)))
    );
}

#[test]
fn contexts_name_table_column_and_row() {
    let contexts = [
        EncryptedColumn::ProjectRunnersToken.context(&[&7]),
        EncryptedColumn::PipelineVariableValue.context(&[&7, &"KEY"]),
        EncryptedColumn::TwoFactorSecret.context(&[&7]),
    ];
    let expected = [
        "projects.runners_token:7",
        "pipeline_variables.value:7:KEY",
        "two_factor_secrets.secret:7",
    ];
    assert_eq!(contexts.each_ref().map(AsRef::as_ref), expected);
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
    let sealed = rings[0].known().encrypt("value", "p").unwrap();
    assert!(rings.iter().all(|ring| ring.decrypt(&sealed, "p").is_ok()));
}

#[test]
fn open_rejects_key_file_of_wrong_length() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    for length in [0, KEY_LENGTH - 1, KEY_LENGTH + 1] {
        std::fs::write(&path, vec![7; length]).unwrap();
        assert!(matches!(Keyring::open(&path), Err(Error::KeyFile(_))), "{length}");
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
