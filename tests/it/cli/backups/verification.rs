//! `holdfast backup verify`, and restores of damaged backups.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{fails, files, fill, run, succeeds, text};
use crate::support::git::{Work, output_text};
use crate::support::process::{Site, on_every_site};

/// Returns the number of checked things by subject.
async fn checks(arguments: &[&str]) -> (Value, bool) {
    let output = run(&[&["backup", "verify", "--json"], arguments].concat()).await;
    let document = serde_json::from_slice(&output.stdout);
    (document.unwrap_or_else(|error| panic!("{error}: {}", output_text(&output))), output.status.success())
}

fn checked(document: &Value, subject: &str) -> u64 {
    let checks = document["checks"].as_array().expect("checks").iter();
    let check = checks.clone().find(|check| check["subject"] == subject);
    check.unwrap_or_else(|| panic!("{subject} is not in {document}"))["checked"].as_u64().expect("a number")
}

async fn verify_lists_what_it_checked(site: Site) {
    let server = site.serve(&["--no-worker"]).await;
    let work = Work::new().await;
    fill(&server, &work, "p").await;
    site.import("q", &work.path).await;
    let directory = site.sibling_path("backups");
    site.succeeds(&["backup", text(&directory)]).await;
    server.stop().await;
    let output = succeeds(&["backup", "verify", text(&directory)]).await;
    assert!(output.ends_with(": 0 problems\n") && output.contains("\nVerified 1 backup in "), "{output}");
    let (document, sound) = checks(&[text(&directory)]).await;
    assert!(sound && document["problems"] == 0, "{document}");
    assert_eq!(checked(&document, "repositories"), 2);
    // A layer, a configuration and a blob without a manifest. Manifests are in the database.
    assert_eq!(checked(&document, "blobs of container images"), 3);
    // Two repositories, an upload and the parts of the blobs.
    assert_eq!(checked(&document, "references of the database copies"), 2 + 1 + 3);
    assert!(checked(&document, "tables of the database copies") > 50);
    let stored = files(&directory.join("files")).len() as u64;
    assert_eq!(checked(&document, "files of the directory"), stored);
    assert_eq!(checked(&document, "files"), stored, "each file is read");
}

/// Damage of one file.
enum Damage {
    FlippedByte,
    Truncated,
    Missing,
}

/// Maximum number of files of the store that are damaged.
const MAX_DAMAGED: usize = 6;
/// As [`MAX_DAMAGED`], for an encrypted backup. Each of its commands derives the key. Each kind of damage occurs.
const MAX_ENCRYPTED_DAMAGED: usize = 4;

/// Damages up to `max_damaged` files of a backup in turn. Each damage must be found, and a restore must refuse the backup.
async fn find_damage(site: Site, options: &[&str], max_damaged: usize) {
    let server = site.serve(&["--no-worker"]).await;
    let work = Work::new().await;
    fill(&server, &work, "p").await;
    let directory = site.sibling_path("backups");
    site.succeeds(&[&["backup", text(&directory)], options].concat()).await;
    server.stop().await;
    let arguments = [&[text(&directory)], options].concat();
    let all = files(&directory);
    // Each verification reads all files, so that not each file can be damaged in each way.
    let step = (all.len() / max_damaged).max(1);
    let other = site.another().await;
    for (number, path) in all.iter().enumerate() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let content = std::fs::read(path).unwrap();
        let is_content = path.starts_with(directory.join("files"));
        // An empty table has no bytes.
        if name == "lock" || content.is_empty() || (is_content && number % step != 0) {
            continue;
        }
        let damages = [Damage::FlippedByte, Damage::Truncated, Damage::Missing];
        for (kind, damage) in damages.iter().enumerate() {
            if is_content && (number / step) % damages.len() != kind {
                continue;
            }
            match damage {
                Damage::FlippedByte => {
                    let mut changed = content.clone();
                    changed[content.len() / 2] ^= 1;
                    std::fs::write(path, changed).unwrap();
                }
                Damage::Truncated => std::fs::write(path, &content[..content.len() - 1]).unwrap(),
                Damage::Missing => std::fs::remove_file(path).unwrap(),
            }
            let output = fails(&[&["backup", "verify"], &arguments[..]].concat()).await;
            let is_named = output.contains(name) || output.contains("header") || output.contains("complete backup");
            assert!(is_named, "{name}: {output}");
            let output = other.fails(&[&["restore"], &arguments[..]].concat()).await;
            assert!(!other.data.exists(), "{output}");
            std::fs::write(path, &content).unwrap();
        }
    }
    succeeds(&[&["backup", "verify"], &arguments[..]].concat()).await;
    other.succeeds(&[&["restore"], &arguments[..]].concat()).await;
    other.assert_sound(1).await;
    other.remove().await;
}

async fn damage_of_a_file_is_found(site: Site) {
    find_damage(site, &[], MAX_DAMAGED).await;
}

async fn damage_of_an_encrypted_file_is_found(site: Site) {
    let path = site.sibling_path("passphrase");
    std::fs::write(&path, "the passphrase of this test").unwrap();
    find_damage(site, &["--passphrase-file", text(&path)], MAX_ENCRYPTED_DAMAGED).await;
}

async fn unexpected_files_are_found(site: Site) {
    site.serve(&[]).await.stop().await;
    let directory = site.sibling_path("backups");
    site.succeeds(&["backup", text(&directory)]).await;
    let name = "ab".repeat(32);
    let places: [PathBuf; 3] =
        [format!("files/ab/{name}"), "files/ab/notes".to_owned(), "files/notes".to_owned()].map(PathBuf::from);
    for place in places {
        let path = directory.join(&place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "x").unwrap();
        let output = fails(&["backup", "verify", text(&directory)]).await;
        let name = Path::new(&place).file_name().unwrap().to_str().unwrap();
        assert!(output.contains(&format!("{name}: no backup refers to it")), "{output}");
        assert!(output.contains(": 1 problem\n"), "{output}");
        std::fs::remove_file(&path).unwrap();
    }
    succeeds(&["backup", "verify", text(&directory)]).await;
}

/// A repository that was damaged before the backup is copied as it is. Only `git fsck` finds the damage.
async fn damaged_repository_of_the_instance_is_found_by_fsck(site: Site) {
    site.serve(&[]).await.stop().await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let mut objects = files(&site.data.join("repositories"));
    objects.retain(|path| path.parent().unwrap().file_name().unwrap().len() == 2 || text(path).ends_with(".pack"));
    let object = objects.first().expect("an object");
    std::fs::remove_file(object).unwrap();
    let directory = site.sibling_path("backups");
    site.succeeds(&["backup", text(&directory)]).await;
    let output = fails(&["backup", "verify", text(&directory)]).await;
    assert!(output.contains("repository of the project 1: git fsck: "), "{output}");
}

on_every_site![
    verify_lists_what_it_checked,
    damage_of_a_file_is_found,
    damage_of_an_encrypted_file_is_found,
    unexpected_files_are_found,
    damaged_repository_of_the_instance_is_found_by_fsck,
];
