//! Rotations while servers run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use domain::secrets::EncryptedColumn;
use sea_orm::{ConnectionTrait, EntityTrait, PaginatorTrait, Statement};
use serde_json::{Value, json};
use storage::entities::{known_addresses, sign_in_failures};

use super::secrets::{Instance, PROJECT, Stored};
use crate::support::browser::Browser;
use crate::support::client::http;
use crate::support::process::{Process, Site, TOKEN, on_every_site};
use crate::support::users::PASSWORD;
use crate::support::{Client, DatabaseKind};

async fn rotation_encrypts_all_values_with_a_new_key(site: Site) {
    let log = site.sibling_path("log");
    let server = site.serve_logging(&log).await;
    let instance = Instance::with_server(site.clone(), server).await;
    let before = instance.values().await;
    for column in EncryptedColumn::all() {
        let found = before.keys().any(|(table, name, _)| (*table, *name) == (column.table(), column.column()));
        assert!(found, "{column:?} has no value");
    }
    let former = std::fs::read(site.data.join("secret.key")).unwrap();
    let printed = site.succeeds(&["admin", "rotate-key"]).await;
    for line in [
        "Added the key ",
        " is the current key.\n",
        "Encrypted 1 value of two_factor_secrets.secret_encrypted.\n",
        "Encrypted 3 values of ci_variables.value_encrypted.\n",
        "Removed former keys: 1.\n",
        &format!("Encrypted {} values with the new key.\n", before.len()),
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    let key = std::fs::read(site.data.join("secret.key")).unwrap();
    assert!(key.len() == 32 && key != former);
    instance.assert_rotated(&before).await;
    // The second factor works, and new values use the new key.
    let code = json!({ "code": instance.app.code() });
    instance.ada().post("/user/two_factor/recovery_codes", code).await.expect(201);
    let body = json!({ "key": "L", "value": "new" });
    instance.root().post(&format!("{PROJECT}/variables"), body).await.expect(201);
    let after = instance.values().await;
    assert!(after.values().all(|value| before.values().all(|former| former.key() != value.key())));
    let events = std::fs::read_to_string(&log).unwrap();
    assert_eq!(events.matches("adopted a new encryption key").count(), 1, "{events}");

    // The next rotation, and a start with its key.
    site.succeeds(&["admin", "rotate-key"]).await;
    instance.assert_rotated(&after).await;
    let Instance { server, database, .. } = instance;
    server.stop().await;
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    assert_eq!(root.get(&format!("{PROJECT}/variables/L")).await.expect(200).json()["value"], "new");
    server.stop().await;
    database.close().await.unwrap();
}

async fn rotation_loses_no_concurrent_writes(site: Site) {
    let instance = Instance::create(site.clone()).await;
    let stopped = Arc::new(AtomicBool::new(false));
    let progress: Arc<[AtomicUsize; 4]> = Arc::default();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (root, stopped, progress) = (instance.root(), Arc::clone(&stopped), Arc::clone(&progress));
            tokio::spawn(async move {
                let (mut written, mut number) = (Vec::new(), 0);
                while !stopped.load(Ordering::Relaxed) {
                    let key = format!("W{writer}_{}", number % 20);
                    let value = format!("value {number} of {writer}");
                    let (all, body) = (format!("{PROJECT}/variables"), json!({ "key": key, "value": value }));
                    match number < 20 {
                        true => root.post(&all, body).await.expect(201),
                        false => root.put(&format!("{all}/{key}"), json!({ "value": value })).await.expect(200),
                    };
                    let project = json!({ "name": format!("w{writer}-{number}") });
                    if number % 10 == 0 {
                        root.post("/projects", project).await.expect(201);
                    }
                    written.retain(|(known, _)| *known != key);
                    written.push((key, value));
                    number += 1;
                    progress[writer].store(number, Ordering::Relaxed);
                }
                written
            })
        })
        .collect();
    for round in 1..=3 {
        // Each writer creates and updates values between two rotations.
        while progress.iter().any(|number| number.load(Ordering::Relaxed) < round * 12) {
            assert!(!writers.iter().any(tokio::task::JoinHandle::is_finished), "a writer failed");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let printed = site.succeeds(&["admin", "rotate-key"]).await;
        assert!(printed.contains("Removed former keys: 1.\n"), "{printed}");
    }
    stopped.store(true, Ordering::Relaxed);
    for writer in writers {
        for (key, value) in writer.await.unwrap() {
            let found = instance.root().get(&format!("{PROJECT}/variables/{key}")).await.expect(200).json();
            assert_eq!(found["value"], value);
        }
    }
    let values = instance.values().await;
    instance.assert_rotated(&values).await;
    instance.stop().await;
}

/// Returns a registry token of the administrator.
async fn registry_token(base: &str) -> String {
    let url = format!("{base}/jwt/auth?service=container_registry&scope=repository:root/p:pull");
    let request = http().build().unwrap().get(url).basic_auth("root", Some(TOKEN));
    let response: Value = request.send().await.unwrap().json().await.unwrap();
    response["token"].as_str().expect("a token").to_owned()
}

async fn registry_status(server: &Process, token: &str) -> u16 {
    let request = http().build().unwrap().get(format!("{}/v2/", server.base)).bearer_auth(token);
    request.send().await.unwrap().status().as_u16()
}

async fn nodes_follow_a_rotation_and_reject_former_registry_tokens(site: Site) {
    let instance = Instance::create(site.clone()).await;
    let second = match site.kind {
        DatabaseKind::Sqlite => None,
        DatabaseKind::Postgresql(_) => Some(site.serve(&[]).await),
    };
    let nodes: Vec<&Process> = std::iter::once(&instance.server).chain(&second).collect();
    let token = registry_token(&instance.server.base).await;
    for node in &nodes {
        assert_eq!(registry_status(node, &token).await, 200);
    }
    // A rotation that stops after the new key became current.
    let rotation = domain::secrets::KeyFile::read(&site.data.join("secret.key")).unwrap().add_key().unwrap();
    let former = instance.fingerprint().await;
    let switch = async |transaction: &sea_orm::DatabaseTransaction| {
        storage::entities::instances::replace_key_fingerprint(transaction, &former, &rotation).await
    };
    assert!(instance.database.transaction(switch).await.unwrap());
    let switched = Instant::now();
    for node in &nodes {
        while registry_status(node, &token).await != 401 {
            assert!(switched.elapsed() < Duration::from_secs(1), "a former token is accepted");
        }
    }
    // A token of one node is valid on the others.
    for node in &nodes {
        let token = registry_token(&node.base).await;
        for other in &nodes {
            assert_eq!(registry_status(other, &token).await, 200);
        }
    }
    // Each node writes with the new key, and reads what the others wrote.
    for (number, node) in nodes.iter().enumerate() {
        let body = json!({ "key": format!("N{number}"), "value": format!("of node {number}") });
        let root = Client::new(&node.base, Some(TOKEN));
        root.post(&format!("{PROJECT}/variables"), body).await.expect(201);
    }
    let values = instance.values().await;
    let new: Vec<&Stored> = values.values().filter(|value| value.plain.starts_with("of node")).collect();
    assert!(new.len() == nodes.len() && new.iter().all(|value| value.key() == new[0].key()));
    for node in &nodes {
        let root = Client::new(&node.base, Some(TOKEN));
        let listed = root.get(&format!("{PROJECT}/variables")).await.expect(200).pluck("value");
        assert!((0..nodes.len()).all(|number| listed.contains(&format!("of node {number}").into())), "{listed:?}");
    }
    let printed = site.succeeds(&["admin", "rotate-key"]).await;
    assert!(printed.contains("Continuing the rotation") && !printed.contains("Added the key"), "{printed}");
    instance.assert_rotated(&values).await;
    if let Some(second) = second {
        let root = Client::new(&second.base, Some(TOKEN));
        root.get(&format!("{PROJECT}/variables")).await.expect(200);
        second.stop().await;
    }
    instance.stop().await;
}

async fn sessions_end_only_on_request_and_digests_are_deleted(site: Site) {
    let instance = Instance::create(site.clone()).await;
    let arguments = ["admin", "disable-two-factor", "curie"];
    site.succeeds(&arguments).await;
    let http = http().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let mut browser = Browser { http, base: instance.server.base.clone(), cookies: Vec::new() };
    // The token of the form is no secret of the key: it stays valid during a rotation.
    let page = browser.get("/users/sign_in").await;
    browser.sign_in("curie", "wrong", &[]).await;
    let form = crate::support::browser::token(&page);
    site.succeeds(&["admin", "rotate-key"]).await;
    assert_eq!(sign_in_failures::Entity::find().count(instance.database.read()).await.unwrap(), 0);
    let pairs = [("authenticity_token", form.as_str()), ("login", "curie"), ("password", PASSWORD)];
    assert_eq!(browser.post("/users/sign_in", &pairs).await.status, 303);
    assert_eq!(browser.get("/api/v4/user").await.status, 200);
    assert_eq!(known_addresses::Entity::find().count(instance.database.read()).await.unwrap(), 1);
    site.succeeds(&["admin", "rotate-key"]).await;
    assert_eq!(known_addresses::Entity::find().count(instance.database.read()).await.unwrap(), 0);
    assert_eq!(browser.get("/api/v4/user").await.status, 200);
    let printed = site.succeeds(&["admin", "rotate-key", "--end-sessions"]).await;
    assert!(printed.contains("Ended sessions: 1.\n"), "{printed}");
    let events = instance.root().get("/audit_events?per_page=100").await.expect(200).json();
    let events = events.as_array().unwrap();
    let ended = events.iter().find(|event| event["details"]["event_name"] == "sessions_ended").expect("an event");
    assert_eq!((&ended["author_id"], &ended["details"]["from"]), (&json!(-1), &json!("1 sessions")));
    assert_eq!(browser.get("/api/v4/user").await.status, 401);
    assert_eq!(browser.sign_in("curie", PASSWORD, &[]).await.status, 303);
    instance.stop().await;
}

/// Returns the columns of the schema whose names end with `_encrypted`.
async fn encrypted_columns(instance: &Instance) -> Vec<(String, String)> {
    let database = &instance.database;
    let sql = match instance.site.kind {
        DatabaseKind::Sqlite => {
            "SELECT m.name AS of_table, c.name AS of_column FROM sqlite_master m, pragma_table_info(m.name) c \
             WHERE m.type = 'table' AND c.name LIKE '%encrypted%' ORDER BY 1, 2"
        }
        DatabaseKind::Postgresql(_) => {
            "SELECT table_name::text AS of_table, column_name::text AS of_column FROM information_schema.columns \
             WHERE table_schema = current_schema() AND column_name LIKE '%encrypted%' ORDER BY 1, 2"
        }
    };
    let rows = database.read().query_all_raw(Statement::from_string(database.backend(), sql)).await.unwrap();
    let text = |row: &sea_orm::QueryResult, name: &str| row.try_get::<String>("", name).unwrap();
    rows.iter().map(|row| (text(row, "of_table"), text(row, "of_column"))).collect()
}

async fn list_of_encrypted_columns_matches_the_schema(site: Site) {
    let instance = Instance::create(site).await;
    let listed = EncryptedColumn::all().map(|column| (column.table().to_owned(), column.column().to_owned()));
    let mut listed: Vec<(String, String)> = listed.collect();
    listed.sort();
    assert_eq!(encrypted_columns(&instance).await, listed);
    let contexts: std::collections::BTreeSet<String> = EncryptedColumn::all()
        .map(|column| {
            let key: Vec<&dyn std::fmt::Display> = column.key().iter().map(|_| &7 as &dyn std::fmt::Display).collect();
            column.context(&key).as_ref().to_owned()
        })
        .collect();
    assert_eq!(contexts.len(), listed.len(), "{contexts:?}");
    instance.stop().await;
}

on_every_site![
    rotation_encrypts_all_values_with_a_new_key,
    rotation_loses_no_concurrent_writes,
    nodes_follow_a_rotation_and_reject_former_registry_tokens,
    sessions_end_only_on_request_and_digests_are_deleted,
    list_of_encrypted_columns_matches_the_schema,
];
