//! Several backups in one directory.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{fails, files, fill, names, succeeds, text};
use crate::support::Client;
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN, on_every_site};

/// Returns the content, the time and the number of each file.
fn states(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, i64, u64)> {
    let state = |path: PathBuf| {
        let metadata = path.metadata().unwrap();
        (path.clone(), (std::fs::read(&path).unwrap(), metadata.mtime_nsec(), metadata.ino()))
    };
    files(directory).into_iter().map(state).collect()
}

async fn later_backup_copies_only_changes_and_never_changes_files(site: Site) {
    let server = site.serve(&["--no-worker"]).await;
    let work = Work::new().await;
    for name in ["p", "q", "r"] {
        fill(&server, &work, name).await;
    }
    let directory = site.sibling_path("backups");
    let output = site.succeeds(&["backup", text(&directory)]).await;
    assert!(!output.contains("Changed since"), "{output}");
    let first = states(&directory);
    let output = site.succeeds(&["backup", text(&directory)]).await;
    assert!(output.contains(": 0 repositories, 0 objects\n"), "{output}");
    work.commit("a", "1").await;
    work.git(&["push", "--quiet", &server.address("q"), "main"]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    super::upload(&client, 1, b"another").await;
    let output = site.succeeds(&["backup", text(&directory)]).await;
    assert!(output.contains(": 1 repository, 1 object\n"), "{output}");
    let last = states(&directory);
    for (path, state) in &first {
        assert!(last.get(path) == Some(state), "{}", path.display());
    }
    // Objects of the unchanged repositories are not stored again.
    let new: Vec<_> = last.keys().filter(|path| !first.contains_key(*path)).collect();
    assert!(new.len() < 60, "{new:?}");
    server.stop().await;
    assert_eq!(names(&directory).await.len(), 3);
    succeeds(&["backup", "verify", text(&directory)]).await;
}

async fn keep_removes_old_backups_and_their_files_only(site: Site) {
    let server = site.serve(&[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    client.put("/application/settings", json!({ "deletion_adjourned_period": 0 })).await.expect(200);
    let work = Work::new().await;
    let directory = site.sibling_path("backups");
    let backup = async |arguments: &[&str]| site.succeeds(&[&["backup", text(&directory)], arguments].concat()).await;
    let (id, _) = fill(&server, &work, "old").await;
    backup(&[]).await;
    client.delete("/projects/root%2Fold").await.expect(202);
    while site.data.join(format!("objects/projects/{id}")).exists() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let (_, path) = fill(&server, &work, "p").await;
    backup(&[]).await;
    let has_upload =
        || files(&directory.join("files")).iter().any(|path| std::fs::read(path).unwrap() == b"upload of old");
    let output = backup(&["--keep", "3"]).await;
    assert!(!output.contains("Removed") && has_upload(), "{output}");
    let output = backup(&["--keep", "3"]).await;
    assert!(output.contains("Removed 1 old backup: ") && !has_upload(), "{output}");
    succeeds(&["backup", "verify", text(&directory)]).await;
    let output = backup(&["--keep", "1"]).await;
    assert!(output.contains("Removed 3 old backups: "), "{output}");
    assert_eq!(names(&directory).await.len(), 1);
    succeeds(&["backup", "verify", text(&directory)]).await;
    server.stop().await;
    let other = site.another().await;
    other.succeeds(&["restore", text(&directory)]).await;
    other.assert_sound(1).await;
    let server = other.serve(&["--no-worker"]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    assert_eq!(client.get(&path).await.expect(200).text(), "upload of p");
    server.stop().await;
    other.remove().await;
}

/// The files of a damaged backup are not known, so that none may be removed.
async fn keep_removes_nothing_if_a_remaining_backup_is_damaged(site: Site) {
    site.serve(&[]).await.stop().await;
    let directory = site.sibling_path("backups");
    for _ in 0..2 {
        site.succeeds(&["backup", text(&directory)]).await;
    }
    let names = names(&directory).await;
    let damaged = directory.join("backups").join(&names[1]);
    std::fs::write(&damaged, "{").unwrap();
    let before = files(&directory);
    let output = site.fails(&["backup", text(&directory), "--keep", "2"]).await;
    let failure =
        format!("Failed to delete old backups and files that no backup refers to: the backup {} is", names[1]);
    assert!(output.contains(&failure), "{output}");
    let after = files(&directory);
    assert!(before.iter().all(|path| after.contains(path)));
    let output = fails(&["backup", "verify", text(&directory)]).await;
    assert!(output.contains(&format!("backup {}: ", names[1])), "{output}");
    let output = fails(&["backup", "list", text(&directory)]).await;
    assert!(output.contains("damaged: "), "{output}");
    // Later backups try again, until the damaged backup is deleted.
    assert!(directory.join("incoming").exists());
    assert!(site.fails(&["backup", text(&directory)]).await.contains(&failure));
    std::fs::remove_file(&damaged).unwrap();
    site.succeeds(&["backup", text(&directory)]).await;
    succeeds(&["backup", "verify", text(&directory)]).await;
    assert!(!directory.join("incoming").exists());
    // The newest backup is complete.
    let other = site.another().await;
    other.succeeds(&["restore", text(&directory)]).await;
    other.succeeds(&["doctor"]).await;
    other.remove().await;
}

async fn lost_and_truncated_files_are_stored_again(site: Site) {
    let server = site.serve(&["--no-worker"]).await;
    let work = Work::new().await;
    fill(&server, &work, "p").await;
    let directory = site.sibling_path("backups");
    site.succeeds(&["backup", text(&directory)]).await;
    let first = files(&directory.join("files"));
    for (number, path) in first.iter().enumerate() {
        match number % 2 {
            0 => std::fs::remove_file(path).unwrap(),
            _ => std::fs::write(path, "").unwrap(),
        }
    }
    fails(&["backup", "verify", text(&directory)]).await;
    site.succeeds(&["backup", text(&directory)]).await;
    server.stop().await;
    // The first backup has lost its own description, so that it cannot be listed.
    let last = files(&directory.join("backups")).pop().unwrap();
    let last = last.file_name().unwrap().to_str().unwrap();
    let output = fails(&["backup", "verify", text(&directory), "--backup", last]).await;
    // Files of the first backup are not known without its description.
    assert!(output.contains("files without a backup cannot be found") && !output.contains("(file "), "{output}");
    let other = site.another().await;
    other.succeeds(&["restore", text(&directory)]).await;
    other.assert_sound(1).await;
    other.remove().await;
}

async fn excluded_objects_are_named(site: Site) {
    let server = site.serve(&["--no-worker"]).await;
    let work = Work::new().await;
    let (_, path) = fill(&server, &work, "p").await;
    let directory = site.sibling_path("backups");
    let output = site.succeeds(&["backup", text(&directory), "--without-objects"]).await;
    assert!(output.contains("Excluded: the objects of the object storage (directory): uploads"), "{output}");
    assert!(output.starts_with("Saved 1 repository to "), "{output}");
    server.stop().await;
    let output = succeeds(&["backup", "verify", text(&directory)]).await;
    assert!(output.contains("excludes the objects of the object storage"), "{output}");
    let other = site.another().await;
    let output = other.succeeds(&["restore", text(&directory)]).await;
    assert!(output.contains("Excluded: "), "{output}");
    let output = other.fails(&["doctor"]).await;
    assert!(output.contains("upload 1 of the project 1: its object is missing"), "{output}");
    // The objects are restored by other means.
    std::fs::remove_dir_all(other.data.join("objects")).unwrap();
    copy_tree(&site.data.join("objects"), &other.data.join("objects"));
    other.assert_sound(1).await;
    let server = other.serve(&["--no-worker"]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    assert_eq!(client.get(&path).await.expect(200).text(), "upload of p");
    server.stop().await;
    other.remove().await;
}

fn copy_tree(from: &Path, to: &Path) {
    for path in files(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        DirBuilder::new().recursive(true).mode(0o700).create(target.parent().unwrap()).unwrap();
        std::fs::copy(&path, target).unwrap();
    }
}

/// The instance lacks a repository and an upload. The backup contains everything else and reports both.
async fn backup_of_damaged_instance_reports_what_is_missing(site: Site) {
    let server = site.serve(&["--no-worker"]).await;
    let work = Work::new().await;
    for name in ["p", "q"] {
        fill(&server, &work, name).await;
    }
    server.stop().await;
    let mut repositories = files(&site.data.join("repositories"));
    repositories.retain(|path| path.file_name().is_some_and(|name| name == "HEAD"));
    std::fs::remove_dir_all(repositories[0].parent().unwrap()).unwrap();
    std::fs::write(&repositories[1], "no ref\n").unwrap();
    let uploads = files(&site.data.join("objects/projects"));
    std::fs::remove_file(&uploads[0]).unwrap();
    let directory = site.sibling_path("backups");
    let output = site.fails(&["backup", text(&directory)]).await;
    for problem in [": its repository is missing", "HEAD is malformed", ": its object is missing", "has 3 problems"] {
        assert!(output.contains(problem), "{problem}: {output}");
    }
    let output = fails(&["backup", "verify", text(&directory)]).await;
    assert_eq!(output.matches("the instance already lacked it").count(), 3, "{output}");
    let other = site.another().await;
    other.succeeds(&["restore", text(&directory)]).await;
    let output = other.fails(&["doctor"]).await;
    assert_eq!(output.matches("its repository is missing").count(), 2, "{output}");
    other.remove().await;
}

on_every_site![
    later_backup_copies_only_changes_and_never_changes_files,
    keep_removes_old_backups_and_their_files_only,
    keep_removes_nothing_if_a_remaining_backup_is_damaged,
    lost_and_truncated_files_are_stored_again,
    excluded_objects_are_named,
    backup_of_damaged_instance_reports_what_is_missing,
];
