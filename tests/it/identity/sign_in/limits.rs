//! Rate limits on passwords and client secrets: the sign-in form, Git and OAuth applications.

use chrono::TimeDelta;
use futures_util::future::join_all;
use holdfast::config::ConfigOptions;
use reqwest::Method;
use sea_orm::EntityTrait;
use sea_orm::sea_query::Expr;
use serde_json::{Value, json};
use storage::entities::sign_in_failures::{Column, Entity};
use storage::entities::{Visibility, now};

use super::ada;
use crate::support::browser::Browser;
use crate::support::client::http;
use crate::support::process::{Process, Site, on_every_site};
use crate::support::users::PASSWORD;
use crate::support::{TestServer, on_every_database};

/// Number of failed attempts from one address before requests are limited.
pub const ALLOWED: usize = 10;

/// Creates an HTTP client that connects from another address of this machine.
pub fn client_at(address: &str) -> reqwest::Client {
    let address = address.parse().expect("an address");
    let client = http().redirect(reqwest::redirect::Policy::none()).local_address(Some(address));
    client.build().expect("a client")
}

/// Sends 50 wrong passwords for an account: 10 from each of 5 addresses, which are different for each block.
pub async fn guess_from_many_addresses(server: &TestServer, login: &str, block: u8) {
    let guesses = (1..=5).map(|number| async move {
        let mut browser = Browser::new(server);
        browser.http = client_at(&format!("127.0.{block}.{number}"));
        for _ in 0..ALLOWED {
            assert_eq!(browser.sign_in(login, "wrong password", &[]).await.status, 422);
        }
    });
    join_all(guesses).await;
}

/// Signs in from an address. Returns the status.
pub async fn sign_in_at(server: &TestServer, address: &str, login: &str, password: &str) -> u16 {
    let mut browser = Browser::new(server);
    browser.http = client_at(address);
    browser.sign_in(login, password, &[]).await.status.as_u16()
}

/// Backdates all failed attempts so that they no longer count.
async fn expire_failures(server: &TestServer) {
    let aged = Entity::update_many().col_expr(Column::FailedAt, Expr::value(now() - TimeDelta::minutes(10)));
    aged.exec(server.backend.database.write()).await.expect("an update");
}

/// Requests refs as git does. Returns the status and the seconds to wait.
pub async fn fetch_refs(http: &reqwest::Client, base: &str, name: &str, password: &str) -> (u16, Option<u64>) {
    let url = format!("{base}/g/p.git/info/refs?service=git-upload-pack");
    let response = http.get(url).basic_auth(name, Some(password)).send().await.expect("a response");
    let wait = response.headers().get("retry-after");
    let wait = wait.map(|value| value.to_str().expect("text").parse().expect("seconds"));
    (response.status().as_u16(), wait)
}

/// Requests an OAuth token with an invalid code and returns the status.
async fn exchange_code(http: &reqwest::Client, base: &str, uid: &str, secret: &str) -> u16 {
    let form = [("grant_type", "authorization_code"), ("code", "none"), ("client_id", uid), ("client_secret", secret)];
    let request = http.request(Method::POST, format!("{base}/oauth/token")).form(&form);
    request.send().await.expect("a response").status().as_u16()
}

async fn application(server: &TestServer, name: &str) -> (String, String) {
    let body = json!({ "name": name, "redirect_uri": "https://app.example/cb", "scopes": "api" });
    let created = server.root().post("/applications", body).await.expect(201).json();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    (text(&created["application_id"]), text(&created["secret"]))
}

async fn sign_in_form_limits_attempts_per_account(server: TestServer) {
    ada(&server).await;
    server.create_user("bob").await;
    guess_from_many_addresses(&server, "ADA", 10).await;
    let mut browser = Browser::new(&server);
    browser.http = client_at("127.0.0.40");
    let rejected = browser.sign_in("ada", PASSWORD, &[]).await;
    assert_eq!(rejected.status, 429);
    let wait: u64 = rejected.headers["retry-after"].to_str().expect("text").parse().expect("seconds");
    assert!((1..=601).contains(&wait), "{wait}");
    // Another account is not affected. Unknown accounts are limited in the same way.
    assert_eq!(browser.sign_in("bob", "wrong password", &[]).await.status, 422);
    guess_from_many_addresses(&server, "missing-user", 20).await;
    assert_eq!(browser.sign_in("missing-user", "wrong password", &[]).await.status, 429);
}

async fn sign_in_form_limits_attempts_per_address(server: TestServer) {
    ada(&server).await;
    let mut browser = Browser::new(&server);
    browser.http = client_at("127.0.0.10");
    for number in 0..ALLOWED {
        assert_eq!(browser.sign_in(&format!("user{number}"), "wrong password", &[]).await.status, 422);
    }
    assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 429);
    // Signing in from another address succeeds and does not reset the count of this address.
    assert_eq!(Browser::new(&server).sign_in("ada", PASSWORD, &[]).await.status, 303);
    assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 429);
    expire_failures(&server).await;
    assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 303);
}

async fn concurrent_sign_in_attempts_do_not_bypass_limit(server: TestServer) {
    ada(&server).await;
    let tries = (0..30).map(|_| {
        let mut browser = Browser::new(&server);
        async move { browser.sign_in("ada", "wrong password", &[]).await.status.as_u16() }
    });
    let statuses = join_all(tries).await;
    let rejected = statuses.iter().filter(|status| **status == 422).count();
    assert!(rejected <= ALLOWED, "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 422 | 429)), "{statuses:?}");
}

async fn git_limits_attempts_per_account_and_address(server: TestServer) {
    let ada = ada(&server).await;
    server.insert_project_at("g/p", Visibility::Public).await;
    let (first_client, second_client) = (client_at("127.0.0.10"), client_at("127.0.0.11"));
    for _ in 0..12 {
        assert_eq!(fetch_refs(&first_client, &server.base, "ada", PASSWORD).await.0, 200);
    }
    for number in 0..5 {
        let stranger = client_at(&format!("127.0.0.{}", 20 + number));
        for _ in 0..ALLOWED {
            assert_eq!(fetch_refs(&stranger, &server.base, "ada", "wrong").await.0, 401);
        }
    }
    let (status, wait) = fetch_refs(&second_client, &server.base, "ada", PASSWORD).await;
    assert_eq!(status, 429);
    assert!(wait.is_some_and(|wait| (1..=601).contains(&wait)), "{wait:?}");
    // The account is limited on the form too. A token does not count as an attempt.
    assert_eq!(Browser::new(&server).sign_in("ada", PASSWORD, &[]).await.status, 429);
    assert_eq!(fetch_refs(&second_client, &server.base, "ada", &ada.token).await.0, 200);
    // The first client sent the correct password before.
    assert_eq!(fetch_refs(&first_client, &server.base, "ada", PASSWORD).await.0, 200);
    expire_failures(&server).await;
    assert_eq!(fetch_refs(&second_client, &server.base, "ada", PASSWORD).await.0, 200);
    for number in 0..ALLOWED {
        assert_eq!(fetch_refs(&first_client, &server.base, &format!("user{number}"), "wrong").await.0, 401);
    }
    assert_eq!(fetch_refs(&first_client, &server.base, "ada", PASSWORD).await.0, 429);
    assert_eq!(fetch_refs(&second_client, &server.base, "ada", PASSWORD).await.0, 200);
}

async fn wrong_client_secrets_are_limited_and_correct_one_is_accepted(server: TestServer) {
    let (uid, secret) = application(&server, "one").await;
    let (other, _) = application(&server, "two").await;
    let (first_client, second_client) = (client_at("127.0.0.10"), client_at("127.0.0.11"));
    // The code is invalid, so a correct secret returns 400.
    for _ in 0..12 {
        assert_eq!(exchange_code(&first_client, &server.base, &uid, &secret).await, 400);
    }
    for _ in 0..ALLOWED {
        assert_eq!(exchange_code(&first_client, &server.base, &uid, "wrong").await, 401);
    }
    assert_eq!(exchange_code(&first_client, &server.base, &uid, "wrong").await, 429);
    assert_eq!(exchange_code(&second_client, &server.base, &uid, "wrong").await, 429);
    assert_eq!(exchange_code(&first_client, &server.base, &other, "wrong").await, 429);
    assert_eq!(exchange_code(&second_client, &server.base, &other, "wrong").await, 401);
    assert_eq!(exchange_code(&second_client, &server.base, "unknown", "wrong").await, 401);
    assert_eq!(exchange_code(&first_client, &server.base, &uid, &secret).await, 400);
    let request = first_client
        .post(format!("{}/oauth/introspect", server.base))
        .basic_auth(&uid, Some("wrong"))
        .form(&[("token", "x")]);
    assert_eq!(request.send().await.expect("a response").status(), 429);
    expire_failures(&server).await;
    assert_eq!(exchange_code(&first_client, &server.base, &uid, "wrong").await, 401);
}

on_every_database![
    sign_in_form_limits_attempts_per_account,
    sign_in_form_limits_attempts_per_address,
    concurrent_sign_in_attempts_do_not_bypass_limit,
    git_limits_attempts_per_account_and_address,
    wrong_client_secrets_are_limited_and_correct_one_is_accepted,
];

/// Options of a server behind a proxy on this machine.
fn behind_a_proxy() -> ConfigOptions {
    ConfigOptions {
        trusted_proxies: Some(vec!["127.0.0.1".to_owned(), "10.0.0.0/8".to_owned()]),
        ..ConfigOptions::default()
    }
}

/// Tries a password with Git and an `X-Forwarded-For` header. Returns the status.
async fn fetch_refs_forwarded(
    http: &reqwest::Client,
    server: &TestServer,
    name: &str,
    password: &str,
    forwarded_for: &str,
) -> u16 {
    let url = format!("{}/g/p.git/info/refs?service=git-upload-pack", server.base);
    let request = http.get(url).basic_auth(name, Some(password));
    let response = request.header("X-Forwarded-For", forwarded_for).send().await;
    response.expect("a response").status().as_u16()
}

async fn clients_behind_trusted_proxy_are_limited_separately(server: TestServer) {
    ada(&server).await;
    server.insert_project_at("g/p", Visibility::Public).await;
    let proxy = http().build().expect("a client");
    // Addresses that the client adds itself are ignored.
    for number in 0..ALLOWED {
        let spoofed = format!("198.51.100.{number}, 203.0.113.9, 10.0.0.{number}");
        assert_eq!(fetch_refs_forwarded(&proxy, &server, &format!("user{number}"), "wrong", &spoofed).await, 401);
    }
    assert_eq!(fetch_refs_forwarded(&proxy, &server, "ada", PASSWORD, "1.2.3.4, 203.0.113.9").await, 429);
    assert_eq!(fetch_refs_forwarded(&proxy, &server, "ada", PASSWORD, "203.0.113.9, 203.0.113.10").await, 200);
    assert_eq!(fetch_refs(&proxy, &server.base, "ada", PASSWORD).await.0, 200);
    // The header is ignored in requests that do not come from a trusted proxy.
    let past = client_at("127.0.0.10");
    for number in 0..ALLOWED {
        let spoofed = format!("198.51.100.{number}");
        assert_eq!(fetch_refs_forwarded(&past, &server, &format!("other{number}"), "wrong", &spoofed).await, 401);
    }
    assert_eq!(fetch_refs_forwarded(&past, &server, "ada", PASSWORD, "198.51.100.77").await, 429);
    // The form and applications are limited in the same way.
    let mut browser = Browser::new(&server);
    let mut headers = reqwest::header::HeaderMap::new();
    headers.insert("x-forwarded-for", "203.0.113.20".parse().expect("a value"));
    let redirect = reqwest::redirect::Policy::none();
    browser.http = http().redirect(redirect).default_headers(headers.clone()).build().expect("a client");
    for number in 0..ALLOWED {
        assert_eq!(browser.sign_in(&format!("third{number}"), "wrong password", &[]).await.status, 422);
    }
    assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 429);
    assert_eq!(Browser::new(&server).sign_in("ada", PASSWORD, &[]).await.status, 303);
    let application = http().default_headers(headers).build().expect("a client");
    for number in 0..ALLOWED {
        assert_eq!(exchange_code(&application, &server.base, &format!("none{number}"), "wrong").await, 401);
    }
    assert_eq!(exchange_code(&application, &server.base, "none", "wrong").await, 429);
    assert_eq!(exchange_code(&proxy, &server.base, "none", "wrong").await, 401);
}

async fn forwarded_for_is_ignored_without_trusted_proxies(server: TestServer) {
    ada(&server).await;
    server.insert_project_at("g/p", Visibility::Public).await;
    let http = http().build().expect("a client");
    for number in 0..ALLOWED {
        let spoofed = format!("198.51.100.{number}");
        assert_eq!(fetch_refs_forwarded(&http, &server, &format!("user{number}"), "wrong", &spoofed).await, 401);
    }
    assert_eq!(fetch_refs_forwarded(&http, &server, "ada", PASSWORD, "198.51.100.77").await, 429);
}

on_every_database![
    clients_behind_trusted_proxy_are_limited_separately with behind_a_proxy(),
    forwarded_for_is_ignored_without_trusted_proxies,
];

async fn try_root(server: &Process, password: &str) -> u16 {
    fetch_refs(&client_at("127.0.0.10"), &server.base, "root", password).await.0
}

async fn failed_attempts_survive_server_restart(site: Site) {
    let server = site.serve(&[]).await;
    for _ in 0..ALLOWED {
        assert_eq!(try_root(&server, "wrong").await, 401);
    }
    server.kill().await;
    let server = site.serve(&[]).await;
    assert_eq!(try_root(&server, "wrong").await, 429);
    server.stop().await;
}

on_every_site![failed_attempts_survive_server_restart,];
