//! The consent page and its form.

use reqwest::header::LOCATION;
use serde_json::json;

use super::{CALLBACK, Fixture, challenge, parameter};
use crate::support::browser::{Browser, token};
use crate::support::users::PASSWORD;
use crate::support::{TestServer, on_every_database};

async fn authorize_redirects_to_sign_in_and_back(server: TestServer) {
    let fixture = Fixture::new(&server, json!({})).await;
    let mut browser = Browser::new(&server);
    let address = fixture.address(&[]);
    let response = browser.get(&address).await;
    let target = response.headers[LOCATION].to_str().expect("text").to_owned();
    assert!(target.starts_with("/users/sign_in?return_to=%2Foauth%2Fauthorize%3F"), "{target}");
    let form = browser.get(&target).await;
    let (_, rest) = form.text.split_once("name=\"return_to\" value=\"").expect("a field");
    let return_to = rest.split('"').next().expect("a value").replace("&amp;", "&");
    let response = browser.sign_in("ada", PASSWORD, &[("return_to", &return_to)]).await;
    assert_eq!((response.status.as_u16(), response.headers[LOCATION].to_str().expect("text")), (303, address.as_str()));
}

async fn consent_page_shows_application_and_scopes_without_scripts(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let address = fixture.address(&[("scope", "read_user"), ("state", "\"><script>")]);
    let page = fixture.browser.get(&address).await;
    assert_eq!(page.status, 200);
    for text in
        ["&lt;App&gt;", "<strong>ada</strong>", "<code>read_user</code>", "https://app.example", "&lt;script&gt;"]
    {
        assert!(page.text.contains(text), "{text}");
    }
    for text in ["<App>", "<script", "<code>api</code>", "src=", "href="] {
        assert!(!page.text.contains(text), "{text}");
    }
    let policy = page.headers["content-security-policy"].to_str().expect("text");
    assert!(policy.contains("default-src 'none'") && policy.contains("form-action 'self' https://app.example;"));
    assert!(policy.contains("frame-ancestors 'none'"));
    assert_eq!(page.headers["x-frame-options"], "DENY");
    assert_eq!(page.headers["cache-control"], "no-store");
}

async fn authorize_returns_code_and_state_if_the_user_agrees(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let address = fixture.address(&[]);
    let response = fixture.submit(&address, "authorize").await;
    let target = response.headers[LOCATION].to_str().expect("text");
    assert!(target.starts_with("https://app.example/callback?from=holdfast&code="), "{target}");
    assert_eq!(parameter(&response, "state").as_deref(), Some("s & t"));
}

async fn authorize_returns_access_denied_if_the_user_denies(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let address = fixture.address(&[]);
    for decision in ["deny", "", "else"] {
        let response = fixture.submit(&address, decision).await;
        assert_eq!(parameter(&response, "error").as_deref(), Some("access_denied"));
        assert_eq!((parameter(&response, "state").as_deref(), parameter(&response, "code")), (Some("s & t"), None));
    }
}

async fn authorize_rejects_unregistered_redirect_uri(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    for (name, value) in [
        ("client_id", "unknown"),
        ("client_id", ""),
        ("redirect_uri", ""),
        ("redirect_uri", "https://app.example/callback"),
        ("redirect_uri", "https://app.example/callback?from=holdfast&x=1"),
        ("redirect_uri", "https://APP.example/callback?from=holdfast"),
        ("redirect_uri", "https://app.example/callback/?from=holdfast"),
        ("redirect_uri", "http://app.example/callback?from=holdfast"),
        ("redirect_uri", "https://app.example.evil.example/callback?from=holdfast"),
        ("redirect_uri", "https://app.example/callback?from=holdfast#"),
        ("client_id", "\0"),
    ] {
        let address = fixture.address(&[(name, value)]);
        let response = fixture.browser.get(&address).await;
        assert_eq!((response.status.as_u16(), response.headers.get(LOCATION)), (400, None), "{name} {value}");
    }
}

async fn authorize_returns_other_errors_to_the_application(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let short = "x".repeat(42);
    for (extra, error) in [
        (vec![("response_type", "token")], "unsupported_response_type"),
        (vec![("response_type", "")], "invalid_request"),
        (vec![("scope", "api write_repository")], "invalid_scope"),
        (vec![("scope", "everything")], "invalid_scope"),
        (vec![("code_challenge", short.as_str())], "invalid_request"),
        (vec![("code_challenge", &challenge()), ("code_challenge_method", "S512")], "invalid_request"),
        (vec![("code_challenge_method", "S256")], "invalid_request"),
    ] {
        let address = fixture.address(&extra);
        let response = fixture.browser.get(&address).await;
        assert_eq!(parameter(&response, "error").as_deref(), Some(error), "{extra:?}");
        assert_eq!(parameter(&response, "state").as_deref(), Some("s & t"));
        assert!(response.headers[LOCATION].to_str().expect("text").starts_with(CALLBACK));
    }
}

async fn public_application_requires_pkce(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({ "confidential": false })).await;
    let address = fixture.address(&[]);
    let response = fixture.browser.get(&address).await;
    assert_eq!(parameter(&response, "error").as_deref(), Some("invalid_request"));
    let challenge = challenge();
    let address = fixture.address(&[("code_challenge", &challenge), ("code_challenge_method", "S256")]);
    assert_eq!(fixture.browser.get(&address).await.status, 200);
}

async fn consent_form_requires_authenticity_token_and_session(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let address = fixture.address(&[]);
    let page = fixture.browser.get(&address).await;
    let uid = fixture.uid().to_owned();
    let mut fields = vec![
        ("client_id", uid.as_str()),
        ("redirect_uri", CALLBACK),
        ("response_type", "code"),
        ("decision", "authorize"),
    ];
    assert_eq!(fixture.browser.post("/oauth/authorize", &fields).await.status, 403);
    fields.push(("authenticity_token", "wrong"));
    assert_eq!(fixture.browser.post("/oauth/authorize", &fields).await.status, 403);
    fields.pop();
    let token = token(&page);
    fields.push(("authenticity_token", &token));
    assert_eq!(Browser::new(&server).post("/oauth/authorize", &fields).await.status, 401);
    // The fields of the form are validated again.
    fields[1].1 = "https://evil.example/";
    assert_eq!(fixture.browser.post("/oauth/authorize", &fields).await.status, 400);
    fields[1].1 = CALLBACK;
    assert_eq!(fixture.browser.post("/oauth/authorize", &fields).await.status, 303);
}

async fn blocked_user_cannot_authorize_or_exchange_code(server: TestServer) {
    let mut fixture = Fixture::new(&server, json!({})).await;
    let code = fixture.code(&[]).await;
    server.root().post(&format!("/users/{}/block", fixture.user.id), json!({})).await.expect(201);
    assert_eq!(fixture.exchange(&code, &[]).await.expect(400).json()["error"], "invalid_grant");
    let address = fixture.address(&[]);
    assert_ne!(fixture.browser.get(&address).await.status, 200);
}

on_every_database![
    authorize_redirects_to_sign_in_and_back,
    consent_page_shows_application_and_scopes_without_scripts,
    authorize_returns_code_and_state_if_the_user_agrees,
    authorize_returns_access_denied_if_the_user_denies,
    authorize_rejects_unregistered_redirect_uri,
    authorize_returns_other_errors_to_the_application,
    public_application_requires_pkce,
    consent_form_requires_authenticity_token_and_session,
    blocked_user_cannot_authorize_or_exchange_code,
];
