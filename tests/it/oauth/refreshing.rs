//! Replacing tokens, taking them back, and looking at them.

use serde_json::{Value, json};

use super::{CALLBACK, Stage};
use crate::support::{TestServer, on_every_database};

async fn refreshing_replaces_both_tokens(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let first = stage.tokens(&[]).await;
    let second = stage.refresh(&first["refresh_token"], &[]).await.expect(200).json();
    assert_ne!(first["access_token"], second["access_token"]);
    assert_ne!(first["refresh_token"], second["refresh_token"]);
    assert_eq!(second["scope"], first["scope"]);
    assert_eq!((stage.status(&first["access_token"]).await, stage.status(&second["access_token"]).await), (401, 200));
}

async fn a_refresh_token_used_twice_ends_its_family(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let first = stage.tokens(&[]).await;
    let bystander = stage.tokens(&[]).await;
    let second = stage.refresh(&first["refresh_token"], &[]).await.expect(200).json();
    let refused = stage.refresh(&first["refresh_token"], &[]).await.expect(400).json();
    assert_eq!(refused["error"], "invalid_grant");
    assert_eq!(stage.status(&second["access_token"]).await, 401);
    stage.refresh(&second["refresh_token"], &[]).await.expect(400);
    // What the same user granted another time is of another family.
    assert_eq!(stage.status(&bystander["access_token"]).await, 200);
}

async fn of_many_refreshes_at_a_time_one_succeeds_at_most(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let first = stage.tokens(&[]).await;
    let token = &first["refresh_token"];
    let answers = futures_util::future::join_all((0..8).map(|_| stage.refresh(token, &[]))).await;
    let won: Vec<Value> = answers.iter().filter(|answer| answer.status == 200).map(|answer| answer.json()).collect();
    assert_eq!(won.len(), 1);
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 400)));
    assert_eq!(stage.status(&won[0]["access_token"]).await, 401);
}

async fn refreshing_narrows_scopes_and_never_widens_them(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let first = stage.tokens(&[("scope", "api read_user")]).await;
    let refused = stage.refresh(&first["refresh_token"], &[("scope", "sudo")]).await.expect(400).json();
    assert_eq!(refused["error"], "invalid_scope");
    let second = stage.refresh(&first["refresh_token"], &[("scope", "read_user")]).await.expect(200).json();
    assert_eq!(second["scope"], "read_user");
    let refused = stage.refresh(&second["refresh_token"], &[("scope", "api")]).await.expect(400).json();
    assert_eq!(refused["error"], "invalid_scope");
}

async fn revoking_either_token_ends_both_at_once(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    for which in ["access_token", "refresh_token"] {
        let tokens = stage.tokens(&[]).await;
        assert_eq!(stage.status(&tokens["access_token"]).await, 200);
        let client = [("client_id", stage.uid()), ("client_secret", stage.secret())];
        let pair = ("token", tokens[which].as_str().expect("a token"));
        let revoke = async |pairs: &[(&str, &str)]| stage.ask("revoke", pairs).await;
        revoke(&[client[0], ("client_secret", "wrong"), pair]).await.expect(401);
        assert_eq!(stage.status(&tokens["access_token"]).await, 200);
        assert_eq!(revoke(&[client[0], client[1], pair]).await.expect(200).json(), json!({}));
        let bearer = format!("Bearer {}", tokens["access_token"].as_str().expect("a token"));
        let refused = server.anonymous().header("Authorization", &bearer).get("/user").await.expect(401);
        assert_eq!(refused.json()["error_description"], "Token was revoked. You have to re-authorize from the user.");
        stage.refresh(&tokens["refresh_token"], &[]).await.expect(400);
        // What is no token changes nothing, and that is no fault.
        revoke(&[client[0], client[1], ("token", "unknown")]).await.expect(200);
        revoke(&[client[0], client[1]]).await.expect(400);
    }
}

async fn applications_revoke_and_see_only_their_own_tokens(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let tokens = stage.tokens(&[]).await;
    let other = json!({ "name": "Other", "redirect_uri": CALLBACK, "scopes": "api" });
    let other = server.root().post("/applications", other).await.expect(201).json();
    let pairs = [
        ("client_id", other["application_id"].as_str().expect("an id")),
        ("client_secret", other["secret"].as_str().expect("a secret")),
        ("token", tokens["access_token"].as_str().expect("a token")),
    ];
    stage.ask("revoke", &pairs).await.expect(200);
    assert_eq!(stage.status(&tokens["access_token"]).await, 200);
    assert_eq!(stage.ask("introspect", &pairs).await.expect(200).json(), json!({ "active": false }));
}

async fn introspection_tells_an_application_about_its_token(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let tokens = stage.tokens(&[("scope", "read_user")]).await;
    let access = tokens["access_token"].as_str().expect("a token");
    let client = [("client_id", stage.uid()), ("client_secret", stage.secret())];
    let seen = stage.ask("introspect", &[client[0], client[1], ("token", access)]).await.expect(200).json();
    assert_eq!(
        seen,
        json!({
            "active": true, "scope": "read_user", "client_id": stage.uid(), "token_type": "Bearer", "username": "ada",
            "sub": stage.user.id.to_string(), "iat": tokens["created_at"],
            "exp": tokens["created_at"].as_i64().map(|made| made + 7200),
        })
    );
    for token in ["unknown", stage.user.token.as_str()] {
        let seen = stage.ask("introspect", &[client[0], client[1], ("token", token)]).await.expect(200).json();
        assert_eq!(seen, json!({ "active": false }));
    }
    stage.ask("introspect", &[("client_id", stage.uid()), ("token", access)]).await.expect(401);
}

async fn a_token_tells_what_it_is_good_for(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let tokens = stage.tokens(&[("scope", "read_user")]).await;
    let access = tokens["access_token"].as_str().expect("a token");
    let bearer = server.anonymous().header("Authorization", &format!("Bearer {access}"));
    let told = bearer.get("//oauth/token/info").await.expect(200).json();
    assert_eq!((&told["resource_owner_id"], &told["scope"]), (&json!(stage.user.id), &json!(["read_user"])));
    assert_eq!(told["application"], json!({ "uid": stage.uid() }));
    assert!(told["expires_in"].as_i64().is_some_and(|left| (7000..=7200).contains(&left)));
    assert_eq!(told["created_at"], tokens["created_at"]);
    assert_eq!(server.anonymous().get(&format!("//oauth/token/info?access_token={access}")).await.status, 200);
    for client in [server.anonymous(), server.root(), server.anonymous().header("Authorization", "Bearer x")] {
        assert_eq!(client.get("//oauth/token/info").await.status, 401);
    }
}

on_every_database![
    refreshing_replaces_both_tokens,
    a_refresh_token_used_twice_ends_its_family,
    of_many_refreshes_at_a_time_one_succeeds_at_most,
    refreshing_narrows_scopes_and_never_widens_them,
    revoking_either_token_ends_both_at_once,
    applications_revoke_and_see_only_their_own_tokens,
    introspection_tells_an_application_about_its_token,
    a_token_tells_what_it_is_good_for,
];
