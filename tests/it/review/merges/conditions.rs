//! Permissions and preconditions of merging.

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::Fixture;
use crate::support::{TestServer, on_every_database};

async fn merge_requires_merge_permission_for_target_branch(server: TestServer) {
    let fixture = Fixture::new(&server, "rights").await;
    let url = fixture.url("/merge_requests/1/merge");
    for (name, role) in [("rob", AccessLevel::Reporter), ("dev", AccessLevel::Developer)] {
        let client = fixture.project.member(name, role).await;
        client.put(&url, json!({})).await.expect(401);
        assert_eq!(client.get(&fixture.url("/merge_requests/1")).await.expect(200).json()["user"]["can_merge"], false);
    }
    server.anonymous().put(&url, json!({})).await.expect(401);
    server.create_user("eve").await.client.put(&url, json!({})).await.expect(403);
    let maintainer = fixture.project.member("mia", AccessLevel::Maintainer).await;
    assert_eq!(maintainer.get(&fixture.url("/merge_requests/1")).await.expect(200).json()["user"]["can_merge"], true);
    let merged = maintainer.put(&url, json!({})).await.expect(200).json();
    assert_eq!(merged["merged_by"]["username"], "mia");
}

async fn branch_protection_can_allow_developers_to_merge(server: TestServer) {
    let fixture = Fixture::new(&server, "merger").await;
    fixture
        .root
        .put(&fixture.project.url("/branches/main/protect"), json!({"developers_can_merge": true}))
        .await
        .expect(200);
    let developer = fixture.project.member("dev", AccessLevel::Developer).await;
    developer.put(&fixture.url("/merge_requests/1/merge"), json!({})).await.expect(200);
}

async fn merge_rejects_drafts_closed_and_archived_merge_requests(server: TestServer) {
    let fixture = Fixture::new(&server, "unready").await;
    let change = async |body: Value| {
        fixture.root.put(&fixture.url("/merge_requests/1"), body).await.expect(200);
    };
    change(json!({"title": "Draft: Add x"})).await;
    assert_eq!(fixture.merge(1, json!({})).await.expect(405).message(), "405 Method Not Allowed");
    change(json!({"title": "Add x", "state_event": "close"})).await;
    fixture.merge(1, json!({})).await.expect(405);
    change(json!({"state_event": "reopen"})).await;
    fixture.set(json!({"only_allow_merge_if_pipeline_succeeds": true})).await;
    fixture.merge(1, json!({})).await.expect(405);
    fixture.set(json!({"only_allow_merge_if_pipeline_succeeds": false})).await;
    fixture.root.post(&fixture.url("/archive"), json!({})).await.expect(201);
    fixture.merge(1, json!({})).await.expect(403);
    fixture.root.post(&fixture.url("/unarchive"), json!({})).await.expect(201);
    fixture.merge(9, json!({})).await.expect(404);
    fixture.merge(1, json!({"squash": "perhaps"})).await.expect(400);
    fixture.merge(1, json!({})).await.expect(200);
}

async fn merge_returns_409_if_sha_is_not_the_head(server: TestServer) {
    let fixture = Fixture::new(&server, "heads").await;
    let (main, head) = (fixture.project.id("main"), fixture.project.id("feature/x"));
    let rejected = fixture.merge(1, json!({"sha": main})).await.expect(409);
    assert_eq!(rejected.message(), format!("SHA does not match HEAD of source branch: {head}"));
    fixture.merge(1, json!({"sha": head})).await.expect(200);
}

async fn merge_returns_406_for_conflicts_and_empty_changes(server: TestServer) {
    let fixture = Fixture::new(&server, "conflicts").await;
    fixture.branch("clash", "main~1", "README.md", "Goodbye\n");
    let iid = fixture.propose("clash", json!({})).await;
    let read = fixture.read(iid).await;
    assert_eq!((&read["merge_status"], &read["has_conflicts"]), (&json!("cannot_be_merged"), &json!(true)));
    assert_eq!(fixture.merge(iid, json!({})).await.expect(406).message(), "Branch cannot be merged");
    let empty_request = fixture.propose("merged", json!({})).await;
    fixture.merge(empty_request, json!({})).await.expect(406);
    // The conflict is resolved by a change of the target branch.
    let body = json!({"branch": "main", "content": "Hello\n", "commit_message": "Back"});
    fixture.root.put(&fixture.project.url("/files/README.md"), body).await.expect(200);
    assert_eq!(fixture.read(iid).await["merge_status"], "can_be_merged");
    fixture.merge(iid, json!({})).await.expect(200);
    assert_eq!(fixture.project.git(&["show", "main:README.md"]), "Goodbye");
    fixture.project.fsck();
}

async fn merge_returns_406_without_target_branch(server: TestServer) {
    let fixture = Fixture::new(&server, "gone").await;
    let body = json!({"branch": "target", "ref": "main~1"});
    fixture.root.post(&fixture.project.url("/branches"), body).await.expect(201);
    let iid = fixture.propose("feature/x", json!({"target_branch": "target"})).await;
    fixture.root.delete(&fixture.project.url("/branches/target")).await.expect(204);
    for squash in [false, true] {
        let rejected = fixture.merge(iid, json!({"squash": squash})).await.expect(406);
        assert_eq!(rejected.message(), "Branch cannot be merged");
    }
}

async fn commits_and_changes_require_permission_to_read_code(server: TestServer) {
    let fixture = Fixture::new(&server, "hidden").await;
    fixture.set(json!({"visibility": "private"})).await;
    let guest = fixture.project.member("gus", AccessLevel::Guest).await;
    let reporter = fixture.project.member("rob", AccessLevel::Reporter).await;
    for rest in ["commits", "changes"] {
        let url = fixture.url(&format!("/merge_requests/1/{rest}"));
        guest.get(&url).await.expect(403);
        server.anonymous().get(&url).await.expect(404);
        reporter.get(&url).await.expect(200);
        reporter.get(&fixture.url(&format!("/merge_requests/7/{rest}"))).await.expect(404);
    }
}

on_every_database![
    merge_requires_merge_permission_for_target_branch,
    branch_protection_can_allow_developers_to_merge,
    merge_rejects_drafts_closed_and_archived_merge_requests,
    merge_returns_409_if_sha_is_not_the_head,
    merge_returns_406_for_conflicts_and_empty_changes,
    merge_returns_406_without_target_branch,
    commits_and_changes_require_permission_to_read_code,
];
