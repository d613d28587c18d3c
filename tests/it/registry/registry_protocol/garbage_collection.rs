//! Garbage collection of blobs, manifests and uploads.

use chrono::TimeDelta;
use domain::registry::garbage_collection::{CollectionStats, collect, reset_after_restore, sweep};
use reqwest::Method;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::json;
use storage::entities::{
    now, registry_blobs, registry_manifests, registry_pieces, registry_repository_blobs as links, registry_uploads,
};

use super::{IMAGE, INDEX, Tool, assert_refused, digest, objects};
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

/// Backdates all timestamps that the collector compares by `span`.
async fn backdate(server: &TestServer, span: TimeDelta) {
    let (db, then) = (server.backend.database.write(), now() - span);
    let links = links::Entity::update_many().col_expr(links::Column::TouchedAt, Expr::value(then));
    links.exec(db).await.expect("the database");
    registry_uploads::Entity::update_many()
        .col_expr(registry_uploads::Column::UpdatedAt, Expr::value(then))
        .exec(db)
        .await
        .expect("the database");
    registry_pieces::Entity::update_many()
        .col_expr(registry_pieces::Column::CreatedAt, Expr::value(then))
        .exec(db)
        .await
        .expect("the database");
    registry_manifests::Entity::update_many()
        .col_expr(registry_manifests::Column::UntaggedSince, Expr::value(then))
        .filter(registry_manifests::Column::UntaggedSince.is_not_null())
        .exec(db)
        .await
        .expect("the database");
    registry_blobs::Entity::update_many()
        .col_expr(registry_blobs::Column::UnreferencedSince, Expr::value(then))
        .filter(registry_blobs::Column::UnreferencedSince.is_not_null())
        .exec(db)
        .await
        .expect("the database");
}

async fn run_collector(server: &TestServer) -> [u64; 3] {
    let CollectionStats { manifests, links, blobs } = collect(&server.backend).await.expect("the database");
    sweep(&server.backend).await.expect("the storage");
    [manifests, links, blobs]
}

async fn blob_count(server: &TestServer) -> u64 {
    registry_blobs::Entity::find().count(server.backend.database.read()).await.expect("a count")
}

const DAYS: TimeDelta = TimeDelta::days(2);
const MONTHS: TimeDelta = TimeDelta::days(40);

async fn referenced_blobs_are_never_collected(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let image = tool.push_image("latest", 1).await;
    for _ in 0..3 {
        backdate(&server, MONTHS).await;
        assert_eq!(run_collector(&server).await, [0, 0, 0]);
    }
    let layer = tool.path(&format!("blobs/{}", digest(&image.layer)));
    assert_eq!(tool.client.get(&layer).await.expect(200).body, image.layer);
    tool.client.get(&tool.path("manifests/latest")).await.expect(200);
}

async fn unreferenced_blobs_are_collected_after_grace_period(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let id = tool.push_blob(b"of no use").await;
    let path = tool.path(&format!("blobs/{id}"));
    assert_eq!(run_collector(&server).await, [0, 0, 0]);
    backdate(&server, DAYS).await;
    // A request for the blob renews its grace period.
    tool.client.head(&path).await.expect(200);
    assert_eq!(run_collector(&server).await, [0, 0, 0]);
    backdate(&server, DAYS).await;
    assert_eq!(run_collector(&server).await, [0, 1, 0]);
    assert_refused(&tool.client.get(&path).await, 404, "BLOB_UNKNOWN");
    // The stored bytes have a separate grace period, and a push within it reuses them.
    assert_eq!(objects(&server).await.len(), 1);
    tool.push_blob(b"of no use").await;
    backdate(&server, DAYS).await;
    tool.client.head(&path).await.expect(200);
    assert_eq!(run_collector(&server).await, [0, 0, 0]);
    assert_eq!(tool.client.get(&path).await.expect(200).body, b"of no use");
    backdate(&server, DAYS).await;
    assert_eq!(run_collector(&server).await, [0, 1, 0]);
    backdate(&server, DAYS).await;
    assert_eq!(run_collector(&server).await, [0, 0, 1]);
    assert_eq!((blob_count(&server).await, objects(&server).await.len()), (0, 0));
    tool.push_blob(b"of no use").await;
    assert_eq!(tool.client.get(&path).await.expect(200).body, b"of no use");
}

async fn restore_discards_uploads_and_unreferenced_objects(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let image = tool.push_image("latest", 1).await;
    let path = tool.path(&format!("blobs/{}", tool.push_blob(b"of no use").await));
    tool.client.delete(&path).await.expect(202);
    assert_eq!(run_collector(&server).await, [0, 0, 0]);
    let upload = tool.begin().await;
    let missing = registry_pieces::Entity::find().all(server.backend.database.read()).await.expect("rows");
    let missing = missing.into_iter().max_by_key(|piece| piece.id).expect("a piece");
    assert!(objects(&server).await.contains(&missing.key));
    server.backend.objects.discard(&missing.key).await.expect("the storage");

    reset_after_restore(&server.backend.database).await.expect("the database");
    sweep(&server.backend).await.expect("the storage");
    assert_refused(&tool.client.get(&upload).await, 404, "BLOB_UPLOAD_UNKNOWN");
    tool.push_blob(b"of no use").await;
    assert_eq!(tool.client.get(&path).await.expect(200).body, b"of no use");
    let layer = tool.path(&format!("blobs/{}", digest(&image.layer)));
    assert_eq!(tool.client.get(&layer).await.expect(200).body, image.layer);
}

async fn untagged_manifests_are_collected_unless_referenced(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let first = tool.push_image("latest", 1).await;
    let second = tool.push_image("latest", 2).await;
    let signature = json!({
        "schemaVersion": 2, "artifactType": "application/x-s", "layers": [],
        "config": second.manifest["config"], "subject": {"mediaType": IMAGE, "digest": second.digest, "size": 1},
    });
    let about = digest(signature.to_string().as_bytes());
    tool.push_manifest(&about, IMAGE, &signature).await.expect(201);
    let list = json!({"schemaVersion": 2, "manifests": [{"mediaType": IMAGE, "digest": first.digest, "size": 1}]});
    tool.push_manifest("list", INDEX, &list).await.expect(201);
    backdate(&server, DAYS).await;
    assert_eq!(run_collector(&server).await, [0, 0, 0]);
    backdate(&server, MONTHS).await;
    assert_eq!(run_collector(&server).await, [0, 0, 0]);
    tool.client.delete(&tool.path("manifests/list")).await.expect(202);
    assert_eq!(run_collector(&server).await, [0, 0, 0]);
    backdate(&server, MONTHS).await;
    // The collector removes the index first, then the manifest it referenced, then the blobs of that manifest.
    assert_eq!(run_collector(&server).await[0], 1);
    assert_eq!(run_collector(&server).await, [1, 2, 0]);
    tool.client.get(&tool.path(&format!("manifests/{about}"))).await.expect(200);
    tool.client.get(&tool.path("manifests/latest")).await.expect(200);
}

async fn requests_and_deletions_restart_the_retention_of_untagged_manifests(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let child = tool.push_image("latest", 1).await;
    let other = tool.push_image("latest", 2).await;
    let list = json!({"schemaVersion": 2, "manifests": [{"mediaType": IMAGE, "digest": child.digest, "size": 1}]});
    let list_digest = digest(list.to_string().as_bytes());
    tool.push_manifest("list", INDEX, &list).await.expect(201);
    let signature = json!({
        "schemaVersion": 2, "artifactType": "application/x-s", "layers": [],
        "config": other.manifest["config"], "subject": {"mediaType": INDEX, "digest": list_digest, "size": 1},
    });
    let about = digest(signature.to_string().as_bytes());
    tool.push_manifest(&about, IMAGE, &signature).await.expect(201);
    tool.client.delete(&tool.path("manifests/latest")).await.expect(202);
    let path = |digest: &str| tool.path(&format!("manifests/{digest}"));

    backdate(&server, MONTHS).await;
    tool.client.head(&path(&other.digest)).await.expect(200);
    tool.client.delete(&path(&list_digest)).await.expect(202);
    assert_eq!(run_collector(&server).await, [0, 0, 0]);
    for digest in [&child.digest, &about, &other.digest] {
        tool.client.get(&path(digest)).await.expect(200);
    }
    // The time is renewed at most once an hour.
    let before = server.statements();
    tool.client.get(&path(&other.digest)).await.expect(200);
    let texts = server.statement_texts(before);
    assert!(!texts.iter().any(|text| text.starts_with("UPDATE \"registry_manifests\"")), "{texts:?}");
    backdate(&server, MONTHS).await;
    assert_eq!(run_collector(&server).await[0], 3);
}

async fn children_of_an_index_need_no_transactions(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let mut children = Vec::new();
    for seed in 1..=6 {
        let image = tool.push_image("latest", seed).await;
        children.push(json!({"mediaType": IMAGE, "digest": image.digest, "size": 1}));
    }
    let list = json!({"schemaVersion": 2, "manifests": children});
    tool.push_manifest("list", INDEX, &list).await.expect(201);
    let deletions = async || {
        backdate(&server, MONTHS).await;
        let before = server.statements();
        let collected = run_collector(&server).await;
        let texts = server.statement_texts(before);
        let count = texts.iter().filter(|text| text.starts_with("DELETE FROM \"registry_manifests\"")).count();
        (collected[0], count)
    };
    assert_eq!(deletions().await, (0, 0));
    tool.client.delete(&tool.path("manifests/list")).await.expect(202);
    assert_eq!(deletions().await, (1, 1));
    assert_eq!(deletions().await, (5, 5));
}

async fn untagged_images_are_not_collected_by_default(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let image = tool.push_image("latest", 1).await;
    tool.client.delete(&tool.path("manifests/latest")).await.expect(202);
    backdate(&server, MONTHS).await;
    assert_eq!(run_collector(&server).await, [0, 0, 0]);
    tool.client.get(&tool.path(&format!("manifests/{}", image.digest))).await.expect(200);
}

async fn abandoned_uploads_are_collected(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let location = tool.begin().await;
    tool.send(Method::PATCH, &location, &[], vec![1; 10_000]).await.expect(202);
    sweep(&server.backend).await.expect("the storage");
    tool.client.get(&location).await.expect(204);
    backdate(&server, DAYS).await;
    assert!(sweep(&server.backend).await.expect("the storage") >= 2);
    assert_refused(&tool.client.get(&location).await, 404, "BLOB_UPLOAD_UNKNOWN");
    assert_eq!(objects(&server).await, Vec::<String>::new());
}

async fn deleted_project_blobs_are_collected_unless_shared(server: TestServer) {
    let id = project(&server.root(), "work", json!({})).await;
    project(&server.root(), "else", json!({})).await;
    let (tool, other) = (Tool::of_root(&server, "root/work").await, Tool::of_root(&server, "root/else").await);
    tool.push_image("latest", 1).await;
    let shared = tool.push_blob(b"shared").await;
    other.push_blob(b"shared").await;
    let location = tool.begin().await;
    tool.send(Method::PATCH, &location, &[], vec![1; 10_000]).await.expect(202);
    server.root().delete(&format!("/projects/{id}")).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(blob_count(&server).await, 3);
    run_collector(&server).await;
    assert_eq!(objects(&server).await.len(), 3);
    backdate(&server, DAYS).await;
    other.client.head(&other.path(&format!("blobs/{shared}"))).await.expect(200);
    assert_eq!(run_collector(&server).await, [0, 0, 2]);
    assert_eq!(objects(&server).await.len(), 1);
    assert_eq!(other.client.get(&other.path(&format!("blobs/{shared}"))).await.expect(200).body, b"shared");
}

async fn concurrent_push_and_collection_lose_no_blob(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    for round in 0..6 {
        let bytes = format!("blob {}", round % 2).into_bytes();
        // Old enough that the next collection would remove it.
        run_collector(&server).await;
        backdate(&server, DAYS).await;
        let push = async {
            let id = tool.push_blob(&bytes).await;
            let path = tool.path(&format!("blobs/{id}"));
            assert_eq!(tool.client.get(&path).await.expect(200).body, bytes, "round {round}");
            id
        };
        let (id, _) = tokio::join!(push, run_collector(&server));
        run_collector(&server).await;
        let path = tool.path(&format!("blobs/{id}"));
        assert_eq!(tool.client.get(&path).await.expect(200).body, bytes, "round {round}");
    }
}

fn untagged_manifests_are_collected_unless_referenced_options() -> holdfast::config::ConfigOptions {
    holdfast::config::ConfigOptions { untagged_image_days: Some(30), ..Default::default() }
}

fn unreachable_retention_options() -> holdfast::config::ConfigOptions {
    // Reaches back to before the first representable date.
    holdfast::config::ConfigOptions { untagged_image_days: Some(u32::MAX), ..Default::default() }
}

on_every_database![
    referenced_blobs_are_never_collected,
    unreferenced_blobs_are_collected_after_grace_period with unreachable_retention_options(),
    restore_discards_uploads_and_unreferenced_objects,
    untagged_manifests_are_collected_unless_referenced with untagged_manifests_are_collected_unless_referenced_options(),
    requests_and_deletions_restart_the_retention_of_untagged_manifests with
        untagged_manifests_are_collected_unless_referenced_options(),
    children_of_an_index_need_no_transactions with untagged_manifests_are_collected_unless_referenced_options(),
    untagged_images_are_not_collected_by_default,
    abandoned_uploads_are_collected,
    deleted_project_blobs_are_collected_unless_shared,
    concurrent_push_and_collection_lose_no_blob,
];
