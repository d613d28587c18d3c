//! Deleting projects.

use std::time::Duration;

use domain::lifecycle::deletion::projects::delete_permanently;
use git::RepositoryId;
use holdfast::worker::registry;
use sea_orm::{ActiveValue::Set, EntityTrait, PaginatorTrait};
use serde_json::json;
use storage::entities::ref_updates::{self, RefUpdateKind, RefUpdateState};
use storage::entities::{AccessLevel, ci_jobs, events, issues, notes, now, pipelines};
use storage::jobs::{JobRunner, RunnerOptions};

use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

/// Sets a delay of seven days for deletions.
async fn with_delay(server: &TestServer) {
    let settings = json!({ "deletion_adjourned_period": 7 });
    server.root().put("/application/settings", settings).await.expect(200);
}

async fn deleted_project_is_hidden_at_once_and_removed_by_job(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({"initialize_with_readme": true, "tag_list": "a"})).await;
    let one = format!("/projects/{work}");
    let response = root.delete(&one).await.expect(202);
    assert_eq!(response.json(), json!({"message": "202 Accepted"}));
    root.get(&one).await.expect(404);
    root.delete(&one).await.expect(404);
    assert_eq!(root.get("/projects").await.expect(200).json(), json!([]));
    // The path is available only after the erasure.
    root.post("/projects", json!({"path": "work"})).await.expect(400);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let runner = JobRunner::new(server.backend.database.clone(), registry(&server.backend), RunnerOptions::default());
    let running = tokio::spawn(runner.run(async {
        let _ = stopped.await;
    }));
    let wait_for_path = async || {
        while root.post("/projects", json!({"path": "work"})).await.status != 201 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait_for_path()).await.expect("erased in time");
    let _ = stop.send(());
    running.await.expect("a clean end");
    assert!(!server.backend.repositories.exists(&RepositoryId::of_project(work)).await.expect("a look"));
}

async fn interrupted_project_deletion_is_completed_by_the_next_run(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({"initialize_with_readme": true})).await;
    let run = async || delete_permanently(&server.backend, work, None, None).await.expect("a run");
    let repository = RepositoryId::of_project(work);
    let repository_exists = async || server.backend.repositories.exists(&repository).await.expect("a look");
    // A project that was not deleted is not erased.
    run().await;
    assert!(repository_exists().await);
    root.delete(&format!("/projects/{work}")).await.expect(202);
    server.backend.repositories.remove(&repository).await.expect("a removal");
    run().await;
    run().await;
    assert!(!repository_exists().await);
    root.post("/projects", json!({"path": "work"})).await.expect(201);
}

async fn delayed_deletion_marks_project_until_the_date(server: TestServer) {
    let root = server.root();
    with_delay(&server).await;
    let work = project(&root, "work", json!({})).await;
    let one = format!("/projects/{work}");
    root.delete(&one).await.expect(202);
    root.delete(&one).await.expect(202);
    let read = root.get(&one).await.expect(200).json();
    let today = chrono::Utc::now().date_naive();
    assert_eq!(read["marked_for_deletion_on"], json!(today));
    assert_eq!(read["marked_for_deletion_at"], read["marked_for_deletion_on"]);
    let run = async |day| delete_permanently(&server.backend, work, Some(day), None).await;
    run(today.pred_opt().expect("a day")).await.expect("a run");
    root.get(&one).await.expect(200);
    run(today).await.expect("a run");
    root.get(&one).await.expect(404);
}

async fn delete_project_returns_412_if_modified_since(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let one = format!("/projects/{work}");
    let late = root.clone().header("If-Unmodified-Since", "Wed, 21 Oct 2015 07:28:00 GMT");
    late.delete(&one).await.expect(412);
    root.get(&one).await.expect(200);
    let soon = root.clone().header("If-Unmodified-Since", "Wed, 21 Oct 2099 07:28:00 GMT");
    soon.delete(&one).await.expect(202);
}

/// Adds 1,001 events, ref updates, pipelines, jobs of one pipeline, and notes on one issue.
async fn insert_many_rows(server: &TestServer, project_id: i64) {
    let db = server.backend.database.write();
    let rows = (0..1_001).map(|_| events::ActiveModel {
        project_id: Set(Some(project_id)),
        author_id: Set(Some(1)),
        action: Set(events::EventAction::Created),
        created_at: Set(now()),
        ..Default::default()
    });
    events::Entity::insert_many(rows).exec_without_returning(db).await.expect("events");
    let rows = (0..1_001).map(|_| ref_updates::ActiveModel {
        project_id: Set(project_id),
        kind: Set(RefUpdateKind::Push),
        changes: Set("[]".to_owned()),
        state: Set(RefUpdateState::Applied),
        created_at: Set(now()),
        ..Default::default()
    });
    ref_updates::Entity::insert_many(rows).exec_without_returning(db).await.expect("ref updates");
    let rows = (0..1_001).map(|_| pipelines::ActiveModel {
        project_id: Set(project_id),
        sha: Set("0".repeat(40)),
        ref_name: Set("main".to_owned()),
        tag: Set(false),
        source: Set(pipelines::PipelineSource::Api),
        status: Set(pipelines::PipelineStatus::Success),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    });
    pipelines::Entity::insert_many(rows).exec_without_returning(db).await.expect("pipelines");
    let pipeline = pipelines::Entity::find().one(db).await.expect("the database").expect("a pipeline");
    let rows = (0..1_001).map(|number| ci_jobs::ActiveModel {
        project_id: Set(project_id),
        pipeline_id: Set(pipeline.id),
        name: Set(format!("job {number}")),
        stage: Set("test".to_owned()),
        status: Set(pipelines::PipelineStatus::Success),
        allow_failure: Set(false),
        retried: Set(false),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    });
    ci_jobs::Entity::insert_many(rows).exec_without_returning(db).await.expect("jobs");
    let issue = server.insert_issue(project_id, 1, &[]).await;
    let rows = (0..1_001).map(|_| notes::ActiveModel {
        issue_id: Set(Some(issue.id)),
        author_id: Set(Some(1)),
        body: Set("x".to_owned()),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    });
    notes::Entity::insert_many(rows).exec_without_returning(db).await.expect("notes");
}

/// Returns the numbers of pipelines, jobs, issues and notes of all projects.
async fn counts(server: &TestServer) -> [u64; 4] {
    let db = server.backend.database.read();
    [
        pipelines::Entity::find().count(db).await.expect("a count"),
        ci_jobs::Entity::find().count(db).await.expect("a count"),
        issues::Entity::find().count(db).await.expect("a count"),
        notes::Entity::find().count(db).await.expect("a count"),
    ]
}

async fn rows_of_a_deleted_project_are_deleted_in_batches(server: TestServer) {
    let root = server.root();
    let other = project(&root, "other", json!({})).await;
    server.insert_issue(other, 1, &[]).await;
    let work = project(&root, "work", json!({})).await;
    insert_many_rows(&server, work).await;
    let max = server.create_user("max").await;
    server.insert_member(work, max.id, AccessLevel::Developer).await;
    assert_eq!(counts(&server).await, [1_001, 1_001, 2, 1_001]);
    let before = server.statements();
    root.delete(&format!("/projects/{work}")).await.expect(202);
    server.finish_jobs().await;
    let texts = server.statement_texts(before);
    for (table, expected) in [
        ("events", 2),
        ("ref_updates", 2),
        ("members", 1),
        ("pipelines", 2),
        ("ci_jobs", 2),
        ("issues", 1),
        ("notes", 2),
    ] {
        let deletion = format!("DELETE FROM \"{table}\" WHERE \"id\" IN");
        let deletions = texts.iter().filter(|text| text.starts_with(&deletion)).count();
        assert_eq!(deletions, expected, "{table}");
    }
    assert_eq!(counts(&server).await, [0, 0, 1, 0]);
    root.get(&format!("/projects/{other}/issues/1")).await.expect(200);
}

async fn repeatedly_killed_project_deletion_deletes_all_rows(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    insert_many_rows(&server, work).await;
    root.delete(&format!("/projects/{work}")).await.expect(202);
    // Each attempt gets further than the one before. The last one completes.
    let mut attempt = Duration::from_micros(50);
    while tokio::time::timeout(attempt, delete_permanently(&server.backend, work, None, None)).await.is_err() {
        attempt = attempt * 3 / 2;
        root.get(&format!("/projects/{work}")).await.expect(404);
    }
    server.finish_jobs().await;
    assert_eq!(counts(&server).await, [0; 4]);
    root.post("/projects", json!({"path": "work"})).await.expect(201);
}

on_every_database![
    deleted_project_is_hidden_at_once_and_removed_by_job,
    interrupted_project_deletion_is_completed_by_the_next_run,
    delayed_deletion_marks_project_until_the_date,
    delete_project_returns_412_if_modified_since,
    rows_of_a_deleted_project_are_deleted_in_batches,
    repeatedly_killed_project_deletion_deletes_all_rows,
];
