//! Exchanging codes for tokens, and the permissions of tokens.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::TimeDelta;
use domain::identity::oauth::tokens::sweep;
use reqwest::Method;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait};
use serde_json::json;
use storage::entities::{now, oauth_grants, oauth_tokens, users};

use super::{CALLBACK, Fixture, VERIFIER, challenge};
use crate::support::browser::Browser;
use crate::support::{TestServer, on_every_database};

async fn exchange_returns_tokens_with_the_granted_scopes(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let code = fixture.code(&[("scope", "read_user")]).await;
    let response = fixture.exchange(&code, &[]).await.expect(200);
    assert_eq!((response.header("cache-control"), response.header("pragma")), ("no-store", "no-cache"));
    let tokens = response.json();
    assert_eq!(
        tokens,
        json!({
            "access_token": tokens["access_token"], "token_type": "Bearer", "expires_in": 7200,
            "refresh_token": tokens["refresh_token"], "scope": "read_user", "created_at": tokens["created_at"],
        })
    );
    let access = tokens["access_token"].as_str().expect("a token");
    let bearer = server.anonymous().header("Authorization", &format!("Bearer {access}"));
    assert_eq!(bearer.get("/user").await.expect(200).json()["username"], "ada");
    assert_eq!(server.anonymous().get(&format!("/user?access_token={access}")).await.status, 200);
    assert_eq!(bearer.get("/projects").await.expect(403).json()["error"], "insufficient_scope");
    // These parameters accept other kinds of tokens. A refresh token grants no access.
    assert_eq!(server.with_token(access).get("/user").await.status, 401);
    assert_eq!(server.anonymous().get(&format!("/user?private_token={access}")).await.status, 401);
    assert_eq!(fixture.status(&tokens["refresh_token"]).await, 401);
    let row = oauth_tokens::Entity::find().one(server.backend.database.read()).await.expect("a read").expect("a row");
    assert_eq!(row.digest, domain::secrets::digest(access));
    assert_eq!(bearer.get("/personal_access_tokens/self").await.status, 404);
}

async fn forms_of_unknown_length_are_accepted(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let tokens = fixture.tokens(&[]).await;
    let client = [("client_id", fixture.uid()), ("client_secret", fixture.secret())];
    let refresh = ("refresh_token", tokens["refresh_token"].as_str().expect("a token"));
    let refresh = [client[0], client[1], ("grant_type", "refresh_token"), refresh];
    let access = fixture.send_chunked_form("token", &refresh).await.expect(200).json()["access_token"].clone();
    let pairs = [client[0], client[1], ("token", access.as_str().expect("a token"))];
    assert_eq!(fixture.send_chunked_form("introspect", &pairs).await.expect(200).json()["active"], true);
    fixture.send_chunked_form("revoke", &pairs).await.expect(200);
    assert_eq!(fixture.status(&access).await, 401);
}

async fn sudo_scope_works_for_administrators_only(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let tokens = fixture.tokens(&[]).await;
    let bearer = format!("Bearer {}", tokens["access_token"].as_str().expect("a token"));
    let caller = server.anonymous().header("Authorization", &bearer);
    let rejected = caller.get("/user?sudo=root").await.expect(403);
    assert_eq!(rejected.message(), "403 Forbidden - Must be admin to use sudo");
    server.root().put(&format!("/users/{}", fixture.user.id), json!({ "admin": true })).await.expect(200);
    assert_eq!(caller.get("/user?sudo=root").await.expect(200).json()["username"], "root");
    assert_eq!(caller.clone().header("Sudo", "ROOT").get("/user").await.expect(200).json()["username"], "root");
    let narrow = fixture.tokens(&[("scope", "api")]).await;
    let bearer = format!("Bearer {}", narrow["access_token"].as_str().expect("a token"));
    let rejected = server.anonymous().header("Authorization", &bearer).get("/user?sudo=root").await.expect(403);
    assert_eq!(rejected.json()["scope"], "sudo");
}

async fn reuse_of_code_revokes_its_tokens(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let code = fixture.code(&[]).await;
    let tokens = fixture.exchange(&code, &[]).await.expect(200).json();
    let next = fixture.refresh(&tokens["refresh_token"], &[]).await.expect(200).json();
    assert_eq!(fixture.status(&next["access_token"]).await, 200);
    let replayed = fixture.exchange(&code, &[]).await.expect(400).json();
    assert_eq!(replayed["error"], "invalid_grant");
    assert!(replayed["error_description"].is_string());
    assert_eq!(fixture.status(&next["access_token"]).await, 401);
    fixture.refresh(&next["refresh_token"], &[]).await.expect(400);
}

async fn concurrent_exchanges_succeed_once_and_revoke_the_tokens(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let code = fixture.code(&[]).await;
    let responses = futures_util::future::join_all((0..8).map(|_| fixture.exchange(&code, &[]))).await;
    let successful: Vec<_> = responses.iter().filter(|response| response.status == 200).collect();
    assert_eq!(successful.len(), 1);
    assert!(responses.iter().all(|response| matches!(response.status, 200 | 400)));
    assert_eq!(fixture.status(&successful[0].json()["access_token"]).await, 401);
}

async fn exchange_requires_same_application_and_redirect_uri_before_expiry(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let other = json!({ "name": "Other", "redirect_uri": CALLBACK, "scopes": "api" });
    let other = server.root().post("/applications", other).await.expect(201).json();
    let (uid, secret) = (other["application_id"].as_str().expect("an id"), other["secret"].as_str().expect("a secret"));
    let code = fixture.code(&[]).await;
    for extra in [
        vec![("client_id", uid), ("client_secret", secret)],
        vec![("redirect_uri", "https://app.example/callback")],
        vec![("redirect_uri", "")],
        vec![("code", "unknown")],
        vec![("code_verifier", VERIFIER)],
    ] {
        let rejected = fixture.exchange(&code, &extra).await.expect(400);
        assert_eq!(rejected.json()["error"], "invalid_grant", "{extra:?}");
    }
    oauth_grants::Entity::update_many()
        .col_expr(oauth_grants::Column::ExpiresAt, Expr::value(now() - TimeDelta::seconds(1)))
        .exec(server.backend.database.write())
        .await
        .expect("an update");
    assert_eq!(fixture.exchange(&code, &[]).await.expect(400).json()["error"], "invalid_grant");
    let fresh = fixture.code(&[]).await;
    fixture.exchange(&fresh, &[]).await.expect(200);
}

async fn exchange_requires_matching_code_verifier(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({ "confidential": false })).await;
    let hashed = challenge();
    let request = [("code_challenge", hashed.as_str()), ("code_challenge_method", "S256")];
    let code = fixture.code(&request).await;
    let other = "b".repeat(50);
    for verifier in ["", other.as_str(), hashed.as_str()] {
        let rejected = fixture.exchange(&code, &[("code_verifier", verifier), ("client_secret", "")]).await;
        assert_eq!(rejected.expect(400).json()["error"], "invalid_grant", "{verifier}");
    }
    let proof = [("code_verifier", VERIFIER), ("client_secret", "")];
    let tokens = fixture.exchange(&code, &proof).await.expect(200).json();
    assert_eq!(fixture.status(&tokens["access_token"]).await, 200);
    let plain = [("code_challenge", VERIFIER), ("code_challenge_method", "plain")];
    let code = fixture.code(&plain).await;
    fixture.exchange(&code, &proof).await.expect(200);
}

async fn exchange_requires_client_authentication(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let code = fixture.code(&[]).await;
    for extra in [
        vec![("client_secret", "wrong")],
        vec![("client_secret", "")],
        vec![("client_id", "unknown")],
        vec![("client_id", "")],
    ] {
        let rejected = fixture.exchange(&code, &extra).await.expect(401);
        assert_eq!(rejected.json()["error"], "invalid_client", "{extra:?}");
    }
    let basic = |secret: &str| {
        let pair = STANDARD.encode(format!("{}:{secret}", fixture.uid()));
        server.anonymous().header("Authorization", &format!("Basic {pair}"))
    };
    let pairs = [("grant_type", "authorization_code"), ("code", code.as_str()), ("redirect_uri", CALLBACK)];
    let wrong = basic("wrong");
    let rejected = wrong.send(wrong.request(Method::POST, "//oauth/token").form(&pairs)).await.expect(401);
    assert!(rejected.header("www-authenticate").starts_with("Basic"));
    let right = basic(fixture.secret());
    let body = json!({ "grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK });
    right.send(right.request(Method::POST, "//oauth/token").json(&body)).await.expect(200);
}

async fn token_endpoint_rejects_malformed_requests(server: TestServer) {
    let fixture = Fixture::new(&server, json!({})).await;
    let client = [("client_id", fixture.uid()), ("client_secret", fixture.secret())];
    for (pair, error) in [
        (("grant_type", "password"), "unsupported_grant_type"),
        (("grant_type", "client_credentials"), "unsupported_grant_type"),
        (("grant_type", "authorization_code"), "invalid_request"),
        (("grant_type", "refresh_token"), "invalid_request"),
        (("grant_type", ""), "invalid_request"),
    ] {
        let rejected = fixture.send_form("token", &[client[0], client[1], pair]).await.expect(400);
        assert_eq!(rejected.json()["error"], error, "{pair:?}");
    }
    let long = "x".repeat(40_000);
    for rejected in [
        fixture.send_form("token", &[("code", &long)]).await,
        fixture.send_chunked_form("token", &[("code", &long)]).await,
    ] {
        assert_eq!(rejected.expect(400).json()["error"], "invalid_request");
    }
    for (name, value) in [("client_id", "\0"), ("code", "\0")] {
        assert!(matches!(fixture.exchange("x", &[(name, value)]).await.status, 400 | 401));
    }
    assert_eq!(server.anonymous().get("//oauth/token").await.status, 405);
}

async fn expired_access_token_can_be_refreshed_until_refresh_token_expires(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let tokens = fixture.tokens(&[]).await;
    oauth_tokens::Entity::update_many()
        .col_expr(oauth_tokens::Column::ExpiresAt, Expr::value(now() - TimeDelta::seconds(1)))
        .exec(server.backend.database.write())
        .await
        .expect("an update");
    let bearer = format!("Bearer {}", tokens["access_token"].as_str().expect("a token"));
    let rejected = server.anonymous().header("Authorization", &bearer).get("/user").await.expect(401);
    assert_eq!(
        rejected.json()["error_description"],
        "Token is expired. You can either do re-authorization or token refresh."
    );
    let tokens = fixture.refresh(&tokens["refresh_token"], &[]).await.expect(200).json();
    // A refresh token expires 180 days after it was issued, and then the rows of the family are deleted.
    let issued_before = async |age: TimeDelta| {
        oauth_tokens::Entity::update_many()
            .col_expr(oauth_tokens::Column::CreatedAt, Expr::value(now() - age))
            .exec(server.backend.database.write())
            .await
            .expect("an update");
    };
    issued_before(TimeDelta::days(180)).await;
    let rejected = fixture.refresh(&tokens["refresh_token"], &[]).await.expect(400).json();
    assert_eq!(rejected["error"], "invalid_grant");
    issued_before(TimeDelta::days(179)).await;
    assert_eq!(sweep(&server.backend).await.expect("a sweep"), 0);
    fixture.refresh(&tokens["refresh_token"], &[]).await.expect(200);
    issued_before(TimeDelta::days(180)).await;
    assert_eq!(sweep(&server.backend).await.expect("a sweep"), 3);
}

async fn tokens_are_revoked_with_their_user_and_application(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let tokens = fixture.tokens(&[]).await;
    server.root().delete(&format!("/applications/{}", fixture.application["id"])).await.expect(204);
    assert_eq!(fixture.status(&tokens["access_token"]).await, 401);
    fixture.refresh(&tokens["refresh_token"], &[]).await.expect(401);
    let again = json!({ "name": "Again", "redirect_uri": CALLBACK, "scopes": "api" });
    fixture.application = server.root().post("/applications", again).await.expect(201).json();
    let tokens = fixture.tokens(&[]).await;
    server.root().delete(&format!("/users/{}", fixture.user.id)).await.expect(204);
    assert_eq!(fixture.status(&tokens["access_token"]).await, 401);
    fixture.refresh(&tokens["refresh_token"], &[]).await.expect(400);
}

async fn new_password_revokes_tokens_and_codes(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let (tokens, code) = (fixture.tokens(&[]).await, fixture.code(&[]).await);
    let path = format!("/users/{}", fixture.user.id);
    server.root().put(&path, json!({ "password": "chosen for ada" })).await.expect(200);
    assert_eq!(fixture.status(&tokens["access_token"]).await, 401);
    fixture.refresh(&tokens["refresh_token"], &[]).await.expect(400);
    fixture.exchange(&code, &[]).await.expect(400);
    fixture.browser = Browser::new(&server);
    let new = [("new_password", "chosen by ada")];
    assert_eq!(fixture.browser.sign_in("ada", "chosen for ada", &new).await.status, 303);
    let tokens = fixture.tokens(&[]).await;
    assert_eq!(fixture.status(&tokens["access_token"]).await, 200);
    let change =
        users::ActiveModel { id: Set(fixture.user.id), password_change_required: Set(true), ..Default::default() };
    change.update(server.backend.database.write()).await.expect("an update");
    let new = [("new_password", "chosen later")];
    assert_eq!(Browser::new(&server).sign_in("ada", "chosen by ada", &new).await.status, 303);
    assert_eq!(fixture.status(&tokens["access_token"]).await, 401);
    let events = format!("/audit_events?entity_type=User&entity_id={}&per_page=100", fixture.user.id);
    let events = server.root().get(&events).await.expect(200).json();
    let events = events.as_array().expect("events").iter();
    let revoked = events.filter(|event| event["details"]["event_name"] == "oauth_tokens_revoked");
    let authors: Vec<_> = revoked.map(|event| event["author_id"].clone()).collect();
    assert_eq!(authors, [json!(fixture.user.id), json!(1)]);
}

async fn authorization_server_metadata_is_returned(server: TestServer) {
    let metadata = server.anonymous().get("//.well-known/oauth-authorization-server").await.expect(200).json();
    assert_eq!(metadata["issuer"], server.base);
    assert_eq!(metadata["token_endpoint"], format!("{}/oauth/token", server.base));
    assert_eq!(metadata["code_challenge_methods_supported"], json!(["S256", "plain"]));
}

async fn use_of_access_token_is_activity_of_user(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let tokens = fixture.tokens(&[]).await;
    let long_ago = now() - TimeDelta::days(200);
    let change = users::ActiveModel {
        id: Set(fixture.user.id),
        current_sign_in_at: Set(Some(long_ago)),
        last_activity_on: Set(Some(long_ago.date_naive())),
        ..Default::default()
    };
    change.update(server.backend.database.write()).await.expect("an update");
    assert_eq!(fixture.status(&tokens["access_token"]).await, 200);
    let path = format!("/users/{}", fixture.user.id);
    let seen = server.root().get(&path).await.expect(200).json();
    assert_eq!(seen["last_activity_on"], json!(now().date_naive().to_string()));
    server.root().post(&format!("{path}/deactivate"), json!({})).await.expect(403);
    // Further requests of the day do not change the user.
    let first = server.statements();
    assert_eq!(fixture.status(&tokens["access_token"]).await, 200);
    let texts = server.statement_texts(first);
    assert!(!texts.iter().any(|text| text.contains("UPDATE \"users\"")), "{texts:?}");
}

on_every_database![
    exchange_returns_tokens_with_the_granted_scopes,
    forms_of_unknown_length_are_accepted,
    sudo_scope_works_for_administrators_only,
    reuse_of_code_revokes_its_tokens,
    concurrent_exchanges_succeed_once_and_revoke_the_tokens,
    exchange_requires_same_application_and_redirect_uri_before_expiry,
    exchange_requires_matching_code_verifier,
    exchange_requires_client_authentication,
    token_endpoint_rejects_malformed_requests,
    expired_access_token_can_be_refreshed_until_refresh_token_expires,
    tokens_are_revoked_with_their_user_and_application,
    use_of_access_token_is_activity_of_user,
    new_password_revokes_tokens_and_codes,
    authorization_server_metadata_is_returned,
];
