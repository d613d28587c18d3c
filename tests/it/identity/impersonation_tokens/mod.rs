//! Impersonation tokens, which administrators create for other users.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{TestServer, on_every_database};

fn body() -> Value {
    json!({ "name": "mirror job", "scopes": ["api", "read_user", "api"], "expires_at": "2099-01-31" })
}

async fn create_token_returns_secret_once_and_authenticates_as_user(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}/impersonation_tokens", ada.id);
    let created = server.root().post(&path, body()).await.expect(201).json();
    let secret = created["token"].as_str().expect("a token").to_owned();
    let mut shown = created.clone();
    shown.as_object_mut().expect("an object").remove("token");
    assert_eq!(
        shown,
        json!({
            "id": created["id"], "name": "mirror job", "revoked": false, "created_at": created["created_at"],
            "scopes": ["api", "read_user"], "user_id": ada.id, "active": true, "expires_at": "2099-01-31",
            "impersonation": true,
        })
    );
    let one = format!("{path}/{}", created["id"]);
    assert_eq!(server.root().get(&one).await.expect(200).json(), shown);
    assert_eq!(server.root().get(&path).await.expect(200).json(), json!([shown]));
    assert_eq!(server.with_token(&secret).get("/user").await.expect(200).json()["username"], "ada");
    let row = server.token_row(&secret).await;
    assert_ne!(row.digest, secret);
    assert_eq!(row.created_by_id, Some(1));
}

async fn revoked_token_is_still_returned_and_is_rejected(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}/impersonation_tokens", ada.id);
    let created = server.root().post(&path, body()).await.expect(201).json();
    let one = format!("{path}/{}", created["id"]);
    let early = server.root().header("If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT");
    assert_eq!(early.send(early.request(Method::DELETE, &one)).await.status, 412);
    server.root().delete(&one).await.expect(204);
    server.root().delete(&one).await.expect(204);
    let seen = server.root().get(&one).await.expect(200).json();
    assert_eq!((&seen["revoked"], &seen["active"]), (&json!(true), &json!(false)));
    let rejected = server.with_token(created["token"].as_str().expect("a token")).get("/user").await.expect(401);
    assert_eq!(rejected.json()["error_description"], "Token was revoked. You have to re-authorize from the user.");
}

async fn list_filters_tokens_by_state(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}/impersonation_tokens", ada.id);
    let root = server.root();
    let create = async |name: &str, expires: Value| {
        let body = json!({ "name": name, "scopes": ["api"], "expires_at": expires });
        root.post(&path, body).await.expect(201).json()["id"].clone()
    };
    let today = chrono::Utc::now().date_naive().to_string();
    create("open", json!(null)).await;
    create("today", json!(today)).await;
    create("past", json!("2001-01-01")).await;
    let revoked = create("revoked", json!(null)).await;
    root.delete(&format!("{path}/{revoked}")).await.expect(204);
    for (query, expected) in [
        ("", vec!["open", "today", "past", "revoked"]),
        ("state=all", vec!["open", "today", "past", "revoked"]),
        ("state=active", vec!["open", "today"]),
        ("state=inactive", vec!["past", "revoked"]),
        ("per_page=1&page=3", vec!["past"]),
        ("page=1000000000000000000", vec![]),
    ] {
        let response = root.get(&format!("{path}?{query}")).await.expect(200);
        assert_eq!(response.pluck("name"), expected, "{query}");
    }
    assert_eq!(root.get(&format!("{path}?state=odd")).await.status, 400);
}

async fn create_token_rejects_missing_and_unknown_scopes(server: TestServer) {
    let path = "/users/1/impersonation_tokens";
    for (scopes, text) in [
        (json!([]), "can't be blank"),
        (json!(null), "can't be blank"),
        (json!(["api", "everything"]), "can only contain available scopes"),
    ] {
        let rejected = server.root().post(path, json!({ "name": "x", "scopes": scopes })).await.expect(400);
        assert_eq!(rejected.json()["message"], json!({ "scopes": [text] }));
    }
    let rejected = server.root().post(path, json!({ "expires_at": "soon" })).await.expect(400);
    assert_eq!(rejected.message(), "name is missing, name is empty, expires_at is invalid");
    assert_eq!(server.root().post(path, json!({ "name": "x".repeat(1_100_000) })).await.status, 413);
    let form = server.root().post_form(path, &[("name", "x"), ("scopes[]", "api"), ("scopes[]", "sudo")]).await;
    assert_eq!(form.expect(201).json()["scopes"], json!(["api", "sudo"]));
}

async fn get_and_delete_return_404_for_tokens_of_other_kinds_and_users(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    let path = format!("/users/{}/impersonation_tokens", ada.id);
    let id = server.root().post(&path, body()).await.expect(201).json()["id"].clone();
    let personal = server.token_row(&server.create_token(ada.id, &["api"]).await).await.id;
    for (path, status) in [
        (format!("/users/{}/impersonation_tokens/{id}", bob.id), 404),
        (format!("{path}/{personal}"), 404),
        (format!("{path}/999999"), 404),
        (format!("/users/4711/impersonation_tokens/{id}"), 404),
        (format!("{path}/x"), 400),
        (format!("/users/ada/impersonation_tokens/{id}"), 400),
    ] {
        assert_eq!(server.root().get(&path).await.status, status, "{path}");
        assert_eq!(server.root().delete(&path).await.status, status, "{path}");
    }
    let missing = server.root().get(&format!("{path}/999999")).await;
    assert_eq!(missing.message(), "404 Impersonation Token Not Found");
    for path in ["/users/4711/impersonation_tokens"] {
        assert_eq!(server.root().get(path).await.status, 404);
        assert_eq!(server.root().post(path, body()).await.status, 404);
    }
}

async fn impersonation_tokens_require_administrator(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}/impersonation_tokens", ada.id);
    for (caller, status) in [(server.anonymous(), 401), (ada.client, 403)] {
        assert_eq!(caller.get(&path).await.status, status);
        assert_eq!(caller.post(&path, body()).await.status, status);
        assert_eq!(caller.get(&format!("{path}/1")).await.status, status);
        assert_eq!(caller.delete(&format!("{path}/1")).await.status, status);
    }
}

async fn list_statement_count_is_independent_of_token_count(server: TestServer) {
    let (root, path) = (server.root(), "/users/1/impersonation_tokens");
    let count = async || {
        let before = server.statements();
        root.get(path).await.expect(200);
        server.statements() - before
    };
    root.post(path, body()).await.expect(201);
    let one = count().await;
    // A list that is longer than a page is also counted.
    for _ in 0..18 {
        root.post(path, body()).await.expect(201);
    }
    assert_eq!(count().await, one);
    assert!(one <= 4, "{one}");
}

on_every_database![
    create_token_returns_secret_once_and_authenticates_as_user,
    revoked_token_is_still_returned_and_is_rejected,
    list_filters_tokens_by_state,
    create_token_rejects_missing_and_unknown_scopes,
    get_and_delete_return_404_for_tokens_of_other_kinds_and_users,
    impersonation_tokens_require_administrator,
    list_statement_count_is_independent_of_token_count,
];
