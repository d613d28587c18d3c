//! Codes become tokens once, and tokens open what was granted.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::TimeDelta;
use reqwest::Method;
use sea_orm::EntityTrait;
use sea_orm::sea_query::Expr;
use serde_json::json;
use storage::entities::{now, oauth_grants, oauth_tokens};

use super::{CALLBACK, Stage, VERIFIER, challenge};
use crate::support::{TestServer, on_every_database};

async fn a_code_becomes_tokens_that_open_what_was_granted(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let code = stage.code(&[("scope", "read_user")]).await;
    let answer = stage.exchange(&code, &[]).await.expect(200);
    assert_eq!((answer.header("cache-control"), answer.header("pragma")), ("no-store", "no-cache"));
    let tokens = answer.json();
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
    // These places are for the other kinds of tokens, and a refresh token opens nothing anywhere.
    assert_eq!(server.with_token(access).get("/user").await.status, 401);
    assert_eq!(server.anonymous().get(&format!("/user?private_token={access}")).await.status, 401);
    assert_eq!(stage.status(&tokens["refresh_token"]).await, 401);
    let row = oauth_tokens::Entity::find().one(server.backend.database.read()).await.expect("a read").expect("a row");
    assert_eq!(row.digest, domain::secrets::digest(access));
    assert_eq!(bearer.get("/personal_access_tokens/self").await.status, 404);
}

async fn a_token_with_sudo_acts_for_administrators_only(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let tokens = stage.tokens(&[]).await;
    let bearer = format!("Bearer {}", tokens["access_token"].as_str().expect("a token"));
    let caller = server.anonymous().header("Authorization", &bearer);
    let refused = caller.get("/user?sudo=root").await.expect(403);
    assert_eq!(refused.message(), "403 Forbidden - Must be admin to use sudo");
    server.root().put(&format!("/users/{}", stage.user.id), json!({ "admin": true })).await.expect(200);
    assert_eq!(caller.get("/user?sudo=root").await.expect(200).json()["username"], "root");
    assert_eq!(caller.clone().header("Sudo", "ROOT").get("/user").await.expect(200).json()["username"], "root");
    let narrow = stage.tokens(&[("scope", "api")]).await;
    let bearer = format!("Bearer {}", narrow["access_token"].as_str().expect("a token"));
    let refused = server.anonymous().header("Authorization", &bearer).get("/user?sudo=root").await.expect(403);
    assert_eq!(refused.json()["scope"], "sudo");
}

async fn a_code_used_twice_ends_all_that_came_of_it(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let code = stage.code(&[]).await;
    let tokens = stage.exchange(&code, &[]).await.expect(200).json();
    let next = stage.refresh(&tokens["refresh_token"], &[]).await.expect(200).json();
    assert_eq!(stage.status(&next["access_token"]).await, 200);
    let replayed = stage.exchange(&code, &[]).await.expect(400).json();
    assert_eq!(replayed["error"], "invalid_grant");
    assert!(replayed["error_description"].is_string());
    assert_eq!(stage.status(&next["access_token"]).await, 401);
    stage.refresh(&next["refresh_token"], &[]).await.expect(400);
}

async fn of_many_exchanges_at_a_time_one_succeeds_at_most(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let code = stage.code(&[]).await;
    let answers = futures_util::future::join_all((0..8).map(|_| stage.exchange(&code, &[]))).await;
    let won: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
    assert_eq!(won.len(), 1);
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 400)));
    assert_eq!(stage.status(&won[0].json()["access_token"]).await, 401);
}

async fn a_code_is_good_for_its_application_address_and_time(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let other = json!({ "name": "Other", "redirect_uri": CALLBACK, "scopes": "api" });
    let other = server.root().post("/applications", other).await.expect(201).json();
    let (uid, secret) = (other["application_id"].as_str().expect("an id"), other["secret"].as_str().expect("a secret"));
    let code = stage.code(&[]).await;
    for extra in [
        vec![("client_id", uid), ("client_secret", secret)],
        vec![("redirect_uri", "https://app.example/callback")],
        vec![("redirect_uri", "")],
        vec![("code", "unknown")],
        vec![("code_verifier", VERIFIER)],
    ] {
        let refused = stage.exchange(&code, &extra).await.expect(400);
        assert_eq!(refused.json()["error"], "invalid_grant", "{extra:?}");
    }
    oauth_grants::Entity::update_many()
        .col_expr(oauth_grants::Column::ExpiresAt, Expr::value(now() - TimeDelta::seconds(1)))
        .exec(server.backend.database.write())
        .await
        .expect("an update");
    assert_eq!(stage.exchange(&code, &[]).await.expect(400).json()["error"], "invalid_grant");
    let fresh = stage.code(&[]).await;
    stage.exchange(&fresh, &[]).await.expect(200);
}

async fn the_verifier_must_answer_the_challenge(server: TestServer) {
    let mut stage = Stage::new(&server, json!({ "confidential": false })).await;
    let hashed = challenge();
    let asked = [("code_challenge", hashed.as_str()), ("code_challenge_method", "S256")];
    let code = stage.code(&asked).await;
    let other = "b".repeat(50);
    for verifier in ["", other.as_str(), hashed.as_str()] {
        let refused = stage.exchange(&code, &[("code_verifier", verifier), ("client_secret", "")]).await;
        assert_eq!(refused.expect(400).json()["error"], "invalid_grant", "{verifier}");
    }
    let proven = [("code_verifier", VERIFIER), ("client_secret", "")];
    let tokens = stage.exchange(&code, &proven).await.expect(200).json();
    assert_eq!(stage.status(&tokens["access_token"]).await, 200);
    let plain = [("code_challenge", VERIFIER), ("code_challenge_method", "plain")];
    let code = stage.code(&plain).await;
    stage.exchange(&code, &proven).await.expect(200);
}

async fn applications_prove_who_they_are(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let code = stage.code(&[]).await;
    for extra in [
        vec![("client_secret", "wrong")],
        vec![("client_secret", "")],
        vec![("client_id", "unknown")],
        vec![("client_id", "")],
    ] {
        let refused = stage.exchange(&code, &extra).await.expect(401);
        assert_eq!(refused.json()["error"], "invalid_client", "{extra:?}");
    }
    let basic = |secret: &str| {
        let pair = STANDARD.encode(format!("{}:{secret}", stage.uid()));
        server.anonymous().header("Authorization", &format!("Basic {pair}"))
    };
    let pairs = [("grant_type", "authorization_code"), ("code", code.as_str()), ("redirect_uri", CALLBACK)];
    let wrong = basic("wrong");
    let refused = wrong.send(wrong.request(Method::POST, "//oauth/token").form(&pairs)).await.expect(401);
    assert!(refused.header("www-authenticate").starts_with("Basic"));
    let right = basic(stage.secret());
    let body = json!({ "grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK });
    right.send(right.request(Method::POST, "//oauth/token").json(&body)).await.expect(200);
}

async fn what_is_no_request_is_told_so(server: TestServer) {
    let stage = Stage::new(&server, json!({})).await;
    let client = [("client_id", stage.uid()), ("client_secret", stage.secret())];
    for (pair, error) in [
        (("grant_type", "password"), "unsupported_grant_type"),
        (("grant_type", "client_credentials"), "unsupported_grant_type"),
        (("grant_type", "authorization_code"), "invalid_request"),
        (("grant_type", "refresh_token"), "invalid_request"),
        (("grant_type", ""), "invalid_request"),
    ] {
        let refused = stage.ask("token", &[client[0], client[1], pair]).await.expect(400);
        assert_eq!(refused.json()["error"], error, "{pair:?}");
    }
    let long = "x".repeat(40_000);
    assert!(matches!(stage.ask("token", &[("code", &long)]).await.status, 400 | 413));
    for (name, value) in [("client_id", "\0"), ("code", "\0")] {
        assert!(matches!(stage.exchange("x", &[(name, value)]).await.status, 400 | 401));
    }
    assert_eq!(server.anonymous().get("//oauth/token").await.status, 405);
}

async fn an_access_token_ends_after_two_hours(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let tokens = stage.tokens(&[]).await;
    oauth_tokens::Entity::update_many()
        .col_expr(oauth_tokens::Column::ExpiresAt, Expr::value(now() - TimeDelta::seconds(1)))
        .exec(server.backend.database.write())
        .await
        .expect("an update");
    let bearer = format!("Bearer {}", tokens["access_token"].as_str().expect("a token"));
    let refused = server.anonymous().header("Authorization", &bearer).get("/user").await.expect(401);
    assert_eq!(
        refused.json()["error_description"],
        "Token is expired. You can either do re-authorization or token refresh."
    );
    stage.refresh(&tokens["refresh_token"], &[]).await.expect(200);
}

async fn tokens_go_with_their_user_and_application(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let tokens = stage.tokens(&[]).await;
    server.root().delete(&format!("/applications/{}", stage.application["id"])).await.expect(204);
    assert_eq!(stage.status(&tokens["access_token"]).await, 401);
    stage.refresh(&tokens["refresh_token"], &[]).await.expect(401);
    let again = json!({ "name": "Again", "redirect_uri": CALLBACK, "scopes": "api" });
    stage.application = server.root().post("/applications", again).await.expect(201).json();
    let tokens = stage.tokens(&[]).await;
    server.root().delete(&format!("/users/{}", stage.user.id)).await.expect(204);
    assert_eq!(stage.status(&tokens["access_token"]).await, 401);
    stage.refresh(&tokens["refresh_token"], &[]).await.expect(400);
}

async fn clients_find_what_is_offered(server: TestServer) {
    let seen = server.anonymous().get("//.well-known/oauth-authorization-server").await.expect(200).json();
    assert_eq!(seen["issuer"], server.base);
    assert_eq!(seen["token_endpoint"], format!("{}/oauth/token", server.base));
    assert_eq!(seen["code_challenge_methods_supported"], json!(["S256", "plain"]));
}

on_every_database![
    a_code_becomes_tokens_that_open_what_was_granted,
    a_token_with_sudo_acts_for_administrators_only,
    a_code_used_twice_ends_all_that_came_of_it,
    of_many_exchanges_at_a_time_one_succeeds_at_most,
    a_code_is_good_for_its_application_address_and_time,
    the_verifier_must_answer_the_challenge,
    applications_prove_who_they_are,
    what_is_no_request_is_told_so,
    an_access_token_ends_after_two_hours,
    tokens_go_with_their_user_and_application,
    clients_find_what_is_offered,
];
