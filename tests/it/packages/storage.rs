//! Storage of package files: interruptions, failures, the sweep, the consistency check and backups.

use chrono::TimeDelta;
use domain::packages::garbage_collection::sweep;
use domain::packages::integrity;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::json;
use storage::entities::{now, package_blobs};
use tokio::io::AsyncWriteExt;

use super::{file_path, package, upload};
use crate::support::process::{Site, on_every_site};
use crate::support::spaces::project;
use crate::support::{Client, TestServer, on_every_database};

async fn blob_count(server: &TestServer) -> u64 {
    package_blobs::Entity::find().count(server.backend.database.read()).await.expect("a count")
}

async fn object_keys(server: &TestServer) -> Vec<String> {
    server.backend.objects.keys(Some("packages")).await.expect("keys")
}

async fn interrupted_upload_leaves_nothing(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    let token = server.create_token(1, &["api"]).await;
    let mut connection = crate::support::raw_http::RawConnection::connect(&server.base).await;
    let path = file_path(&work, ["a", "1", "f"]);
    let head =
        format!("PUT /api/v4{path} HTTP/1.1\r\nHost: h\r\nPrivate-Token: {token}\r\nContent-Length: 1000\r\n\r\n");
    connection.send(head).await;
    connection.send([7_u8; 500]).await;
    connection.stream.shutdown().await.expect("a shutdown");
    drop(connection);
    // The next upload is complete, and the interrupted one has stored nothing.
    upload(&root, &work, ["a", "1", "f"], b"x").await.expect(201);
    assert_eq!((blob_count(&server).await, object_keys(&server).await.len()), (1, 1));
    let files = root.get(&format!("{work}/packages/1/package_files")).await.expect(200).json();
    assert_eq!(files.as_array().map(Vec::len), Some(1));
}

async fn sweep_deletes_objects_of_killed_uploads(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    package(&root, &work, "a", "1").await;
    let db = server.backend.database.write();
    // A killed server leaves a row, with or without its object.
    for (key, age) in [("packages/aa/old", 25), ("packages/bb/new", 1), ("packages/cc/none", 25)] {
        let row = package_blobs::ActiveModel {
            key: Set(key.to_owned()),
            created_at: Set(now() - TimeDelta::hours(age)),
            ..Default::default()
        };
        row.insert(db).await.expect("a row");
        if !key.ends_with("none") {
            let mut writer = server.backend.objects.write(key);
            writer.push("x".into()).await.expect("writing");
            writer.finish().await.expect("an object");
        }
    }
    assert_eq!(integrity::check(&server.backend).await.expect("a check").problems, [""; 0]);
    assert_eq!(sweep(&server.backend).await.expect("a sweep"), 2);
    assert_eq!(sweep(&server.backend).await.expect("a sweep"), 0);
    let keys = object_keys(&server).await;
    assert!(keys.len() == 2 && keys.contains(&"packages/bb/new".to_owned()), "{keys:?}");
    assert_eq!(blob_count(&server).await, 2);
    root.get(&file_path(&work, ["a", "1", "there"])).await.expect(200);

    // An object that cannot be deleted does not stop the sweep.
    let stuck = server.data().join("objects/packages/dd/stuck");
    std::fs::create_dir_all(stuck.join("inner")).expect("a directory");
    for key in ["packages/dd/stuck", "packages/ee/none"] {
        let row = package_blobs::ActiveModel {
            key: Set(key.to_owned()),
            created_at: Set(now() - TimeDelta::hours(25)),
            ..Default::default()
        };
        row.insert(db).await.expect("a row");
    }
    sweep(&server.backend).await.expect_err("an object that cannot be deleted");
    assert_eq!(blob_count(&server).await, 3);
    std::fs::remove_dir_all(&stuck).expect("removing");
    assert_eq!(sweep(&server.backend).await.expect("a sweep"), 1);
}

async fn upload_with_failing_storage_leaves_nothing(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    let objects = server.data().join("objects");
    let _ = std::fs::remove_dir_all(&objects);
    std::fs::write(&objects, "a file in place of the directory").expect("a file");
    let request = root.request(reqwest::Method::PUT, &file_path(&work, ["a", "1", "f"])).body("x");
    // The client of the tests accepts no status 500.
    let response = request.send().await.expect("a response");
    assert_eq!(response.status().as_u16(), 500);
    std::fs::remove_file(&objects).expect("removing");
    std::fs::create_dir(&objects).expect("a directory");
    assert_eq!(root.get(&format!("{work}/packages")).await.expect(200).json(), json!([]));
    upload(&root, &work, ["a", "1", "f"], b"x").await.expect(201);
    package_blobs::Entity::update_many()
        .col_expr(package_blobs::Column::CreatedAt, Expr::value(now() - TimeDelta::days(2)))
        .filter(package_blobs::Column::FileId.is_null())
        .exec(server.backend.database.write())
        .await
        .expect("an update");
    sweep(&server.backend).await.expect("a sweep");
    assert_eq!((blob_count(&server).await, object_keys(&server).await.len()), (1, 1));
}

async fn consistency_check_finds_missing_and_unknown_objects(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    let (id, file) = package(&root, &work, "a", "1").await;
    package(&root, &work, "a", "2").await;
    let found = integrity::check(&server.backend).await.expect("a check");
    assert_eq!((found.files, found.problems), (2, Vec::new()));
    let blob = package_blobs::Entity::find()
        .filter(package_blobs::Column::FileId.eq(file))
        .one(server.backend.database.read())
        .await;
    let blob = blob.expect("a query").expect("a row");
    server.backend.objects.delete(&blob.key).await.expect("deleting");
    let mut writer = server.backend.objects.write("packages/aa/unknown");
    writer.push("x".into()).await.expect("writing");
    writer.finish().await.expect("an object");
    let found = integrity::check(&server.backend).await.expect("a check");
    let missing = format!("package file {file} of the package {id}: its object is missing or has the wrong length");
    assert_eq!(found.problems, [missing.as_str(), "object packages/aa/unknown: it belongs to no package file"]);
}

on_every_database![
    interrupted_upload_leaves_nothing,
    sweep_deletes_objects_of_killed_uploads,
    upload_with_failing_storage_leaves_nothing,
    consistency_check_finds_missing_and_unknown_objects,
];

async fn backup_and_restore_include_packages(site: Site) {
    let server = site.serve(&[]).await;
    let client = Client::new(&server.base, Some(crate::support::process::TOKEN));
    let work = format!("/projects/{}", project(&client, "work", json!({})).await);
    upload(&client, &work, ["a", "1", "f"], b"content").await.expect(201);
    let copy = site.sibling_path("copy");
    let copy = copy.to_str().expect("a path");
    site.succeeds(&["backup", copy]).await;
    server.stop().await;
    let other = site.another().await;
    other.succeeds(&["restore", copy]).await;
    other.succeeds(&["doctor"]).await;
    let server = other.serve(&[]).await;
    let client = Client::new(&server.base, Some(crate::support::process::TOKEN));
    assert_eq!(client.get(&file_path(&work, ["a", "1", "f"])).await.expect(200).text(), "content");
    server.stop().await;
    other.remove().await;
}

on_every_site![backup_and_restore_include_packages,];
