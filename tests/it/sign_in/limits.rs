//! How often somebody may try passwords and secrets: on the form, with Git and as an application.

use chrono::TimeDelta;
use holdfast::config::Options;
use reqwest::{Method, StatusCode};
use sea_orm::EntityTrait;
use sea_orm::sea_query::Expr;
use serde_json::{Value, json};
use storage::entities::sign_in_failures::{Column, Entity};
use storage::entities::{Visibility, now};

use super::ada;
use crate::support::browser::Browser;
use crate::support::client::http;
use crate::support::people::PASSWORD;
use crate::support::process::{Process, Site, on_every_site};
use crate::support::{TestServer, on_every_database};

/// How many wrong ones are answered as such.
const ALLOWED: usize = 10;

/// An HTTP client at another address of this machine.
fn at(address: &str) -> reqwest::Client {
    let address = address.parse().expect("an address");
    let client = http().redirect(reqwest::redirect::Policy::none()).local_address(Some(address));
    client.build().expect("a client")
}

/// Lets as much time go by as failures count.
async fn later(server: &TestServer) {
    let aged = Entity::update_many().col_expr(Column::FailedAt, Expr::value(now() - TimeDelta::minutes(10)));
    aged.exec(server.backend.database.write()).await.expect("an update");
}

/// Asks as git does, with a name and a password; the status, and the seconds to wait.
async fn git(http: &reqwest::Client, base: &str, name: &str, password: &str) -> (u16, Option<u64>) {
    let url = format!("{base}/g/p.git/info/refs?service=git-upload-pack");
    let answer = http.get(url).basic_auth(name, Some(password)).send().await.expect("an answer");
    let wait = answer.headers().get("retry-after");
    let wait = wait.map(|value| value.to_str().expect("text").parse().expect("seconds"));
    (answer.status().as_u16(), wait)
}

/// Asks for a token with a code that is none, as an application; the status.
async fn exchange(http: &reqwest::Client, base: &str, uid: &str, secret: &str) -> u16 {
    let form = [("grant_type", "authorization_code"), ("code", "none"), ("client_id", uid), ("client_secret", secret)];
    let request = http.request(Method::POST, format!("{base}/oauth/token")).form(&form);
    request.send().await.expect("an answer").status().as_u16()
}

async fn application(server: &TestServer, name: &str) -> (String, String) {
    let body = json!({ "name": name, "redirect_uri": "https://app.example/cb", "scopes": "api" });
    let made = server.root().post("/applications", body).await.expect(201).json();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    (text(&made["application_id"]), text(&made["secret"]))
}

async fn the_form_counts_by_account_whatever_the_address(server: TestServer) {
    ada(&server).await;
    server.person("bob").await;
    for number in 0..ALLOWED {
        let mut browser = Browser::new(&server);
        browser.http = at(&format!("127.0.0.{}", 10 + number));
        assert_eq!(browser.sign_in("ADA", "wrong password", &[]).await.status, 422);
    }
    let mut browser = Browser::new(&server);
    browser.http = at("127.0.0.40");
    assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 429);
    // Another account is tried from there as before, and nobody is told which accounts there are.
    assert_eq!(browser.sign_in("bob", "wrong password", &[]).await.status, 422);
    for number in 0..=ALLOWED {
        let mut browser = Browser::new(&server);
        browser.http = at(&format!("127.0.0.{}", 50 + number));
        let status = browser.sign_in("nobody", "wrong password", &[]).await.status;
        assert_eq!(
            status,
            if number < ALLOWED { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::TOO_MANY_REQUESTS }
        );
    }
}

async fn the_form_counts_by_address_whatever_the_account(server: TestServer) {
    ada(&server).await;
    let mut browser = Browser::new(&server);
    browser.http = at("127.0.0.10");
    for number in 0..ALLOWED {
        assert_eq!(browser.sign_in(&format!("user{number}"), "wrong password", &[]).await.status, 422);
    }
    assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 429);
    // Elsewhere the right password does, and it takes nothing off the count here.
    assert_eq!(Browser::new(&server).sign_in("ada", PASSWORD, &[]).await.status, 303);
    assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 429);
    later(&server).await;
    assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 303);
}

async fn many_attempts_at_a_time_gain_nothing(server: TestServer) {
    ada(&server).await;
    let tries = (0..30).map(|_| {
        let mut browser = Browser::new(&server);
        async move { browser.sign_in("ada", "wrong password", &[]).await.status.as_u16() }
    });
    let statuses = futures_util::future::join_all(tries).await;
    let told = statuses.iter().filter(|status| **status == 422).count();
    assert!(told <= ALLOWED, "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 422 | 429)), "{statuses:?}");
}

async fn git_counts_by_account_and_by_address_and_forgets(server: TestServer) {
    let ada = ada(&server).await;
    server.project_at("g/p", Visibility::Public).await;
    let (here, there) = (at("127.0.0.10"), at("127.0.0.11"));
    for _ in 0..12 {
        assert_eq!(git(&here, &server.base, "ada", PASSWORD).await.0, 200);
    }
    for number in 0..ALLOWED {
        assert_eq!(git(&at(&format!("127.0.0.{}", 20 + number)), &server.base, "ada", "wrong").await.0, 401);
    }
    let (status, wait) = git(&there, &server.base, "ada", PASSWORD).await;
    assert_eq!(status, 429);
    assert!(wait.is_some_and(|wait| (1..=601).contains(&wait)), "{wait:?}");
    // The account is closed on the form as well; a token is no guess and counts for nothing.
    assert_eq!(Browser::new(&server).sign_in("ada", PASSWORD, &[]).await.status, 429);
    assert_eq!(git(&there, &server.base, "ada", &ada.token).await.0, 200);
    later(&server).await;
    assert_eq!(git(&there, &server.base, "ada", PASSWORD).await.0, 200);
    for number in 0..ALLOWED {
        assert_eq!(git(&here, &server.base, &format!("user{number}"), "wrong").await.0, 401);
    }
    assert_eq!(git(&here, &server.base, "ada", PASSWORD).await.0, 429);
    assert_eq!(git(&there, &server.base, "ada", PASSWORD).await.0, 200);
}

async fn wrong_secrets_of_applications_are_counted_and_the_right_one_is_taken(server: TestServer) {
    let (uid, secret) = application(&server, "one").await;
    let (other, _) = application(&server, "two").await;
    let (here, there) = (at("127.0.0.10"), at("127.0.0.11"));
    // The code is none, so the right secret gets 400.
    for _ in 0..12 {
        assert_eq!(exchange(&here, &server.base, &uid, &secret).await, 400);
    }
    for _ in 0..ALLOWED {
        assert_eq!(exchange(&here, &server.base, &uid, "wrong").await, 401);
    }
    assert_eq!(exchange(&here, &server.base, &uid, "wrong").await, 429);
    assert_eq!(exchange(&there, &server.base, &uid, "wrong").await, 429);
    assert_eq!(exchange(&here, &server.base, &other, "wrong").await, 429);
    assert_eq!(exchange(&there, &server.base, &other, "wrong").await, 401);
    assert_eq!(exchange(&there, &server.base, "unknown", "wrong").await, 401);
    assert_eq!(exchange(&here, &server.base, &uid, &secret).await, 400);
    let request =
        here.post(format!("{}/oauth/introspect", server.base)).basic_auth(&uid, Some("wrong")).form(&[("token", "x")]);
    assert_eq!(request.send().await.expect("an answer").status(), 429);
    later(&server).await;
    assert_eq!(exchange(&here, &server.base, &uid, "wrong").await, 401);
}

on_every_database![
    the_form_counts_by_account_whatever_the_address,
    the_form_counts_by_address_whatever_the_account,
    many_attempts_at_a_time_gain_nothing,
    git_counts_by_account_and_by_address_and_forgets,
    wrong_secrets_of_applications_are_counted_and_the_right_one_is_taken,
];

/// A server behind a proxy on this machine.
fn behind_a_proxy() -> Options {
    Options { trusted_proxies: Some(vec!["127.0.0.1".to_owned(), "10.0.0.0/8".to_owned()]), ..Options::default() }
}

/// Tries a password with Git, with what proxies have noted; the status.
async fn noted(http: &reqwest::Client, server: &TestServer, name: &str, password: &str, noted: &str) -> u16 {
    let url = format!("{}/g/p.git/info/refs?service=git-upload-pack", server.base);
    let request = http.get(url).basic_auth(name, Some(password));
    let answer = request.header("X-Forwarded-For", noted).send().await;
    answer.expect("an answer").status().as_u16()
}

async fn callers_behind_a_trusted_proxy_are_counted_one_by_one(server: TestServer) {
    ada(&server).await;
    server.project_at("g/p", Visibility::Public).await;
    let proxy = http().build().expect("a client");
    // What a caller writes in front changes nothing.
    for number in 0..ALLOWED {
        let spoofed = format!("198.51.100.{number}, 203.0.113.9, 10.0.0.{number}");
        assert_eq!(noted(&proxy, &server, &format!("user{number}"), "wrong", &spoofed).await, 401);
    }
    assert_eq!(noted(&proxy, &server, "ada", PASSWORD, "1.2.3.4, 203.0.113.9").await, 429);
    assert_eq!(noted(&proxy, &server, "ada", PASSWORD, "203.0.113.9, 203.0.113.10").await, 200);
    assert_eq!(git(&proxy, &server.base, "ada", PASSWORD).await.0, 200);
    // Who comes past the proxies is not believed.
    let past = at("127.0.0.10");
    for number in 0..ALLOWED {
        let spoofed = format!("198.51.100.{number}");
        assert_eq!(noted(&past, &server, &format!("other{number}"), "wrong", &spoofed).await, 401);
    }
    assert_eq!(noted(&past, &server, "ada", PASSWORD, "198.51.100.77").await, 429);
    // The form and applications count in the same way.
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
        assert_eq!(exchange(&application, &server.base, &format!("none{number}"), "wrong").await, 401);
    }
    assert_eq!(exchange(&application, &server.base, "none", "wrong").await, 429);
    assert_eq!(exchange(&proxy, &server.base, "none", "wrong").await, 401);
}

async fn without_trusted_proxies_nobody_is_believed(server: TestServer) {
    ada(&server).await;
    server.project_at("g/p", Visibility::Public).await;
    let http = http().build().expect("a client");
    for number in 0..ALLOWED {
        let spoofed = format!("198.51.100.{number}");
        assert_eq!(noted(&http, &server, &format!("user{number}"), "wrong", &spoofed).await, 401);
    }
    assert_eq!(noted(&http, &server, "ada", PASSWORD, "198.51.100.77").await, 429);
}

on_every_database![
    callers_behind_a_trusted_proxy_are_counted_one_by_one with behind_a_proxy(),
    without_trusted_proxies_nobody_is_believed,
];

async fn try_root(server: &Process, password: &str) -> u16 {
    git(&at("127.0.0.10"), &server.base, "root", password).await.0
}

async fn failures_are_remembered_when_the_server_is_not_there(site: Site) {
    let server = site.serve(&[]).await;
    for _ in 0..ALLOWED {
        assert_eq!(try_root(&server, "wrong").await, 401);
    }
    server.kill().await;
    let server = site.serve(&[]).await;
    assert_eq!(try_root(&server, "wrong").await, 429);
    server.stop().await;
}

on_every_site![failures_are_remembered_when_the_server_is_not_there,];
