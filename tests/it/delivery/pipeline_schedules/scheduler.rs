//! Runs of due schedules and of played schedules.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use domain::delivery::pipeline_schedules::{correct_times, enqueue_due, run_due};
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter, QueryOrder};
use serde_json::{Value, json};
use storage::entities::{
    AccessLevel, Visibility, jobs, pipeline_schedule_variables, pipeline_schedules as rows, pipelines,
};

use super::{schedule, time};
use crate::support::code::Project;
use crate::support::spaces::id;
use crate::support::{TestServer, on_every_database};

/// Sets the time since which a schedule is due.
async fn due_since(server: &TestServer, id: i64, instant: DateTime<Utc>) {
    let row = rows::ActiveModel { id: Set(id), next_run_at: Set(instant), ..Default::default() };
    row.update(server.backend.database.write()).await.expect("a change");
}

/// Enqueues due schedules, as every node does every few seconds, runs the jobs and returns the number of due schedules.
async fn tick(server: &TestServer) -> usize {
    let due = enqueue_due(&server.backend).await.expect("a look");
    server.finish_jobs().await;
    due
}

async fn all_pipelines(server: &TestServer) -> Vec<pipelines::Model> {
    let all = pipelines::Entity::find().order_by_asc(pipelines::Column::Id);
    all.all(server.backend.database.read()).await.expect("pipelines")
}

fn minutes_ago(count: i64) -> DateTime<Utc> {
    storage::entities::now() - TimeDelta::minutes(count)
}

async fn time_from_before_clock_was_set_back_is_corrected(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "due", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let number = schedule(&root, &project_path).await;
    let one = format!("{project_path}/pipeline_schedules/{number}");
    let before = root.get(&one).await.expect(200).json();
    assert_eq!(correct_times(&server.backend).await.expect("a correction"), 0);
    let later = time(&before["next_run_at"]) + TimeDelta::days(365);
    due_since(&server, number, later).await;
    assert_eq!(correct_times(&server.backend).await.expect("a correction"), 1);
    assert_eq!(root.get(&one).await.expect(200).json()["next_run_at"], before["next_run_at"]);
}

async fn run_whose_time_is_repeated_after_clock_was_set_back_is_skipped(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "repeated", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let number = schedule(&root, &project_path).await;
    let one = format!("{project_path}/pipeline_schedules/{number}");
    let before = root.get(&one).await.expect(200).json();
    let instant = minutes_ago(3);
    for _ in 0..2 {
        due_since(&server, number, instant).await;
        run_due(&server.backend, number).await.expect("a run");
        assert_eq!(all_pipelines(&server).await.len(), 1);
        assert_eq!(root.get(&one).await.expect(200).json()["next_run_at"], before["next_run_at"]);
    }
}

async fn due_schedule_creates_one_pipeline_with_its_variables(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "due", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let number = schedule(&root, &project_path).await;
    let one = format!("{project_path}/pipeline_schedules/{number}");
    for (key, kind) in [("A", "env_var"), ("B", "file")] {
        let body = json!({ "key": key, "value": "x", "variable_type": kind });
        root.post(&format!("{one}/variables"), body).await.expect(201);
    }
    let before = root.get(&one).await.expect(200).json();
    assert_eq!(tick(&server).await, 0);
    assert_eq!(all_pipelines(&server).await, []);
    due_since(&server, number, minutes_ago(7)).await;
    assert_eq!(tick(&server).await, 1);
    assert_eq!(tick(&server).await, 0);
    let after = root.get(&one).await.expect(200).json();
    // Missed runs are combined into one, and the next run is in the future.
    assert_eq!(after["next_run_at"], before["next_run_at"]);
    let created = root.get(&format!("{project_path}/pipelines")).await.expect(200).json();
    assert_eq!((&after["last_pipeline"], created.as_array().map(Vec::len)), (&created[0], Some(1)));
    assert_eq!((&created[0]["sha"], &created[0]["ref"]), (&json!(project.id("main")), &json!("main")));
    let variables =
        root.get(&format!("{project_path}/pipelines/{}/variables", created[0]["id"])).await.expect(200).json();
    assert_eq!(variables, after["variables"]);
    // An inactive schedule does not run, even if it is overdue.
    root.put(&one, json!({ "active": false })).await.expect(200);
    due_since(&server, number, minutes_ago(7)).await;
    assert_eq!(tick(&server).await, 0);
    run_due(&server.backend, number).await.expect("nothing to do");
    assert_eq!(all_pipelines(&server).await.len(), 1);
}

async fn concurrent_runs_of_due_schedule_create_one_pipeline(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "once", Visibility::Private).await;
    let number = schedule(&root, &format!("/projects/{}", project.id)).await;
    for round in 1..=3 {
        due_since(&server, number, minutes_ago(round)).await;
        let runs = futures_util::future::join_all((0..8).map(|_| run_due(&server.backend, number))).await;
        assert!(runs.iter().all(Result::is_ok), "{runs:?}");
        assert_eq!(all_pipelines(&server).await.len() as i64, round);
    }
}

async fn play_creates_pipeline_of_caller_and_preserves_next_run(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "played", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let all = format!("{project_path}/pipeline_schedules");
    let developer = project.member("developer", AccessLevel::Developer).await;
    let body = json!({ "description": "x", "ref": "feature/x", "cron": "0 1 * * *", "active": false });
    let one = format!("{all}/{}", id(&root.post(&all, body).await.expect(201).json()));
    root.post(&format!("{one}/variables"), json!({ "key": "A", "value": "1" })).await.expect(201);
    let before = root.get(&one).await.expect(200).json();
    let response = developer.post(&format!("{one}/play"), json!({})).await.expect(201).json();
    assert_eq!(response, json!({ "message": "201 Created" }));
    let after = root.get(&one).await.expect(200).json();
    for field in ["next_run_at", "updated_at", "active", "owner"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    let created =
        root.get(&format!("{project_path}/pipelines/{}", after["last_pipeline"]["id"])).await.expect(200).json();
    assert_eq!(
        (&created["user"]["username"], &created["ref"], &created["status"]),
        (&json!("developer"), &json!("feature/x"), &json!("pending"))
    );
    let variables = root.get(&format!("{project_path}/pipelines/{}/variables", created["id"])).await.expect(200);
    assert_eq!(variables.pluck("key"), [json!("A")]);
    // A schedule can be played repeatedly.
    developer.post(&format!("{one}/play"), json!({})).await.expect(201);
    assert_eq!(all_pipelines(&server).await.len(), 2);
    root.put(&one, json!({ "ref": "main" })).await.expect(200);
    developer.post(&format!("{one}/play"), json!({})).await.expect(403);
    root.put(&one, json!({ "ref": "nowhere" })).await.expect(200);
    let unknown = developer.post(&format!("{one}/play"), json!({})).await.expect(400);
    assert_eq!(unknown.json()["message"], json!({ "base": ["Reference not found"] }));
    root.delete(&one).await.expect(200);
    assert_eq!(all_pipelines(&server).await.len(), 2);
}

async fn schedule_that_cannot_run_is_skipped_until_the_next_time(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "skipped", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let ann = server.create_user("ann").await;
    server.insert_member(project.id, ann.id, AccessLevel::Maintainer).await;
    let number = schedule(&ann.client, &project_path).await;
    let one = format!("{project_path}/pipeline_schedules/{number}");
    let runs = async || {
        let before = all_pipelines(&server).await.len();
        due_since(&server, number, minutes_ago(1)).await;
        assert_eq!(tick(&server).await, 1);
        let found = root.get(&one).await.expect(200).json();
        assert!(found["active"] == true && time(&found["next_run_at"]) > Utc::now());
        all_pipelines(&server).await.len() - before
    };
    assert_eq!(runs().await, 1);
    let member = format!("{project_path}/members/{}", ann.id);
    // `main` is protected, so Developers can neither push nor merge.
    for level in [30, 20] {
        root.put(&member, json!({ "access_level": level })).await.expect(200);
        assert_eq!(runs().await, 0, "{level}");
    }
    root.delete(&member).await.expect(204);
    assert_eq!(runs().await, 0);
    root.post(&format!("{project_path}/members"), json!({ "user_id": ann.id, "access_level": 40 })).await.expect(201);
    assert_eq!(runs().await, 1);
    root.put(&one, json!({ "ref": "nowhere" })).await.expect(200);
    assert_eq!(runs().await, 0);
    root.put(&one, json!({ "ref": "main" })).await.expect(200);
    root.post(&format!("{project_path}/archive"), json!({})).await.expect(201);
    assert_eq!(runs().await, 0);
    root.post(&format!("{project_path}/unarchive"), json!({})).await.expect(201);
    assert_eq!(runs().await, 1);
}

/// Returns the jobs that run schedules, including dead ones.
async fn run_jobs(server: &TestServer) -> Vec<jobs::Model> {
    let all = jobs::Entity::find().filter(jobs::Column::Kind.eq("run_schedule"));
    all.all(server.backend.database.read()).await.expect("jobs")
}

/// Runs jobs until the jobs that run schedules meet a condition.
async fn run_until(server: &TestServer, condition: impl Fn(&jobs::Model) -> bool) {
    let waiting = async {
        while !run_jobs(server).await.iter().all(&condition) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let limited = server.run_jobs_while(tokio::time::timeout(Duration::from_secs(60), waiting));
    limited.await.expect("the condition");
}

async fn schedule_whose_attempts_all_fail_has_one_job_and_waits_for_next_time(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "unreadable", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let number = schedule(&root, &project_path).await;
    let variables = format!("{project_path}/pipeline_schedules/{number}/variables");
    root.post(&variables, json!({ "key": "A", "value": "x" })).await.expect(201);
    let db = server.backend.database.write();
    // No key decrypts this value.
    let unreadable = pipeline_schedule_variables::Entity::update_many()
        .col_expr(pipeline_schedule_variables::Column::ValueEncrypted, Expr::value("v1.unreadable"));
    unreadable.exec(db).await.expect("a change");
    due_since(&server, number, minutes_ago(1)).await;
    assert_eq!(enqueue_due(&server.backend).await.expect("a look"), 1);
    run_until(&server, |job| job.last_error.is_some()).await;
    let failed = run_jobs(&server).await;
    assert_eq!(failed.len(), 1);
    for _ in 0..20 {
        assert_eq!(enqueue_due(&server.backend).await.expect("a look"), 0);
    }
    assert_eq!(run_jobs(&server).await, failed);

    let last = jobs::ActiveModel {
        id: Set(failed[0].id),
        attempts: Set(failed[0].max_attempts - 1),
        run_at: Set(minutes_ago(1)),
        ..Default::default()
    };
    last.update(db).await.expect("a change");
    run_until(&server, |job| job.dead_at.is_some()).await;
    assert_eq!(enqueue_due(&server.backend).await.expect("a look"), 0);
    let found = rows::Entity::find_by_id(number).one(db).await.expect("a query").expect("a schedule");
    assert!(found.active && found.next_run_at > Utc::now(), "{found:?}");
    assert_eq!(enqueue_due(&server.backend).await.expect("a look"), 0);
    assert_eq!((run_jobs(&server).await.len(), all_pipelines(&server).await), (1, Vec::new()));
}

async fn run_whose_runner_was_lost_in_last_attempt_is_skipped(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "lost", Visibility::Private).await;
    let number = schedule(&root, &format!("/projects/{}", project.id)).await;
    let db = server.backend.database.write();
    let next_run_at = async || {
        let found = rows::Entity::find_by_id(number).one(db).await.expect("a query").expect("a schedule");
        assert!(found.active);
        found.next_run_at
    };
    let fail = async || {
        assert_eq!(enqueue_due(&server.backend).await.expect("a look"), 1);
        let dead = jobs::Entity::update_many()
            .col_expr(jobs::Column::DeadAt, Expr::value(storage::entities::now()))
            .filter(jobs::Column::Kind.eq("run_schedule"));
        dead.exec(db).await.expect("a change");
    };
    due_since(&server, number, minutes_ago(2)).await;
    fail().await;
    // The schedule was changed, and is due at another time than the failed run.
    due_since(&server, number, minutes_ago(1)).await;
    fail().await;
    assert_eq!(run_jobs(&server).await.len(), 2);
    for _ in 0..2 {
        assert_eq!(enqueue_due(&server.backend).await.expect("a look"), 0);
        assert!(next_run_at().await > Utc::now());
    }
    assert_eq!((run_jobs(&server).await.len(), all_pipelines(&server).await), (2, Vec::new()));
    // The failed jobs do not prevent the next run.
    due_since(&server, number, minutes_ago(0)).await;
    assert_eq!(tick(&server).await, 1);
    assert_eq!(all_pipelines(&server).await.len(), 1);
}

async fn schedules_of_blocked_and_deleted_users_are_deactivated(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "ended", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let ann = server.create_user("ann").await;
    server.insert_member(project.id, ann.id, AccessLevel::Maintainer).await;
    let number = schedule(&ann.client, &project_path).await;
    let one = format!("{project_path}/pipeline_schedules/{number}");
    let active = async || root.get(&one).await.expect(200).json()["active"].clone();
    root.post(&format!("/users/{}/block", ann.id), json!({})).await.expect(201);
    assert_eq!(active().await, false);
    // This includes a schedule that was activated again.
    root.put(&one, json!({ "active": true })).await.expect(200);
    due_since(&server, number, minutes_ago(1)).await;
    assert_eq!(tick(&server).await, 1);
    assert_eq!((active().await, all_pipelines(&server).await.len()), (json!(false), 0));
    root.post(&format!("/users/{}/unblock", ann.id), json!({})).await.expect(201);
    assert_eq!(active().await, false);
    root.put(&one, json!({ "active": true })).await.expect(200);
    root.delete(&format!("/users/{}", ann.id)).await.expect(204);
    server.finish_jobs().await;
    let found = root.get(&one).await.expect(200).json();
    assert_eq!((&found["owner"]["username"], &found["owner"]["id"]), (&json!("ghost"), &json!(0)));
    due_since(&server, number, minutes_ago(1)).await;
    tick(&server).await;
    assert_eq!((active().await, all_pipelines(&server).await.len()), (json!(false), 0));
    // It runs again after another user takes ownership.
    root.post(&format!("{one}/take_ownership"), json!({})).await.expect(201);
    root.put(&one, json!({ "active": true })).await.expect(200);
    due_since(&server, number, minutes_ago(1)).await;
    tick(&server).await;
    assert_eq!(all_pipelines(&server).await.len(), 1);
}

async fn update_and_delete_of_due_schedule_prevent_its_run(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "changed", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let number = schedule(&root, &project_path).await;
    due_since(&server, number, minutes_ago(1)).await;
    enqueue_due(&server.backend).await.expect("a look");
    // The update recalculates the next run, so the schedule is no longer due.
    root.put(&format!("{project_path}/pipeline_schedules/{number}"), json!({ "ref": "feature/x" })).await.expect(200);
    server.finish_jobs().await;
    assert_eq!(all_pipelines(&server).await, []);
    due_since(&server, number, minutes_ago(1)).await;
    enqueue_due(&server.backend).await.expect("a look");
    enqueue_due(&server.backend).await.expect("another look");
    root.delete(&format!("{project_path}/pipeline_schedules/{number}")).await.expect(200);
    server.finish_jobs().await;
    assert_eq!(all_pipelines(&server).await, []);
    let list = root.get(&format!("{project_path}/pipeline_schedules")).await.expect(200).json();
    assert_eq!(list, Value::Array(Vec::new()));
}

on_every_database![
    time_from_before_clock_was_set_back_is_corrected,
    run_whose_time_is_repeated_after_clock_was_set_back_is_skipped,
    due_schedule_creates_one_pipeline_with_its_variables,
    concurrent_runs_of_due_schedule_create_one_pipeline,
    play_creates_pipeline_of_caller_and_preserves_next_run,
    schedule_that_cannot_run_is_skipped_until_the_next_time,
    schedule_whose_attempts_all_fail_has_one_job_and_waits_for_next_time,
    run_whose_runner_was_lost_in_last_attempt_is_skipped,
    schedules_of_blocked_and_deleted_users_are_deactivated,
    update_and_delete_of_due_schedule_prevent_its_run,
];
