//! Rebasing merge requests.

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::Fixture;
use crate::support::{TestServer, on_every_database};

async fn rebase_updates_source_branch_and_allows_fast_forward(server: TestServer) {
    let fixture = Fixture::new(&server, "rebased").await;
    fixture.set(json!({"merge_method": "ff"})).await;
    fixture.merge(1, json!({})).await.expect(406);
    let url = fixture.url("/merge_requests/1/rebase");
    let result = fixture.root.put(&url, json!({})).await.expect(202).json();
    assert_eq!(result, json!({"rebase_in_progress": false, "merge_error": null}));
    let (main, head) = (fixture.project.id("main"), fixture.project.id("feature/x"));
    assert_eq!(fixture.project.id("feature/x~1"), main);
    assert_eq!(
        fixture.project.git(&["log", "-1", "--format=%an|%cn|%s", "feature/x"]),
        "Ada Lovelace|Administrator|Change feature/x"
    );
    assert_eq!(fixture.read(1).await["sha"], head);
    // A second rebase changes nothing.
    fixture.root.put(&url, json!({})).await.expect(202);
    assert_eq!(fixture.project.id("feature/x"), head);
    fixture.merge(1, json!({})).await.expect(200);
    assert_eq!(fixture.project.id("main"), head);
    fixture.root.put(&url, json!({})).await.expect(405);
    fixture.project.fsck();
}

async fn rebase_conflict_sets_merge_error_until_branch_changes(server: TestServer) {
    let fixture = Fixture::new(&server, "clash").await;
    let head = fixture.branch("clash", "main~1", "README.md", "Goodbye\n");
    let iid = fixture.propose("clash", json!({})).await;
    let url = fixture.url(&format!("/merge_requests/{iid}/rebase"));
    let rejected = fixture.root.put(&url, json!({})).await.expect(202).json();
    let error = rejected["merge_error"].as_str().expect("an error").to_owned();
    assert!(error.starts_with("Rebase failed"), "{error}");
    assert_eq!((&fixture.read(iid).await["merge_error"], fixture.project.id("clash")), (&json!(error), head));
    let body = json!({"branch": "clash", "content": "Hello, world\n", "commit_message": "Same"});
    fixture.root.put(&fixture.project.url("/files/README.md"), body).await.expect(200);
    assert_eq!(fixture.read(iid).await["merge_error"], Value::Null);
}

async fn rebase_requires_push_permission_for_source_branch(server: TestServer) {
    let fixture = Fixture::new(&server, "movers").await;
    let url = fixture.url("/merge_requests/1/rebase");
    server.anonymous().put(&url, json!({})).await.expect(401);
    let reporter = fixture.project.member("rob", AccessLevel::Reporter).await;
    assert!(reporter.put(&url, json!({})).await.expect(403).message().contains("Cannot push to source branch"));
    let developer = fixture.project.member("dev", AccessLevel::Developer).await;
    developer.put(&url, json!({})).await.expect(202);
    fixture.project.protect("feature/*", 30, 30).await;
    developer.put(&url, json!({})).await.expect(403);
    developer.put(&fixture.url("/merge_requests/8/rebase"), json!({})).await.expect(404);
}

async fn rebase_of_unprotected_default_branch_requires_maintainer(server: TestServer) {
    let fixture = Fixture::new(&server, "trunk").await;
    let url = fixture.url("/merge_requests/1/rebase");
    fixture.project.set_default_branch("feature/x").await;
    let head = fixture.project.id("feature/x");
    let developer = fixture.project.member("dev", AccessLevel::Developer).await;
    let refused = developer.put(&url, json!({})).await.expect(403).message();
    assert!(refused.contains("Cannot push to source branch"), "{refused}");
    assert_eq!(fixture.project.id("feature/x"), head);
    let maintainer = fixture.project.member("max", AccessLevel::Maintainer).await;
    maintainer.put(&url, json!({})).await.expect(202);
    assert_eq!(fixture.project.id("feature/x~1"), fixture.project.id("main"));
    fixture.project.fsck();
}

on_every_database![
    rebase_updates_source_branch_and_allows_fast_forward,
    rebase_conflict_sets_merge_error_until_branch_changes,
    rebase_requires_push_permission_for_source_branch,
    rebase_of_unprotected_default_branch_requires_maintainer,
];
