//! Creating branches.

use sea_orm::EntityTrait;
use serde_json::json;
use storage::entities::ref_updates::{self, RefUpdateState};
use storage::entities::{AccessLevel, Visibility};

use crate::support::client::segment;
use crate::support::code::Project;
use crate::support::{TestServer, on_every_database};

async fn create_branch_accepts_branch_tag_or_commit(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    project.git(&["tag", "-a", "-m", "First", "v1", "main~1"]);
    let developer = project.member("dev", AccessLevel::Developer).await;
    let first = project.id("main~1");
    for (name, revision) in [("a", "merged"), ("b/c", "v1"), ("d", first.as_str()), ("e", "main~1")] {
        let body = json!({ "branch": name, "ref": revision });
        let answer = developer.post(&project.url("/branches"), body).await.expect(201).json();
        assert_eq!(answer["name"], name);
        assert_eq!(answer["commit"]["id"], first);
        assert_eq!((&answer["can_push"], &answer["merged"]), (&json!(true), &json!(true)));
        assert_eq!(project.id(&format!("refs/heads/{name}")), first);
    }
    let rows = ref_updates::Entity::find().all(server.backend.database.read()).await.expect("rows");
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row.state == RefUpdateState::Applied));
    assert!(rows[1].changes.contains("refs/heads/b/c"), "{}", rows[1].changes);
}

async fn create_branch_accepts_form_and_query_parameters(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let form = [("branch", "by-form"), ("ref", "main")];
    root.post_form(&project.url("/branches"), &form).await.expect(201);
    let query = project.url("/branches?branch=by-query&ref=main");
    root.send(root.request(reqwest::Method::POST, &query)).await.expect(201);
    assert_eq!(project.references("refs/heads/by-*"), ["by-form", "by-query"]);
}

async fn create_branch_rejects_missing_and_invalid_parameters(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let url = project.url("/branches");
    for body in [
        json!({}),
        json!({ "branch": "x" }),
        json!({ "branch": "", "ref": "main" }),
        json!({ "branch": "x", "ref": "" }),
        json!({ "branch": ["x"], "ref": "main" }),
        json!({ "branch": "x", "ref": { "a": 1 } }),
        json!({ "branch": "x".repeat(1_025), "ref": "main" }),
        json!({ "branch": "a\0b", "ref": "main" }),
        json!({ "branch": "x", "ref": "a\0b" }),
    ] {
        server.root().post(&url, body).await.expect(400);
    }
    assert_eq!(project.references("refs/heads"), ["feature/x", "main", "merged"]);
}

async fn create_branch_rejects_existing_and_invalid_names(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let url = project.url("/branches");
    for taken in ["main", "feature", "main/below"] {
        let answer = server.root().post(&url, json!({ "branch": taken, "ref": "main" })).await.expect(400);
        assert_eq!(answer.message(), "Branch already exists", "{taken}");
    }
    let long = "x".repeat(300);
    let id = project.id("main");
    for name in ["--upload-pack=x", "a..b", "refs/heads/x", "a b", "-x", "a.lock", "@", "HEAD", "a/", &long, &id] {
        let answer = server.root().post(&url, json!({ "branch": name, "ref": "main" })).await.expect(400);
        assert_eq!(answer.message(), "Branch name is invalid", "{name:?}");
    }
    assert_eq!(project.references("refs/heads"), ["feature/x", "main", "merged"]);
}

async fn create_branch_rejects_unresolvable_ref(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let tree = project.id("main^{tree}");
    for revision in ["none", "--output=x", "main..merged", "main^{tree}", ":/Change", "@{-1}", &tree] {
        let body = json!({ "branch": "new", "ref": revision });
        let answer = server.root().post(&project.url("/branches"), body).await.expect(400);
        assert_eq!(answer.message(), format!("Invalid reference name: {revision}"));
    }
    let empty = Project::empty(&server, "empty", Visibility::Private).await;
    let body = json!({ "branch": "new", "ref": "main" });
    let answer = server.root().post(&empty.url("/branches"), body).await.expect(400);
    assert_eq!(answer.message(), "Invalid reference name: main");
}

async fn create_branch_requires_developer_and_active_project(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let url = project.url("/branches");
    let body = || json!({ "branch": "new", "ref": "main" });
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    let stranger = server.create_user("stranger").await.client;
    let reader = server.create_user_with_scopes("reader", &["read_api"]).await.client;
    for client in [&reporter, &stranger, &reader] {
        client.post(&url, body()).await.expect(403);
        client.post(&url, json!({})).await.expect(403);
    }
    server.anonymous().post(&url, body()).await.expect(401);
    let private = Project::with_commits(&server, "secret", Visibility::Private).await;
    stranger.post(&private.url("/branches"), json!({})).await.expect(404);
    project.archive().await;
    server.root().post(&url, body()).await.expect(403);
    assert_eq!(project.references("refs/heads"), ["feature/x", "main", "merged"]);
}

async fn create_branch_on_protected_name_requires_push_access(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    project.protect("release/*", 40, 30).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    let maintainer = project.member("main", AccessLevel::Maintainer).await;
    let body = json!({ "branch": "release/1", "ref": "main" });
    let answer = developer.post(&project.url("/branches"), body.clone()).await.expect(403);
    assert_eq!(answer.message(), "403 Forbidden - You are not allowed to push into this branch");
    let created = maintainer.post(&project.url("/branches"), body).await.expect(201).json();
    assert_eq!(created["protected"], true);
    assert_eq!((&created["developers_can_push"], &created["developers_can_merge"]), (&json!(false), &json!(true)));
    let seen = developer.get(&project.url(&format!("/branches/{}", segment("release/1")))).await.json();
    assert_eq!(seen["can_push"], false);
}

async fn first_branch_becomes_protected_default_branch(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let empty = Project::empty(&server, "empty", Visibility::Private).await;
    empty.git(&["fetch", "--quiet", &project.git(&["rev-parse", "--absolute-git-dir"]), "main:refs/tags/v1"]);
    let body = json!({ "branch": "trunk", "ref": "v1" });
    let created = server.root().post(&empty.url("/branches"), body).await.expect(201).json();
    assert_eq!((&created["default"], &created["protected"]), (&json!(true), &json!(true)));
    assert_eq!(empty.git(&["symbolic-ref", "HEAD"]), "refs/heads/trunk");
}

async fn create_branch_rejects_oversized_body(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let body = json!({ "branch": "x".repeat(2 << 20), "ref": "main" });
    server.root().post(&project.url("/branches"), body).await.expect(413);
}

on_every_database![
    create_branch_accepts_branch_tag_or_commit,
    create_branch_accepts_form_and_query_parameters,
    create_branch_rejects_missing_and_invalid_parameters,
    create_branch_rejects_existing_and_invalid_names,
    create_branch_rejects_unresolvable_ref,
    create_branch_requires_developer_and_active_project,
    create_branch_on_protected_name_requires_push_access,
    first_branch_becomes_protected_default_branch,
    create_branch_rejects_oversized_body,
];
