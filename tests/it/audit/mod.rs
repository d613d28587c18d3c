//! Audit events.

mod actors;
mod changes;
mod grants;
mod lists;
pub mod operations;
mod page;
mod retention;
mod scenario;
mod sign_in;
mod unchanged;

use domain::audit::{AuditDetails, AuditEntityType};
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::Value;
use storage::entities::audit_events::ActiveModel;
use storage::entities::now;

use crate::support::TestServer;

/// Inserts an audit event of an entity, and returns its ID.
pub async fn insert(server: &TestServer, entity_type: AuditEntityType, entity_id: i64) -> i64 {
    let details = AuditDetails { event_name: "inserted".to_owned(), ..AuditDetails::default() };
    let row = ActiveModel {
        author_id: Set(-1),
        entity_type: Set(entity_type),
        entity_id: Set(entity_id),
        event_name: Set("inserted".to_owned()),
        details: Set(serde_json::to_string(&details).expect("JSON")),
        created_at: Set(now()),
        ..Default::default()
    };
    row.insert(server.backend.database.write()).await.expect("an event").id
}

/// Returns the audit events of the instance, newest first, at most 100.
async fn events(server: &TestServer) -> Vec<Value> {
    let listed = server.root().get("/audit_events?per_page=100").await.expect(200).json();
    listed.as_array().expect("a list").clone()
}

/// Returns the newest audit event of a kind.
async fn newest(server: &TestServer, name: &str) -> Value {
    let found = events(server).await.into_iter().find(|event| event["details"]["event_name"] == name);
    found.unwrap_or_else(|| panic!("no event {name}"))
}

/// Returns the names of the events after this ID, oldest first.
async fn names_after(server: &TestServer, id: i64) -> Vec<String> {
    let listed = events(server).await.into_iter().rev();
    let later = listed.filter(|event| event["id"].as_i64().expect("an ID") > id);
    later.map(|event| event["details"]["event_name"].as_str().expect("a name").to_owned()).collect()
}

/// Returns the ID of the newest audit event.
async fn last_id(server: &TestServer) -> i64 {
    events(server).await[0]["id"].as_i64().expect("an ID")
}
