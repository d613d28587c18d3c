//! Deletion of packages, files, projects and groups.

use reqwest::Method;
use sea_orm::{ActiveValue::Set, EntityTrait, PaginatorTrait};
use serde_json::json;
use storage::entities::{now, package_blobs, package_files, packages};

use super::{file_path, maven_packages, npm_packages, package, upload};
use crate::support::spaces::{group, project};
use crate::support::{TestServer, on_every_database};

/// Returns the numbers of packages, of files, of rows of objects, and of objects.
async fn counts(server: &TestServer) -> (u64, u64, u64, usize) {
    let db = server.backend.database.read();
    let objects = server.backend.objects.keys(Some("packages")).await.expect("keys");
    (
        packages::Entity::find().count(db).await.expect("a count"),
        package_files::Entity::find().count(db).await.expect("a count"),
        package_blobs::Entity::find().count(db).await.expect("a count"),
        objects.len(),
    )
}

async fn deleted_package_and_file_are_gone(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    let (first, _) = package(&root, &work, "a", "1").await;
    let (second, file) = package(&root, &work, "a", "2").await;
    upload(&root, &work, ["a", "2", "other"], b"x").await.expect(201);
    assert_eq!(counts(&server).await, (2, 3, 3, 3));
    root.delete(&format!("{work}/packages/{first}")).await.expect(204);
    root.get(&file_path(&work, ["a", "1", "there"])).await.expect(404);
    for path in [String::new(), "/package_files".to_owned()] {
        root.get(&format!("{work}/packages/{first}{path}")).await.expect(404);
    }
    root.delete(&format!("{work}/packages/{first}")).await.expect(404);
    server.finish_jobs().await;
    assert_eq!(counts(&server).await, (1, 2, 2, 2));
    let one = format!("{work}/packages/{second}/package_files/{file}");
    root.delete(&one).await.expect(204);
    root.delete(&one).await.expect(404);
    root.get(&format!("{one}/download")).await.expect(404);
    root.get(&file_path(&work, ["a", "2", "there"])).await.expect(404);
    root.get(&file_path(&work, ["a", "2", "other"])).await.expect(200);
    server.finish_jobs().await;
    assert_eq!(counts(&server).await, (1, 1, 1, 1));
    // The name can be used again.
    upload(&root, &work, ["a", "1", "there"], b"new").await.expect(201);
    assert_eq!(root.get(&file_path(&work, ["a", "1", "there"])).await.expect(200).text(), "new");
}

async fn package_is_deleted_with_its_last_file(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    let (id, file) = package(&root, &work, "a", "1").await;
    root.delete(&format!("{work}/packages/{id}/package_files/{file}")).await.expect(204);
    root.get(&format!("{work}/packages/{id}")).await.expect(404);
    server.finish_jobs().await;
    assert_eq!(counts(&server).await, (0, 0, 0, 0));
}

async fn deletion_has_a_precondition(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    let (id, file) = package(&root, &work, "a", "1").await;
    for path in [format!("{work}/packages/{id}/package_files/{file}"), format!("{work}/packages/{id}")] {
        let old = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
        old.delete(&path).await.expect(412);
    }
    let new = root.clone().header("If-Unmodified-Since", "Fri, 01 Jan 2100 00:00:00 GMT");
    new.delete(&format!("{work}/packages/{id}")).await.expect(204);
}

async fn projects_and_groups_are_deleted_with_their_packages(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let ids = [
        project(&root, "in-group", json!({ "namespace_id": top })).await,
        project(&root, "alone", json!({})).await,
        project(&root, "other", json!({})).await,
    ];
    for id in ids {
        for version in ["1", "2"] {
            package(&root, &format!("/projects/{id}"), "a", version).await;
        }
    }
    assert_eq!(counts(&server).await, (6, 6, 6, 6));
    root.delete(&format!("/projects/{}", ids[1])).await.expect(202);
    root.delete(&format!("/groups/{top}")).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(counts(&server).await, (2, 2, 2, 2));
    root.get(&file_path(&format!("/projects/{}", ids[2]), ["a", "1", "there"])).await.expect(200);
}

async fn files_of_a_deleted_project_are_deleted_in_batches(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let (package_id, _) = package(&root, &format!("/projects/{id}"), "a", "1").await;
    let rows = (0..1_000).map(|number| package_files::ActiveModel {
        package_id: Set(package_id),
        file_name: Set(format!("f{number}")),
        size: Set(1),
        md5: Set("0".repeat(32)),
        sha1: Set("0".repeat(40)),
        sha256: Set("0".repeat(64)),
        created_at: Set(now()),
        ..Default::default()
    });
    let db = server.backend.database.write();
    package_files::Entity::insert_many(rows).exec_without_returning(db).await.expect("files");
    let before = server.statements();
    root.delete(&format!("/projects/{id}")).await.expect(202);
    server.finish_jobs().await;
    let texts = server.statement_texts(before);
    let deletions = texts.iter().filter(|text| text.starts_with("DELETE FROM \"package_files\"")).count();
    assert_eq!(deletions, 2);
    // Each batch is locked in the order of the IDs.
    let lock = |text: &&String| text.starts_with("SELECT \"id\" FROM \"package_files\"") && text.contains("ORDER BY");
    assert_eq!(texts.iter().filter(lock).count(), 2);
    assert_eq!(counts(&server).await, (0, 0, 0, 0));
}

async fn package_remains_after_transfer_and_deletion_of_its_creator(server: TestServer) {
    let root = server.root();
    let ann = server.create_user("ann").await;
    let id = project(&root, "work", json!({})).await;
    let work = format!("/projects/{id}");
    server.insert_member(id, ann.id, storage::entities::AccessLevel::Developer).await;
    let (package_id, _) = package(&ann.client, &work, "a", "1").await;
    let top = group(&root, "top", json!({})).await;
    root.put(&format!("{work}/transfer"), json!({ "namespace": top })).await.expect(200);
    let moved = root.get(&format!("{work}/packages/{package_id}")).await.expect(200).json();
    assert_eq!(moved["_links"]["web_path"], format!("/top/work/-/packages/{package_id}"));
    root.delete(&format!("/users/{}", ann.id)).await.expect(204);
    server.finish_jobs().await;
    assert!(!server.has_user_row(ann.id).await);
    root.get(&file_path(&work, ["a", "1", "there"])).await.expect(200);
}

async fn packages_move_with_their_group(server: TestServer) {
    let root = server.root();
    let old = group(&root, "old", json!({})).await;
    let new = group(&root, "fresh", json!({})).await;
    let moved = group(&root, "moved", json!({ "parent_id": old })).await;
    let id = project(&root, "work", json!({ "namespace_id": moved })).await;
    npm_packages::publish(&root, id, "@old/web", "1.0.0").await.expect(200);
    npm_packages::publish(&root, id, "@fresh/web", "1.0.0").await.expect(200);
    for name in ["old/moved/work", "fresh/moved/work"] {
        maven_packages::put(&root, id, &format!("{name}/1.0/work-1.0.jar"), "jar").await.expect(200);
    }
    let jar = |name: &str| format!("packages/maven/{name}/moved/work/1.0/work-1.0.jar");
    // Returns the statuses of both packages of a scope in the index of the instance and of a group.
    let statuses = async |scope: &str, group: i64| {
        let of_group = format!("/groups/{group}/-");
        let urls = [
            format!("/packages/npm/@{scope}%2fweb"),
            format!("/{}", jar(scope)),
            format!("{of_group}/packages/npm/@{scope}%2fweb"),
            format!("{of_group}/{}", jar(scope)),
        ];
        let mut found = Vec::new();
        for url in urls {
            found.push(root.get(&url).await.status);
        }
        found
    };
    assert_eq!(statuses("old", old).await, [200; 4]);
    assert_eq!(statuses("fresh", new).await, [404; 4]);
    root.post(&format!("/groups/{moved}/transfer"), json!({ "group_id": new })).await.expect(201);
    // The index of the instance compares the scope, or the name, with the new path.
    assert_eq!(statuses("fresh", new).await, [200; 4]);
    assert_eq!(statuses("old", old).await, [404; 4]);
    assert_eq!(statuses("old", new).await, [404, 404, 200, 200]);
    for (group, count) in [(old, 0), (moved, 4), (new, 4)] {
        let listed = root.get(&format!("/groups/{group}/packages")).await.expect(200);
        assert_eq!(listed.pluck("project_path"), vec![json!("fresh/moved/work"); count]);
    }
    let found = root.get(&format!("/groups/{new}/-/packages/npm/@fresh%2fweb")).await.expect(200).json();
    let tarball = npm_packages::below_api(&found["versions"]["1.0.0"]["dist"]["tarball"], &server);
    assert_eq!(root.get(&tarball).await.expect(200).text(), "archive of 1.0.0");
    assert_eq!(
        root.get(&maven_packages::file(id, "fresh/moved/work/1.0/work-1.0.jar")).await.expect(200).text(),
        "jar"
    );
}

async fn concurrent_deletions_and_uploads_leave_no_file_without_object(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    for _ in 0..5 {
        let (id, file) = package(&root, &work, "a", "1").await;
        let (one, all) = (format!("{work}/packages/{id}"), format!("{work}/packages/{id}/package_files/{file}"));
        let (first, second, sent) = tokio::join!(
            root.send(root.request(Method::DELETE, &one)),
            root.send(root.request(Method::DELETE, &all)),
            upload(&root, &work, ["a", "1", "new"], b"new"),
        );
        assert!(matches!(first.status, 204 | 404) && matches!(second.status, 204 | 404));
        assert_eq!(sent.status, 201);
        server.finish_jobs().await;
        let (_, files, blobs, objects) = counts(&server).await;
        assert_eq!((files, blobs as usize), (blobs, objects));
        for package in root.get(&format!("{work}/packages")).await.expect(200).json().as_array().expect("a list") {
            root.delete(&format!("{work}/packages/{}", package["id"])).await.expect(204);
        }
    }
    server.finish_jobs().await;
    assert_eq!(counts(&server).await, (0, 0, 0, 0));
}

on_every_database![
    deleted_package_and_file_are_gone,
    package_is_deleted_with_its_last_file,
    deletion_has_a_precondition,
    projects_and_groups_are_deleted_with_their_packages,
    files_of_a_deleted_project_are_deleted_in_batches,
    package_remains_after_transfer_and_deletion_of_its_creator,
    packages_move_with_their_group,
    concurrent_deletions_and_uploads_leave_no_file_without_object,
];
