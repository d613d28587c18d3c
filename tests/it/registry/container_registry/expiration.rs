//! Expiration policies of projects.

use chrono::{DateTime, TimeDelta, Utc};
use domain::registry::expiration_policies::{enqueue_due, run_job};
use domain::registry::jobs::run_expiration_policy::RunExpirationPolicy;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::container_expiration_policies::{Cadence, Column, Entity};
use storage::entities::{AccessLevel, jobs, now};

use super::{image, tags};
use crate::support::spaces::{group, project};
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

async fn put(client: &Client, project: i64, policy: Value) -> ApiResponse {
    let body = json!({ "container_expiration_policy_attributes": policy });
    client.put(&format!("/projects/{project}"), body).await
}

async fn set(client: &Client, project: i64, policy: Value) -> Value {
    put(client, project, policy).await.expect(200).json()["container_expiration_policy"].clone()
}

async fn get(client: &Client, project: i64) -> Value {
    client.get(&format!("/projects/{project}")).await.expect(200).json()["container_expiration_policy"].clone()
}

/// The policy of a project that has set none.
fn default_policy() -> Value {
    json!({
        "cadence": "1d", "enabled": false, "keep_n": 10, "older_than": "90d", "name_regex": ".*",
        "name_regex_delete": ".*", "name_regex_keep": null, "next_run_at": null,
    })
}

/// A policy that deletes all tags except `latest`.
fn all_tags() -> Value {
    json!({ "enabled": true, "keep_n": null, "older_than": null })
}

/// Moves the next run of all enabled policies by a duration from now.
async fn postpone(server: &TestServer, by: TimeDelta) {
    Entity::update_many()
        .col_expr(Column::NextRunAt, Expr::value(now() + by))
        .filter(Column::NextRunAt.is_not_null())
        .exec(server.backend.database.write())
        .await
        .expect("an update");
}

/// Makes all enabled policies due, and runs their jobs.
async fn run(server: &TestServer) {
    postpone(server, -TimeDelta::minutes(1)).await;
    enqueue_due(&server.backend).await.expect("jobs");
    server.finish_jobs().await;
}

/// Inserts an image whose age is this number of days.
async fn aged(server: &TestServer, project: i64, repository: &str, tag: &str, days: i64) -> i64 {
    let created = (Utc::now() - TimeDelta::days(days)).to_rfc3339();
    image(server, project, repository, tag, Some(&created)).await
}

async fn policy_is_read_and_set(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    assert_eq!(get(&root, id).await, default_policy());
    let listed = root.get("/projects").await.expect(200).json();
    assert_eq!(listed[0]["container_expiration_policy"], default_policy());
    for (cadence, days) in [("1d", 1..=1), ("7d", 7..=7), ("14d", 14..=14), ("1month", 28..=31), ("3month", 89..=92)] {
        let policy = set(&root, id, json!({ "enabled": true, "cadence": cadence })).await;
        assert_eq!((&policy["cadence"], &policy["enabled"]), (&json!(cadence), &json!(true)));
        let next: DateTime<Utc> = policy["next_run_at"].as_str().expect("a time").parse().expect("a time");
        let until = (next - now() + TimeDelta::minutes(1)).num_days();
        assert!(days.contains(&until), "{cadence}: {until}");
        // An equal policy does not delay the next run.
        assert_eq!(set(&root, id, json!({ "cadence": cadence, "name_regex": ".*" })).await, policy);
        assert_eq!(get(&root, id).await, policy);
    }
    let all = json!({
        "enabled": true, "cadence": "7d", "keep_n": 25, "older_than": "14d", "name_regex_delete": "v.*",
        "name_regex_keep": "v1",
    });
    let policy = set(&root, id, all.clone()).await;
    for (name, value) in all.as_object().expect("an object") {
        assert_eq!(&policy[name], value, "{name}");
    }
    assert_eq!(policy["name_regex"], "v.*");
    // The former name of the attribute sets the same value, unless the newer name is sent too.
    assert_eq!(set(&root, id, json!({ "name_regex": "w" })).await["name_regex_delete"], "w");
    let policy = set(&root, id, json!({ "name_regex": "x", "name_regex_delete": "y", "name_regex_keep": "" })).await;
    assert_eq!((&policy["name_regex"], &policy["name_regex_keep"]), (&json!("y"), &json!(null)));
    let policy = set(&root, id, json!({ "enabled": false, "name_regex_delete": null, "keep_n": null })).await;
    assert_eq!(
        policy,
        json!({
            "cadence": "7d", "enabled": false, "keep_n": null, "older_than": "14d", "name_regex": null,
            "name_regex_delete": null, "name_regex_keep": null, "next_run_at": null,
        })
    );
    let events = root.get(&format!("/projects/{id}/audit_events?per_page=100")).await.expect(200).json();
    let of_policy = |event: &&Value| event["details"]["event_name"] == "container_expiration_policy_changed";
    let last = events.as_array().expect("a list").iter().find(of_policy).expect("an event");
    assert_eq!(
        (&last["details"]["from"], &last["details"]["to"]),
        (
            &json!("enabled, cadence: 7d, keep_n: 25, older_than: 14d, name_regex_delete: y, name_regex_keep: none"),
            &json!(
                "disabled, cadence: 7d, keep_n: none, older_than: 14d, name_regex_delete: none, name_regex_keep: none"
            )
        )
    );
    // A new project can have a policy. A fork has the default policy.
    let body = json!({ "container_expiration_policy_attributes": all, "visibility": "public" });
    let other = project(&root, "other", body).await;
    let policy = get(&root, other).await;
    assert_eq!((&policy["keep_n"], policy["next_run_at"].is_string()), (&json!(25), true));
    let fork = root.post(&format!("/projects/{other}/fork"), json!({ "path": "fork", "name": "fork" })).await;
    assert_eq!(fork.expect(201).json()["container_expiration_policy"], default_policy());
    let space = group(&root, "space", json!({})).await;
    let moved = root.put(&format!("/projects/{other}/transfer"), json!({ "namespace": space })).await.expect(200);
    assert_eq!(moved.json()["container_expiration_policy"], policy);
}

async fn invalid_policies_change_nothing(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for (policy, name) in [
        (json!({ "keep_n": 2 }), "keep_n"),
        (json!({ "keep_n": 0 }), "keep_n"),
        (json!({ "name_regex": "(" }), "name_regex_delete"),
        (json!({ "name_regex_delete": "a**" }), "name_regex_delete"),
        (json!({ "name_regex_keep": "[" }), "name_regex_keep"),
        (json!({ "enabled": true, "name_regex_delete": null }), "name_regex_delete"),
        (json!({ "enabled": true, "name_regex_delete": "" }), "name_regex_delete"),
    ] {
        let name = format!("container_expiration_policy.{name}");
        let refused = put(&root, id, policy.clone()).await.expect(400).json();
        assert!(refused["message"][&name].is_array(), "{policy}: {refused}");
        let body = json!({ "path": "fresh", "container_expiration_policy_attributes": policy });
        let refused = root.post("/projects", body).await.expect(400).json();
        assert!(refused["message"][&name].is_array(), "{policy}: {refused}");
    }
    for policy in [
        json!({ "cadence": "2d" }),
        json!({ "older_than": "1d" }),
        json!({ "keep_n": "many" }),
        json!({ "enabled": "perhaps" }),
        json!({ "name_regex_delete": "x".repeat(1_025) }),
        json!("1d"),
    ] {
        put(&root, id, policy).await.expect(400);
    }
    assert_eq!(get(&root, id).await, default_policy());
    root.get("/projects/root%2Ffresh").await.expect(404);
    assert_eq!(Entity::find().count(server.backend.database.read()).await.expect("a count"), 0);
    for (level, status) in [(AccessLevel::Developer, 403), (AccessLevel::Maintainer, 200)] {
        let user = server.create_user(&format!("{level:?}").to_lowercase()).await;
        server.insert_member(id, user.id, level).await;
        put(&user.client, id, json!({ "keep_n": 5 })).await.expect(status);
    }
}

async fn due_policy_deletes_matching_tags_of_all_repositories(server: TestServer) {
    let root = server.root();
    let (id, other) = (project(&root, "work", json!({})).await, project(&root, "other", json!({})).await);
    let mut web = 0;
    for (tag, days) in [("v1", 9), ("v2", 8), ("v3", 1), ("keep", 9), ("w", 9), ("latest", 9)] {
        web = aged(&server, id, "web", tag, days).await;
    }
    let api = aged(&server, id, "api", "v1", 30).await;
    let foreign = aged(&server, other, "web", "v1", 30).await;
    let listed = async || (tags(&root, id, web).await, tags(&root, id, api).await, tags(&root, other, foreign).await);
    let before = listed().await;
    let policy = json!({
        "enabled": true, "keep_n": null, "older_than": "7d", "name_regex_delete": "v.*|keep", "name_regex_keep": "keep",
    });
    set(&root, id, policy).await;
    // Nothing is deleted before the time of the policy.
    enqueue_due(&server.backend).await.expect("jobs");
    server.finish_jobs().await;
    assert_eq!(listed().await, before);
    run(&server).await;
    let (of_web, of_api, of_other) = listed().await;
    assert_eq!((of_web, of_api), (["keep", "latest", "v3", "w"].map(str::to_owned).to_vec(), vec![]));
    assert_eq!(of_other, ["v1"]);
    set(&root, id, json!({ "keep_n": 1, "older_than": null, "name_regex_delete": ".*" })).await;
    run(&server).await;
    // `v3` is the newest of the matching tags.
    assert_eq!(listed().await.0, ["keep", "latest", "v3"]);
    // A disabled policy has no time.
    set(&root, id, json!({ "enabled": false, "keep_n": null, "name_regex_keep": null })).await;
    run(&server).await;
    assert_eq!(listed().await.0, ["keep", "latest", "v3"]);
}

async fn projects_whose_tags_cannot_be_deleted_do_not_change(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let repository = aged(&server, id, "web", "v1", 30).await;
    set(&root, id, all_tags()).await;
    let path = format!("/projects/{id}");
    root.post(&format!("{path}/archive"), json!({})).await.expect(201);
    run(&server).await;
    root.post(&format!("{path}/unarchive"), json!({})).await.expect(201);
    assert_eq!(tags(&root, id, repository).await, ["v1"]);
    root.put(&path, json!({ "container_registry_enabled": false })).await.expect(200);
    run(&server).await;
    root.put(&path, json!({ "container_registry_enabled": true })).await.expect(200);
    assert_eq!(tags(&root, id, repository).await, ["v1"]);
    // The policy can be disabled while its job waits.
    set(&root, id, json!({ "enabled": false })).await;
    for project_id in [id, 999_999] {
        run_job(server.backend.clone(), RunExpirationPolicy { project_id }).await.expect("a run");
    }
    assert_eq!(tags(&root, id, repository).await, ["v1"]);
    set(&root, id, all_tags()).await;
    run(&server).await;
    assert_eq!(tags(&root, id, repository).await, [""; 0]);
    // The policy is deleted with the project.
    root.put("/application/settings", json!({ "deletion_adjourned_period": 0 })).await.expect(200);
    root.delete(&path).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(Entity::find().count(server.backend.database.read()).await.expect("a count"), 0);
}

async fn due_policy_runs_once_on_several_nodes(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    server.finish_jobs().await;
    set(&root, id, json!({ "enabled": true, "cadence": "7d" })).await;
    // A time far in the future was stored before the clock was set back.
    for offset in [-TimeDelta::minutes(1), TimeDelta::days(15)] {
        postpone(&server, offset).await;
        let (one, two) = tokio::join!(enqueue_due(&server.backend), enqueue_due(&server.backend));
        one.and(two).expect("jobs");
        let count = jobs::Entity::find().filter(jobs::Column::Kind.eq("run_expiration_policy"));
        assert_eq!(count.count(server.backend.database.read()).await.expect("a count"), 1);
        let row = Entity::find().one(server.backend.database.read()).await.expect("a query").expect("a policy");
        let until = row.next_run_at.expect("a time") - now();
        assert!(until > TimeDelta::days(6) && until <= TimeDelta::days(7), "{until}");
        server.finish_jobs().await;
    }
    // A later time that the policy can have is not changed.
    postpone(&server, TimeDelta::days(13)).await;
    enqueue_due(&server.backend).await.expect("jobs");
    let row = Entity::find().one(server.backend.database.read()).await.expect("a query").expect("a policy");
    assert!(row.next_run_at.expect("a time") - now() > TimeDelta::days(12));
    assert_eq!(row.cadence, Cadence::V7d);
}

async fn two_runs_at_once_delete_the_same_tags(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let mut repository = 0;
    for number in 0..20 {
        repository = aged(&server, id, "web", &format!("v{number:02}"), number).await;
    }
    set(&root, id, json!({ "enabled": true, "keep_n": 5, "older_than": null })).await;
    let run = || run_job(server.backend.clone(), RunExpirationPolicy { project_id: id });
    let (one, two) = tokio::join!(run(), run());
    assert!(one.is_ok() && two.is_ok(), "{one:?} {two:?}");
    assert_eq!(tags(&root, id, repository).await, ["v00", "v01", "v02", "v03", "v04"]);
}

on_every_database![
    policy_is_read_and_set,
    invalid_policies_change_nothing,
    due_policy_deletes_matching_tags_of_all_repositories,
    projects_whose_tags_cannot_be_deleted_do_not_change,
    due_policy_runs_once_on_several_nodes,
    two_runs_at_once_delete_the_same_tags,
];
