//! Deleting projects.

use git::RepositoryId;
use holdfast::worker::registry;
use serde_json::json;
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
    tokio::time::timeout(std::time::Duration::from_secs(30), wait_for_path()).await.expect("erased in time");
    let _ = stop.send(());
    running.await.expect("a clean end");
    assert!(!server.backend.repositories.exists(&RepositoryId::of_project(work)).await.expect("a look"));
}

async fn interrupted_project_deletion_is_completed_by_the_next_run(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({"initialize_with_readme": true})).await;
    let run = async || {
        domain::lifecycle::deletion::projects::delete_permanently(&server.backend, work, None, None)
            .await
            .expect("a run")
    };
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
    let run = async |day| {
        domain::lifecycle::deletion::projects::delete_permanently(&server.backend, work, Some(day), None).await
    };
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

on_every_database![
    deleted_project_is_hidden_at_once_and_removed_by_job,
    interrupted_project_deletion_is_completed_by_the_next_run,
    delayed_deletion_marks_project_until_the_date,
    delete_project_returns_412_if_modified_since,
];
