//! Fetches of projects.

use chrono::{Days, NaiveDate};
use domain::code::fetch_statistics;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::json;
use storage::entities::{AccessLevel, Visibility, now, project_fetches};

use crate::support::code::Project;
use crate::support::git::{Work, address};
use crate::support::server::ROOT_TOKEN;
use crate::support::{TestServer, on_every_database};

fn today() -> NaiveDate {
    now().date_naive()
}

fn days_ago(days: u64) -> NaiveDate {
    today().checked_sub_days(Days::new(days)).expect("a day")
}

async fn clones_and_fetches_are_counted(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Public).await;
    let path = format!("/projects/{}/statistics", project.id);
    let root = server.root();
    assert_eq!(root.get(&path).await.expect(200).json(), json!({"fetches": {"total": 0, "days": []}}));
    let url = address(&server.base, "root", ROOT_TOKEN, &project.path);
    let work = Work::empty();
    work.git(&["clone", "--quiet", &url, "two"]).await;
    work.git(&["-c", "protocol.version=0", "clone", "--quiet", &url, "zero"]).await;
    let date = today().to_string();
    let counted = |count: i64| json!({"fetches": {"total": count, "days": [{"count": count, "date": date}]}});
    // As the timer does a few seconds after a fetch.
    let recorded = async || {
        fetch_statistics::record(&server.backend).await.expect("a record");
        root.get(&path).await.expect(200).json()
    };
    assert_eq!(recorded().await, counted(2));
    // A fetch without new commits, a list of refs and a push transfer no objects to the client.
    let copy = work.below("two");
    copy.git(&["fetch", "--quiet"]).await;
    copy.git(&["ls-remote", "--quiet", "origin"]).await;
    copy.commit("new", "n").await;
    copy.git(&["push", "--quiet", "origin", "HEAD:topic"]).await;
    assert_eq!(recorded().await, counted(2));
    work.below("zero").git(&["fetch", "--quiet"]).await;
    assert_eq!(recorded().await, counted(3));
    let rows = project_fetches::Entity::find().count(server.backend.database.read()).await;
    assert_eq!(rows.expect("a count"), 1);
}

async fn last_30_days_are_returned(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Public).await;
    let other = Project::empty(&server, "other", Visibility::Public).await;
    let row = |project: i64, days: u64, count: i64| ((project, days_ago(days)), count);
    let counts = [row(project.id, 29, 4), row(project.id, 30, 8), row(project.id, 1, 1), row(other.id, 1, 16)];
    project_fetches::add(server.backend.database.write(), &counts).await.expect("rows");
    // The same day again, and a project that does not exist.
    let counts = [row(project.id, 1, 2), row(999_999, 1, 32)];
    project_fetches::add(server.backend.database.write(), &counts).await.expect("rows");
    let found = server.root().get(&format!("/projects/{}/statistics", project.id)).await.expect(200).json();
    let day = |days: u64, count: i64| json!({"count": count, "date": days_ago(days).to_string()});
    assert_eq!(found, json!({"fetches": {"total": 7, "days": [day(1, 3), day(29, 4)]}}));
    let swept = fetch_statistics::sweep(&server.backend).await;
    assert_eq!(swept.expect("a sweep"), 1);
    let path = format!("/projects/{}", project.id);
    server.root().delete(&path).await.expect(202);
    server.finish_jobs().await;
    let rows = project_fetches::Entity::find().count(server.backend.database.read()).await;
    assert_eq!(rows.expect("a count"), 1, "only the row of the other project");
}

async fn project_statistics_require_access_to_the_code(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Public).await;
    let path = format!("/projects/{}/statistics", project.id);
    let guest = project.member("guest", AccessLevel::Guest).await;
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    let outsider = server.create_user("outsider").await;
    let narrow = server.with_token(&server.create_token(outsider.id, &["read_user"]).await);
    server.anonymous().get(&path).await.expect(401);
    server.with_token("nonsense").get(&path).await.expect(401);
    narrow.get(&path).await.expect(403);
    for client in [&outsider.client, &guest, &reporter] {
        client.get(&path).await.expect(200);
    }
    server.root().put(&format!("/projects/{}", project.id), json!({"visibility": "private"})).await.expect(200);
    outsider.client.get(&path).await.expect(404);
    guest.get(&path).await.expect(403);
    reporter.get(&path).await.expect(200);
    let disabled = json!({"repository_access_level": "disabled"});
    server.root().put(&format!("/projects/{}", project.id), disabled).await.expect(200);
    reporter.get(&path).await.expect(403);
    server.root().get("/projects/999999/statistics").await.expect(404);
}

on_every_database![
    clones_and_fetches_are_counted,
    last_30_days_are_returned,
    project_statistics_require_access_to_the_code,
];
