//! Cleanup policies of packages.

use chrono::TimeDelta;
use domain::packages::cleanup;
use domain::packages::jobs::clean_up_packages::CleanUpPackages;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::package_cleanup_policies::{Column, Entity};
use storage::entities::{AccessLevel, Visibility, now, package_blobs};

use super::maven_packages;
use super::protection::rule;
use super::{file_path, upload};
use crate::support::spaces::project;
use crate::support::{Client, TestServer, on_every_database};

fn policy_path(project: i64) -> String {
    format!("/projects/{project}/packages/cleanup_policy")
}

async fn set(client: &Client, project: i64, kept: &str) -> Value {
    let body = json!({ "keep_n_duplicated_package_files": kept });
    client.put(&policy_path(project), body).await.expect(200).json()
}

/// Makes the policy of a project due, and runs its job.
async fn run(server: &TestServer, project: i64) {
    Entity::update_many()
        .col_expr(Column::NextRunAt, Expr::value(now() - TimeDelta::minutes(1)))
        .filter(Column::ProjectId.eq(project))
        .filter(Column::NextRunAt.is_not_null())
        .exec(server.backend.database.write())
        .await
        .expect("an update");
    cleanup::enqueue_due(&server.backend).await.expect("jobs");
    server.finish_jobs().await;
}

/// Returns the number of files of a project.
async fn files(client: &Client, project: i64) -> usize {
    let mut count = 0;
    let listed = client.get(&format!("/projects/{project}/packages?include_versionless=true&per_page=100")).await;
    for package in listed.expect(200).pluck("id") {
        let path = format!("/projects/{project}/packages/{package}/package_files?per_page=100");
        count += client.get(&path).await.expect(200).json().as_array().map_or(0, Vec::len);
    }
    count
}

async fn policy_is_read_and_set(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let keeps_all = json!({ "keep_n_duplicated_package_files": "all", "next_run_at": null });
    assert_eq!(root.get(&policy_path(id)).await.expect(200).json(), keeps_all);
    assert_eq!(set(&root, id, "all").await, keeps_all);
    for kept in ["1", "10", "20", "30", "40", "50"] {
        let policy = set(&root, id, kept).await;
        assert_eq!(policy["keep_n_duplicated_package_files"], kept);
        let next = policy["next_run_at"].as_str().expect("a time").parse::<chrono::DateTime<chrono::Utc>>();
        let until = next.expect("a time") - now();
        assert!(until > TimeDelta::hours(23) && until <= TimeDelta::days(1), "{until}");
        assert_eq!(root.get(&policy_path(id)).await.expect(200).json(), policy);
        // An equal policy does not delay the next run.
        assert_eq!(set(&root, id, kept).await, policy);
    }
    assert_eq!(set(&root, id, "all").await, keeps_all);
    for body in [
        json!({}),
        json!({ "keep_n_duplicated_package_files": "2" }),
        json!({ "keep_n_duplicated_package_files": null }),
    ] {
        root.put(&policy_path(id), body).await.expect(400);
    }
    root.put(&format!("/projects/{id}"), json!({ "packages_enabled": false })).await.expect(200);
    root.get(&policy_path(id)).await.expect(403);
    root.put(&policy_path(id), json!({ "keep_n_duplicated_package_files": "1" })).await.expect(403);
}

async fn policy_requires_the_maintainer_role(server: TestServer) {
    let project = server.insert_project_at("g/p", Visibility::Public).await.id;
    let body = json!({ "keep_n_duplicated_package_files": "1" });
    for (level, status) in [(AccessLevel::Developer, 403), (AccessLevel::Maintainer, 200), (AccessLevel::Owner, 200)] {
        let user = server.create_user(&format!("{level:?}").to_lowercase()).await;
        server.insert_member(project, user.id, level).await;
        user.client.get(&policy_path(project)).await.expect(status);
        user.client.put(&policy_path(project), body.clone()).await.expect(status);
    }
    server.anonymous().get(&policy_path(project)).await.expect(401);
    server.root().get(&policy_path(999_999)).await.expect(404);
}

async fn older_files_with_the_same_name_are_deleted(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let other = project(&root, "other", json!({})).await;
    let work = format!("/projects/{id}");
    for number in 0..12 {
        let content = format!("content {number}");
        upload(&root, &work, ["a", "1", "f"], content.as_bytes()).await.expect(201);
        maven_packages::put(&root, id, "com/gear/1.0/gear.jar", content.clone()).await.expect(200);
        upload(&root, &work, ["a", "1", &format!("f{number}")], b"x").await.expect(201);
        upload(&root, &format!("/projects/{other}"), ["a", "1", "f"], b"x").await.expect(201);
    }
    assert_eq!(files(&root, id).await, 36);
    // Without a policy, and before its time, nothing is deleted.
    run(&server, id).await;
    set(&root, id, "10").await;
    cleanup::enqueue_due(&server.backend).await.expect("jobs");
    server.finish_jobs().await;
    assert_eq!(files(&root, id).await, 36);
    run(&server, id).await;
    assert_eq!(files(&root, id).await, 32);
    set(&root, id, "1").await;
    run(&server, id).await;
    assert_eq!(files(&root, id).await, 14);
    assert_eq!(root.get(&file_path(&work, ["a", "1", "f"])).await.expect(200).text(), "content 11");
    let jar = maven_packages::file(id, "com/gear/1.0/gear.jar");
    assert_eq!(root.get(&jar).await.expect(200).text(), "content 11");
    assert_eq!(files(&root, other).await, 12);
    // The objects of the files are deleted, too.
    let blobs = package_blobs::Entity::find().count(server.backend.database.read()).await.expect("a count");
    assert_eq!(blobs, 26);
    assert_eq!(server.backend.objects.keys(Some("packages")).await.expect("keys").len(), 26);
    // A run without older files records nothing.
    run(&server, id).await;
    let events = root.get(&format!("{work}/audit_events?per_page=100")).await.expect(200).json();
    let details = events.as_array().expect("a list").iter().map(|event| &event["details"]);
    let runs: Vec<_> = details
        .filter(|details| details["event_name"] == "package_files_cleaned_up")
        .map(|details| (details["author_name"].clone(), details["target_details"].clone()))
        .collect();
    assert_eq!(runs, [(json!("System"), json!("18 older files")), (json!("System"), json!("4 older files"))]);
}

async fn protected_packages_and_archived_projects_do_not_change(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let work = format!("/projects/{id}");
    for _ in 0..3 {
        upload(&root, &work, ["gear", "1", "f"], b"x").await.expect(201);
        upload(&root, &work, ["other", "1", "f"], b"x").await.expect(201);
        maven_packages::put(&root, id, "com/gear/1.0/gear.jar", "x").await.expect(200);
    }
    rule(&root, id, "generic", "g*", [None, Some("owner")]).await;
    // This rule requires a role only for uploads.
    rule(&root, id, "maven", "com/*", [Some("owner"), None]).await;
    set(&root, id, "1").await;
    root.post(&format!("{work}/archive"), json!({})).await.expect(201);
    run(&server, id).await;
    assert_eq!(files(&root, id).await, 9);
    root.post(&format!("{work}/unarchive"), json!({})).await.expect(201);
    run(&server, id).await;
    assert_eq!(files(&root, id).await, 5);
    // The policy can be removed while its job waits.
    upload(&root, &work, ["other", "1", "f"], b"x").await.expect(201);
    set(&root, id, "all").await;
    let job = CleanUpPackages { project_id: id };
    cleanup::run_job(server.backend.clone(), job).await.expect("a run");
    assert_eq!(files(&root, id).await, 6);
    cleanup::run_job(server.backend.clone(), CleanUpPackages { project_id: 999_999 }).await.expect("a run");
}

async fn due_policies_run_once_a_day(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    set(&root, id, "1").await;
    let next = async || {
        let found = Entity::find().filter(Column::ProjectId.eq(id)).one(server.backend.database.read()).await;
        found.expect("a query").expect("a policy").next_run_at.expect("a time")
    };
    // A time far in the future was stored before the clock was set back.
    for moved in [-TimeDelta::minutes(1), TimeDelta::days(30)] {
        Entity::update_many()
            .col_expr(Column::NextRunAt, Expr::value(now() + moved))
            .exec(server.backend.database.write())
            .await
            .expect("an update");
        for _ in 0..2 {
            cleanup::enqueue_due(&server.backend).await.expect("jobs");
            let until = next().await - now();
            assert!(until > TimeDelta::hours(23) && until <= TimeDelta::days(1), "{until}");
        }
    }
    root.put("/application/settings", json!({ "deletion_adjourned_period": 0 })).await.expect(200);
    root.delete(&format!("/projects/{id}")).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(Entity::find().count(server.backend.database.read()).await.expect("a count"), 0);
}

async fn uploads_during_a_run_are_kept(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let work = format!("/projects/{id}");
    for _ in 0..5 {
        upload(&root, &work, ["a", "1", "f"], b"old").await.expect(201);
    }
    set(&root, id, "1").await;
    let uploads = (0..5).map(|number| {
        let (root, work) = (root.clone(), work.clone());
        async move { upload(&root, &work, ["a", "1", "f"], format!("new {number}").as_bytes()).await.status }
    });
    let runs = (0..3).map(|_| cleanup::run_job(server.backend.clone(), CleanUpPackages { project_id: id }));
    let (statuses, runs) = tokio::join!(futures_util::future::join_all(uploads), futures_util::future::join_all(runs));
    assert_eq!(statuses, [201; 5]);
    assert!(runs.iter().all(Result::is_ok), "{runs:?}");
    cleanup::run_job(server.backend.clone(), CleanUpPackages { project_id: id }).await.expect("a run");
    assert_eq!(files(&root, id).await, 1);
    assert!(root.get(&file_path(&work, ["a", "1", "f"])).await.expect(200).text().starts_with("new "));
}

on_every_database![
    policy_is_read_and_set,
    policy_requires_the_maintainer_role,
    older_files_with_the_same_name_are_deleted,
    protected_packages_and_archived_projects_do_not_change,
    due_policies_run_once_a_day,
    uploads_during_a_run_are_kept,
];
