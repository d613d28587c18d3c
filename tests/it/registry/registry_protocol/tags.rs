//! Tags: list order, moves and deletion.

use domain::registry::repositories;
use serde_json::json;

use super::{IMAGE, Tool, assert_refused};
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

async fn list_tags_sorts_by_bytes_and_paginates(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    assert_refused(&tool.client.get(&tool.path("tags/list")).await, 404, "NAME_UNKNOWN");
    let image = tool.push_image("rootA", 1).await;
    for tag in ["latest", "_x", "Zebra", "1.0", "a-b", "a.b"] {
        tool.push_manifest(tag, IMAGE, &image.manifest).await.expect(201);
    }
    let sorted = ["1.0", "Zebra", "_x", "a-b", "a.b", "latest", "rootA"];
    let all = tool.client.get(&tool.path("tags/list")).await.expect(200);
    assert_eq!(all.json(), json!({"name": "root/work", "tags": sorted}));
    assert_eq!(all.header("link"), "");
    let first = tool.client.get(&tool.path("tags/list?n=3")).await.expect(200);
    assert_eq!(first.json()["tags"], json!(sorted[..3]));
    assert_eq!(first.header("link"), "</v2/root/work/tags/list?n=3&last=_x>; rel=\"next\"");
    let next = tool.client.get(&tool.path("tags/list?n=3&last=_x")).await.expect(200);
    assert_eq!(next.json()["tags"], json!(sorted[3..6]));
    let last = tool.client.get(&tool.path("tags/list?n=3&last=latest")).await.expect(200);
    assert_eq!((last.json()["tags"].clone(), last.header("link")), (json!(["rootA"]), ""));
    let between = tool.client.get(&tool.path("tags/list?last=b")).await.expect(200);
    assert_eq!(between.json()["tags"], json!(["latest", "rootA"]));
    let none = tool.client.get(&tool.path("tags/list?n=0")).await.expect(200);
    assert_eq!((none.json()["tags"].clone(), none.header("link")), (json!([]), ""));
    let before = server.statements();
    tool.client.get(&tool.path("tags/list")).await.expect(200);
    let statements = server.statements() - before;
    assert!(statements <= 15, "{statements}");
    for wrong in ["x", "-1", "1.5"] {
        let refused = tool.client.get(&tool.path(&format!("tags/list?n={wrong}"))).await;
        assert_refused(&refused, 400, "PAGINATION_NUMBER_INVALID");
    }
    tool.client.head(&tool.path("tags/list")).await.expect(200);
}

async fn tags_can_be_moved_and_deleted_independently(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let one = tool.push_image("latest", 1).await;
    tool.push_manifest("one", IMAGE, &one.manifest).await.expect(201);
    let two = tool.push_image("latest", 2).await;
    let named = async |tag: &str| {
        let found = tool.client.head(&tool.path(&format!("manifests/{tag}"))).await;
        (found.status, found.header("docker-content-digest").to_owned())
    };
    assert_eq!(named("latest").await, (200, two.digest.clone()));
    assert_eq!(named("one").await, (200, one.digest.clone()));
    tool.client.delete(&tool.path("manifests/one")).await.expect(202);
    assert_eq!(named("one").await.0, 404);
    assert_eq!(named("latest").await, (200, two.digest.clone()));
    // The manifest remains without a tag.
    assert_eq!(named(&one.digest).await, (200, one.digest.clone()));
    assert_refused(&tool.client.delete(&tool.path("manifests/one")).await, 404, "MANIFEST_UNKNOWN");
    tool.client.delete(&tool.path(&format!("manifests/{}", two.digest))).await.expect(202);
    assert_eq!(tool.client.get(&tool.path("tags/list")).await.expect(200).json()["tags"], json!([]));
}

async fn deleted_repository_returns_404_and_name_is_reusable(server: TestServer) {
    let id = project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    tool.push_image("latest", 1).await;
    let upload = tool.begin().await;
    let db = server.backend.database.write();
    let found = storage::entities::registry_repositories::of_project(id);
    let repository = found.one(db).await.expect("rows").expect("a row");
    assert!(repositories::begin_deletion(db, repository.id).await.expect("the database"));
    assert!(!repositories::begin_deletion(db, repository.id).await.expect("the database"));
    assert_refused(&tool.client.get(&tool.path("tags/list")).await, 404, "NAME_UNKNOWN");
    assert_refused(&tool.client.get(&upload).await, 404, "BLOB_UPLOAD_UNKNOWN");
    // An image pushed during the deletion creates a new repository, which remains.
    tool.push_image("new", 2).await;
    repositories::delete_content(&server.backend, repository.id).await.expect("the database");
    repositories::delete_content(&server.backend, repository.id).await.expect("the database");
    let tags = tool.client.get(&tool.path("tags/list")).await.expect(200).json();
    assert_eq!(tags["tags"], json!(["new"]));
    tool.client.get(&tool.path("manifests/new")).await.expect(200);
}

on_every_database![
    list_tags_sorts_by_bytes_and_paginates,
    tags_can_be_moved_and_deleted_independently,
    deleted_repository_returns_404_and_name_is_reusable,
];
