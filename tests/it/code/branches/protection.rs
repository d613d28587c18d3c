//! Protecting and unprotecting branches.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use crate::support::code::Project;
use crate::support::{TestServer, on_every_database};

async fn protected_branch_rejects_developers_until_unprotected(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let maintainer = project.member("maintainer", AccessLevel::Maintainer).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    let url = project.url("/branches/feature%2Fx");
    let answer = maintainer.put(&format!("{url}/protect"), json!({})).await.expect(200).json();
    assert_eq!((&answer["name"], &answer["protected"]), (&json!("feature/x"), &json!(true)));
    assert_eq!(answer["developers_can_push"], false);
    assert_eq!(answer["developers_can_merge"], false);
    assert_eq!(answer["can_push"], true);
    assert_eq!(developer.get(&url).await.json()["can_push"], false);
    for _ in 0..2 {
        let answer = maintainer.put(&format!("{url}/unprotect"), json!({})).await.expect(200).json();
        assert_eq!(answer["protected"], false);
    }
    assert_eq!(developer.get(&url).await.json()["can_push"], true);
}

async fn protect_branch_changes_only_sent_attributes(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    let url = project.url("/branches/merged");
    for (body, push, merge) in [
        (json!({ "developers_can_push": true }), true, false),
        (json!({ "developers_can_merge": "true" }), true, true),
        (json!({}), true, true),
        (json!({ "developers_can_push": false }), false, true),
    ] {
        let answer = server.root().put(&format!("{url}/protect"), body).await.expect(200).json();
        assert_eq!((&answer["developers_can_push"], &answer["developers_can_merge"]), (&json!(push), &json!(merge)));
        assert_eq!(developer.get(&url).await.json()["can_push"], push);
    }
}

async fn unprotected_branch_stays_protected_by_wildcard(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    project.protect("feature/*", 40, 40).await;
    let url = project.url("/branches/feature%2Fx/unprotect");
    let answer = server.root().put(&url, json!({})).await.expect(200).json();
    assert_eq!(answer["protected"], true);
}

async fn protect_branch_requires_maintainer_and_existing_branch(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    let stranger = server.create_user("stranger").await.client;
    let private = Project::with_commits(&server, "secret", Visibility::Private).await;
    for action in ["protect", "unprotect"] {
        let url = |name: &str| project.url(&format!("/branches/{name}/{action}"));
        developer.put(&url("merged"), json!({})).await.expect(403);
        stranger.put(&url("merged"), json!({})).await.expect(403);
        server.anonymous().put(&url("merged"), json!({})).await.expect(401);
        stranger.put(&private.url(&format!("/branches/merged/{action}")), json!({})).await.expect(404);
        let answer = server.root().put(&url("none"), json!({})).await.expect(404);
        assert_eq!(answer.message(), "404 Branch Not Found");
        let answer = server.root().put(&url("a..b"), json!({})).await.expect(400);
        assert_eq!(answer.message(), "The branch refname is invalid");
    }
    let bad = json!({ "developers_can_push": "perhaps" });
    let answer = server.root().put(&project.url("/branches/merged/protect"), bad).await.expect(400);
    assert_eq!(answer.message(), "developers_can_push is invalid");
    let large = json!({ "x": "x".repeat(2 << 20) });
    server.root().put(&project.url("/branches/merged/protect"), large).await.expect(413);
}

async fn concurrent_protect_requests_create_one_protection(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let url = project.url("/branches/merged/protect");
    let (one, other) = (server.root(), server.root());
    let (one, other) = tokio::join!(one.put(&url, json!({})), other.put(&url, json!({})));
    one.expect(200);
    other.expect(200);
    let answer = server.root().put(&project.url("/branches/merged/unprotect"), json!({})).await;
    assert_eq!(answer.json()["protected"], false);
}

on_every_database![
    protected_branch_rejects_developers_until_unprotected,
    protect_branch_changes_only_sent_attributes,
    unprotected_branch_stays_protected_by_wildcard,
    protect_branch_requires_maintainer_and_existing_branch,
    concurrent_protect_requests_create_one_protection,
];
