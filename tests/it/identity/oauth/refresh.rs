//! Refreshing, revoking and introspecting tokens.

use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::{Value, json};
use storage::entities::users::{self, UserState};

use super::{CALLBACK, Fixture};
use crate::support::{TestServer, on_every_database};

async fn refresh_replaces_access_and_refresh_token(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let first = fixture.tokens(&[]).await;
    let second = fixture.refresh(&first["refresh_token"], &[]).await.expect(200).json();
    assert_ne!(first["access_token"], second["access_token"]);
    assert_ne!(first["refresh_token"], second["refresh_token"]);
    assert_eq!(second["scope"], first["scope"]);
    assert_eq!(
        (fixture.status(&first["access_token"]).await, fixture.status(&second["access_token"]).await),
        (401, 200)
    );
}

async fn reuse_of_refresh_token_revokes_its_family(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let first = fixture.tokens(&[]).await;
    let other_family = fixture.tokens(&[]).await;
    let second = fixture.refresh(&first["refresh_token"], &[]).await.expect(200).json();
    let rejected = fixture.refresh(&first["refresh_token"], &[]).await.expect(400).json();
    assert_eq!(rejected["error"], "invalid_grant");
    assert_eq!(fixture.status(&second["access_token"]).await, 401);
    fixture.refresh(&second["refresh_token"], &[]).await.expect(400);
    // Another grant of the same user belongs to another family.
    assert_eq!(fixture.status(&other_family["access_token"]).await, 200);
}

async fn concurrent_refreshes_succeed_once_and_revoke_the_family(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let first = fixture.tokens(&[]).await;
    let token = &first["refresh_token"];
    let responses = futures_util::future::join_all((0..8).map(|_| fixture.refresh(token, &[]))).await;
    let successful: Vec<Value> =
        responses.iter().filter(|response| response.status == 200).map(|response| response.json()).collect();
    assert_eq!(successful.len(), 1);
    assert!(responses.iter().all(|response| matches!(response.status, 200 | 400)));
    assert_eq!(fixture.status(&successful[0]["access_token"]).await, 401);
}

async fn refresh_can_reduce_scopes_and_rejects_additional_scopes(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let first = fixture.tokens(&[("scope", "api read_user")]).await;
    let rejected = fixture.refresh(&first["refresh_token"], &[("scope", "sudo")]).await.expect(400).json();
    assert_eq!(rejected["error"], "invalid_scope");
    let second = fixture.refresh(&first["refresh_token"], &[("scope", "read_user")]).await.expect(200).json();
    assert_eq!(second["scope"], "read_user");
    let rejected = fixture.refresh(&second["refresh_token"], &[("scope", "api")]).await.expect(400).json();
    assert_eq!(rejected["error"], "invalid_scope");
}

async fn revoke_of_either_token_revokes_both(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    for kind in ["access_token", "refresh_token"] {
        let tokens = fixture.tokens(&[]).await;
        assert_eq!(fixture.status(&tokens["access_token"]).await, 200);
        let client = [("client_id", fixture.uid()), ("client_secret", fixture.secret())];
        let pair = ("token", tokens[kind].as_str().expect("a token"));
        let revoke = async |pairs: &[(&str, &str)]| fixture.send_form("revoke", pairs).await;
        revoke(&[client[0], ("client_secret", "wrong"), pair]).await.expect(401);
        assert_eq!(fixture.status(&tokens["access_token"]).await, 200);
        assert_eq!(revoke(&[client[0], client[1], pair]).await.expect(200).json(), json!({}));
        let bearer = format!("Bearer {}", tokens["access_token"].as_str().expect("a token"));
        let rejected = server.anonymous().header("Authorization", &bearer).get("/user").await.expect(401);
        assert_eq!(rejected.json()["error_description"], "Token was revoked. You have to re-authorize from the user.");
        fixture.refresh(&tokens["refresh_token"], &[]).await.expect(400);
        // An unknown token changes nothing and returns 200.
        revoke(&[client[0], client[1], ("token", "unknown")]).await.expect(200);
        revoke(&[client[0], client[1]]).await.expect(400);
    }
}

async fn revoke_of_replaced_refresh_token_revokes_its_family(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let first = fixture.tokens(&[]).await;
    let other_family = fixture.tokens(&[]).await;
    let second = fixture.refresh(&first["refresh_token"], &[]).await.expect(200).json();
    let pairs = [
        ("client_id", fixture.uid()),
        ("client_secret", fixture.secret()),
        ("token", first["refresh_token"].as_str().expect("a token")),
    ];
    fixture.send_form("revoke", &pairs).await.expect(200);
    assert_eq!(fixture.status(&second["access_token"]).await, 401);
    fixture.refresh(&second["refresh_token"], &[]).await.expect(400);
    // Another grant of the same user belongs to another family.
    assert_eq!(fixture.status(&other_family["access_token"]).await, 200);
    fixture.refresh(&other_family["refresh_token"], &[]).await.expect(200);
}

async fn revoke_and_introspect_ignore_tokens_of_other_applications(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let tokens = fixture.tokens(&[]).await;
    let other = json!({ "name": "Other", "redirect_uri": CALLBACK, "scopes": "api" });
    let other = server.root().post("/applications", other).await.expect(201).json();
    let pairs = [
        ("client_id", other["application_id"].as_str().expect("an id")),
        ("client_secret", other["secret"].as_str().expect("a secret")),
        ("token", tokens["access_token"].as_str().expect("a token")),
    ];
    fixture.send_form("revoke", &pairs).await.expect(200);
    assert_eq!(fixture.status(&tokens["access_token"]).await, 200);
    assert_eq!(fixture.send_form("introspect", &pairs).await.expect(200).json(), json!({ "active": false }));
}

async fn introspect_returns_details_of_own_access_token(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let tokens = fixture.tokens(&[("scope", "read_user")]).await;
    let access = tokens["access_token"].as_str().expect("a token");
    let client = [("client_id", fixture.uid()), ("client_secret", fixture.secret())];
    let introspection =
        fixture.send_form("introspect", &[client[0], client[1], ("token", access)]).await.expect(200).json();
    assert_eq!(
        introspection,
        json!({
            "active": true, "scope": "read_user", "client_id": fixture.uid(), "token_type": "Bearer", "username": "ada",
            "sub": fixture.user.id.to_string(), "iat": tokens["created_at"],
            "exp": tokens["created_at"].as_i64().map(|created_at| created_at + 7200),
        })
    );
    for token in ["unknown", fixture.user.token.as_str()] {
        let introspection =
            fixture.send_form("introspect", &[client[0], client[1], ("token", token)]).await.expect(200).json();
        assert_eq!(introspection, json!({ "active": false }));
    }
    fixture.send_form("introspect", &[("client_id", fixture.uid()), ("token", access)]).await.expect(401);
}

async fn token_info_returns_owner_scopes_and_expiry(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let tokens = fixture.tokens(&[("scope", "read_user")]).await;
    let access = tokens["access_token"].as_str().expect("a token");
    let bearer = server.anonymous().header("Authorization", &format!("Bearer {access}"));
    let info = bearer.get("//oauth/token/info").await.expect(200).json();
    assert_eq!((&info["resource_owner_id"], &info["scope"]), (&json!(fixture.user.id), &json!(["read_user"])));
    assert_eq!(info["application"], json!({ "uid": fixture.uid() }));
    assert!(info["expires_in"].as_i64().is_some_and(|seconds| (7000..=7200).contains(&seconds)));
    assert_eq!(info["created_at"], tokens["created_at"]);
    assert_eq!(server.anonymous().get(&format!("//oauth/token/info?access_token={access}")).await.status, 200);
    for client in [server.anonymous(), server.root(), server.anonymous().header("Authorization", "Bearer x")] {
        assert_eq!(client.get("//oauth/token/info").await.status, 401);
    }
}

async fn tokens_of_disabled_users_are_not_active(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let tokens = fixture.tokens(&[]).await;
    let code = fixture.code(&[]).await;
    let access = tokens["access_token"].as_str().expect("a token");
    let pairs = [("client_id", fixture.uid()), ("client_secret", fixture.secret()), ("token", access)];
    let bearer = server.anonymous().header("Authorization", &format!("Bearer {access}"));
    let user = format!("/users/{}", fixture.user.id);
    let root = server.root();
    for (disable, enable) in [("block", "unblock"), ("deactivate", "activate")] {
        // The user has been active, so the state is set directly.
        if disable == "deactivate" {
            let change = users::ActiveModel {
                id: Set(fixture.user.id),
                state: Set(UserState::Deactivated),
                ..Default::default()
            };
            change.update(server.backend.database.write()).await.expect("an update");
        } else {
            root.post(&format!("{user}/{disable}"), json!({})).await.expect(201);
        }
        let introspection = fixture.send_form("introspect", &pairs).await.expect(200).json();
        assert_eq!(introspection, json!({ "active": false }), "{disable}");
        let expected = bearer.get("/user").await.expect(403).json();
        assert_eq!(bearer.get("//oauth/token/info").await.expect(403).json(), expected, "{disable}");
        fixture.refresh(&tokens["refresh_token"], &[]).await.expect(400);
        fixture.exchange(&code, &[]).await.expect(400);
        root.post(&format!("{user}/{enable}"), json!({})).await.expect(201);
        let introspection = fixture.send_form("introspect", &pairs).await.expect(200).json();
        assert_eq!(introspection["active"], true, "{enable}");
        bearer.get("//oauth/token/info").await.expect(200);
    }
    // The refused requests have not used the refresh token and the code.
    fixture.refresh(&tokens["refresh_token"], &[]).await.expect(200);
    fixture.exchange(&code, &[]).await.expect(200);
}

on_every_database![
    refresh_replaces_access_and_refresh_token,
    reuse_of_refresh_token_revokes_its_family,
    concurrent_refreshes_succeed_once_and_revoke_the_family,
    refresh_can_reduce_scopes_and_rejects_additional_scopes,
    revoke_of_either_token_revokes_both,
    revoke_of_replaced_refresh_token_revokes_its_family,
    revoke_and_introspect_ignore_tokens_of_other_applications,
    introspect_returns_details_of_own_access_token,
    token_info_returns_owner_scopes_and_expiry,
    tokens_of_disabled_users_are_not_active,
];
