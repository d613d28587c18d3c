//! Work that every server repeats.

use std::time::Duration;

use chrono::TimeDelta;
use domain::delivery::jobs::run_schedule::RunSchedule;
use domain::spaces::jobs::sweep_expired_access::SweepExpiredAccess;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseBackend, EntityTrait, QueryOrder};
use serde_json::json;
use storage::entities::audit_events::{self, AuditEntityType};
use storage::entities::{Visibility, now, pipeline_schedules, project_uploads};
use storage::jobs::is_scheduled;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::support::code::Project;
use crate::support::server::with_more_connections;
use crate::support::spaces::{id, project};
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
    let project_id = project(&root, "work", json!({})).await;
    for name in ["stuck.txt", "abandoned.txt"] {
        let form = Form::new().part("file", Part::bytes(b"x".to_vec()).file_name(name));
        let path = format!("/projects/{project_id}/uploads");
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
    let stuck = server.data().join(format!("objects/projects/{project_id}/uploads/{}", uploads[0].secret));
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

async fn stop_interrupts_sweep_and_schedules_run_during_sweep(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "work", Visibility::Private).await;
    let body = json!({ "description": "x", "ref": "main", "cron": "0 0 1 1 *" });
    let schedule = root.post(&format!("/projects/{}/pipeline_schedules", project.id), body).await.expect(201).json();
    let db = server.backend.database.write();
    let due = pipeline_schedules::ActiveModel {
        id: Set(id(&schedule)),
        next_run_at: Set(now() - TimeDelta::minutes(1)),
        ..Default::default()
    };
    due.update(db).await.expect("a schedule");
    let event = insert_old_event(&server).await;

    // The sweep waits for this transaction. With SQLite, all writers wait for it.
    let blocking = server.backend.database.begin().await.expect("a transaction");
    audit_events::Entity::delete_by_id(event).exec(&blocking).await.expect("a removal");
    let stop = CancellationToken::new();
    let running = tokio::spawn(holdfast::worker::recur(server.backend.clone(), stop.clone()));
    if server.backend.database.backend() == DatabaseBackend::Postgres {
        let job = RunSchedule { schedule_id: id(&schedule), next_run_at: None };
        let enqueued = async {
            while !is_scheduled(server.backend.database.read(), &job).await.expect("a query") {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(TIME_LIMIT, enqueued).await.expect("a job of the schedule");
    }
    // The sweep reaches the event. If it does not on a slow machine, another step waits or is interrupted.
    sleep(Duration::from_millis(500)).await;
    assert!(!running.is_finished());
    stop.cancel();
    timeout(Duration::from_secs(5), running).await.expect("an end during the sweep").expect("no panic");
    blocking.rollback().await.expect("a rollback");
    assert!(has_event(&server, event).await);
}

on_every_database![
    object_that_cannot_be_deleted_does_not_stop_other_work,
    // The open transaction and the sweep that waits for it use one connection each.
    stop_interrupts_sweep_and_schedules_run_during_sweep with with_more_connections(),
];
