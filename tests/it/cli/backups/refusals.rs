//! Directories and backups that are refused.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{fails, succeeds, text};
use crate::support::DatabaseKind;
use crate::support::git::Work;
use crate::support::process::{Site, on_every_site};

/// Replaces the manifest of the newest backup.
fn change_manifest(directory: &Path, change: impl FnOnce(&mut Value)) {
    let reference = directory.join("backups").join(name_of(directory));
    let found: Value = serde_json::from_slice(&std::fs::read(&reference).unwrap()).unwrap();
    let stored = |digest: &str| directory.join("files").join(&digest[..2]).join(digest);
    let manifest = std::fs::read(stored(found["digest"].as_str().unwrap())).unwrap();
    let mut manifest: Value = serde_json::from_slice(&manifest).unwrap();
    change(&mut manifest);
    let manifest = manifest.to_string();
    let digest = hex::encode(Sha256::digest(&manifest));
    std::fs::create_dir_all(stored(&digest).parent().unwrap()).unwrap();
    std::fs::write(stored(&digest), &manifest).unwrap();
    std::fs::write(reference, json!({ "digest": digest, "size": manifest.len() }).to_string()).unwrap();
}

async fn restore_rejects_incomplete_newer_and_foreign_backups(site: Site) {
    site.serve(&[]).await.stop().await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let directory = site.sibling_path("backups");
    site.succeeds(&["backup", text(&directory)]).await;
    let other = site.another().await;
    let refuse = async |expected: &str| {
        let output = other.fails(&["restore", text(&directory)]).await;
        assert!(output.contains(expected), "{expected}: {output}");
        assert!(!other.data.exists());
    };
    let wrong_url = match other.database_url().starts_with("sqlite:") {
        true => "postgres://127.0.0.1:1/none".to_owned(),
        false => format!("sqlite://{}", other.data.join("holdfast.db").display()),
    };
    let output =
        fails(&["restore", text(&directory), "--data-dir", text(&other.data), "--database-url", &wrong_url]).await;
    assert!(output.contains(", but the database URL names ") && !other.data.exists(), "{output}");

    change_manifest(&directory, |manifest| {
        manifest["database"]["migrations"].as_array_mut().unwrap().push(json!("m20991231_000000_later"));
    });
    refuse("was written by the newer version").await;
    change_manifest(&directory, |manifest| {
        let migrations = manifest["database"]["migrations"].as_array_mut().unwrap();
        migrations.pop();
        migrations.remove(0);
    });
    // An SQLite database has its own schema.
    if !other.database_url().starts_with("sqlite:") {
        refuse("this version cannot create the database schema of the backup").await;
    }
    change_manifest(&directory, |manifest| manifest["format"] = json!(3));
    refuse("has an unsupported format").await;
    change_manifest(&directory, |manifest| {
        manifest["format"] = json!(2);
        manifest["id"] = json!("2020-01-01T000000Z");
    });
    refuse("it is the file of another backup").await;
    let header = directory.join("holdfast-backups.json");
    let before = std::fs::read(&header).unwrap();
    std::fs::write(&header, r#"{"format":3,"encryption":null}"#).unwrap();
    refuse("was written by a newer version of Holdfast").await;
    std::fs::write(&header, before).unwrap();
    let name = name_of(&directory);
    std::fs::remove_file(directory.join("backups").join(name)).unwrap();
    refuse("does not contain a complete backup").await;
    std::fs::write(directory.join("manifest.json"), "{}").unwrap();
    std::fs::remove_file(&header).unwrap();
    refuse("contains a backup of an older version").await;
    other.remove().await;
}

fn name_of(directory: &Path) -> String {
    let mut entries = std::fs::read_dir(directory.join("backups")).unwrap();
    entries.next().unwrap().unwrap().file_name().into_string().unwrap()
}

/// A manifest from an attacker must not write files outside of the data directory.
async fn restore_rejects_paths_in_descriptions(site: Site) {
    site.serve(&[]).await.stop().await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let directory = site.sibling_path("backups");
    site.succeeds(&["backup", text(&directory)]).await;
    let stored = |digest: &str| directory.join("files").join(&digest[..2]).join(digest);
    change_manifest(&directory, |manifest| {
        let listing = manifest["repositories"][0]["listing"]["digest"].as_str().unwrap().to_owned();
        let mut listing: Value = serde_json::from_slice(&std::fs::read(stored(&listing)).unwrap()).unwrap();
        listing["objects"][0]["name"] = json!("../../../../../escaped");
        let listing = listing.to_string();
        let digest = hex::encode(Sha256::digest(&listing));
        std::fs::create_dir_all(stored(&digest).parent().unwrap()).unwrap();
        std::fs::write(stored(&digest), &listing).unwrap();
        manifest["repositories"][0]["listing"] = json!({ "digest": digest, "size": listing.len() });
    });
    let output = fails(&["backup", "verify", text(&directory)]).await;
    assert!(output.contains("repository of the project 1: "), "{output}");
    let other = site.another().await;
    other.fails(&["restore", text(&directory)]).await;
    assert!(
        !other.sibling_path("escaped").exists()
            && !super::files(&other.data).iter().any(|path| path.ends_with("escaped"))
    );
    let output = other.fails(&["serve", "--listen", "127.0.0.1:0"]).await;
    assert!(output.contains("contains an unfinished restore"), "{output}");
    other.remove().await;
}

async fn backup_waits_for_no_other_command(site: Site) {
    site.serve(&[]).await.stop().await;
    let directory = site.sibling_path("backups");
    site.succeeds(&["backup", text(&directory)]).await;
    let lock = std::fs::File::open(directory.join("lock")).unwrap();
    lock.try_lock().unwrap();
    let output = site.fails(&["backup", text(&directory)]).await;
    assert!(output.contains("another command uses the backups"), "{output}");
    let output = fails(&["backup", "verify", text(&directory)]).await;
    assert!(output.contains("another command uses the backups"), "{output}");
    drop(lock);
    for arguments in [&["--keep", "0"][..], &["--keep", "x"]] {
        let output = site.run(&[&["backup", text(&directory)], arguments].concat()).await;
        assert_eq!(output.status.code(), Some(2));
    }
}

/// SQLite applies such files to a database of their name when it opens the database.
async fn restore_rejects_logs_of_an_earlier_sqlite_database() {
    let site = Site::migrated(&DatabaseKind::Sqlite).await;
    site.serve(&[]).await.stop().await;
    let directory = site.sibling_path("backups");
    site.succeeds(&["backup", text(&directory)]).await;
    let data = site.sibling_path("restored");
    let database = site.sibling_path("restored.db");
    let url = format!("sqlite://{}", database.display());
    let restore = ["restore", text(&directory), "--data-dir", text(&data), "--database-url", &url];
    for suffix in ["-wal", "-shm", "-journal"] {
        let log = site.sibling_path(&format!("restored.db{suffix}"));
        std::fs::write(&log, "stale").unwrap();
        let output = fails(&restore).await;
        assert!(output.contains(&format!("restored.db{suffix} belongs to an earlier database")), "{output}");
        assert!(!data.exists() && !database.exists());
        assert_eq!(std::fs::read(&log).unwrap(), b"stale");
        std::fs::remove_file(log).unwrap();
    }
    succeeds(&restore).await;

    // A restore that was interrupted after the database got its name removes the logs.
    let instance: Value = serde_json::from_slice(&std::fs::read(data.join("instance.json")).unwrap()).unwrap();
    let mark = json!({ "instance_id": instance["instance_id"], "backup": name_of(&directory) }).to_string();
    std::fs::write(data.join("restore.json"), mark).unwrap();
    let log = site.sibling_path("restored.db-wal");
    std::fs::write(&log, "stale").unwrap();
    succeeds(&restore).await;
    assert!(!log.exists());
    let output = succeeds(&["doctor", "--data-dir", text(&data), "--database-url", &url]).await;
    assert!(output.contains("Problems: 0."), "{output}");
}

harness::tests![restore_rejects_logs_of_an_earlier_sqlite_database];
on_every_site![
    restore_rejects_incomplete_newer_and_foreign_backups,
    restore_rejects_paths_in_descriptions,
    backup_waits_for_no_other_command,
];
