//! Refusals of operations on deploy tokens.

use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::json;
use storage::entities::{Scope, deploy_tokens, now};

use super::deploy_token;
use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn create_deploy_token_rejects_invalid_attributes(server: TestServer) {
    let root = server.root();
    let all = format!("/projects/{}/deploy_tokens", project(&root, "work", json!({})).await);
    for (body, message) in [
        (json!({}), json!("name is missing, name is empty, scopes is missing")),
        (json!({ "name": "x", "scopes": ["api"] }), json!("scopes does not have a valid value")),
        (json!({ "name": "x", "scopes": ["write_repository"] }), json!("scopes does not have a valid value")),
        (json!({ "name": "x", "scopes": "" }), json!("scopes is missing")),
        (json!({ "name": "x", "scopes": [] }), json!({ "scopes": ["can't be blank"] })),
        (
            json!({ "name": "x".repeat(256), "scopes": ["read_registry"] }),
            json!("name is too long (maximum is 255 characters)"),
        ),
        (json!({ "name": "x", "scopes": ["read_registry"], "expires_at": "tomorrow" }), json!("expires_at is invalid")),
        (
            json!({ "name": "x", "scopes": ["read_registry"], "username": "u".repeat(256) }),
            json!("username is too long (maximum is 255 characters)"),
        ),
    ] {
        let rejected = root.post(&all, body.clone()).await.expect(400);
        assert_eq!(rejected.json()["message"], message, "{body}");
    }
    for username in ["a b", "a:b", "\u{e4}", "a/b", "a@b", "a\n"] {
        let body = json!({ "name": "x", "scopes": ["read_registry"], "username": username });
        let rejected = root.post(&all, body).await.expect(400);
        let text = "can contain only letters, digits, '_', '-', '+', and '.'";
        assert_eq!(rejected.json()["message"], json!({ "username": [text] }), "{username}");
    }
    root.post(&all, json!({ "name": "x".repeat(1_100_000) })).await.expect(413);
    root.get(&format!("{all}/x")).await.expect(400);
    root.get(&format!("{all}?active=maybe")).await.expect(400);
    assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
}

async fn project_and_group_have_limited_number_of_deploy_tokens(server: TestServer) {
    let root = server.root();
    let (work, team) = (project(&root, "work", json!({})).await, group(&root, "team", json!({})).await);
    for (scope, path) in
        [(Scope::Project(work), format!("/projects/{work}")), (Scope::Group(team), format!("/groups/{team}"))]
    {
        for number in 0..99 {
            let row = deploy_tokens::ActiveModel {
                project_id: Set(scope.project_id()),
                namespace_id: Set(scope.namespace_id()),
                name: Set("many".to_owned()),
                digest: Set(format!("{path} {number}")),
                scopes: Set("read_registry".to_owned()),
                expires_at: Set(Some(now())),
                created_at: Set(now()),
                ..Default::default()
            };
            row.insert(server.backend.database.write()).await.expect("a token");
        }
        let last = deploy_token(&root, &path, &["read_registry"]).await;
        let all = format!("{path}/deploy_tokens");
        let body = json!({ "name": "x", "scopes": ["read_registry"] });
        let rejected = root.post(&all, body.clone()).await.expect(400);
        assert_eq!(rejected.message(), "The maximum number of deploy tokens (100) is reached; delete a token first");
        root.delete(&format!("{all}/{}", last["id"])).await.expect(204);
        root.post(&all, body).await.expect(201);
    }
}

async fn deploy_tokens_of_project_require_maintainer(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let path = format!("/projects/{work}");
    let all = format!("{path}/deploy_tokens");
    let created = deploy_token(&root, &path, &["read_registry"]).await;
    let one = format!("{all}/{}", created["id"]);
    let body = json!({ "name": "x", "scopes": ["read_registry"] });
    let (developer, stranger) = (server.create_user("developer").await, server.create_user("stranger").await);
    join(&root, &path, developer.id, 30).await;
    for (user, expected) in [(developer, 403), (stranger, 404)] {
        user.client.get(&all).await.expect(expected);
        user.client.post(&all, body.clone()).await.expect(expected);
        user.client.get(&one).await.expect(expected);
        user.client.delete(&one).await.expect(expected);
        user.client.get("/deploy_tokens").await.expect(403);
    }
    let maintainer = server.create_user("maintainer").await;
    join(&root, &path, maintainer.id, 40).await;
    maintainer.client.get(&one).await.expect(200);
    maintainer.client.post(&all, body.clone()).await.expect(201);
    server.anonymous().get("/deploy_tokens").await.expect(401);
    server.anonymous().post(&all, body.clone()).await.expect(401);
    // A token of an archived project can be deleted, but not created.
    root.post(&format!("{path}/archive"), json!({})).await.expect(201);
    maintainer.client.post(&all, body).await.expect(403);
    maintainer.client.get(&one).await.expect(200);
    maintainer.client.delete(&one).await.expect(204);
}

async fn changes_of_group_deploy_tokens_require_owner(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let path = format!("/groups/{team}");
    let all = format!("{path}/deploy_tokens");
    let created = deploy_token(&root, &path, &["read_registry"]).await;
    let one = format!("{all}/{}", created["id"]);
    let body = json!({ "name": "x", "scopes": ["read_registry"] });
    for (level, user) in server.create_member_per_role(&root, team).await {
        let reads = if level >= 40 { 200 } else { 403 };
        user.client.get(&all).await.expect(reads);
        user.client.get(&one).await.expect(reads);
        let is_owner = level == 50;
        user.client.post(&all, body.clone()).await.expect(if is_owner { 201 } else { 403 });
        user.client.delete(&one).await.expect(if is_owner { 204 } else { 403 });
    }
}

on_every_database![
    create_deploy_token_rejects_invalid_attributes,
    project_and_group_have_limited_number_of_deploy_tokens,
    deploy_tokens_of_project_require_maintainer,
    changes_of_group_deploy_tokens_require_owner,
];
