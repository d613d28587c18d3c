//! Uploaded files in an S3-compatible bucket.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::json;

use super::{send, url};
use crate::support::Client;
use crate::support::process::{Process, Site, TOKEN, on_every_site};
use crate::support::s3::{Bucket, INSTANCE_ID, S3Reply};
use crate::support::spaces::project;

/// More than one part, and not a multiple of the part size.
const LARGE: usize = (12 << 20) + 17;

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|n| (n % 251) as u8).collect()
}

async fn serve(site: &Site, bucket: &Bucket, arguments: &[&str]) -> Process {
    let arguments = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
    let mut command = site.command(&arguments);
    bucket.configure(&mut command, "hold/fast");
    Site::ready(command).await
}

/// Creates a project that accepts large files and returns it with a client.
async fn prepare(server: &Process) -> (Client, i64) {
    let client = Client::new(&server.base, Some(TOKEN));
    let settings = json!({ "max_attachment_size": 20, "deletion_adjourned_period": 0 });
    client.put("/application/settings", settings).await.expect(200);
    let id = project(&client, "work", json!({})).await;
    (client, id)
}

/// Returns the number of files that the site stores locally.
fn local_file_count(site: &Site) -> usize {
    let objects = site.data.join("objects");
    super::files(&site.data.join("tmp")).len() + if objects.exists() { super::files(&objects).len() } else { 0 }
}

async fn uploads_in_bucket_are_stored_read_by_range_and_deleted(site: Site) {
    let bucket = Bucket::start().await;
    let server = serve(&site, &bucket, &[]).await;
    let (client, id) = prepare(&server).await;
    let mut sent = Vec::new();
    for count in [0, 5, 200_000, 5 << 20, LARGE] {
        let content = bytes(count);
        let response = send(&client, id, "a.bin", content.clone()).await.expect(201);
        assert!(client.get(&url(&response)).await.expect(200).body == content, "{count}");
        sent.push((url(&response), content));
    }
    assert_eq!((bucket.started_uploads(), bucket.incomplete_uploads(), local_file_count(&site)), (2, 0, 0));
    let folder = format!("hold/fast/projects/{id}/");
    assert!(bucket.keys().len() == 5 && bucket.keys().iter().all(|key| key.starts_with(&folder)));
    let (address, content) = &sent[4];
    let middle = client.clone().header("Range", "bytes=5242870-10485770").get(address).await.expect(206);
    assert!(middle.body == content[5_242_870..=10_485_770]);
    let tail = client.clone().header("Range", "bytes=-3").get(address).await.expect(206);
    assert!(tail.body == content[LARGE - 3..]);
    let form = Form::new().part("avatar", Part::bytes(b"\x89PNG\r\n\x1a\n".to_vec()).file_name("a.png"));
    let request = client.request(Method::PUT, &format!("/projects/{id}")).multipart(form);
    let avatar = client.send(request).await.expect(200).json()["avatar_url"].clone();
    let avatar = avatar.as_str().expect("an address").replace(&server.base, "/");
    assert_eq!(client.get(&avatar).await.expect(200).body, b"\x89PNG\r\n\x1a\n");
    server.stop().await;
    // The files are available after a restart, and deletion removes them from the bucket.
    let server = serve(&site, &bucket, &[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    assert!(client.get(address).await.expect(200).body == *content);
    client.delete(&format!("/projects/{id}")).await.expect(202);
    bucket.wait_until(|bucket| bucket.keys().is_empty()).await;
    bucket.assert_valid_requests();
    server.stop().await;
}

async fn backup_and_restore_include_files_of_the_bucket(site: Site) {
    let bucket = Bucket::start().await;
    let server = serve(&site, &bucket, &[]).await;
    let (client, id) = prepare(&server).await;
    let content = bytes(LARGE);
    let sent = send(&client, id, "a.bin", content.clone()).await.expect(201);
    let copy = site.sibling_path("copy");
    let copy = copy.to_str().expect("a path");
    let mut command = site.command(&["backup", copy]);
    bucket.configure(&mut command, "hold/fast");
    assert!(command.stdout(Stdio::null()).status().await.expect("the binary").success());
    server.stop().await;
    let other = site.another().await;
    let elsewhere = Bucket::start().await;
    let mut command = other.command(&["restore", copy]);
    elsewhere.configure(&mut command, "hold/fast");
    assert!(command.stdout(Stdio::null()).status().await.expect("the binary").success());
    assert_eq!(elsewhere.keys(), bucket.keys());
    let server = serve(&other, &elsewhere, &[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    assert!(client.get(&url(&sent)).await.expect(200).body == content);
    server.stop().await;
    other.remove().await;
}

on_every_site![uploads_in_bucket_are_stored_read_by_range_and_deleted, backup_and_restore_include_files_of_the_bucket,];

async fn failed_multipart_upload_returns_500_and_leaves_no_files() {
    let broken = Arc::new(AtomicBool::new(true));
    let state = Arc::clone(&broken);
    let bucket = Bucket::with(move |line| match line.contains("partNumber=2") && state.load(Ordering::SeqCst) {
        true => S3Reply::Failure(403),
        false => S3Reply::Success,
    })
    .await;
    let site = Site::migrated(&crate::support::DatabaseKind::Sqlite).await;
    let server = serve(&site, &bucket, &[]).await;
    let (client, id) = prepare(&server).await;
    // The helper of the client panics on server errors, so the request is sent directly.
    let form = Form::new().part("file", Part::bytes(bytes(LARGE)).file_name("a.bin"));
    let request = client.request(Method::POST, &format!("/projects/{id}/uploads")).multipart(form);
    let rejected = request.send().await.expect("a response");
    assert_eq!(rejected.status(), 500);
    // The response does not contain the location of files.
    let message = rejected.text().await.expect("a text");
    assert!(["127.0.0.1:", "s3", "files", "Refused"].iter().all(|word| !message.contains(word)), "{message}");
    assert_eq!((bucket.started_uploads(), bucket.incomplete_uploads(), bucket.keys().len()), (1, 0, 0));
    assert_eq!(local_file_count(&site), 0);
    broken.store(false, Ordering::SeqCst);
    let sent = send(&client, id, "a.bin", bytes(LARGE)).await.expect(201);
    assert!(client.get(&url(&sent)).await.expect(200).body == bytes(LARGE));
    bucket.assert_valid_requests();
    server.stop().await;
}

async fn timed_out_upload_aborts_its_parts() {
    let bucket = Bucket::with(|line| match line.contains("partNumber=2") {
        true => S3Reply::Hang,
        false => S3Reply::Success,
    })
    .await;
    let site = Site::migrated(&crate::support::DatabaseKind::Sqlite).await;
    let server = serve(&site, &bucket, &["--request-timeout", "3"]).await;
    let (client, id) = prepare(&server).await;
    send(&client, id, "a.bin", bytes(LARGE)).await.expect(503);
    bucket.wait_until(|bucket| bucket.requests("DELETE") > 0 && bucket.incomplete_uploads() == 0).await;
    assert_eq!((bucket.started_uploads(), bucket.keys().len()), (1, 0));
    server.stop().await;
}

async fn transient_bucket_errors_are_retried() {
    let request_count = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&request_count);
    let bucket = Bucket::with(move |line| {
        let affected = line.contains("partNumber=2") || line.contains("?uploads");
        match affected && count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            true => S3Reply::Failure(503),
            false => S3Reply::Success,
        }
    })
    .await;
    let site = Site::migrated(&crate::support::DatabaseKind::Sqlite).await;
    let server = serve(&site, &bucket, &[]).await;
    let (client, id) = prepare(&server).await;
    let sent = send(&client, id, "a.bin", bytes(LARGE)).await.expect(201);
    assert!(client.get(&url(&sent)).await.expect(200).body == bytes(LARGE));
    assert_eq!((bucket.requests("partNumber=2"), bucket.incomplete_uploads()), (2, 0));
    server.stop().await;
}

async fn interrupted_bucket_download_is_resumed() {
    let request_count = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&request_count);
    let bucket = Bucket::with(move |line| {
        let is_download = line.starts_with("GET /files/hold") && !line.contains(INSTANCE_ID);
        match is_download && count.fetch_add(1, Ordering::SeqCst) == 0 {
            true => S3Reply::Cut,
            false => S3Reply::Success,
        }
    })
    .await;
    let site = Site::migrated(&crate::support::DatabaseKind::Sqlite).await;
    let server = serve(&site, &bucket, &[]).await;
    let (client, id) = prepare(&server).await;
    let sent = send(&client, id, "a.bin", bytes(200_000)).await.expect(201);
    assert!(client.get(&url(&sent)).await.expect(200).body == bytes(200_000));
    assert!(request_count.load(Ordering::SeqCst) > 1);
    server.stop().await;
}

async fn serve_rejects_invalid_object_store_url() {
    let site = Site::new(&crate::support::DatabaseKind::Sqlite).await;
    for store_url in ["s3://", "s3://key:secret@files/x", "ftp://files"] {
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--object-store-url", store_url];
        let message = site.fails(&arguments).await;
        assert!(message.contains("file:///PATH or s3://BUCKET/PREFIX") && !message.contains("secret@"), "{message}");
    }
}

harness::tests![
    failed_multipart_upload_returns_500_and_leaves_no_files,
    timed_out_upload_aborts_its_parts,
    transient_bucket_errors_are_retried,
    interrupted_bucket_download_is_resumed,
    serve_rejects_invalid_object_store_url,
];
