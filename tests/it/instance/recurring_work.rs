//! Work that every server repeats.

use std::time::Duration;

use chrono::TimeDelta;
use domain::spaces::jobs::sweep_expired_access::SweepExpiredAccess;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, QueryOrder};
use serde_json::json;
use storage::entities::audit_events::{self, AuditEntityType};
use storage::entities::{now, project_uploads};
use storage::jobs::is_scheduled;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

/// Time limit of each step.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Inserts an audit event that is older than the retention time, and returns its ID.
async fn insert_old_event(server: &TestServer) -> i64 {
    server.root().put("/application/settings", json!({ "audit_event_retention_days": 30 })).await.expect(200);
    let row = audit_events::ActiveModel {
        author_id: Set(-1),
        entity_type: Set(AuditEntityType::Instance),
        entity_id: Set(1),
        event_name: Set("old".to_owned()),
        details: Set("{}".to_owned()),
        created_at: Set(now() - TimeDelta::days(31)),
        ..Default::default()
    };
    row.insert(server.backend.database.write()).await.expect("a row").id
}

async fn has_event(server: &TestServer, id: i64) -> bool {
    let found = audit_events::Entity::find_by_id(id).one(server.backend.database.read()).await;
    found.expect("a query").is_some()
}

async fn object_that_cannot_be_deleted_does_not_stop_other_work(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for name in ["stuck.txt", "abandoned.txt"] {
        let form = Form::new().part("file", Part::bytes(b"x".to_vec()).file_name(name));
        let path = format!("/projects/{id}/uploads");
        root.send(root.request(Method::POST, &path).multipart(form)).await.expect(201);
    }
    let db = server.backend.database.write();
    let uploads = project_uploads::Entity::find().order_by_asc(project_uploads::Column::Id);
    let uploads = uploads.all(db).await.expect("rows");
    for upload in &uploads {
        let row = project_uploads::ActiveModel {
            id: Set(upload.id),
            stored_at: Set(None),
            created_at: Set(upload.created_at - TimeDelta::days(2)),
            ..Default::default()
        };
        row.update(db).await.expect("a row");
    }
    let stuck = server.data().join(format!("objects/projects/{id}/uploads/{}", uploads[0].secret));
    std::fs::remove_file(&stuck).expect("an object");
    std::fs::create_dir(&stuck).expect("a directory");
    let event = insert_old_event(&server).await;

    let stop = CancellationToken::new();
    let running = tokio::spawn(holdfast::worker::recur(server.backend.clone(), stop.clone()));
    let done = async {
        while has_event(&server, event).await || !is_scheduled(db, &SweepExpiredAccess {}).await.expect("a query") {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TIME_LIMIT, done).await.expect("the work after the removal of uploads");
    stop.cancel();
    timeout(TIME_LIMIT, running).await.expect("an end").expect("no panic");
    let rest = project_uploads::Entity::find().all(db).await.expect("rows");
    assert_eq!(rest.iter().map(|row| row.id).collect::<Vec<_>>(), [uploads[0].id]);
}

on_every_database![object_that_cannot_be_deleted_does_not_stop_other_work];
