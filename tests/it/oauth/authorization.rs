//! The question, and the user's answer.

use reqwest::header::LOCATION;
use serde_json::json;

use super::{CALLBACK, Stage, challenge, parameter};
use crate::support::browser::{Browser, token};
use crate::support::people::PASSWORD;
use crate::support::{TestServer, on_every_database};

async fn the_user_signs_in_first_and_comes_back_to_the_question(server: TestServer) {
    let stage = Stage::new(&server, json!({})).await;
    let mut browser = Browser::new(&server);
    let address = stage.address(&[]);
    let seen = browser.get(&address).await;
    let target = seen.headers[LOCATION].to_str().expect("text").to_owned();
    assert!(target.starts_with("/users/sign_in?return_to=%2Foauth%2Fauthorize%3F"), "{target}");
    let form = browser.get(&target).await;
    let (_, rest) = form.text.split_once("name=\"return_to\" value=\"").expect("a field");
    let goal = rest.split('"').next().expect("a value").replace("&amp;", "&");
    let seen = browser.sign_in("ada", PASSWORD, &[("return_to", &goal)]).await;
    assert_eq!((seen.status.as_u16(), seen.headers[LOCATION].to_str().expect("text")), (303, address.as_str()));
}

async fn the_question_names_who_asks_and_what_for_and_runs_nothing(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let address = stage.address(&[("scope", "read_user"), ("state", "\"><script>")]);
    let page = stage.browser.get(&address).await;
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

async fn agreeing_sends_back_a_code_and_the_state(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let address = stage.address(&[]);
    let seen = stage.answer(&address, "authorize").await;
    let target = seen.headers[LOCATION].to_str().expect("text");
    assert!(target.starts_with("https://app.example/callback?from=holdfast&code="), "{target}");
    assert_eq!(parameter(&seen, "state").as_deref(), Some("s & t"));
}

async fn denying_sends_back_an_error_and_grants_nothing(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let address = stage.address(&[]);
    for decision in ["deny", "", "else"] {
        let seen = stage.answer(&address, decision).await;
        assert_eq!(parameter(&seen, "error").as_deref(), Some("access_denied"));
        assert_eq!((parameter(&seen, "state").as_deref(), parameter(&seen, "code")), (Some("s & t"), None));
    }
}

async fn what_cannot_be_trusted_leads_nowhere(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
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
        let address = stage.address(&[(name, value)]);
        let seen = stage.browser.get(&address).await;
        assert_eq!((seen.status.as_u16(), seen.headers.get(LOCATION)), (400, None), "{name} {value}");
    }
}

async fn other_faults_are_told_to_the_application(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
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
        let address = stage.address(&extra);
        let seen = stage.browser.get(&address).await;
        assert_eq!(parameter(&seen, "error").as_deref(), Some(error), "{extra:?}");
        assert_eq!(parameter(&seen, "state").as_deref(), Some("s & t"));
        assert!(seen.headers[LOCATION].to_str().expect("text").starts_with(CALLBACK));
    }
}

async fn an_application_without_a_secret_must_use_pkce(server: TestServer) {
    let mut stage = Stage::new(&server, json!({ "confidential": false })).await;
    let address = stage.address(&[]);
    let seen = stage.browser.get(&address).await;
    assert_eq!(parameter(&seen, "error").as_deref(), Some("invalid_request"));
    let challenge = challenge();
    let address = stage.address(&[("code_challenge", &challenge), ("code_challenge_method", "S256")]);
    assert_eq!(stage.browser.get(&address).await.status, 200);
}

async fn an_answer_from_elsewhere_grants_nothing(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let address = stage.address(&[]);
    let page = stage.browser.get(&address).await;
    let uid = stage.uid().to_owned();
    let mut fields = vec![
        ("client_id", uid.as_str()),
        ("redirect_uri", CALLBACK),
        ("response_type", "code"),
        ("decision", "authorize"),
    ];
    assert_eq!(stage.browser.post("/oauth/authorize", &fields).await.status, 403);
    fields.push(("authenticity_token", "wrong"));
    assert_eq!(stage.browser.post("/oauth/authorize", &fields).await.status, 403);
    fields.pop();
    let token = token(&page);
    fields.push(("authenticity_token", &token));
    assert_eq!(Browser::new(&server).post("/oauth/authorize", &fields).await.status, 401);
    // What the form says is checked again.
    fields[1].1 = "https://evil.example/";
    assert_eq!(stage.browser.post("/oauth/authorize", &fields).await.status, 400);
    fields[1].1 = CALLBACK;
    assert_eq!(stage.browser.post("/oauth/authorize", &fields).await.status, 303);
}

async fn blocked_users_are_not_asked(server: TestServer) {
    let mut stage = Stage::new(&server, json!({})).await;
    let code = stage.code(&[]).await;
    server.root().post(&format!("/users/{}/block", stage.user.id), json!({})).await.expect(201);
    assert_eq!(stage.exchange(&code, &[]).await.expect(400).json()["error"], "invalid_grant");
    let address = stage.address(&[]);
    assert_ne!(stage.browser.get(&address).await.status, 200);
}

on_every_database![
    the_user_signs_in_first_and_comes_back_to_the_question,
    the_question_names_who_asks_and_what_for_and_runs_nothing,
    agreeing_sends_back_a_code_and_the_state,
    denying_sends_back_an_error_and_grants_nothing,
    what_cannot_be_trusted_leads_nowhere,
    other_faults_are_told_to_the_application,
    an_application_without_a_secret_must_use_pkce,
    an_answer_from_elsewhere_grants_nothing,
    blocked_users_are_not_asked,
];
