//! Sign-in and sign-out in a browser.

mod known_addresses;
pub mod limits;
mod races;

use chrono::TimeDelta;
use domain::accounts::users::{PasswordSource, UserUpdate, update};
use domain::audit::Actor;
use reqwest::header::LOCATION;
use reqwest::{Method, StatusCode};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, IntoActiveModel};
use serde_json::json;
use storage::entities::{now, sessions, users};

use crate::support::browser::{Browser, style_source, token};
use crate::support::users::{PASSWORD, TestUser};
use crate::support::{TestServer, on_every_database};

async fn ada(server: &TestServer) -> TestUser {
    let ada = server.create_user("ada").await;
    server.set_password(&ada).await;
    ada
}

async fn sign_in_page_loads_no_external_resources(server: TestServer) {
    let page = Browser::new(&server).get("/users/sign_in").await;
    assert_eq!(page.status, 200);
    let policy = page.headers["content-security-policy"].to_str().expect("text");
    let expected = format!("default-src 'none'; style-src '{}'; form-action 'self'", style_source(&page));
    assert!(policy.starts_with(&expected), "{policy}");
    assert_eq!(page.headers["cache-control"], "no-store");
    assert_eq!(page.headers["x-frame-options"], "DENY");
    for text in ["<html lang=\"en\">", "<title>Sign in", "for=\"login\"", "for=\"password\"", "<main>"] {
        assert!(page.text.contains(text), "{text}");
    }
    for text in ["<script", "src=", "href=", "url("] {
        assert!(!page.text.contains(text), "{text}");
    }
    assert!(page.set_cookies()[0].contains("HttpOnly; SameSite=Strict"));
}

async fn sign_in_with_user_name_or_email_starts_session(server: TestServer) {
    let ada = ada(&server).await;
    for login in ["ada", "ADA", "ada@example.com", "Ada@Example.COM"] {
        let mut browser = Browser::new(&server);
        let seen = browser.sign_in(login, PASSWORD, &[]).await;
        assert_eq!((seen.status, &seen.headers[LOCATION]), (StatusCode::SEE_OTHER, &"/docs".parse().expect("a value")));
        let cookies = seen.set_cookies();
        let cookie = cookies.iter().find(|cookie| cookie.starts_with("_service_session=")).expect("a cookie");
        assert!(cookie.ends_with("; Path=/; Max-Age=1209600; HttpOnly; SameSite=Lax"), "{cookie}");
        assert_eq!(browser.get("/api/v4/user").await.json()["username"], "ada");
        let again = browser.get("/users/sign_in").await;
        assert_eq!(
            (again.status, &again.headers[LOCATION]),
            (StatusCode::SEE_OTHER, &"/docs".parse().expect("a value"))
        );
    }
    let user = ada.client.get("/user").await.json();
    assert!(user["current_sign_in_at"].is_string() && user["last_sign_in_at"].is_string());
    assert!(user["last_activity_on"].is_string());
}

async fn session_is_stored_as_digest_and_expires_after_14_days(server: TestServer) {
    ada(&server).await;
    let mut browser = Browser::new(&server);
    browser.sign_in("ada", PASSWORD, &[]).await;
    let read = server.backend.database.read();
    let row = sessions::Entity::find().one(read).await.expect("a read").expect("a session");
    assert_eq!(row.digest, domain::secrets::digest(browser.session().expect("a session")));
    assert_eq!(row.expires_at - row.created_at, TimeDelta::days(14));
    let mut ended = row.into_active_model();
    ended.expires_at = Set(now());
    ended.update(server.backend.database.write()).await.expect("an update");
    assert_eq!(browser.get("/api/v4/user").await.status, 401);
    assert_eq!(browser.get("/-/session").await.status, 401);
}

async fn sign_in_again_replaces_session(server: TestServer) {
    ada(&server).await;
    let mut browser = Browser::new(&server);
    let page = browser.get("/users/sign_in").await;
    browser.sign_in("ada", PASSWORD, &[]).await;
    let first = browser.session().expect("a session").to_owned();
    browser.cookies.push((
        "_service_sign_in".to_owned(),
        page.set_cookies()[0].split(['=', ';']).nth(1).expect("a value").to_owned(),
    ));
    let pairs = [("authenticity_token", token(&page)), ("login", "ada".to_owned()), ("password", PASSWORD.to_owned())];
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(browser.post("/users/sign_in", &pairs).await.status, 303);
    assert_ne!(browser.session(), Some(first.as_str()));
    let mut old = Browser::new(&server);
    old.cookies.push(("_service_session".to_owned(), first));
    assert_eq!(old.get("/api/v4/user").await.status, 401);
}

async fn wrong_password_and_unknown_user_return_same_error(server: TestServer) {
    ada(&server).await;
    server.create_user("bob").await;
    let mut browser = Browser::new(&server);
    for (login, password) in [("ada", "wrong password"), ("missing-user", PASSWORD), ("bob", PASSWORD), ("", "")] {
        let seen = browser.sign_in(login, password, &[]).await;
        assert_eq!(seen.status, 422, "{login}");
        assert!(seen.text.contains("Invalid login or password."));
        assert!(browser.session().is_none());
    }
    let seen = browser.sign_in("\"><b>", "x", &[]).await;
    assert!(seen.text.contains("&quot;&gt;&lt;b&gt;") && !seen.text.contains("\"><b>"));
}

async fn login_or_sudo_with_nul_finds_no_user(server: TestServer) {
    ada(&server).await;
    for login in ["ad\0a", "ada\0", "ada\0@example.com"] {
        let rejected = Browser::new(&server).sign_in(login, PASSWORD, &[]).await;
        assert_eq!(rejected.status, 422, "{login:?}");
    }
    let rejected = server.root().get("/user?sudo=ad%00a").await;
    assert!(matches!(rejected.status, 400 | 404), "{}", rejected.status);
}

async fn sign_in_with_wrong_authenticity_token_returns_403(server: TestServer) {
    ada(&server).await;
    let mut browser = Browser::new(&server);
    let other = token(&Browser::new(&server).get("/users/sign_in").await);
    browser.get("/users/sign_in").await;
    for sent in ["", "guess", other.as_str()] {
        let pairs = [("authenticity_token", sent), ("login", "ada"), ("password", PASSWORD)];
        assert_eq!(browser.post("/users/sign_in", &pairs).await.status, 403);
        assert!(browser.session().is_none());
    }
}

async fn sign_in_redirects_only_to_local_paths(server: TestServer) {
    ada(&server).await;
    for (requested, expected) in [
        ("/docs?x=1", "/docs?x=1"),
        ("//evil.example", "/docs"),
        ("https://evil.example", "/docs"),
        ("/\\evil.example", "/docs"),
        ("/a\r\nSet-Cookie: a=b", "/docs"),
    ] {
        let seen = Browser::new(&server).sign_in("ada", PASSWORD, &[("return_to", requested)]).await;
        assert_eq!(seen.headers[LOCATION].to_str().expect("text"), expected, "{requested}");
    }
}

async fn ten_failed_attempts_lock_account_temporarily(server: TestServer) {
    let ada = ada(&server).await;
    let mut browser = Browser::new(&server);
    for _ in 0..10 {
        assert_eq!(browser.sign_in("ada", "wrong password", &[]).await.status, 422);
    }
    let rejected = browser.sign_in("ada", PASSWORD, &[]).await;
    assert_eq!(rejected.status, 429);
    let seconds: u64 = rejected.headers["retry-after"].to_str().expect("text").parse().expect("seconds");
    assert!((1..=601).contains(&seconds), "{seconds}");
    assert!(rejected.text.contains("Too many failed attempts"));
    // The client address is limited too, for any account.
    assert_eq!(browser.sign_in("root", "wrong password", &[]).await.status, 429);
    ada.client.get("/user").await.expect(200);
}

async fn successful_sign_ins_are_not_limited(server: TestServer) {
    ada(&server).await;
    for _ in 0..12 {
        assert_eq!(Browser::new(&server).sign_in("ada", PASSWORD, &[]).await.status, 303);
    }
}

async fn sign_in_rejects_blocked_and_activates_deactivated_users(server: TestServer) {
    let ada = ada(&server).await;
    let mut browser = Browser::new(&server);
    browser.sign_in("ada", PASSWORD, &[]).await;
    server.root().post(&format!("/users/{}/block", ada.id), json!({})).await.expect(201);
    assert_eq!(browser.get("/api/v4/user").await.status, 401);
    let rejected = Browser::new(&server).sign_in("ada", PASSWORD, &[]).await;
    assert_eq!(rejected.status, 403);
    assert!(rejected.text.contains("Your account has been blocked."));
    let mut row = ada.row.clone().into_active_model();
    row.state = Set(users::UserState::Deactivated);
    row.update(server.backend.database.write()).await.expect("an update");
    assert_eq!(Browser::new(&server).sign_in("ada", PASSWORD, &[]).await.status, 303);
    ada.client.get("/user").await.expect(200);
}

async fn sign_in_requires_change_of_password_set_by_administrator(server: TestServer) {
    let ada = ada(&server).await;
    let mut open = Browser::new(&server);
    open.sign_in("ada", PASSWORD, &[]).await;
    server.root().put(&format!("/users/{}", ada.id), json!({ "password": "chosen for ada" })).await.expect(200);
    assert_eq!(open.get("/api/v4/user").await.status, 401);
    let mut browser = Browser::new(&server);
    assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 422);
    let response = browser.sign_in("ada", "chosen for ada", &[]).await;
    assert_eq!(response.status, 422);
    assert!(response.text.contains("name=\"new_password\"") && browser.session().is_none());
    for bad in ["short", "chosen for ada"] {
        let rejected = browser.sign_in("ada", "chosen for ada", &[("new_password", bad)]).await;
        assert_eq!(rejected.status, 422, "{bad}");
        assert!(rejected.text.contains("The new password "));
    }
    let seen = browser.sign_in("ada", "chosen for ada", &[("new_password", "chosen by ada")]).await;
    assert_eq!(seen.status, 303);
    assert_eq!(Browser::new(&server).sign_in("ada", "chosen by ada", &[]).await.status, 303);
}

async fn sign_in_to_account_without_password_fails(server: TestServer) {
    let ada = ada(&server).await;
    let changes = UserUpdate { password: Some(PasswordSource::Unknown), ..UserUpdate::default() };
    update(&server.backend, &Actor::system(), ada.row, changes).await.expect("a change");
    assert_eq!(Browser::new(&server).sign_in("ada", PASSWORD, &[]).await.status, 422);
}

async fn session_writes_require_csrf_token(server: TestServer) {
    ada(&server).await;
    let mut browser = Browser::new(&server);
    assert_eq!(browser.get("/-/session").await.status, 401);
    browser.sign_in("ada", PASSWORD, &[]).await;
    let response = browser.get("/-/session").await;
    assert_eq!(response.headers["cache-control"], "no-store");
    let response = response.json();
    assert_eq!(response["user"], json!({ "id": 2, "username": "ada", "name": "Name of ada" }));
    let csrf = response["csrf_token"].as_str().expect("a token").to_owned();
    let path = format!("{}/api/v4/personal_access_tokens/999999", server.base);
    let delete = |csrf: &str| browser.http.request(Method::DELETE, &path).header("X-CSRF-Token", csrf);
    let (without, wrong, right) = (delete(""), delete("guess"), delete(&csrf));
    assert_eq!(browser.send(without).await.status, 401);
    assert_eq!(browser.send(wrong).await.status, 401);
    assert_eq!(browser.send(right).await.status, 404);
}

async fn sign_out_ends_session(server: TestServer) {
    ada(&server).await;
    let mut browser = Browser::new(&server);
    browser.sign_in("ada", PASSWORD, &[]).await;
    let remaining = browser.cookies.clone();
    let csrf = browser.get("/-/session").await.json()["csrf_token"].as_str().expect("a token").to_owned();
    assert_eq!(browser.post("/users/sign_out", &[]).await.status, 403);
    assert_eq!(browser.post("/users/sign_out", &[("authenticity_token", "guess")]).await.status, 403);
    assert_eq!(browser.get("/api/v4/user").await.status, 200);
    let seen = browser.post("/users/sign_out", &[("authenticity_token", &csrf)]).await;
    assert_eq!(
        (seen.status, &seen.headers[LOCATION]),
        (StatusCode::SEE_OTHER, &"/users/sign_in".parse().expect("a value"))
    );
    assert!(browser.session().is_none());
    browser.cookies = remaining;
    assert_eq!(browser.get("/api/v4/user").await.status, 401);
    assert_eq!(browser.post("/users/sign_out", &[]).await.status, 303);
}

async fn oversized_sign_in_form_returns_413(server: TestServer) {
    let mut browser = Browser::new(&server);
    let long = "x".repeat(20_000);
    let seen = browser.sign_in("ada", &long, &[]).await;
    assert_eq!(seen.status, 413);
}

async fn sign_in_form_of_unknown_length_is_accepted_up_to_the_limit(server: TestServer) {
    ada(&server).await;
    let mut browser = Browser::new(&server);
    let password = PASSWORD.replace(' ', "+");
    for (login, status) in [("x".repeat(20_000), 413_u16), ("ada".to_owned(), 303)] {
        let token = token(&browser.get("/users/sign_in").await);
        let form = format!("authenticity_token={token}&login={login}&password={password}");
        let chunks = futures_util::stream::iter([Ok::<_, std::io::Error>(form)]);
        let request = browser
            .http
            .post(format!("{}/users/sign_in", server.base))
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(reqwest::Body::wrap_stream(chunks));
        assert_eq!(browser.send(request).await.status, status);
    }
}

on_every_database![
    sign_in_page_loads_no_external_resources,
    sign_in_with_user_name_or_email_starts_session,
    session_is_stored_as_digest_and_expires_after_14_days,
    sign_in_again_replaces_session,
    wrong_password_and_unknown_user_return_same_error,
    login_or_sudo_with_nul_finds_no_user,
    sign_in_with_wrong_authenticity_token_returns_403,
    sign_in_redirects_only_to_local_paths,
    ten_failed_attempts_lock_account_temporarily,
    successful_sign_ins_are_not_limited,
    sign_in_rejects_blocked_and_activates_deactivated_users,
    sign_in_requires_change_of_password_set_by_administrator,
    sign_in_to_account_without_password_fails,
    session_writes_require_csrf_token,
    sign_out_ends_session,
    oversized_sign_in_form_returns_413,
    sign_in_form_of_unknown_length_is_accepted_up_to_the_limit,
];
