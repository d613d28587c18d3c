//! Moving a merge request on top of its target.

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::Scene;
use crate::support::{TestServer, on_every_database};

async fn a_rebase_moves_the_branch_and_lets_it_be_fast_forwarded(server: TestServer) {
    let scene = Scene::new(&server, "rebased").await;
    scene.set(json!({"merge_method": "ff"})).await;
    scene.merge(1, json!({})).await.expect(406);
    let url = scene.url("/merge_requests/1/rebase");
    let done = scene.root.put(&url, json!({})).await.expect(202).json();
    assert_eq!(done, json!({"rebase_in_progress": false, "merge_error": null}));
    let (main, head) = (scene.project.id("main"), scene.project.id("feature/x"));
    assert_eq!(scene.project.id("feature/x~1"), main);
    assert_eq!(
        scene.project.git(&["log", "-1", "--format=%an|%cn|%s", "feature/x"]),
        "Ada Lovelace|Administrator|Change feature/x"
    );
    assert_eq!(scene.read(1).await["sha"], head);
    // Again there is nothing to do.
    scene.root.put(&url, json!({})).await.expect(202);
    assert_eq!(scene.project.id("feature/x"), head);
    scene.merge(1, json!({})).await.expect(200);
    assert_eq!(scene.project.id("main"), head);
    scene.root.put(&url, json!({})).await.expect(405);
    scene.project.fsck();
}

async fn conflicts_are_told_and_kept_until_it_changes(server: TestServer) {
    let scene = Scene::new(&server, "clash").await;
    let head = scene.branch("clash", "main~1", "README.md", "Goodbye\n");
    let iid = scene.propose("clash", json!({})).await;
    let url = scene.url(&format!("/merge_requests/{iid}/rebase"));
    let refused = scene.root.put(&url, json!({})).await.expect(202).json();
    let told = refused["merge_error"].as_str().expect("an error").to_owned();
    assert!(told.starts_with("Rebase failed"), "{told}");
    assert_eq!((&scene.read(iid).await["merge_error"], scene.project.id("clash")), (&json!(told), head));
    let body = json!({"branch": "clash", "content": "Hello, world\n", "commit_message": "Same"});
    scene.root.put(&scene.project.url("/files/README.md"), body).await.expect(200);
    assert_eq!(scene.read(iid).await["merge_error"], Value::Null);
}

async fn only_who_may_move_the_source_branch_rebases(server: TestServer) {
    let scene = Scene::new(&server, "movers").await;
    let url = scene.url("/merge_requests/1/rebase");
    server.anonymous().put(&url, json!({})).await.expect(401);
    let reporter = scene.project.member("rob", AccessLevel::Reporter).await;
    assert!(reporter.put(&url, json!({})).await.expect(403).message().contains("Cannot push to source branch"));
    let developer = scene.project.member("dev", AccessLevel::Developer).await;
    developer.put(&url, json!({})).await.expect(202);
    scene.project.protect("feature/*", 30, 30).await;
    developer.put(&url, json!({})).await.expect(403);
    developer.put(&scene.url("/merge_requests/8/rebase"), json!({})).await.expect(404);
}

on_every_database![
    a_rebase_moves_the_branch_and_lets_it_be_fast_forwarded,
    conflicts_are_told_and_kept_until_it_changes,
    only_who_may_move_the_source_branch_rebases,
];
