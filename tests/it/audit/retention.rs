//! Retention of audit events.

use chrono::TimeDelta;
use domain::audit::retention::sweep;
use sea_orm::{ActiveValue::Set, ConnectionTrait, DatabaseBackend, EntityTrait, PaginatorTrait};
use serde_json::json;
use storage::entities::audit_events::{ActiveModel, AuditEntityType, Entity};
use storage::entities::now;

use super::newest;
use crate::support::{TestServer, on_every_database};

/// Inserts events of this age.
async fn insert(server: &TestServer, days: i64, number: usize) {
    let row = || ActiveModel {
        author_id: Set(-1),
        entity_type: Set(AuditEntityType::Instance),
        entity_id: Set(1),
        event_name: Set("old".to_owned()),
        details: Set("{}".to_owned()),
        created_at: Set(now() - TimeDelta::days(days)),
        ..Default::default()
    };
    let rows = std::iter::repeat_with(row).take(number);
    Entity::insert_many(rows).exec_without_returning(server.backend.database.write()).await.expect("rows");
}

async fn sweep_deletes_only_events_past_their_retention(server: TestServer) {
    let count = async || Entity::find().count(server.backend.database.read()).await.expect("a number");
    server.root().put("/application/settings", json!({ "audit_event_retention_days": 30 })).await.expect(200);
    let own = count().await;
    insert(&server, 31, 1200).await;
    insert(&server, 29, 3).await;
    assert_eq!(sweep(&server.backend, 0).await.expect("a sweep"), 0);
    assert_eq!(sweep(&server.backend, u64::MAX).await.expect("a sweep"), 0);
    assert_eq!(count().await, own + 1203);
    assert_eq!(sweep(&server.backend, 30).await.expect("a sweep"), 1200);
    assert_eq!(count().await, own + 3);
    assert_eq!(sweep(&server.backend, 30).await.expect("a sweep"), 0);
}

async fn database_refuses_deletions_before_end_of_retention(server: TestServer) {
    let db = server.backend.database.write();
    insert(&server, 40, 1).await;
    insert(&server, 29, 1).await;
    let before = Entity::find().count(db).await.expect("a number");
    let refused = async |statement: &str| {
        let error = db.execute_unprepared(statement).await.expect_err("a refusal");
        let text = error.to_string();
        assert!(text.contains("audit events cannot be"), "{statement}: {text}");
    };
    refused("DELETE FROM audit_events").await;
    sweep(&server.backend, 20).await.expect_err("a refusal");
    server.root().put("/application/settings", json!({ "audit_event_retention_days": 30 })).await.expect(200);
    refused("DELETE FROM audit_events").await;
    sweep(&server.backend, 20).await.expect_err("a refusal");
    match server.backend.database.backend() {
        DatabaseBackend::Postgres => refused("TRUNCATE audit_events").await,
        _ => refused("INSERT OR REPLACE INTO audit_events SELECT * FROM audit_events").await,
    }
    // The change of the setting is an event.
    assert_eq!(Entity::find().count(db).await.expect("a number"), before + 1);
    assert_eq!(sweep(&server.backend, 30).await.expect("a sweep"), 1);
    assert_eq!(Entity::find().count(db).await.expect("a number"), before);
}

async fn retention_is_a_setting(server: TestServer) {
    let root = server.root();
    let settings = root.get("/application/settings").await.expect(200).json();
    assert_eq!(settings["audit_event_retention_days"], 0);
    for bad in [json!(-1), json!(36_501), json!("x")] {
        root.put("/application/settings", json!({ "audit_event_retention_days": bad })).await.expect(400);
    }
    let body = json!({ "audit_event_retention_days": 365 });
    let changed = root.put("/application/settings", body).await.expect(200).json();
    assert_eq!(changed["audit_event_retention_days"], 365);
    let details = newest(&server, "application_setting_changed").await["details"].clone();
    assert_eq!(details["change"], "audit_event_retention_days");
    assert_eq!((&details["from"], &details["to"]), (&json!("0"), &json!("365")));
}

on_every_database![
    sweep_deletes_only_events_past_their_retention,
    database_refuses_deletions_before_end_of_retention,
    retention_is_a_setting,
];
