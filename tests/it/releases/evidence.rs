//! Evidence of releases.

use chrono::{Days, TimeDelta, Utc};
use domain::releases::evidence;
use domain::releases::jobs::collect_release_evidence::CollectReleaseEvidence;
use holdfast::config::ConfigOptions;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use storage::entities::{AccessLevel, Visibility, jobs, now, release_evidences, releases};

use super::release;
use crate::planning::milestones::milestone;
use crate::support::code::Project;
use crate::support::{Client, TestServer, on_every_database};

fn starter_plan() -> ConfigOptions {
    ConfigOptions { plan: Some("starter".to_owned()), ..ConfigOptions::default() }
}

/// Returns the evidences of a release.
async fn evidences(client: &Client, release: &str) -> Vec<Value> {
    let found = client.get(release).await.expect(200).json();
    found["evidences"].as_array().expect("a list").clone()
}

/// Returns the path of a URL of the server, for the test client.
fn path_of(url: &Value) -> String {
    let url = url.as_str().expect("a URL");
    let path = url.splitn(4, '/').nth(3).expect("a path");
    format!("//{path}")
}

async fn evidence_is_collected_after_creation(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let path = format!("/projects/{}", project.id);
    let planned = milestone(&root, &path, "planned").await;
    for (title, confidential) in [("seen", false), ("hidden", true)] {
        let body = json!({ "title": title, "milestone_id": planned, "confidential": confidential });
        root.post(&format!("{path}/issues"), body).await.expect(201);
    }
    let extra = json!({ "name": "First", "description": "Notes", "milestones": ["planned"] });
    let created = release(&root, &path, "v1", extra).await;
    assert_eq!(created["evidences"], json!([]));
    let before = server.statements();
    server.finish_jobs().await;
    let texts = server.statement_texts(before).into_iter();
    let read: Vec<String> = texts
        .filter(|text| text.contains("\"issues\".\"description\"") && text.contains("\"milestone_id\" IN"))
        .collect();
    assert!(read.is_empty(), "{read:?}");
    let url = format!("{path}/releases/v1");
    let found = evidences(&root, &url).await;
    assert_eq!(found.len(), 1);
    let content = root.get(&path_of(&found[0]["filepath"])).await.expect(200);
    assert_eq!(content.header("Content-Type"), "application/json");
    assert_eq!(json!(hex::encode(Sha256::digest(&content.body))), found[0]["sha"]);
    let snapshot = content.json()["release"].clone();
    assert_eq!(
        (&snapshot["tag_name"], &snapshot["name"], &snapshot["description"], &snapshot["project"]["id"]),
        (&json!("v1"), &json!("First"), &json!("Notes"), &json!(project.id))
    );
    let issues = snapshot["milestones"][0]["issues"].as_array().expect("a list").clone();
    assert_eq!(issues.iter().map(|issue| &issue["title"]).collect::<Vec<_>>(), ["seen"]);
    // Changes of the release do not change its evidence.
    root.put(&url, json!({ "name": "Second" })).await.expect(200);
    server.finish_jobs().await;
    assert_eq!(evidences(&root, &url).await, found);
    assert_eq!(root.get(&path_of(&found[0]["filepath"])).await.expect(200).body, content.body);
}

async fn evidence_of_upcoming_release_waits_for_its_date(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let path = format!("/projects/{}", project.id);
    let later = Utc::now() + Days::new(10);
    let created = release(&root, &path, "v1", json!({ "released_at": later })).await;
    assert_eq!((&created["upcoming_release"], &created["evidences"]), (&json!(true), &json!([])));
    let jobs = jobs::Entity::find().filter(jobs::Column::Kind.eq("collect_release_evidence"));
    let job = jobs.one(server.backend.database.read()).await.expect("a query").expect("a job");
    assert!(job.run_at > Utc::now() + Days::new(9));
    let url = format!("{path}/releases/v1");
    let changed = root.put(&url, json!({ "released_at": Utc::now() })).await.expect(200).json();
    assert_eq!(changed["upcoming_release"], json!(false));
    server.finish_jobs().await;
    assert_eq!(evidences(&root, &url).await.len(), 1);
    let historical = release(&root, &path, "v0", json!({ "released_at": "2001-02-03" })).await;
    assert_eq!((&historical["upcoming_release"], &historical["historical_release"]), (&json!(false), &json!(true)));
    server.finish_jobs().await;
    assert_eq!(evidences(&root, &format!("{path}/releases/v0")).await.len(), 0);
}

async fn collect_release_evidence_adds_evidence(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    let path = format!("/projects/{}", project.id);
    release(&developer, &path, "v1", json!({})).await;
    server.finish_jobs().await;
    let url = format!("{path}/releases/v1");
    developer.post(&format!("{url}/evidence"), json!({})).await.expect(202);
    server.finish_jobs().await;
    let found = evidences(&developer, &url).await;
    assert_eq!(found.len(), 2);
    assert_ne!(found[0]["filepath"], found[1]["filepath"]);
    developer.post(&format!("{path}/releases/none/evidence"), json!({})).await.expect(404);
    // A deleted release has no evidence, and its job does nothing.
    developer.post(&format!("{url}/evidence"), json!({})).await.expect(202);
    developer.delete(&url).await.expect(200);
    server.finish_jobs().await;
    developer.get(&path_of(&found[0]["filepath"])).await.expect(404);
}

async fn requested_evidence_does_not_replace_the_evidence_of_the_date(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let path = format!("/projects/{}", project.id);
    let (read, write) = (server.backend.database.read(), server.backend.database.write());
    let run = async |job| evidence::run_job(server.backend.clone(), job).await.expect("a collection");
    for tag in ["moved", "waiting"] {
        let later = Utc::now() + Days::new(10);
        release(&root, &path, tag, json!({ "released_at": later })).await;
        let row = releases::by_tag(project.id, tag).one(read).await.expect("a query").expect("a release");
        let requested_at = Some(now());
        run(CollectReleaseEvidence { release_id: row.id, requested_at, scheduled_at: None }).await;
        let url = format!("{path}/releases/{tag}");
        assert_eq!(evidences(&root, &url).await.len(), 1, "{tag}");
        let hours = |hours| now() - TimeDelta::hours(hours);
        let first = |scheduled_at| CollectReleaseEvidence { release_id: row.id, requested_at: None, scheduled_at };
        if tag == "moved" {
            // The new date is before the request.
            root.put(&url, json!({ "released_at": hours(1) })).await.expect(200);
            server.finish_jobs().await;
            assert_eq!(evidences(&root, &url).await.len(), 2);
            for released_at in [hours(2), Utc::now() + Days::new(10), hours(3)] {
                root.put(&url, json!({ "released_at": released_at })).await.expect(200);
            }
            server.finish_jobs().await;
        } else {
            // The date has passed since the request.
            let requested = release_evidences::Entity::update_many()
                .col_expr(release_evidences::Column::CollectedAt, Expr::value(hours(3)))
                .filter(release_evidences::Column::ReleaseId.eq(row.id));
            requested.exec(write).await.expect("a change");
            let date = releases::Entity::update_many()
                .col_expr(releases::Column::ReleasedAt, Expr::value(hours(2)))
                .filter(releases::Column::Id.eq(row.id));
            date.exec(write).await.expect("a change");
            server.backend.database.invalidate();
        }
        // A job can run twice, and jobs of former versions have no time.
        for scheduled_at in [Some(hours(4)), Some(hours(4)), None] {
            run(first(scheduled_at)).await;
            assert_eq!(evidences(&root, &url).await.len(), 2, "{tag}");
        }
    }
}

async fn release_with_past_date_has_one_evidence(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let path = format!("/projects/{}", project.id);
    let released_at = now() - TimeDelta::hours(1);
    release(&root, &path, "v1", json!({ "released_at": released_at })).await;
    server.finish_jobs().await;
    let url = format!("{path}/releases/v1");
    let found = evidences(&root, &url).await;
    assert_eq!(found.len(), 1);
    root.put(&url, json!({ "released_at": now() })).await.expect(200);
    server.finish_jobs().await;
    assert_eq!(evidences(&root, &url).await, found);
}

async fn evidence_requires_access_to_code(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let path = format!("/projects/{}", project.id);
    release(&root, &path, "v1", json!({})).await;
    release(&root, &path, "v2", json!({})).await;
    server.finish_jobs().await;
    let found = evidences(&root, &format!("{path}/releases/v1")).await;
    let file = path_of(&found[0]["filepath"]);
    let guest = project.member("guest", AccessLevel::Guest).await;
    for client in [&guest, &server.anonymous()] {
        client.get(&file).await.expect(404);
    }
    project.member("reporter", AccessLevel::Reporter).await.get(&file).await.expect(200);
    // The evidence belongs to one release.
    root.get(&file.replace("/v1/", "/v2/")).await.expect(404);
    root.get(&file.replace("/v1/", "/none/")).await.expect(404);
}

async fn collect_release_evidence_requires_premium_plan(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let path = format!("/projects/{}", project.id);
    release(&root, &path, "v1", json!({})).await;
    let response = root.post(&format!("{path}/releases/v1/evidence"), json!({})).await;
    assert!(response.expect(403).message().contains("plan"));
    // The first evidence is collected on every plan.
    server.finish_jobs().await;
    assert_eq!(evidences(&root, &format!("{path}/releases/v1")).await.len(), 1);
}

on_every_database![
    evidence_is_collected_after_creation,
    evidence_of_upcoming_release_waits_for_its_date,
    collect_release_evidence_adds_evidence,
    requested_evidence_does_not_replace_the_evidence_of_the_date,
    release_with_past_date_has_one_evidence,
    evidence_requires_access_to_code,
    collect_release_evidence_requires_premium_plan with starter_plan(),
];
