//! `holdfast admin jobs`, next to a running server.

use std::time::Duration;

use chrono::TimeDelta;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait};
use serde_json::{Value, json};
use storage::database::{Database, DatabaseOptions};
use storage::entities::{jobs, now};

use crate::support::Client;
use crate::support::process::{Site, TOKEN, on_every_site};

/// Inserts a failed job that is three days old.
pub async fn insert_failed(database: &Database, id: i64, kind: &str, error: &str) {
    let created = now() - TimeDelta::days(3);
    let row = jobs::ActiveModel {
        id: Set(id),
        kind: Set(kind.to_owned()),
        payload: Set("{\"project_id\":0,\"password\":\"never printed\"}".to_owned()),
        run_at: Set(created),
        attempts: Set(10),
        max_attempts: Set(10),
        last_error: Set(Some(error.to_owned())),
        dead_at: Set(Some(now())),
        created_at: Set(created),
        ..Default::default()
    };
    row.insert(database.write()).await.expect("a job");
}

async fn open(site: &Site) -> Database {
    Database::connect(&site.database_url(), &DatabaseOptions::default()).await.expect("a database")
}

async fn commands(site: &Site, arguments: &[&str]) -> String {
    site.succeeds(&[&["admin", "jobs"], arguments].concat()).await
}

async fn list(site: &Site, arguments: &[&str]) -> Vec<Value> {
    let output = commands(site, &[&["list", "--json"], arguments].concat()).await;
    serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"))
}

/// Returns the names and objects of the audit events of jobs, newest first.
async fn audited(root: &Client) -> Vec<(Value, Value, Value)> {
    let events = root.get("/audit_events?per_page=100").await.expect(200).json();
    let details = events.as_array().expect("events").iter().map(|event| event["details"].clone());
    details
        .filter(|details| details["target_type"] == "Job")
        .map(|details| {
            assert_eq!(details["author_name"], "Command line");
            (details["event_name"].clone(), details["target_id"].clone(), details["target_details"].clone())
        })
        .collect()
}

async fn failed_jobs_are_listed_without_payload(site: Site) {
    let server = site.serve(&["--no-worker"]).await;
    let database = open(&site).await;
    assert_eq!(list(&site, &[]).await, [Value::Null; 0]);
    insert_failed(&database, 7001, "deliver_webhook", "connect: refused\n\u{1b}[31mred").await;
    insert_failed(&database, 7002, "delete_user", "no luck").await;
    let jobs = list(&site, &[]).await;
    assert_eq!((&jobs[0]["id"], &jobs[1]["id"]), (&json!(7001), &json!(7002)));
    assert_eq!((&jobs[0]["attempts"], &jobs[0]["max_attempts"]), (&json!(10), &json!(10)));
    assert_eq!(jobs[0]["last_error"], "connect: refused\n\u{1b}[31mred");
    assert!(jobs[0]["age_seconds"].as_i64().is_some_and(|age| age >= 3 * 86_400));
    assert_eq!(list(&site, &["--kind", "delete_user"]).await, jobs[1..]);
    let table = commands(&site, &["list"]).await;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "ID    KIND             AGE  FAILED                ATTEMPTS  LAST ERROR");
    assert!(lines[1].starts_with("7001  deliver_webhook  3d   "), "{table}");
    assert!(lines[1].ends_with("Z  10/10     connect: refused\\n\\u{1b}[31mred"), "{table}");
    assert!(lines[2].starts_with("7002  delete_user      3d   ") && lines.len() == 3, "{table}");
    assert!(!table.contains("never printed") && !json!(jobs).to_string().contains("never printed"));
    database.close().await.expect("closing");
    server.stop().await;
}

/// The worker of the running server runs the job. Its project does not exist, so the job has nothing to do and succeeds.
async fn retried_job_runs_on_server(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let database = open(&site).await;
    insert_failed(&database, 7001, "maintain_repository", "no luck").await;
    let printed = commands(&site, &["retry", "7001"]).await;
    assert_eq!(printed, "Job 7001 (maintain_repository) was queued again.\n");
    // It ran if neither a waiting nor a failed job remains.
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        let rows = jobs::Entity::find().all(database.read()).await.expect("jobs");
        let found: Vec<_> = rows.into_iter().filter(|job| job.kind == "maintain_repository").collect();
        if found.is_empty() {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{found:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(audited(&root).await, [(json!("job_retried"), json!(7001), json!("maintain_repository"))]);
    database.close().await.expect("closing");
    server.stop().await;
}

async fn discarded_job_is_deleted(site: Site) {
    let server = site.serve(&["--no-worker"]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let database = open(&site).await;
    insert_failed(&database, 7001, "delete_user", "no luck").await;
    assert_eq!(commands(&site, &["discard", "7001"]).await, "Job 7001 (delete_user) was discarded.\n");
    assert_eq!(list(&site, &[]).await, [Value::Null; 0]);
    assert_eq!(audited(&root).await, [(json!("job_discarded"), json!(7001), json!("delete_user"))]);
    let output = site.fails(&["admin", "jobs", "discard", "7001"]).await;
    assert!(output.contains("job 7001 is not a failed job; list the failed jobs with"), "{output}");
    database.close().await.expect("closing");
    server.stop().await;
}

async fn several_and_all_jobs_are_changed(site: Site) {
    let server = site.serve(&["--no-worker"]).await;
    let database = open(&site).await;
    for id in 7001..=7006 {
        let kind = if id % 2 == 0 { "delete_user" } else { "deliver_webhook" };
        insert_failed(&database, id, kind, "no luck").await;
    }
    let printed = commands(&site, &["retry", "7001", "7002", "--json"]).await;
    let printed: Value = serde_json::from_str(&printed).expect("JSON");
    let message = "Job 7001 (deliver_webhook) was queued again. Job 7002 (delete_user) was queued again.";
    assert_eq!(printed, json!({ "changed": true, "message": message }));
    // The error names the jobs that were changed before it.
    let output = site.fails(&["admin", "jobs", "discard", "7003", "7002"]).await;
    assert!(output.contains("Job 7003 (deliver_webhook) was discarded. job 7002 is not a failed job"), "{output}");
    let printed = commands(&site, &["discard", "--all", "--kind", "deliver_webhook"]).await;
    assert_eq!(printed, "1 failed job was discarded.\n");
    assert_eq!(commands(&site, &["retry", "--all"]).await, "2 failed jobs were queued again.\n");
    assert_eq!(commands(&site, &["retry", "--all"]).await, "0 failed jobs were queued again.\n");
    for arguments in [&["retry"][..], &["retry", "1", "--all"], &["discard", "1", "--kind", "x"]] {
        let status = site.run(&[&["admin", "jobs"], arguments].concat()).await.status;
        assert_eq!(status.code(), Some(2), "{arguments:?}");
    }
    database.close().await.expect("closing");
    server.stop().await;
}

on_every_site![
    failed_jobs_are_listed_without_payload,
    retried_job_runs_on_server,
    discarded_job_is_deleted,
    several_and_all_jobs_are_changed,
];
