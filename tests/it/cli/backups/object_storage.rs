//! Restores into an object storage outside of the data directory.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::{Value, json};

use super::{fails, files, names, succeeds, text, upload};
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::s3::{Bucket, S3Reply};
use crate::support::spaces::project;
use crate::support::{Client, git};

/// Returns the files below a directory with their contents.
fn contents(directory: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    files(directory).into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Returns the ID of the instance of a data directory.
fn instance_id(site: &Site) -> String {
    let text = std::fs::read(site.data.join("instance.json")).unwrap();
    let found: Value = serde_json::from_slice(&text).unwrap();
    found["instance_id"].as_str().unwrap().to_owned()
}

fn marked_instance_id(objects: &Path) -> String {
    std::fs::read_to_string(objects.join("instance-id")).unwrap().trim().to_owned()
}

async fn restore_replaces_objects_of_another_instance_only_on_request(site: Site) {
    let objects = site.sibling_path("objects");
    let url = format!("file://{}", text(&objects));
    let server = site.serve(&["--object-store-url", &url]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    let id = project(&client, "p", json!({})).await;
    let saved = upload(&client, id, b"saved").await;
    let (directory, without) = (site.sibling_path("backups"), site.sibling_path("without"));
    site.succeeds(&["backup", text(&directory), "--object-store-url", &url]).await;
    site.succeeds(&["backup", text(&without), "--object-store-url", &url, "--without-objects"]).await;
    let later = upload(&client, id, b"later").await;
    assert_eq!(marked_instance_id(&objects), instance_id(&site));

    // The server still uses the objects.
    let before = contents(&objects);
    let other = site.another().await;
    let restore = ["restore", text(&directory), "--object-store-url", &url];
    for arguments in [restore, ["restore", text(&without), "--object-store-url", &url]] {
        let output = other.fails(&arguments).await;
        assert!(output.contains(&format!("belongs to the instance {}", instance_id(&site))), "{output}");
        assert!(!other.data.exists() && contents(&objects) == before);
    }
    assert_eq!(client.get(&later).await.expect(200).text(), "later");
    server.stop().await;
    // An instance of an older version has not named itself.
    std::fs::remove_file(objects.join("instance-id")).unwrap();
    let output = other.fails(&restore).await;
    assert!(output.contains("the object storage is not empty") && !other.data.exists(), "{output}");

    other.succeeds(&[&restore[..], &["--replace-objects"]].concat()).await;
    assert_eq!(marked_instance_id(&objects), instance_id(&other));
    let uploads = || files(&objects.join("projects")).len();
    assert_eq!(uploads(), 1);
    let server = other.serve(&["--object-store-url", &url]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    assert_eq!(client.get(&saved).await.expect(200).text(), "saved");
    client.get(&later).await.expect(404);
    server.stop().await;
    other.succeeds(&["doctor", "--object-store-url", &url]).await;

    // A restore that was interrupted recognizes its objects, and deletes those of its earlier attempt.
    std::fs::write(objects.join("projects/stray"), "x").unwrap();
    let name = &names(&directory).await[0];
    let mark = json!({ "instance_id": instance_id(&other), "backup": name }).to_string();
    std::fs::write(other.data.join("restore.json"), mark).unwrap();
    other.succeeds(&restore).await;
    assert_eq!((uploads(), marked_instance_id(&objects)), (1, instance_id(&other)));

    // A backup without objects changes only the instance of the storage.
    let third = site.another().await;
    let arguments = ["restore", text(&without), "--object-store-url", &url, "--replace-objects"];
    third.succeeds(&arguments).await;
    assert_eq!((uploads(), marked_instance_id(&objects)), (1, instance_id(&third)));
    third.succeeds(&["doctor", "--object-store-url", &url]).await;
    third.remove().await;
    other.remove().await;
}

async fn restore_refuses_object_storage_of_instance_without_objects(site: Site) {
    site.serve(&[]).await.stop().await;
    let directory = site.sibling_path("backups");
    site.succeeds(&["backup", text(&directory)]).await;
    let (live, target) = (site.another().await, site.another().await);
    let objects = live.sibling_path("objects");
    let url = format!("file://{}", text(&objects));
    live.serve(&["--object-store-url", &url]).await.stop().await;
    let output = target.fails(&["restore", text(&directory), "--object-store-url", &url]).await;
    assert!(output.contains("belongs to the instance ") && !target.data.exists(), "{output}");
    // A directory that does not exist is empty.
    let new = target.sibling_path("new");
    let new_url = format!("file://{}", text(&new));
    target.succeeds(&["restore", text(&directory), "--object-store-url", &new_url]).await;
    assert_eq!(marked_instance_id(&new), instance_id(&target));
    target.remove().await;
    live.remove().await;
}

/// One object of the bucket cannot be read. The backup contains everything else and reports the object without its key.
async fn backup_reports_object_that_cannot_be_read(site: Site) {
    let damaged = Arc::new(AtomicI64::new(0));
    let state = Arc::clone(&damaged);
    let bucket = Bucket::with(move |line| {
        let path = format!("/projects/{}/", state.load(Ordering::SeqCst));
        match line.starts_with("GET ") && line.contains(&path) {
            true => S3Reply::Failure(403),
            false => S3Reply::Success,
        }
    })
    .await;
    let mut command = site.command(&["serve", "--listen", "127.0.0.1:0"]);
    bucket.configure(&mut command, "hold/fast");
    let server = Site::ready(command).await;
    let client = Client::new(&server.base, Some(TOKEN));
    let first = project(&client, "p", json!({})).await;
    upload(&client, first, b"first").await;
    let second = project(&client, "q", json!({})).await;
    let sound = upload(&client, second, b"second").await;
    server.stop().await;

    let directory = site.sibling_path("backups");
    let backup = async || {
        let mut command = site.command(&["backup", text(&directory)]);
        bucket.configure(&mut command, "hold/fast");
        command.output().await.expect("the binary")
    };
    damaged.store(first, Ordering::SeqCst);
    let output = backup().await;
    let printed = git::output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    let problem = format!("of the project {first}: its object cannot be read: the object storage returned an error");
    assert!(printed.contains(&problem) && printed.contains("has 1 problem"), "{printed}");
    assert!(!printed.contains("uploads/"), "{printed}");
    let output = fails(&["backup", "verify", text(&directory)]).await;
    assert_eq!(output.matches("the instance already lacked it").count(), 1, "{output}");
    let other = site.another().await;
    other.succeeds(&["restore", text(&directory)]).await;
    let server = other.serve(&[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    assert_eq!(client.get(&sound).await.expect(200).text(), "second");
    server.stop().await;
    other.remove().await;

    damaged.store(0, Ordering::SeqCst);
    let output = backup().await;
    assert!(output.status.success(), "{}", git::output_text(&output));
    succeeds(&["backup", "verify", text(&directory), "--backup", &names(&directory).await[1]]).await;
}

on_every_site![
    restore_replaces_objects_of_another_instance_only_on_request,
    restore_refuses_object_storage_of_instance_without_objects,
    backup_reports_object_that_cannot_be_read,
];
