//! Requests that change nothing, and changes at the same time as others.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use storage::entities::settings;

use super::scenario::KEY;
use super::{last_id, names_after, newest};
use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

/// Sends a change, the same change again, and another one. Checks that only the first and the last are recorded.
async fn repeat(server: &TestServer, path: &str, first: Value, other: Value, name: &str) {
    let root = server.root();
    let change = async |body: &Value| {
        let last = last_id(server).await;
        let status = match path.starts_with("/features/") {
            true => root.post(path, body.clone()).await.status,
            false => root.put(path, body.clone()).await.status,
        };
        assert!(status < 300, "{path}: {status}");
        names_after(server, last).await
    };
    assert_eq!(change(&first).await, [name], "{path} {first}");
    assert_eq!(change(&first).await, [""; 0], "{path} {first}");
    assert_eq!(change(&other).await, [name], "{path} {other}");
}

async fn repeated_changes_are_not_recorded(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    let engines = group(&root, "engines", json!({})).await;
    let created = async |path: String, body: Value| {
        let id = root.post(&path, body).await.expect(201).json()["id"].clone();
        format!("{path}/{id}")
    };

    let saml = format!("/groups/{engines}/saml");
    repeat(&server, &saml, json!({ "enabled": true }), json!({ "enabled": false }), "group_saml_changed").await;

    let key = created(format!("{work}/deploy_keys"), json!({ "title": "robot", "key": KEY })).await;
    let [can_push, title] = [json!({ "can_push": true }), json!({ "title": "android" })];
    repeat(&server, &key, can_push.clone(), title.clone(), "deploy_key_changed").await;
    root.put(&key, can_push).await.expect(200);

    let ada = server.create_user("ada").await.id;
    join(&root, &work, ada, 20).await;
    let member = format!("{work}/members/{ada}");
    let level = |level: u64| json!({ "access_level": level });
    repeat(&server, &member, level(30), level(40), "member_changed").await;

    let url = "https://ada:first-password@hooks.example.com/";
    let hook = created(format!("{work}/hooks"), json!({ "url": url })).await;
    let masked = root.get(&hook).await.expect(200).json()["url"].clone();
    for (first, other) in [
        (json!({ "url": url, "token": "one" }), json!({ "url": url, "token": "two" })),
        (json!({ "url": masked, "issues_events": true }), json!({ "url": masked, "issues_events": false })),
        (
            json!({ "url": "https://ada:second-password@hooks.example.com/" }),
            json!({ "url": "https://ada:third-password@hooks.example.com/" }),
        ),
    ] {
        repeat(&server, &hook, first, other, "webhook_changed").await;
    }

    let trigger = created(format!("{work}/triggers"), json!({ "description": "nightly" })).await;
    let [weekly, yearly] = ["weekly", "yearly"].map(|text| json!({ "description": text }));
    repeat(&server, &trigger, weekly, yearly, "pipeline_trigger_changed").await;

    root.post(&format!("{work}/variables"), json!({ "key": "K", "value": "one" })).await.expect(201);
    let variable = format!("{work}/variables/K");
    let [two, protected] = [json!({ "value": "two" }), json!({ "value": "two", "protected": true })];
    repeat(&server, &variable, two, protected, "variable_changed").await;

    let gate = "/features/gate";
    repeat(&server, gate, json!({ "value": true }), json!({ "value": 30 }), "feature_gate_changed").await;
    let of_user = |open: bool| json!({ "value": open, "user": "root" });
    repeat(&server, gate, of_user(true), of_user(false), "feature_gate_changed").await;
    // A new gate is a change, also if it is closed.
    repeat(&server, "/features/new", json!({ "value": false }), json!({ "value": true }), "feature_gate_changed").await;

    let setting = |days: u64| json!({ "deletion_adjourned_period": days });
    repeat(&server, "/application/settings", setting(5), setting(6), "application_setting_changed").await;
}

async fn concurrent_archiving_is_recorded_once(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    for (action, name) in [("archive", "project_archived"), ("unarchive", "project_unarchived")] {
        let last = last_id(&server).await;
        let path = format!("/projects/{work}/{action}");
        let responses = join_all((0..8).map(|_| root.post(&path, json!({})))).await;
        assert!(responses.iter().all(|response| response.status == 201), "{action}");
        assert_eq!(names_after(&server, last).await, [name]);
    }
}

async fn event_of_setting_has_the_value_that_was_replaced(server: TestServer) {
    let root = server.root();
    let database = &server.backend.database;
    let update = database
        .transaction(async |transaction| {
            settings::put(transaction, "default_projects_limit", "5").await?;
            let root = server.root();
            let body = json!({ "default_projects_limit": 7 });
            let update = tokio::spawn(async move { root.put("/application/settings", body).await.expect(200) });
            // The request must have begun, and waits for this transaction.
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert!(!update.is_finished());
            Ok::<_, domain::kernel::error::Error>(update)
        })
        .await
        .expect("a setting");
    update.await.expect("a response");
    let details = newest(&server, "application_setting_changed").await["details"].clone();
    let texts = ["change", "from", "to"].map(|field| details[field].clone());
    assert_eq!(texts, [json!("default_projects_limit"), json!("5"), json!("7")]);
    let settings = root.get("/application/settings").await.expect(200).json();
    assert_eq!(settings["default_projects_limit"], 7);
}

on_every_database![
    repeated_changes_are_not_recorded,
    concurrent_archiving_is_recorded_once,
    event_of_setting_has_the_value_that_was_replaced,
];
