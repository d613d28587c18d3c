//! Blobs: whole and partial downloads, mounts and deletion.

use reqwest::Method;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::json;
use storage::entities::registry_pieces;

use super::{Tool, assert_refused, digest, noise, objects, request_token};
use crate::support::server::ROOT_TOKEN;
use crate::support::spaces::project;
use crate::support::{Client, TestServer, on_every_database};

async fn get_blob_returns_whole_content_and_ranges(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work/app").await;
    let bytes = noise(3_000_000, 1);
    let id = tool.push_blob(&bytes).await;
    let path = tool.path(&format!("blobs/{id}"));
    let full = tool.client.get(&path).await.expect(200);
    assert!(full.body == bytes);
    assert_eq!(full.header("docker-content-digest"), id);
    assert_eq!(full.header("etag"), format!("\"{id}\""));
    assert_eq!(full.header("content-type"), "application/octet-stream");
    assert_eq!(full.header("accept-ranges"), "bytes");
    assert_eq!(full.header("docker-distribution-api-version"), "registry/2.0");
    assert_eq!(full.header("cache-control"), "private, max-age=31536000, immutable");
    let head = tool.client.head(&path).await.expect(200);
    assert_eq!((head.header("content-length"), head.body.len()), ("3000000", 0));
    assert_eq!(head.header("docker-content-digest"), id);
    let range = async |range: &str| tool.client.clone().header("Range", range).get(&path).await;
    let part = range("bytes=1048570-1048585").await.expect(206);
    assert!(part.body == bytes[1_048_570..=1_048_585]);
    assert_eq!(part.header("content-range"), "bytes 1048570-1048585/3000000");
    assert!(range("bytes=2999990-").await.expect(206).body == bytes[2_999_990..]);
    assert!(range("bytes=-5").await.expect(206).body == bytes[2_999_995..]);
    let beyond = range("bytes=3000000-").await;
    assert_refused(&beyond, 416, "SIZE_INVALID");
    assert_eq!(beyond.header("content-range"), "bytes */3000000");
    let known = tool.client.clone().header("If-None-Match", &format!("\"{id}\""));
    assert!(known.get(&path).await.expect(304).body.is_empty());
}

async fn blob_of_another_repository_requires_mount(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    project(&server.root(), "else", json!({})).await;
    let source = Tool::of_root(&server, "root/else").await;
    let id = source.push_blob(b"shared").await;
    let tool = Tool::of_root(&server, "root/work").await;
    let path = tool.path(&format!("blobs/{id}"));
    assert_refused(&tool.client.get(&path).await, 404, "NAME_UNKNOWN");
    tool.push_blob(b"own").await;
    assert_refused(&tool.client.get(&path).await, 404, "BLOB_UNKNOWN");
    assert_eq!(tool.client.head(&path).await.expect(404).body.len(), 0);
    // Without a token for the source repository the mount falls back to an upload.
    let mount = format!("blobs/uploads/?mount={id}&from=root/else");
    let refused = tool.send(Method::POST, &tool.path(&mount), &[], Vec::new()).await;
    assert!(refused.expect(202).header("location").contains("/blobs/uploads/"));
    let scopes = ["repository:root/work:pull,push", "repository:root/else:pull"];
    let token = request_token(&server.base, Some(("root", ROOT_TOKEN)), &scopes).await.expect(200).json();
    let bearer = format!("Bearer {}", token["token"].as_str().expect("a token"));
    let both =
        Tool { client: Client::new(&server.base, None).header("Authorization", &bearer), name: tool.name.clone() };
    let mounted = both.send(Method::POST, &both.path(&mount), &[], Vec::new()).await.expect(201);
    assert_eq!(mounted.header("location"), format!("/v2/root/work/blobs/{id}"));
    assert_eq!(mounted.header("docker-content-digest"), id);
    assert_eq!(tool.client.get(&path).await.expect(200).body, b"shared");
    // An unknown blob, or a missing or invalid source, falls back to an upload.
    let deleted = digest(b"gone");
    for query in [
        format!("mount={deleted}&from=root/else"),
        format!("mount={deleted}&from=root/none"),
        format!("mount={deleted}&from=NO"),
        format!("mount={id}"),
    ] {
        let path = both.path(&format!("blobs/uploads/?{query}"));
        both.send(Method::POST, &path, &[], Vec::new()).await.expect(202);
    }
    let wrong = both.path("blobs/uploads/?mount=x&from=root/else");
    assert_refused(&both.send(Method::POST, &wrong, &[], Vec::new()).await, 400, "DIGEST_INVALID");
}

async fn blobs_are_deduplicated_and_deleted_per_repository(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let (one, two) = (Tool::of_root(&server, "root/work/one").await, Tool::of_root(&server, "root/work/two").await);
    let id = one.push_blob(b"same").await;
    two.push_blob(b"same").await;
    assert_eq!(objects(&server).await.len(), 1);
    let path = one.path(&format!("blobs/{id}"));
    one.client.delete(&path).await.expect(202);
    assert_refused(&one.client.delete(&path).await, 404, "BLOB_UNKNOWN");
    assert_refused(&one.client.get(&path).await, 404, "BLOB_UNKNOWN");
    assert_eq!(two.client.get(&two.path(&format!("blobs/{id}"))).await.expect(200).body, b"same");
    // A blob that a manifest references cannot be deleted.
    let image = one.push_image("latest", 1).await;
    let needed = one.client.delete(&one.path(&format!("blobs/{}", image.config))).await;
    assert_refused(&needed, 409, "DENIED");
    for wrong in ["blobs/x", "blobs/sha512:00", "blobs/sha256:AB"] {
        assert_refused(&one.client.get(&one.path(wrong)).await, 400, "DIGEST_INVALID");
    }
    let other = one.send(Method::PATCH, &path, &[], Vec::new()).await;
    assert_refused(&other, 405, "UNSUPPORTED");
    assert_eq!(other.header("allow"), "DELETE, GET, HEAD");
}

async fn deletions_are_audited(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work/app").await;
    let image = tool.push_image("latest", 1).await;
    let blob = tool.push_blob(b"blob").await;
    for path in [format!("blobs/{blob}"), "manifests/latest".to_owned(), format!("manifests/{}", image.digest)] {
        tool.client.delete(&tool.path(&path)).await.expect(202);
        // An action that fails is not recorded.
        tool.client.delete(&tool.path(&path)).await.expect(404);
    }
    let events = root.get(&format!("/projects/{id}/audit_events")).await.expect(200).json();
    assert_eq!(events[0]["author_id"], 1);
    let details = events.as_array().expect("events").iter().rev().map(|event| &event["details"]);
    let found: Vec<_> = details.map(|details| (&details["event_name"], &details["target_details"])).collect();
    let expected = [
        (json!("registry_blob_deleted"), json!(format!("app@{blob}"))),
        (json!("registry_tag_deleted"), json!("app:latest")),
        (json!("registry_manifest_deleted"), json!(format!("app@{}", image.digest))),
    ];
    let expected: Vec<_> = expected.iter().map(|(name, target)| (name, target)).collect();
    assert!(found.ends_with(&expected), "{found:?}");
}

async fn concurrent_pushes_of_one_blob_store_one_object(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let bytes = noise(2_500_000, 7);
    let mut pushes = tokio::task::JoinSet::new();
    for number in 0..6 {
        let tool = Tool::of_root(&server, &format!("root/work/n{}", number % 3)).await;
        let bytes = bytes.clone();
        pushes.spawn(async move {
            tool.push_blob(&bytes).await;
            tool
        });
    }
    while let Some(tool) = pushes.join_next().await {
        let tool = tool.expect("a push");
        let path = tool.path(&format!("blobs/{}", digest(&bytes)));
        assert!(tool.client.get(&path).await.expect(200).body == bytes);
    }
    assert_eq!(objects(&server).await.len(), 1);
}

async fn lost_blob_is_unknown_to_head_and_stored_by_the_next_push(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let id = tool.push_blob(b"lost").await;
    let path = tool.path(&format!("blobs/{id}"));
    let keys = objects(&server).await;
    server.backend.objects.delete(&keys[0]).await.expect("the storage");
    tool.client.head(&path).await.expect(404);
    for _ in 0..2 {
        tool.push_blob(b"lost").await;
        tool.client.head(&path).await.expect(200);
        assert_eq!(tool.client.get(&path).await.expect(200).body, b"lost");
        assert_eq!(objects(&server).await.len(), 1);
    }
    let pieces = registry_pieces::Entity::find().count(server.backend.database.read()).await;
    assert_eq!((keys.len(), pieces.expect("a count")), (1, 1));
}

on_every_database![
    lost_blob_is_unknown_to_head_and_stored_by_the_next_push,
    get_blob_returns_whole_content_and_ranges,
    blob_of_another_repository_requires_mount,
    blobs_are_deduplicated_and_deleted_per_repository,
    deletions_are_audited,
    concurrent_pushes_of_one_blob_store_one_object,
];
