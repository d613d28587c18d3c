//! Deploy tokens of projects and groups. `git::deploy_tokens` and `registry::registry_protocol::deploy_tokens` test
//! their use.

mod refusals;

use std::time::Duration;

use chrono::TimeDelta;
use sea_orm::{ActiveValue::Set, EntityTrait, IntoActiveModel};
use serde_json::{Value, json};
use storage::entities::{deploy_tokens, now};

use crate::support::spaces::{group, project};
use crate::support::{Client, TestServer, on_every_database};

/// Creates a deploy token of the project or group `base_path`.
pub async fn deploy_token(client: &Client, base_path: &str, scopes: &[&str]) -> Value {
    let body = json!({ "name": "cluster", "scopes": scopes });
    client.post(&format!("{base_path}/deploy_tokens"), body).await.expect(201).json()
}

/// Returns the username and the secret of a new deploy token.
pub fn credentials(created: &Value) -> (&str, &str) {
    (created["username"].as_str().expect("a username"), created["token"].as_str().expect("a token"))
}

/// Lets a deploy token expire now.
pub async fn expire(server: &TestServer, created: &Value) {
    let db = server.backend.database.write();
    let id = created["id"].as_i64().expect("an ID");
    let row = deploy_tokens::Entity::find_by_id(id).one(db).await.expect("a lookup").expect("a token");
    let mut row = row.into_active_model();
    row.expires_at = Set(Some(now()));
    deploy_tokens::Entity::update(row).exec(db).await.expect("an update");
}

fn without_secret(created: &Value) -> Value {
    let mut shown = created.clone();
    shown.as_object_mut().expect("an object").remove("token");
    shown
}

/// The token expires without a write, so a cached response would be outdated.
async fn expired_token_is_not_shown_as_active(server: TestServer) {
    let root = server.root();
    let all = format!("/projects/{}/deploy_tokens", project(&root, "p", json!({})).await);
    let expires_at = now() + TimeDelta::seconds(4);
    let body = json!({ "name": "a", "expires_at": expires_at.to_rfc3339(), "scopes": ["read_registry"] });
    let created = root.post(&all, body).await.expect(201).json();
    let (active, one) = (format!("{all}?active=true"), format!("{all}/{}", created["id"]));
    // Twice, so that a cache would contain the response.
    for _ in 0..2 {
        assert_eq!(root.get(&active).await.expect(200).json().as_array().expect("a list").len(), 1);
        assert_eq!(root.get(&one).await.expect(200).json()["expired"], false);
    }
    while now() <= expires_at {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(root.get(&active).await.expect(200).json(), json!([]));
    assert_eq!(root.get(&one).await.expect(200).json()["expired"], true);
}

async fn project_deploy_token_lifecycle(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    let other = format!("/projects/{}", project(&root, "other", json!({})).await);
    let all = format!("{work}/deploy_tokens");
    let body =
        json!({ "name": "foo", "username": "b.a-r_1+x", "expires_at": "2099-11-23", "scopes": ["read_registry"] });
    let created = root.post(&all, body).await.expect(201).json();
    let secret = created["token"].as_str().expect("a token");
    assert!(secret.starts_with("hfdt-") && secret.len() >= 25, "{secret}");
    assert_eq!(
        created,
        json!({
            "id": created["id"], "name": "foo", "username": "b.a-r_1+x", "expires_at": "2099-11-23T00:00:00.000Z",
            "scopes": ["read_registry"], "revoked": false, "expired": false, "token": secret,
        })
    );
    let second = deploy_token(&root, &work, &["read_repository", "read_registry", "write_registry"]).await;
    assert_eq!(second["username"], format!("holdfast+deploy-token-{}", second["id"]));
    assert_eq!(second["expires_at"], json!(null));
    assert_eq!(second["scopes"], json!(["read_repository", "read_registry", "write_registry"]));
    let one = format!("{all}/{}", created["id"]);
    let shown = without_secret(&created);
    assert_eq!(root.get(&one).await.expect(200).json(), shown);
    let listed = json!([without_secret(&second), shown]);
    assert_eq!(root.get(&all).await.expect(200).json(), listed);
    let page = root.get(&format!("{all}?per_page=1&page=2")).await.expect(200);
    assert_eq!((page.json(), page.header("x-total")), (json!([shown]), "2"));
    assert_eq!(root.get("/deploy_tokens").await.expect(200).json(), listed);
    assert_eq!(root.get(&format!("{other}/deploy_tokens")).await.expect(200).json(), json!([]));
    // The token of another project does not exist here.
    let elsewhere = format!("{other}/deploy_tokens/{}", created["id"]);
    for response in [root.get(&elsewhere).await, root.delete(&elsewhere).await] {
        assert_eq!(response.expect(404).message(), "404 Deploy Token Not Found");
    }
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&one).await.expect(412);
    root.delete(&one).await.expect(204);
    for response in [root.get(&one).await, root.delete(&one).await] {
        assert_eq!(response.expect(404).message(), "404 Deploy Token Not Found");
    }
    assert_eq!(root.get("/deploy_tokens").await.expect(200).json(), json!([without_secret(&second)]));
}

async fn group_deploy_token_is_separate_from_tokens_of_projects_and_subgroups(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let below = group(&root, "below", json!({ "parent_id": team })).await;
    let work = project(&root, "work", json!({ "namespace_id": team })).await;
    let paths = [format!("/groups/{team}"), format!("/groups/{below}"), format!("/projects/{work}")];
    let mut tokens = Vec::new();
    for path in &paths {
        tokens.push(deploy_token(&root, path, &["read_registry"]).await);
    }
    for (path, token) in paths.iter().zip(&tokens) {
        let all = format!("{path}/deploy_tokens");
        assert_eq!(root.get(&all).await.expect(200).json(), json!([without_secret(token)]), "{path}");
        for other in &tokens {
            let expected = if other["id"] == token["id"] { 200 } else { 404 };
            root.get(&format!("{all}/{}", other["id"])).await.expect(expected);
        }
    }
    let ids: Vec<Value> = tokens.iter().rev().map(|token| token["id"].clone()).collect();
    assert_eq!(root.get("/deploy_tokens").await.expect(200).pluck("id"), ids);
    let of_team = format!("{}/deploy_tokens/{}", paths[0], tokens[0]["id"]);
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&of_team).await.expect(412);
    root.delete(&of_team).await.expect(204);
    assert_eq!(root.get("/deploy_tokens").await.expect(200).pluck("id"), ids[..2]);
}

async fn create_deploy_token_accepts_every_form_of_scopes_username_and_expiry(server: TestServer) {
    let root = server.root();
    let all = format!("/projects/{}/deploy_tokens", project(&root, "work", json!({})).await);
    for scopes in [json!("read_registry,read_repository"), json!(["read_registry", "read_repository", "read_registry"])]
    {
        let created = root.post(&all, json!({ "name": "x", "scopes": scopes })).await.expect(201).json();
        assert_eq!(created["scopes"], json!(["read_registry", "read_repository"]), "{scopes}");
    }
    let form = [("name", "x"), ("scopes[]", "read_registry"), ("username", ""), ("expires_at", "")];
    let created = root.post_form(&all, &form).await.expect(201).json();
    assert_eq!(created["username"], format!("holdfast+deploy-token-{}", created["id"]));
    assert_eq!((&created["scopes"], &created["expires_at"]), (&json!(["read_registry"]), &json!(null)));
    for (sent, stored, expired) in [
        ("2099-01-31T10:00:00+02:00", "2099-01-31T08:00:00.000Z", false),
        ("2001-02-03", "2001-02-03T00:00:00.000Z", true),
    ] {
        let body = json!({ "name": "x", "scopes": ["read_registry"], "expires_at": sent, "username": null });
        let created = root.post(&all, body).await.expect(201).json();
        assert_eq!((&created["expires_at"], &created["expired"]), (&json!(stored), &json!(expired)), "{sent}");
    }
    // Usernames are not unique.
    for _ in 0..2 {
        let body = json!({ "name": "x", "scopes": ["read_registry"], "username": "u".repeat(255) });
        root.post(&all, body).await.expect(201);
    }
}

async fn active_filter_selects_deploy_tokens_by_expiry(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    let team = format!("/groups/{}", group(&root, "team", json!({})).await);
    for path in [work, team] {
        let all = format!("{path}/deploy_tokens");
        let mut ids = Vec::new();
        for end in [json!(null), json!(now() + TimeDelta::hours(1)), json!(now() - TimeDelta::hours(1))] {
            let body = json!({ "name": "x", "scopes": ["read_registry"], "expires_at": end });
            ids.push(root.post(&all, body).await.expect(201).json()["id"].clone());
        }
        for list in [all.as_str(), "/deploy_tokens"] {
            let shown = async |query: &str| root.get(&format!("{list}?{query}")).await.expect(200).pluck("id");
            assert_eq!(shown("active=true").await[..2], [ids[1].clone(), ids[0].clone()], "{list}");
            assert_eq!(shown("active=false").await[0], ids[2], "{list}");
            assert_eq!(shown("").await[..3], [ids[2].clone(), ids[1].clone(), ids[0].clone()], "{list}");
        }
        let expired = format!("{all}?active=false");
        assert_eq!(root.get(&expired).await.expect(200).pluck("expired"), [true]);
    }
}

async fn deploy_tokens_are_stored_as_digests_and_deleted_with_their_owner(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": team })).await;
    let db = server.backend.database.read();
    let tokens = async || deploy_tokens::Entity::find().all(db).await.expect("tokens");
    for path in [format!("/groups/{team}"), format!("/projects/{work}")] {
        let created = deploy_token(&root, &path, &["read_registry"]).await;
        let stored = tokens().await.pop().expect("a token");
        assert_eq!(stored.digest, domain::secrets::digest(credentials(&created).1));
    }
    root.delete(&format!("/projects/{work}")).await.expect(202);
    server.finish_jobs().await;
    let left = tokens().await;
    assert_eq!(left.iter().map(|token| token.namespace_id).collect::<Vec<_>>(), [Some(team)]);
    root.delete(&format!("/groups/{team}")).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(tokens().await, []);
}

async fn deploy_token_lists_and_reads_run_few_statements(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let mut one = String::new();
    for _ in 0..3 {
        let created = deploy_token(&root, &path, &["read_registry"]).await;
        one = format!("{path}/deploy_tokens/{}", created["id"]);
    }
    root.get(&path).await.expect(200);
    for (read, most) in [(format!("{path}/deploy_tokens?per_page=2"), 4), (one, 3)] {
        let before = server.statements();
        root.get(&read).await.expect(200);
        let texts = server.statement_texts(before);
        assert!(texts.len() <= most, "{read}: {}", texts.join("\n"));
    }
}

on_every_database![
    expired_token_is_not_shown_as_active,
    project_deploy_token_lifecycle,
    group_deploy_token_is_separate_from_tokens_of_projects_and_subgroups,
    create_deploy_token_accepts_every_form_of_scopes_username_and_expiry,
    active_filter_selects_deploy_tokens_by_expiry,
    deploy_tokens_are_stored_as_digests_and_deleted_with_their_owner,
    deploy_token_lists_and_reads_run_few_statements,
];
