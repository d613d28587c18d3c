//! Known addresses, at which strangers cannot lock a user out, and unlocking by administrators.

use chrono::TimeDelta;
use reqwest::StatusCode;
use sea_orm::sea_query::Expr;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::json;
use storage::entities::{Visibility, known_addresses, now, sign_in_failures};

use super::ada;
use super::limits::{ALLOWED, client_at, fetch_refs, guess_from_many_addresses, sign_in_at};
use crate::registry::registry_protocol::basic;
use crate::support::browser::Browser;
use crate::support::users::PASSWORD;
use crate::support::{TestServer, on_every_database};

/// Requests a registry token from an address. Returns the status and the seconds to wait.
async fn request_registry_token(
    server: &TestServer,
    address: &str,
    name: &str,
    password: &str,
) -> (u16, Option<String>) {
    let request = client_at(address).get(format!("{}/jwt/auth?service=container_registry", server.base));
    let response = request.header("Authorization", basic(name, password)).send().await.expect("a response");
    let wait = response.headers().get("retry-after").map(|value| value.to_str().expect("text").to_owned());
    (response.status().as_u16(), wait)
}

async fn known_rows(server: &TestServer) -> Vec<known_addresses::Model> {
    known_addresses::Entity::find().all(server.backend.database.read()).await.expect("rows")
}

async fn failures(server: &TestServer) -> u64 {
    sign_in_failures::Entity::find().count(server.backend.database.read()).await.expect("a number")
}

async fn strangers_do_not_lock_user_out_at_known_address(server: TestServer) {
    ada(&server).await;
    server.insert_project_at("g/p", Visibility::Public).await;
    assert_eq!(sign_in_at(&server, "127.0.0.40", "ada", PASSWORD).await, 303);
    guess_from_many_addresses(&server, "ada", 10).await;
    // An address that is known from one way to sign in is known for all of them.
    assert_eq!(sign_in_at(&server, "127.0.0.40", "ada", PASSWORD).await, 303);
    assert_eq!(fetch_refs(&client_at("127.0.0.40"), &server.base, "ada", PASSWORD).await.0, 200);
    assert_eq!(request_registry_token(&server, "127.0.0.40", "ada", PASSWORD).await.0, 200);
    assert_eq!(sign_in_at(&server, "127.0.0.41", "ada", PASSWORD).await, 429);
    assert_eq!(fetch_refs(&client_at("127.0.0.41"), &server.base, "ada", PASSWORD).await.0, 429);
    let (status, wait) = request_registry_token(&server, "127.0.0.41", "ada", PASSWORD).await;
    assert!(status == 429 && wait.is_some(), "{status} {wait:?}");
    // The address is known for this user only.
    server.create_user("bob").await;
    guess_from_many_addresses(&server, "bob", 20).await;
    assert_eq!(sign_in_at(&server, "127.0.0.40", "bob", "wrong password").await, 429);
    // Guesses at the known address itself are limited.
    for _ in 0..ALLOWED {
        assert_eq!(sign_in_at(&server, "127.0.0.40", "ada", "wrong password").await, 422);
    }
    assert_eq!(sign_in_at(&server, "127.0.0.40", "ada", PASSWORD).await, 429);
}

async fn git_and_registry_passwords_make_address_known(server: TestServer) {
    ada(&server).await;
    server.insert_project_at("g/p", Visibility::Public).await;
    assert_eq!(fetch_refs(&client_at("127.0.0.40"), &server.base, "ada", PASSWORD).await.0, 200);
    assert_eq!(request_registry_token(&server, "127.0.0.41", "ada", PASSWORD).await.0, 200);
    assert_eq!(known_rows(&server).await.len(), 2);
    guess_from_many_addresses(&server, "ada", 10).await;
    assert_eq!(sign_in_at(&server, "127.0.0.40", "ada", PASSWORD).await, 303);
    assert_eq!(sign_in_at(&server, "127.0.0.41", "ada", PASSWORD).await, 303);
    assert_eq!(sign_in_at(&server, "127.0.0.42", "ada", PASSWORD).await, 429);
}

async fn failed_and_refused_attempts_do_not_make_address_known(server: TestServer) {
    let ada = ada(&server).await;
    server.insert_project_at("g/p", Visibility::Public).await;
    let git = client_at("127.0.0.40");
    assert_eq!(sign_in_at(&server, "127.0.0.40", "ada", "wrong password").await, 422);
    assert_eq!(fetch_refs(&git, &server.base, "ada", "wrong").await.0, 401);
    server.root().post(&format!("/users/{}/block", ada.id), json!({})).await.expect(201);
    assert_eq!(sign_in_at(&server, "127.0.0.40", "ada", PASSWORD).await, 403);
    assert_eq!(fetch_refs(&git, &server.base, "ada", PASSWORD).await.0, 403);
    server.root().post(&format!("/users/{}/unblock", ada.id), json!({})).await.expect(201);
    server.root().put(&format!("/users/{}", ada.id), json!({ "password": "chosen for ada" })).await.expect(200);
    assert_eq!(sign_in_at(&server, "127.0.0.40", "ada", "chosen for ada").await, 422);
    assert_eq!(fetch_refs(&git, &server.base, "ada", "chosen for ada").await.0, 403);
    assert!(known_rows(&server).await.is_empty());
}

async fn known_address_expires_after_90_days_without_use(server: TestServer) {
    ada(&server).await;
    let age = async |days| {
        let used_at = Expr::value(now() - TimeDelta::days(days));
        let aged = known_addresses::Entity::update_many().col_expr(known_addresses::Column::UsedAt, used_at);
        aged.exec(server.backend.database.write()).await.expect("an update");
    };
    assert_eq!(sign_in_at(&server, "127.0.0.40", "ada", PASSWORD).await, 303);
    guess_from_many_addresses(&server, "ada", 10).await;
    age(89).await;
    assert_eq!(sign_in_at(&server, "127.0.0.40", "ada", PASSWORD).await, 303);
    assert!(known_rows(&server).await[0].used_at > now() - TimeDelta::days(1));
    age(90).await;
    assert_eq!(sign_in_at(&server, "127.0.0.40", "ada", PASSWORD).await, 429);
    // Expired rows of all users are deleted by the next sign-in of any user.
    let bob = server.create_user("bob").await;
    server.set_password(&bob).await;
    assert_eq!(sign_in_at(&server, "127.0.0.41", "bob", PASSWORD).await, 303);
    let rows = known_rows(&server).await;
    assert!(rows.len() == 1 && rows[0].user_id == bob.id, "{rows:?}");
}

async fn known_addresses_are_digests_and_at_most_10_for_each_user(server: TestServer) {
    let ada = ada(&server).await;
    for number in 0..12 {
        assert_eq!(sign_in_at(&server, &format!("127.0.0.{}", 40 + number), "ada", PASSWORD).await, 303);
    }
    let rows = known_rows(&server).await;
    assert_eq!(rows.len(), 10);
    for row in &rows {
        assert!(row.user_id == ada.id && row.digest.len() == 64, "{row:?}");
        assert_ne!(row.digest, domain::secrets::digest("127.0.0.51"));
    }
    guess_from_many_addresses(&server, "ada", 10).await;
    assert_eq!(sign_in_at(&server, "127.0.0.41", "ada", PASSWORD).await, 429);
    assert_eq!(sign_in_at(&server, "127.0.0.42", "ada", PASSWORD).await, 303);
}

async fn new_password_and_deletion_forget_known_addresses(server: TestServer) {
    let ada = ada(&server).await;
    let path = format!("/users/{}", ada.id);
    assert_eq!(sign_in_at(&server, "127.0.0.40", "ada", PASSWORD).await, 303);
    server.root().put(&path, json!({ "name": "Ada" })).await.expect(200);
    assert_eq!(known_rows(&server).await.len(), 1);
    server.root().put(&path, json!({ "password": "chosen for ada" })).await.expect(200);
    assert!(known_rows(&server).await.is_empty());
    let mut browser = Browser::new(&server);
    let response = browser.sign_in("ada", "chosen for ada", &[("new_password", "chosen by ada")]).await;
    assert_eq!(response.status, StatusCode::SEE_OTHER);
    assert_eq!(known_rows(&server).await.len(), 1);
    server.root().delete(&path).await.expect(204);
    assert!(known_rows(&server).await.is_empty());
}

async fn failures_of_one_address_are_counted_per_account_across_interfaces(server: TestServer) {
    ada(&server).await;
    server.create_user("bob").await;
    server.insert_project_at("g/p", Visibility::Public).await;
    let git = client_at("127.0.0.40");
    for _ in 0..ALLOWED / 2 {
        assert_eq!(fetch_refs(&git, &server.base, "ada", "wrong").await.0, 401);
        assert_eq!(sign_in_at(&server, "127.0.0.40", "ada", "wrong password").await, 422);
    }
    assert_eq!(fetch_refs(&git, &server.base, "ada", PASSWORD).await.0, 429);
    assert_eq!(sign_in_at(&server, "127.0.0.40", "ada", PASSWORD).await, 429);
    assert_eq!(sign_in_at(&server, "127.0.0.40", "bob", "wrong password").await, 422);
    assert_eq!(sign_in_at(&server, "127.0.0.41", "ada", PASSWORD).await, 303);
}

async fn rejected_and_expired_attempts_leave_no_rows(server: TestServer) {
    server.insert_project_at("g/p", Visibility::Public).await;
    let git = client_at("127.0.0.40");
    for number in 0..30 {
        let status = fetch_refs(&git, &server.base, &format!("user{number}"), "wrong").await.0;
        assert_eq!(status, if number < ALLOWED { 401 } else { 429 });
        let status = sign_in_at(&server, "127.0.0.40", &format!("user{number}"), "wrong password").await;
        assert_eq!(status, if number < ALLOWED { 422 } else { 429 });
    }
    // Each failure is counted for the login, and for the limit of audit events.
    assert_eq!(failures(&server).await, 4 * ALLOWED as u64);
    let failed_at = Expr::value(now() - TimeDelta::minutes(10));
    let aged = sign_in_failures::Entity::update_many().col_expr(sign_in_failures::Column::FailedAt, failed_at);
    aged.exec(server.backend.database.write()).await.expect("an update");
    assert_eq!(sign_in_at(&server, "127.0.0.41", "user1", "wrong password").await, 422);
    assert_eq!(failures(&server).await, 2);
}

async fn administrator_unlocks_user(server: TestServer) {
    let ada = ada(&server).await;
    let bob = server.create_user("bob").await;
    let (path, root) = (format!("/users/{}/unlock", ada.id), server.root());
    assert_eq!(root.post(&path, json!({})).await.expect(201).json(), json!(true));
    let locked = async || {
        let read = root.get(&format!("/users/{}", ada.id)).await.expect(200).json();
        let listed = root.get("/users?order_by=id&sort=asc").await.expect(200).pluck("locked");
        assert_eq!(listed, [json!(false), read["locked"].clone(), json!(false)]);
        read["locked"].clone()
    };
    assert_eq!(locked().await, false);
    for (login, block) in [("ada", 10), ("Ada@Example.com", 20)] {
        guess_from_many_addresses(&server, login, block).await;
        assert_eq!(locked().await, true);
        for client in [&ada.client, &bob.client] {
            assert_eq!(client.get(&format!("/users/{}", ada.id)).await.expect(200).json().get("locked"), None);
        }
        assert_eq!(sign_in_at(&server, "127.0.0.40", login, PASSWORD).await, 429);
        assert_eq!(root.post(&path, json!({})).await.expect(201).json(), json!(true));
        assert_eq!(locked().await, false);
        assert_eq!(sign_in_at(&server, "127.0.0.41", login, PASSWORD).await, 303);
    }
    // The user can also sign in at the address of the failures.
    for _ in 0..ALLOWED {
        assert_eq!(sign_in_at(&server, "127.0.0.42", "ada", "wrong password").await, 422);
    }
    assert_eq!(sign_in_at(&server, "127.0.0.42", "ada", PASSWORD).await, 429);
    root.post(&path, json!({})).await.expect(201);
    assert_eq!(sign_in_at(&server, "127.0.0.42", "ada", PASSWORD).await, 303);
    // Failures of other accounts still count.
    for _ in 0..ALLOWED {
        assert_eq!(sign_in_at(&server, "127.0.0.43", "bob", "wrong password").await, 422);
    }
    root.post(&path, json!({})).await.expect(201);
    assert_eq!(sign_in_at(&server, "127.0.0.43", "ada", PASSWORD).await, 429);
    assert_eq!(ada.client.post(&path, json!({})).await.status, 403);
    assert_eq!(bob.client.post(&path, json!({})).await.status, 403);
    assert_eq!(server.anonymous().post(&path, json!({})).await.status, 401);
    assert_eq!(root.post("/users/4711/unlock", json!({})).await.status, 404);
    assert_eq!(root.post("/users/x/unlock", json!({})).await.status, 400);
}

on_every_database![
    strangers_do_not_lock_user_out_at_known_address,
    git_and_registry_passwords_make_address_known,
    failed_and_refused_attempts_do_not_make_address_known,
    known_address_expires_after_90_days_without_use,
    known_addresses_are_digests_and_at_most_10_for_each_user,
    new_password_and_deletion_forget_known_addresses,
    failures_of_one_address_are_counted_per_account_across_interfaces,
    rejected_and_expired_attempts_leave_no_rows,
    administrator_unlocks_user,
];
