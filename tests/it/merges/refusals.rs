//! Who may merge, and what is not merged.

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::Scene;
use crate::support::{TestServer, on_every_database};

async fn only_who_may_merge_into_the_target_merges(server: TestServer) {
    let scene = Scene::new(&server, "rights").await;
    let url = scene.url("/merge_requests/1/merge");
    for (name, role) in [("rob", AccessLevel::Reporter), ("dev", AccessLevel::Developer)] {
        let client = scene.project.member(name, role).await;
        client.put(&url, json!({})).await.expect(401);
        assert_eq!(client.get(&scene.url("/merge_requests/1")).await.expect(200).json()["user"]["can_merge"], false);
    }
    server.anonymous().put(&url, json!({})).await.expect(401);
    server.person("eve").await.client.put(&url, json!({})).await.expect(403);
    let maintainer = scene.project.member("mia", AccessLevel::Maintainer).await;
    assert_eq!(maintainer.get(&scene.url("/merge_requests/1")).await.expect(200).json()["user"]["can_merge"], true);
    let merged = maintainer.put(&url, json!({})).await.expect(200).json();
    assert_eq!(merged["merged_by"]["username"], "mia");
}

async fn a_protection_may_let_developers_merge_and_not_push(server: TestServer) {
    let scene = Scene::new(&server, "merger").await;
    scene
        .root
        .put(&scene.project.url("/branches/main/protect"), json!({"developers_can_merge": true}))
        .await
        .expect(200);
    let developer = scene.project.member("dev", AccessLevel::Developer).await;
    developer.put(&scene.url("/merge_requests/1/merge"), json!({})).await.expect(200);
}

async fn what_is_not_ready_is_not_merged(server: TestServer) {
    let scene = Scene::new(&server, "unready").await;
    let change = async |body: Value| {
        scene.root.put(&scene.url("/merge_requests/1"), body).await.expect(200);
    };
    change(json!({"title": "Draft: Add x"})).await;
    assert_eq!(scene.merge(1, json!({})).await.expect(405).message(), "405 Method Not Allowed");
    change(json!({"title": "Add x", "state_event": "close"})).await;
    scene.merge(1, json!({})).await.expect(405);
    change(json!({"state_event": "reopen"})).await;
    scene.set(json!({"only_allow_merge_if_pipeline_succeeds": true})).await;
    scene.merge(1, json!({})).await.expect(405);
    scene.set(json!({"only_allow_merge_if_pipeline_succeeds": false})).await;
    scene.root.post(&scene.url("/archive"), json!({})).await.expect(201);
    scene.merge(1, json!({})).await.expect(403);
    scene.root.post(&scene.url("/unarchive"), json!({})).await.expect(201);
    scene.merge(9, json!({})).await.expect(404);
    scene.merge(1, json!({"squash": "perhaps"})).await.expect(400);
    scene.merge(1, json!({})).await.expect(200);
}

async fn another_head_than_the_callers_is_not_merged(server: TestServer) {
    let scene = Scene::new(&server, "heads").await;
    let (main, head) = (scene.project.id("main"), scene.project.id("feature/x"));
    let refused = scene.merge(1, json!({"sha": main})).await.expect(409);
    assert_eq!(refused.message(), format!("SHA does not match HEAD of source branch: {head}"));
    scene.merge(1, json!({"sha": head})).await.expect(200);
}

async fn conflicts_and_nothing_are_not_merged(server: TestServer) {
    let scene = Scene::new(&server, "conflicts").await;
    scene.branch("clash", "main~1", "README.md", "Goodbye\n");
    let iid = scene.propose("clash", json!({})).await;
    let read = scene.read(iid).await;
    assert_eq!((&read["merge_status"], &read["has_conflicts"]), (&json!("cannot_be_merged"), &json!(true)));
    assert_eq!(scene.merge(iid, json!({})).await.expect(406).message(), "Branch cannot be merged");
    let nothing = scene.propose("merged", json!({})).await;
    scene.merge(nothing, json!({})).await.expect(406);
    // Once the target no longer conflicts, neither does the merge request.
    let body = json!({"branch": "main", "content": "Hello\n", "commit_message": "Back"});
    scene.root.put(&scene.project.url("/files/README.md"), body).await.expect(200);
    assert_eq!(scene.read(iid).await["merge_status"], "can_be_merged");
    scene.merge(iid, json!({})).await.expect(200);
    assert_eq!(scene.project.git(&["show", "main:README.md"]), "Goodbye");
    scene.project.fsck();
}

async fn who_may_not_read_the_code_sees_neither_commits_nor_changes(server: TestServer) {
    let scene = Scene::new(&server, "hidden").await;
    scene.set(json!({"visibility": "private"})).await;
    let guest = scene.project.member("gus", AccessLevel::Guest).await;
    let reporter = scene.project.member("rob", AccessLevel::Reporter).await;
    for rest in ["commits", "changes"] {
        let url = scene.url(&format!("/merge_requests/1/{rest}"));
        guest.get(&url).await.expect(403);
        server.anonymous().get(&url).await.expect(404);
        reporter.get(&url).await.expect(200);
        reporter.get(&scene.url(&format!("/merge_requests/7/{rest}"))).await.expect(404);
    }
}

on_every_database![
    only_who_may_merge_into_the_target_merges,
    a_protection_may_let_developers_merge_and_not_push,
    what_is_not_ready_is_not_merged,
    another_head_than_the_callers_is_not_merged,
    conflicts_and_nothing_are_not_merged,
    who_may_not_read_the_code_sees_neither_commits_nor_changes,
];
