//! Two-factor authentication: setup, use and removal of second factors.

mod pages;
mod passwords;
mod races;
mod requirement;
mod sign_in;

use chrono::TimeDelta;
use reqwest::Method;
use sea_orm::sea_query::Expr;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::json;
use storage::entities::{now, recovery_codes as code_rows, two_factor_secrets};

use crate::regressions::security_secrets::dump_database;
use crate::support::authenticator::{Authenticator, disable, recovery_codes, start_setup};
use crate::support::browser::Browser;
use crate::support::users::{PASSWORD, TestUser};
use crate::support::{Client, TestServer, on_every_database};

/// Sends the path and code of an operation that requires a code.
async fn send_code(user: &TestUser, path: &str, code: &str) -> u16 {
    user.client.post(&format!("/user/two_factor{path}"), json!({ "code": code })).await.status
}

async fn user(server: &TestServer, username: &str) -> TestUser {
    let user = server.create_user(username).await;
    server.set_password(&user).await;
    user
}

async fn second_factor_is_enabled_by_code_of_app(server: TestServer) {
    let (ada, root) = (user(&server, "ada").await, server.root());
    let none = json!({
        "enabled": false, "enabled_at": null, "recovery_codes_left": 0, "required": false, "grace_period_ends_at": null
    });
    assert_eq!(ada.client.get("/user/two_factor").await.expect(200).json(), none);
    let body = json!({ "current_password": PASSWORD });
    let setup = ada.client.post("/user/two_factor", body).await.expect(201).json();
    let secret = setup["secret"].as_str().expect("a secret");
    let uri = url::Url::parse(setup["otpauth_uri"].as_str().expect("a URI")).expect("a URI");
    assert_eq!((secret.len(), uri.scheme(), uri.path()), (32, "otpauth", "/127.0.0.1:ada"));
    assert!(uri.query_pairs().any(|pair| pair == ("secret".into(), secret.into())), "{uri}");
    // The secret has no effect before it is confirmed.
    assert_eq!(ada.client.get("/user/two_factor").await.json(), none);
    assert_eq!(Browser::new(&server).sign_in("ada", PASSWORD, &[]).await.headers["location"], "/docs");
    let app = Authenticator::new(secret);
    let code = app.code();
    let spaced = format!(" {} {} ", &code[..3], &code[3..]);
    let confirmed = ada.client.post("/user/two_factor/confirm", json!({ "code": spaced })).await.expect(201);
    let mut codes = recovery_codes(&confirmed);
    assert!(codes.iter().all(|code| code.len() == 19), "{codes:?}");
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), 10);
    let status = ada.client.get("/user/two_factor").await.json();
    assert_eq!((&status["enabled"], &status["recovery_codes_left"]), (&json!(true), &json!(10)));
    assert!(status["enabled_at"].is_string());
    assert_eq!(ada.client.get("/user").await.json()["two_factor_enabled"], true);
    assert_eq!(root.get(&format!("/users/{}", ada.id)).await.json()["two_factor_enabled"], true);
    assert_eq!(root.get("/users?two_factor=enabled").await.pluck("username"), ["ada"]);
    assert_eq!(root.get("/users?two_factor=disabled").await.pluck("username"), ["root"]);
    // The code of the confirmation was used.
    assert_eq!(send_code(&ada, "/recovery_codes", &code).await, 400);
    for (path, body) in [("", json!({ "current_password": PASSWORD })), ("/confirm", json!({ "code": code }))] {
        ada.client.post(&format!("/user/two_factor{path}"), body).await.expect(409);
    }
}

async fn setup_requires_current_password(server: TestServer) {
    let ada = user(&server, "ada").await;
    let start = async |user: &TestUser, password: &str| {
        user.client.post("/user/two_factor", json!({ "current_password": password })).await
    };
    ada.client.post("/user/two_factor", json!({})).await.expect(400);
    for _ in 0..10 {
        let rejected = start(&ada, "wrong password").await.expect(400);
        assert_eq!(rejected.json()["message"]["current_password"], json!(["is wrong"]));
    }
    let limited = start(&ada, PASSWORD).await.expect(429);
    assert!(!limited.header("retry-after").is_empty());
    assert_eq!(two_factor_secrets::Entity::find().count(server.backend.database.read()).await.expect("a number"), 0);
    // Others cannot lock the user out in this way.
    assert_eq!(Browser::new(&server).sign_in("ada", PASSWORD, &[]).await.status, 303);
    server.root().post(&format!("/users/{}/unlock", ada.id), json!({})).await.expect(201);
    start(&ada, PASSWORD).await.expect(201);
    let bob = server.create_user("bob").await;
    let rejected = start(&bob, "").await.expect(400);
    assert!(rejected.text().contains("current_password"), "{}", rejected.text());
    let rejected = start(&bob, PASSWORD).await.expect(400);
    assert!(rejected.message().contains("the user has no password"), "{}", rejected.message());
    let readers = server.create_user_with_scopes("eve", &["read_api"]).await;
    start(&readers, PASSWORD).await.expect(403);
    readers.client.get("/user/two_factor").await.expect(200);
    server.anonymous().get("/user/two_factor").await.expect(401);
}

async fn confirmation_requires_current_setup(server: TestServer) {
    let ada = user(&server, "ada").await;
    let missing = ada.client.post("/user/two_factor/confirm", json!({ "code": "123456" })).await.expect(400);
    assert!(missing.message().contains("No setup"), "{}", missing.message());
    let discarded = start_setup(&ada.client).await;
    let app = start_setup(&ada.client).await;
    for code in [discarded.code(), app.code_at(3), app.code_at(-3), String::new(), "12345".to_owned(), "é".to_owned()]
    {
        assert_eq!(send_code(&ada, "/confirm", &code).await, 400, "{code}");
    }
    two_factor_secrets::Entity::update_many()
        .col_expr(two_factor_secrets::Column::CreatedAt, Expr::value(now() - TimeDelta::hours(1)))
        .exec(server.backend.database.write())
        .await
        .expect("an update");
    let expired = ada.client.post("/user/two_factor/confirm", json!({ "code": app.code() })).await.expect(400);
    assert!(expired.message().contains("No setup"), "{}", expired.message());
    assert_eq!(ada.client.get("/user").await.json()["two_factor_enabled"], false);
}

async fn recovery_codes_are_accepted_once_and_replaced(server: TestServer) {
    let (ada, factor) = server.create_user_with_second_factor("ada").await;
    let (bob, _) = server.create_user_with_second_factor("bob").await;
    // Codes of other users have no effect.
    assert_eq!(send_code(&bob, "/recovery_codes", &factor.recovery_codes[0]).await, 400);
    let typed = factor.recovery_codes[0].replace('-', " ").to_uppercase();
    let replaced = ada.client.post("/user/two_factor/recovery_codes", json!({ "code": typed })).await.expect(201);
    let codes = recovery_codes(&replaced);
    assert!(codes.len() == 10 && codes.iter().all(|code| !factor.recovery_codes.contains(code)), "{codes:?}");
    for former in &factor.recovery_codes[..2] {
        assert_eq!(send_code(&ada, "/recovery_codes", former).await, 400);
    }
    let mut browser = Browser::new(&server);
    sign_in::both_steps(&mut browser, "ada", &codes[0]).await;
    assert_eq!(ada.client.get("/user/two_factor").await.json()["recovery_codes_left"], 9);
    let rejected = disable(&ada.client, json!({ "code": codes[0] })).await.expect(400);
    assert_eq!(rejected.json()["message"]["code"], json!(["is wrong, expired or was used before"]));
    disable(&ada.client, json!({ "code": codes[1] })).await.expect(204);
    assert_eq!(ada.client.get("/user").await.json()["two_factor_enabled"], false);
    let left = code_rows::Entity::find().count(server.backend.database.read()).await.expect("a number");
    assert_eq!(left, 10, "the codes of the other user");
}

async fn disabling_requires_code_and_ends_sessions(server: TestServer) {
    let (ada, factor) = server.create_user_with_second_factor("ada").await;
    let mut browser = Browser::new(&server);
    sign_in::both_steps(&mut browser, "ada", &factor.recovery_codes[0]).await;
    for body in
        [json!({}), json!({ "code": "000000a" }), json!({ "code": PASSWORD }), json!({ "code": "x".repeat(65) })]
    {
        disable(&ada.client, body).await.expect(400);
    }
    assert_eq!(browser.get("/api/v4/user").await.status, 200);
    disable(&ada.client, json!({ "code": factor.app.code() })).await.expect(204);
    assert_eq!(browser.get("/api/v4/user").await.status, 401);
    assert_eq!(Browser::new(&server).sign_in("ada", PASSWORD, &[]).await.headers["location"], "/docs");
    let rejected = disable(&ada.client, json!({ "code": factor.app.code() })).await.expect(400);
    assert!(rejected.message().contains("is not enabled for this user"), "{}", rejected.message());
}

async fn wrong_codes_of_signed_in_user_are_limited(server: TestServer) {
    let (ada, factor) = server.create_user_with_second_factor("ada").await;
    for _ in 0..10 {
        assert_eq!(send_code(&ada, "/recovery_codes", "000000x").await, 400);
    }
    disable(&ada.client, json!({ "code": factor.app.code() })).await.expect(429);
    disable(&ada.client, json!({ "code": factor.recovery_codes[0] })).await.expect(429);
    assert_eq!(ada.client.get("/user").await.json()["two_factor_enabled"], true);
    // A client with a stolen token cannot lock the user out.
    sign_in::both_steps(&mut Browser::new(&server), "ada", &factor.app.code()).await;
    disable(&ada.client, json!({ "code": factor.recovery_codes[1] })).await.expect(429);
    server.root().post(&format!("/users/{}/unlock", ada.id), json!({})).await.expect(201);
    disable(&ada.client, json!({ "code": factor.recovery_codes[1] })).await.expect(204);
}

async fn administrator_disables_second_factor_of_user(server: TestServer) {
    let (ada, factor) = server.create_user_with_second_factor("ada").await;
    let (root, bob) = (server.root(), user(&server, "bob").await);
    let mut browser = Browser::new(&server);
    sign_in::both_steps(&mut browser, "ada", &factor.app.code()).await;
    let patch = async |client: &Client, id: i64| {
        let path = format!("/users/{id}/disable_two_factor");
        client.send(client.request(Method::PATCH, &path)).await
    };
    assert_eq!(patch(&server.anonymous(), ada.id).await.status, 401);
    assert_eq!(patch(&bob.client, ada.id).await.status, 403);
    assert_eq!(patch(&ada.client, ada.id).await.status, 403);
    assert_eq!(patch(&root, 999_999).await.status, 404);
    let rejected = patch(&root, bob.id).await.expect(400);
    assert!(rejected.message().contains("is not enabled for this user"), "{}", rejected.message());
    assert_eq!(browser.get("/api/v4/user").await.status, 200);
    patch(&root, ada.id).await.expect(204);
    assert_eq!(browser.get("/api/v4/user").await.status, 401);
    assert_eq!(ada.client.get("/user").await.expect(200).json()["two_factor_enabled"], false);
    assert_eq!(Browser::new(&server).sign_in("ada", PASSWORD, &[]).await.headers["location"], "/docs");
    // Administrators are reset on the command line.
    server.enable_second_factor(&bob).await;
    root.put(&format!("/users/{}", bob.id), json!({ "admin": true })).await.expect(200);
    let rejected = patch(&root, bob.id).await.expect(403);
    assert!(rejected.message().contains("admin disable-two-factor"), "{}", rejected.message());
    assert_eq!(bob.client.get("/user").await.json()["two_factor_enabled"], true);
}

async fn second_factor_secrets_are_stored_encrypted(server: TestServer) {
    let ada = user(&server, "ada").await;
    let body = json!({ "current_password": PASSWORD });
    let setup = ada.client.post("/user/two_factor", body).await.expect(201).json();
    let secret = setup["secret"].as_str().expect("a secret").to_owned();
    let app = Authenticator::new(&secret);
    let confirmed = ada.client.post("/user/two_factor/confirm", json!({ "code": app.code() })).await.expect(201);
    let codes = recovery_codes(&confirmed);
    let mut browser = Browser::new(&server);
    browser.sign_in("ada", PASSWORD, &[]).await;
    let pending = browser.cookies.iter().find(|(name, _)| name == "_service_pending_sign_in").expect("a cookie");
    let stored = dump_database(&server).await;
    assert!(stored.contains("ada@example.com"));
    let plain = codes.iter().flat_map(|code| [code.clone(), code.replace('-', "")]);
    for secret in plain.chain([secret, pending.1.clone()]) {
        assert!(!stored.contains(&secret), "{secret}");
        assert!(!stored.to_lowercase().contains(&hex::encode(&secret)), "{secret}");
    }
    // An encrypted secret is bound to its user.
    let bob = user(&server, "bob").await;
    let row =
        two_factor_secrets::of_user(server.backend.database.read(), ada.id).await.expect("a read").expect("a row");
    let moved = server.backend.keyring.decrypt(&row.secret_encrypted, &format!("two_factor_secrets.secret:{}", bob.id));
    assert!(moved.is_err());
    server.root().delete(&format!("/users/{}", ada.id)).await.expect(204);
    let left = two_factor_secrets::Entity::find().count(server.backend.database.read()).await.expect("a number");
    assert_eq!(left, 0);
}

on_every_database![
    second_factor_is_enabled_by_code_of_app,
    setup_requires_current_password,
    confirmation_requires_current_setup,
    recovery_codes_are_accepted_once_and_replaced,
    disabling_requires_code_and_ends_sessions,
    wrong_codes_of_signed_in_user_are_limited,
    administrator_disables_second_factor_of_user,
    second_factor_secrets_are_stored_encrypted,
];
