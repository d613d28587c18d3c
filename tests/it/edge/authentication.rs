//! Placement of tokens, invalid tokens, scopes, sudo, and session cookies.

use chrono::{TimeDelta, Utc};
use domain::identity::access_tokens::revoke_personal;
use domain::identity::sessions::{SignInAttempt, SignInOutcome, sign_in};
use domain::kernel::caller::Caller;
use reqwest::Method;
use serde_json::json;

use crate::support::client::http;
use crate::support::server::ROOT_TOKEN;
use crate::support::users::{PASSWORD, TestUser};
use crate::support::{Client, TestServer, on_every_database};

/// Returns the name and the value of a session cookie.
async fn session_cookie(server: &TestServer, login: &str) -> String {
    let attempt = SignInAttempt { login: login.to_owned(), password: PASSWORD.to_owned(), ..SignInAttempt::default() };
    match sign_in(&server.backend, attempt).await.expect("an outcome") {
        SignInOutcome::SignedIn(started) => format!("_service_session={}", started.secret.expose()),
        other => panic!("{other:?}"),
    }
}

/// Returns a client with a session cookie.
async fn browser(server: &TestServer, login: &str) -> Client {
    let cookie = session_cookie(server, login).await;
    server.anonymous().header("Cookie", &format!("a=b; {cookie}; c=d"))
}

async fn ada(server: &TestServer) -> TestUser {
    let ada = server.create_user("ada").await;
    server.set_password(&ada).await;
    ada
}

async fn token_is_accepted_in_header_and_query(server: TestServer) {
    let ada = server.create_user("ada").await;
    let token = server.create_token(ada.id, &["api"]).await;
    let anonymous = server.anonymous();
    for (client, path) in [
        (anonymous.clone().header("Private-Token", &token), "/user".to_owned()),
        (anonymous.clone().header("PRIVATE-TOKEN", &token), "/user".to_owned()),
        (anonymous.clone().header("Authorization", &format!("Bearer {token}")), "/user".to_owned()),
        (anonymous.clone().header("Authorization", &format!("bearer  {token}")), "/user".to_owned()),
        (anonymous.clone(), format!("/user?private_token={token}")),
        (anonymous.clone(), format!("/user?access_token={token}")),
    ] {
        assert_eq!(client.get(&path).await.expect(200).json()["username"], "ada", "{path}");
    }
}

async fn token_in_query_takes_precedence_over_header(server: TestServer) {
    let ada = server.create_user("ada").await;
    let token = server.create_token(ada.id, &["api"]).await;
    let seen = server.root().get(&format!("/user?private_token={token}")).await.expect(200);
    assert_eq!(seen.json()["username"], "ada");
    assert_eq!(server.root().get("/user?private_token=unknown").await.status, 401);
    assert_eq!(server.root().get("/user?private_token=").await.status, 200);
}

async fn missing_and_unknown_tokens_return_401(server: TestServer) {
    let anonymous = server.anonymous();
    for client in [
        anonymous.clone(),
        server.with_token("unknown"),
        anonymous.clone().header("Authorization", "Bearer unknown"),
        anonymous.clone().header("Authorization", "Basic cm9vdDpyb290"),
        anonymous.clone().header("Authorization", ROOT_TOKEN),
        anonymous.clone().header("Cookie", "_service_session=unknown"),
    ] {
        let rejected = client.get("/user").await.expect(401);
        assert_eq!(rejected.json(), json!({ "message": "401 Unauthorized", "error": "401 Unauthorized" }));
    }
    assert_eq!(server.with_token("unknown").get("/users?username=root").await.status, 401);
    // A scheme without a token is rejected even if anonymous callers are allowed.
    for scheme in ["Bearer", "Bearer ", "bearer   "] {
        let client = anonymous.clone().header("Authorization", scheme);
        assert_eq!(client.get("/users?username=root").await.status, 401, "{scheme:?}");
    }
}

async fn other_authorization_schemes_return_401(server: TestServer) {
    let ada = ada(&server).await;
    let basic = |client: Client| client.header("Authorization", "Basic YWRhOnBhc3N3b3Jk");
    // Without a token it is a failed sign-in, even if the operation allows anonymous callers.
    let open = "/users?username=root";
    server.anonymous().get(open).await.expect(200);
    assert_eq!(
        basic(server.anonymous()).get(open).await.expect(401).json(),
        json!({ "message": "401 Unauthorized", "error": "401 Unauthorized" })
    );
    server.anonymous().header("Authorization", "Digest x").get(open).await.expect(401);
    // With a token or session, the header may be for a proxy and is ignored.
    let token = server.create_token(ada.id, &["api"]).await;
    basic(server.with_token(&token)).get("/user").await.expect(200);
    basic(server.anonymous()).get(&format!("/user?access_token={token}")).await.expect(200);
    basic(browser(&server, "ada").await).get("/user").await.expect(200);
}

async fn expired_and_revoked_tokens_return_reason(server: TestServer) {
    let ada = server.create_user("ada").await;
    let yesterday = (Utc::now() - TimeDelta::days(1)).date_naive();
    let expired = server.create_token_until(ada.id, &["api"], Some(yesterday)).await;
    let revoked = server.create_token(ada.id, &["api"]).await;
    let id = server.token_row(&revoked).await.id;
    revoke_personal(&server.backend, &Caller::user(ada.row.clone()), id, None).await.expect("a revocation");
    for (token, text) in [
        (expired, "Token is expired. You can either do re-authorization or token refresh."),
        (revoked, "Token was revoked. You have to re-authorize from the user."),
    ] {
        let rejected = server.with_token(&token).get("/user").await.expect(401);
        assert_eq!(
            rejected.json(),
            json!({
                "message": "401 Unauthorized", "error": "invalid_token", "error_description": text,
            })
        );
        let challenge = rejected.header("www-authenticate");
        assert!(
            challenge.starts_with("Bearer ")
                && challenge.contains("error=\"invalid_token\"")
                && challenge.contains(text)
        );
    }
    let today = server.create_token_until(ada.id, &["api"], Some(Utc::now().date_naive())).await;
    server.with_token(&today).get("/user").await.expect(200);
}

async fn insufficient_scope_lists_sufficient_scopes(server: TestServer) {
    let ada = server.create_user("ada").await;
    let token = server.create_token(ada.id, &["read_repository"]).await;
    let rejected = server.with_token(&token).get("/user").await.expect(403);
    let text = "The request requires higher privileges than provided by the access token.";
    assert_eq!(
        rejected.json(),
        json!({
            "error": "insufficient_scope", "error_description": text, "scope": "read_user api read_api",
            "message": format!("403 Forbidden - {text}"),
        })
    );
    assert_eq!(rejected.header("www-authenticate"), "");
    let token = server.create_token(1, &["read_api"]).await;
    let rejected = server.with_token(&token).post("/users/1/block", json!({})).await.expect(403);
    assert_eq!(rejected.json()["scope"], "api");
}

async fn sudo_accepts_header_query_username_and_id(server: TestServer) {
    let ada = server.create_user("Ada").await;
    let root = server.root();
    for sudo in ["Ada", "aDA", &ada.id.to_string()] {
        let by_header = root.clone().header("Sudo", sudo).get("/user").await.expect(200);
        assert_eq!(by_header.json()["username"], "Ada");
        let by_query = root.get(&format!("/user?sudo={sudo}")).await.expect(200);
        assert_eq!(by_query.json()["username"], "Ada");
    }
    let narrow = server.create_token(1, &["sudo"]).await;
    let acted = server.with_token(&narrow).get("/user?sudo=ada").await.expect(200);
    assert_eq!(acted.json()["username"], "Ada");
    assert_eq!(root.post("/users/1/block?sudo=ada", json!({})).await.status, 403);
}

async fn sudo_errors_are_checked_in_order(server: TestServer) {
    let ada = ada(&server).await;
    assert_eq!(server.anonymous().get("/users?username=root&sudo=ada").await.status, 401);
    let by_user = server.create_token(ada.id, &["api", "sudo"]).await;
    let rejected = server.with_token(&by_user).get("/user?sudo=root").await.expect(403);
    let text = "403 Forbidden - Must be admin to use sudo";
    assert_eq!(rejected.json(), json!({ "message": text, "error": text }));
    let by_api = server.create_token(1, &["api"]).await;
    let rejected = server.with_token(&by_api).get("/user?sudo=missing-user").await.expect(403);
    assert_eq!((&rejected.json()["error"], &rejected.json()["scope"]), (&json!("insufficient_scope"), &json!("sudo")));
    for target in ["missing-user", "4711", "99999999999999999999"] {
        let missing = server.root().get(&format!("/user?sudo={target}")).await.expect(404);
        assert_eq!(missing.message(), format!("404 User with ID or username '{target}' Not Found"));
    }
    server.root().post(&format!("/users/{}/block", ada.id), json!({})).await.expect(201);
    let rejected = server.root().get("/user?sudo=ada").await.expect(403);
    assert_eq!(rejected.message(), "403 Forbidden - Your account has been blocked.");
}

async fn numeric_sudo_is_never_a_username(server: TestServer) {
    server.create_user("4711").await;
    assert_eq!(server.root().get("/user?sudo=4711").await.status, 404);
}

async fn session_cookie_cannot_use_sudo(server: TestServer) {
    let ada = ada(&server).await;
    server.root().put(&format!("/users/{}", ada.id), json!({ "admin": true })).await.expect(200);
    let rejected = browser(&server, "ada").await.get("/user?sudo=root").await.expect(403);
    assert_eq!(
        rejected.message(),
        "403 Forbidden - Must be authenticated using an OAuth or Personal Access Token to use sudo"
    );
}

async fn session_cookie_is_limited_to_reads(server: TestServer) {
    ada(&server).await;
    let browser = browser(&server, "ada").await;
    browser.get("/user").await.expect(200);
    assert_eq!(browser.head("/user").await.status, 200);
    for request in [
        browser.request(Method::POST, "/users/1/block"),
        browser.request(Method::DELETE, "/personal_access_tokens/1"),
        browser.request(Method::DELETE, "/personal_access_tokens/1").header("X-CSRF-Token", "guess"),
    ] {
        assert_eq!(browser.send(request).await.status, 401);
    }
}

/// Clients of HTTP/2 may send each cookie in a field of its own.
async fn session_cookie_is_read_from_every_cookie_field(server: TestServer) {
    ada(&server).await;
    let session = session_cookie(&server, "ada").await;
    for client in [http(), http().http2_prior_knowledge()] {
        let client = client.build().expect("a client");
        for path in ["/api/v4/user", "/-/session"] {
            for cookies in [["a=b", session.as_str()], [session.as_str(), "c=d"]] {
                let request = client.get(format!("{}{path}", server.base));
                let request = request.header("Cookie", cookies[0]).header("Cookie", cookies[1]);
                let response = request.send().await.expect("a response");
                assert_eq!(response.status().as_u16(), 200, "{path}: {cookies:?}");
            }
        }
    }
}

async fn token_takes_precedence_over_cookie(server: TestServer) {
    ada(&server).await;
    let both = browser(&server, "ada").await.header("Private-Token", ROOT_TOKEN);
    assert_eq!(both.get("/user").await.expect(200).json()["username"], "root");
    let bad = browser(&server, "ada").await.header("Private-Token", "unknown");
    assert_eq!(bad.get("/user").await.status, 401);
}

async fn credentials_are_checked_before_parameters_and_permissions(server: TestServer) {
    let ada = server.create_user("ada").await;
    assert_eq!(server.anonymous().get("/users/x").await.status, 401);
    assert_eq!(ada.client.delete("/users/4711?hard_delete=x").await.status, 400);
    assert_eq!(ada.client.delete("/users/4711").await.status, 404);
    assert_eq!(ada.client.delete("/users/1").await.status, 403);
    assert_eq!(ada.client.put("/users/1", json!({ "external": "x" })).await.status, 400);
}

on_every_database![
    token_is_accepted_in_header_and_query,
    token_in_query_takes_precedence_over_header,
    missing_and_unknown_tokens_return_401,
    other_authorization_schemes_return_401,
    expired_and_revoked_tokens_return_reason,
    insufficient_scope_lists_sufficient_scopes,
    sudo_accepts_header_query_username_and_id,
    sudo_errors_are_checked_in_order,
    numeric_sudo_is_never_a_username,
    session_cookie_cannot_use_sudo,
    session_cookie_is_limited_to_reads,
    session_cookie_is_read_from_every_cookie_field,
    token_takes_precedence_over_cookie,
    credentials_are_checked_before_parameters_and_permissions,
];
