//! Personal access tokens.

use reqwest::Method;
use serde_json::json;

use crate::support::{TestServer, on_every_database};

async fn create_token_by_administrator_returns_secret_once(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}/personal_access_tokens", ada.id);
    let body = json!({ "name": "laptop", "scopes": ["read_user"], "expires_at": null });
    let created = server.root().post(&path, body).await.expect(201).json();
    let secret = created["token"].as_str().expect("a token").to_owned();
    assert_eq!(
        created,
        json!({
            "id": created["id"], "name": "laptop", "revoked": false, "created_at": created["created_at"],
            "scopes": ["read_user"], "user_id": ada.id, "active": true, "expires_at": null, "last_used_at": null,
            "token": secret,
        })
    );
    let own = server.with_token(&secret).get("/personal_access_tokens/self").await.expect(200).json();
    assert_eq!((&own["id"], own.get("token")), (&created["id"], None));
    let listed = server.root().get(&format!("/personal_access_tokens?user_id={}", ada.id)).await.expect(200);
    assert!(!listed.text().contains(&secret));
    assert!(listed.json()[1]["last_used_at"].is_string());
}

async fn create_token_validates_parameters_and_permissions(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}/personal_access_tokens", ada.id);
    let rejected = server.root().post(&path, json!({ "name": "x" })).await.expect(400);
    assert_eq!(rejected.json()["message"], json!({ "scopes": ["can't be blank"] }));
    let body = json!({ "name": "x", "scopes": ["api"] });
    assert_eq!(server.anonymous().post(&path, body.clone()).await.status, 401);
    assert_eq!(ada.client.post(&path, body.clone()).await.status, 403);
    assert_eq!(server.root().post("/users/4711/personal_access_tokens", body).await.status, 404);
    assert_eq!(server.root().post(&path, json!({ "name": "x".repeat(1_100_000) })).await.status, 413);
}

async fn list_tokens_returns_own_and_to_administrators_all(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    assert_eq!(ada.client.get("/personal_access_tokens").await.expect(200).pluck("user_id"), [ada.id]);
    let own = format!("/personal_access_tokens?user_id={}", ada.id);
    assert_eq!(ada.client.get(&own).await.expect(200).pluck("user_id"), [ada.id]);
    let rejected = ada.client.get(&format!("/personal_access_tokens?user_id={}", bob.id)).await.expect(401);
    assert_eq!(rejected.message(), "401 Unauthorized");
    assert_eq!(server.root().get("/personal_access_tokens").await.pluck("user_id"), [1, ada.id, bob.id]);
    assert_eq!(server.root().get(&own).await.pluck("user_id"), [ada.id]);
    assert_eq!(server.root().get("/personal_access_tokens?user_id=4711").await.json(), json!([]));
    server
        .root()
        .post(&format!("/users/{}/impersonation_tokens", ada.id), json!({ "name": "x", "scopes": ["api"] }))
        .await
        .expect(201);
    assert_eq!(server.root().get(&own).await.pluck("user_id"), [ada.id]);
    assert_eq!(server.anonymous().get(&own).await.status, 401);
    assert_eq!(server.root().get("/personal_access_tokens?state=odd&user_id=x").await.status, 400);
    assert_eq!(server.root().get("/personal_access_tokens?sudo=missing-user").await.status, 404);
    let token = server.create_token(ada.id, &["read_user"]).await;
    assert_eq!(server.with_token(&token).get("/personal_access_tokens").await.status, 403);
}

async fn users_can_revoke_their_own_tokens(server: TestServer) {
    let ada = server.create_user("ada").await;
    let secret = server.create_token(ada.id, &["api"]).await;
    let path = format!("/personal_access_tokens/{}", server.token_row(&secret).await.id);
    let early = ada.client.clone().header("If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT");
    assert_eq!(early.send(early.request(Method::DELETE, &path)).await.status, 412);
    ada.client.delete(&path).await.expect(204);
    assert_eq!(server.with_token(&secret).get("/user").await.status, 401);
    let states = ada.client.get("/personal_access_tokens?state=inactive").await.expect(200);
    assert_eq!(states.pluck("revoked"), [true]);
    assert_eq!(ada.client.get("/personal_access_tokens?state=active").await.pluck("revoked"), [false]);
}

async fn revoke_of_other_users_token_requires_administrator(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    let secret = server.create_token(ada.id, &["api"]).await;
    let path = format!("/personal_access_tokens/{}", server.token_row(&secret).await.id);
    let rejected = bob.client.delete(&path).await.expect(400);
    assert_eq!(rejected.message(), "400 Bad request");
    assert_eq!(server.anonymous().delete(&path).await.status, 401);
    let narrow = server.create_token(ada.id, &["read_api"]).await;
    assert_eq!(server.with_token(&narrow).delete(&path).await.status, 403);
    server.with_token(&secret).get("/user").await.expect(200);
    server.root().delete(&path).await.expect(204);
    assert_eq!(server.root().delete("/personal_access_tokens/999999").await.status, 404);
    assert_eq!(server.root().delete("/personal_access_tokens/first").await.status, 400);
}

async fn get_self_works_with_any_scope(server: TestServer) {
    let ada = server.create_user("ada").await;
    for scope in domain::kernel::policy::TOKEN_SCOPES {
        let secret = server.create_token(ada.id, &[scope]).await;
        let own = server.with_token(&secret).get("/personal_access_tokens/self").await.expect(200);
        assert_eq!(own.json()["scopes"], json!([scope]));
    }
    assert_eq!(server.anonymous().get("/personal_access_tokens/self").await.status, 401);
    assert_eq!(server.root().get("/personal_access_tokens/self?sudo=ada").await.status, 404);
    assert_eq!(ada.client.get("/personal_access_tokens/self?sudo=root").await.status, 403);
    assert_eq!(server.root().get("/personal_access_tokens/self?a=%FF").await.status, 400);
}

async fn list_statement_count_is_independent_of_token_count(server: TestServer) {
    let root = server.root();
    root.get("/personal_access_tokens").await.expect(200);
    let count = async || {
        let before = server.statements();
        root.get("/personal_access_tokens").await.expect(200);
        server.statements() - before
    };
    let one = count().await;
    // A list that is longer than a page is also counted.
    for _ in 0..18 {
        server.create_token(1, &["api"]).await;
    }
    assert_eq!(count().await, one);
    assert!(one <= 4, "{one}");
}

on_every_database![
    create_token_by_administrator_returns_secret_once,
    create_token_validates_parameters_and_permissions,
    list_tokens_returns_own_and_to_administrators_all,
    users_can_revoke_their_own_tokens,
    revoke_of_other_users_token_requires_administrator,
    get_self_works_with_any_scope,
    list_statement_count_is_independent_of_token_count,
];
