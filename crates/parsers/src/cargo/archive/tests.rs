//! Tests of the checks of archives.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, Header};

use super::*;

/// An entry: its type, its path and its content.
type Sample<'a> = (EntryType, &'a str, &'a [u8]);

const MANIFEST: Sample<'static> = (EntryType::Regular, "gear-1.0.0/Cargo.toml", b"[package]");

/// Returns a tar file. Paths are written as they are.
fn tar(entries: &[Sample<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (kind, path, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        let bytes = path.as_bytes();
        header.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
        header.set_cksum();
        builder.append(&header, *content).expect("an entry");
    }
    builder.into_inner().expect("a file")
}

fn packed(tar: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(tar).expect("writing");
    encoder.finish().expect("a file")
}

/// Returns the error of an archive.
fn fault(archive: &[u8]) -> Option<String> {
    let name = CrateName::parse("gear").expect("a name");
    let version = CrateVersion::parse("1.0.0").expect("a version");
    let checked = check_archive(archive, &name, &version);
    checked.err().map(|error| error.to_string())
}

fn fault_of(entries: &[Sample<'_>]) -> Option<String> {
    fault(&packed(&tar(entries)))
}

#[test]
fn archive_with_manifest_and_folders_is_accepted() {
    let entries = [
        MANIFEST,
        (EntryType::Directory, "gear-1.0.0/src/", b""),
        (EntryType::Regular, "gear-1.0.0/src/lib.rs", b"pub fn ratio() {}"),
        (EntryType::Directory, "gear-1.0.0", b""),
    ];
    assert_eq!(fault_of(&entries), None);
}

#[test]
fn paths_outside_of_the_folder_are_rejected() {
    let long = format!("gear-1.0.0/{}/../../x", "a/".repeat(20));
    for path in [
        "Cargo.toml",
        "other/x",
        "gear-1.0.0",
        "gear-1.0.0/",
        "gear-1.0.00/x",
        "gear-1.0.0/../x",
        "gear-1.0.0/..",
        "gear-1.0.0/./x",
        "gear-1.0.0//x",
        "/gear-1.0.0/x",
        "./gear-1.0.0/x",
        "../gear-1.0.0/x",
        "gear-1.0.0/a\\..\\..\\x",
        "gear-1.0.0/c:x",
        "gear-1.0.0/a\nb",
        "Gear-1.0.0/x",
        "",
        &long,
    ] {
        let found = fault_of(&[MANIFEST, (EntryType::Regular, path, b"x")]);
        let found = found.unwrap_or_else(|| panic!("{path} is accepted"));
        assert!(
            found.starts_with("the archive contains a path outside of gear-1.0.0"),
            "{path}: {found}"
        );
    }
}

#[test]
fn links_devices_and_extension_headers_are_rejected() {
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::Continuous,
        EntryType::GNUSparse,
        EntryType::GNULongLink,
        EntryType::XHeader,
        EntryType::XGlobalHeader,
        EntryType::new(b'?'),
    ] {
        let found = fault_of(&[MANIFEST, (kind, "gear-1.0.0/x", b"")]).unwrap_or_default();
        assert!(found.contains("neither a file nor a folder"), "{kind:?}: {found}");
    }
}

#[test]
fn long_paths_are_checked() {
    let long = |path: &str| {
        let text = format!("{path}\0");
        fault_of(&[
            MANIFEST,
            (EntryType::GNULongName, "././@LongLink", text.as_bytes()),
            (EntryType::Regular, "gear-1.0.0/short", b"x"),
        ])
    };
    let name = "n".repeat(150);
    assert_eq!(long(&format!("gear-1.0.0/{name}")), None);
    for outside in [
        format!("{name}/x"),
        format!("gear-1.0.0/{name}/../../x"),
        String::new(),
    ] {
        assert!(long(&outside).is_some(), "{outside}");
    }
    let limit = format!("gear-1.0.0/{}", "n/".repeat(506));
    assert_eq!(limit.len(), 1_023);
    assert_eq!(long(&format!("{limit}n")), None);
    let found = long(&format!("{limit}nn")).unwrap_or_default();
    assert!(found.contains("too long"), "{found}");
    // A path belongs to the next entry.
    let header = (EntryType::GNULongName, "././@LongLink", &b"gear-1.0.0/x\0"[..]);
    for entries in [&[MANIFEST, header][..], &[MANIFEST, header, header, MANIFEST]] {
        assert_eq!(
            fault_of(entries).as_deref(),
            Some("the archive contains a path without a file")
        );
    }
}

#[test]
fn manifest_is_required() {
    for entries in [
        &[][..],
        &[(EntryType::Regular, "gear-1.0.0/cargo.toml", &b"x"[..])],
        &[(EntryType::Regular, "gear-1.0.0/src/Cargo.toml", &b"x"[..])],
        &[(EntryType::Directory, "gear-1.0.0/Cargo.toml", &b""[..])],
    ] {
        let found = fault_of(entries).unwrap_or_default();
        assert_eq!(
            found, "the archive does not contain gear-1.0.0/Cargo.toml",
            "{entries:?}"
        );
    }
}

#[test]
fn truncated_and_damaged_archives_are_rejected() {
    let archive = packed(&tar(&[MANIFEST]));
    assert_eq!(fault(&archive), None);
    for length in 0..archive.len() {
        assert!(fault(&archive[..length]).is_some(), "{length}");
    }
    assert!(fault(&[&archive[..], b"x"].concat()).is_some());
    assert!(fault(b"").is_some());
    assert!(fault(b"PK\x03\x04").is_some());
    assert!(fault(&tar(&[MANIFEST])).is_some());
    let mut damaged = archive.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xFF;
    assert!(fault(&damaged).is_some());
}

#[test]
fn number_of_entries_and_expanded_size_are_limited() {
    let empty: Sample<'_> = (EntryType::Regular, "gear-1.0.0/x", b"");
    let mut entries = vec![empty; 49_999];
    entries.push(MANIFEST);
    assert_eq!(fault_of(&entries), None);
    entries.push(empty);
    let found = fault_of(&entries).unwrap_or_default();
    assert!(found.contains("too many entries"), "{found}");
    // A header that states a large size, followed by zeros.
    let mut header = Header::new_gnu();
    header.set_path("gear-1.0.0/x").expect("a path");
    header.set_size(MAX_EXPANDED_BYTES);
    header.set_cksum();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(header.as_bytes()).expect("writing");
    let zeros = vec![0; 1 << 20];
    for _ in 0..MAX_EXPANDED_BYTES >> 20 {
        encoder.write_all(&zeros).expect("writing");
    }
    encoder.write_all(&zeros).expect("writing");
    let found = fault(&encoder.finish().expect("a file")).unwrap_or_default();
    assert!(found.contains("too large"), "{found}");
}
