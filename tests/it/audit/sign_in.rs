//! Audit events of sign-ins.

use reqwest::header::RETRY_AFTER;
use sea_orm::{ActiveModelTrait, ActiveValue::NotSet, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter};
use serde_json::{Value, json};
use storage::entities::{Visibility, sign_in_failures};

use super::{events, last_id, names_after, newest};
use crate::identity::sign_in::limits::{client_at, fetch_refs};
use crate::support::browser::{Browser, token};
use crate::support::client::http;
use crate::support::users::{PASSWORD, TestUser};
use crate::support::{TestServer, on_every_database};

async fn ada(server: &TestServer) -> TestUser {
    let ada = server.create_user("ada").await;
    server.set_password(&ada).await;
    ada
}

async fn sign_in_and_sign_out_are_recorded(server: TestServer) {
    let ada = ada(&server).await;
    let mut browser = Browser::new(&server);
    assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 303);
    let event = newest(&server, "user_signed_in").await;
    assert_eq!((&event["author_id"], &event["entity_type"]), (&json!(ada.id), &json!("User")));
    assert_eq!(event["details"]["custom_message"], "signed_in");
    assert_eq!(event["details"]["ip_address"], "127.0.0.1");
    let csrf = browser.get("/-/session").await.json()["csrf_token"].as_str().expect("a token").to_owned();
    assert_eq!(browser.post("/users/sign_out", &[("authenticity_token", &csrf)]).await.status, 303);
    assert_eq!(newest(&server, "user_signed_out").await["author_id"], json!(ada.id));
}

async fn failed_sign_in_does_not_store_login(server: TestServer) {
    let ada = ada(&server).await;
    let mut browser = Browser::new(&server);
    assert_eq!(browser.sign_in("ada", "wrong password", &[]).await.status, 422);
    let known = newest(&server, "sign_in_failed").await;
    assert_eq!((&known["author_id"], &known["entity_id"]), (&json!(-1), &json!(ada.id)));
    assert_eq!(known["details"]["author_name"], "Unauthenticated");
    assert_eq!(known["details"]["ip_address"], "127.0.0.1");
    assert_eq!(browser.sign_in("hunter2-typed-as-name", "wrong password", &[]).await.status, 422);
    let unknown = newest(&server, "sign_in_failed").await;
    assert_eq!((&unknown["entity_type"], &unknown["entity_id"]), (&json!("Instance"), &json!(1)));
    let all = Value::from(events(&server).await).to_string();
    assert!(!all.contains("hunter2") && !all.contains("wrong password"), "{all}");
    server.root().post(&format!("/users/{}/block", ada.id), json!({})).await.expect(201);
    assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 403);
    assert_eq!(newest(&server, "sign_in_refused").await["details"]["to"], "blocked");
}

async fn second_factor_is_recorded(server: TestServer) {
    let (ada, factor) = server.create_user_with_second_factor("ada").await;
    assert_eq!(newest(&server, "two_factor_enabled").await["author_id"], json!(ada.id));
    let mut browser = Browser::new(&server);
    browser.sign_in("ada", PASSWORD, &[]).await;
    // Recorded even if no code follows.
    let required = newest(&server, "second_factor_required").await;
    assert_eq!((&required["author_id"], &required["entity_id"]), (&json!(-1), &json!(ada.id)));
    assert_eq!(required["details"]["ip_address"], "127.0.0.1");
    let page = browser.get("/users/sign_in/code").await;
    let wrong = [("code", "000000"), ("authenticity_token", &token(&page))];
    assert_eq!(browser.post("/users/sign_in/code", &wrong).await.status, 422);
    let failed = newest(&server, "second_factor_failed").await;
    assert_eq!((&failed["author_id"], &failed["entity_id"]), (&json!(-1), &json!(ada.id)));
    let page = browser.get("/users/sign_in/code").await;
    let right = [("code", factor.recovery_codes[0].as_str()), ("authenticity_token", &token(&page))];
    assert_eq!(browser.post("/users/sign_in/code", &right).await.status, 303);
    let event = newest(&server, "user_signed_in").await;
    assert_eq!(event["details"]["custom_message"], "signed_in_with_second_factor");
    let last = last_id(&server).await;
    let path = "/user/two_factor/recovery_codes";
    ada.client.post(path, json!({ "code": "000000" })).await.expect(400);
    assert_eq!(newest(&server, "second_factor_failed").await["author_id"], json!(ada.id));
    assert_eq!(names_after(&server, last).await, ["second_factor_failed"]);
}

async fn wrong_current_password_is_recorded(server: TestServer) {
    let ada = ada(&server).await;
    ada.client.post("/user/two_factor", json!({ "current_password": "wrong" })).await.expect(400);
    assert_eq!(newest(&server, "current_password_failed").await["author_id"], json!(ada.id));
}

async fn passwords_of_git_are_recorded(server: TestServer) {
    let ada = ada(&server).await;
    server.insert_project_at("g/p", Visibility::Public).await;
    let url = format!("{}/g/p.git/info/refs?service=git-upload-pack", server.base);
    let http = http().build().expect("a client");
    let fetch = async |name: &str, password: &str| {
        let request = http.get(&url).basic_auth(name, Some(password));
        request.send().await.expect("a response").status().as_u16()
    };
    assert_eq!(fetch("ada", "wrong").await, 401);
    assert_eq!(newest(&server, "git_password_failed").await["entity_id"], json!(ada.id));
    assert_eq!(fetch("unknown", "wrong").await, 401);
    assert_eq!(newest(&server, "git_password_failed").await["entity_type"], "Instance");
    let last = last_id(&server).await;
    assert_eq!((fetch("ada", PASSWORD).await, fetch("ada", PASSWORD).await), (200, 200));
    // Once a day for an address.
    assert_eq!(names_after(&server, last).await, ["git_password_used"]);
}

/// Returns the number of events of a kind.
async fn count(server: &TestServer, name: &str) -> usize {
    events(server).await.iter().filter(|event| event["details"]["event_name"] == name).count()
}

async fn sign_ins_with_correct_password_are_limited(server: TestServer) {
    const ALLOWED: usize = 30;
    let ada = ada(&server).await;
    let root = server.root();
    let mut browser = Browser::new(&server);
    assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 303);
    root.post(&format!("/users/{}/block", ada.id), json!({})).await.expect(201);
    for _ in 1..ALLOWED {
        assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 403);
    }
    let refused = browser.sign_in("ada", PASSWORD, &[]).await;
    assert_eq!(refused.status, 429);
    let wait: u64 = refused.headers[RETRY_AFTER].to_str().expect("text").parse().expect("seconds");
    assert!((1..=601).contains(&wait), "{wait}");
    assert_eq!((count(&server, "user_signed_in").await, count(&server, "sign_in_refused").await), (1, ALLOWED - 1));
    // The limit is not revealed to clients without the password, and concerns only this user.
    assert_eq!(browser.sign_in("ada", "wrong password", &[]).await.status, 422);
    let bob = server.create_user("bob").await;
    server.set_password(&bob).await;
    assert_eq!(Browser::new(&server).sign_in("bob", PASSWORD, &[]).await.status, 303);
    root.post(&format!("/users/{}/unblock", ada.id), json!({})).await.expect(201);
    assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 429);
    root.post(&format!("/users/{}/unlock", ada.id), json!({})).await.expect(201);
    assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 303);
}

/// Adds counted events, as if there were `total` of the kind that was counted last.
async fn fill_counter(server: &TestServer, total: usize) {
    let db = server.backend.database.write();
    let counted = sign_in_failures::Entity::find().filter(sign_in_failures::Column::Address.is_null());
    let rows = counted.all(db).await.expect("rows");
    let last = rows.into_iter().max_by_key(|row| row.id).expect("a counted event");
    for _ in 1..total {
        let mut row = last.clone().into_active_model();
        row.id = NotSet;
        row.insert(db).await.expect("a row");
    }
}

async fn events_of_unknown_logins_are_limited(server: TestServer) {
    ada(&server).await;
    let mut browser = Browser::new(&server);
    assert_eq!(browser.sign_in("unknown-1", "wrong password", &[]).await.status, 422);
    fill_counter(&server, 499).await;
    let last = last_id(&server).await;
    for number in 2..5 {
        assert_eq!(browser.sign_in(&format!("unknown-{number}"), "wrong password", &[]).await.status, 422);
    }
    assert_eq!(names_after(&server, last).await, ["sign_in_failed"]);
    // Other events have their own limits.
    assert_eq!(browser.sign_in("ada", "wrong password", &[]).await.status, 422);
    assert_eq!(names_after(&server, last).await, ["sign_in_failed", "sign_in_failed"]);
}

async fn events_of_git_at_changing_addresses_are_limited(server: TestServer) {
    ada(&server).await;
    server.insert_project_at("g/p", Visibility::Public).await;
    let fetch = async |address: &str| fetch_refs(&client_at(address), &server.base, "ada", PASSWORD).await.0;
    assert_eq!(fetch("127.0.0.10").await, 200);
    fill_counter(&server, 99).await;
    let last = last_id(&server).await;
    for address in ["127.0.0.11", "127.0.0.12", "127.0.0.13"] {
        assert_eq!(fetch(address).await, 200);
    }
    assert_eq!(names_after(&server, last).await, ["git_password_used"]);
}

on_every_database![
    sign_ins_with_correct_password_are_limited,
    events_of_unknown_logins_are_limited,
    events_of_git_at_changing_addresses_are_limited,
    sign_in_and_sign_out_are_recorded,
    failed_sign_in_does_not_store_login,
    second_factor_is_recorded,
    wrong_current_password_is_recorded,
    passwords_of_git_are_recorded,
];
