//! Audit events of sign-ins.

use serde_json::{Value, json};
use storage::entities::Visibility;

use super::{events, last_id, names_after, newest};
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
    assert_eq!(fetch("nobody", "wrong").await, 401);
    assert_eq!(newest(&server, "git_password_failed").await["entity_type"], "Instance");
    let last = last_id(&server).await;
    assert_eq!((fetch("ada", PASSWORD).await, fetch("ada", PASSWORD).await), (200, 200));
    // Once a day for an address.
    assert_eq!(names_after(&server, last).await, ["git_password_used"]);
}

on_every_database![
    sign_in_and_sign_out_are_recorded,
    failed_sign_in_does_not_store_login,
    second_factor_is_recorded,
    wrong_current_password_is_recorded,
    passwords_of_git_are_recorded,
];
