//! Freeze periods of projects.

use chrono::{DateTime, Utc};
use domain::delivery::freeze_periods::is_frozen;
use sea_orm::EntityTrait;
use serde_json::{Value, json};

use crate::support::spaces::{id, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Creates a freeze period of `/projects/:id` and returns its ID.
pub async fn freeze_period(client: &Client, path: &str) -> i64 {
    let body = json!({ "freeze_start": "0 23 * * 5", "freeze_end": "0 7 * * 1" });
    id(&client.post(&format!("{path}/freeze_periods"), body).await.expect(201).json())
}

fn instant(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(text).expect("a time").to_utc()
}

/// Returns for each moment whether the project is frozen.
async fn frozen(server: &TestServer, project: i64, moments: &[&str]) -> Vec<bool> {
    let mut found = Vec::new();
    for moment in moments {
        let db = server.backend.database.read();
        found.push(is_frozen(db, project, instant(moment)).await.expect("a response"));
    }
    found
}

async fn freeze_period_lifecycle(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let all = format!("/projects/{work}/freeze_periods");
    assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
    let body =
        json!({ "freeze_start": " 0 23 * * fri ", "freeze_end": "0 7 * * mon", "cron_timezone": "Europe/Berlin" });
    let created = root.post(&all, body).await.expect(201).json();
    assert_eq!(
        created,
        json!({
            "id": created["id"], "freeze_start": "0 23 * * fri", "freeze_end": "0 7 * * mon",
            "cron_timezone": "Europe/Berlin",
            "created_at": created["created_at"], "updated_at": created["updated_at"],
        })
    );
    let one = format!("{all}/{}", created["id"]);
    assert_eq!(root.get(&one).await.expect(200).json(), created);
    let plain = json!({ "freeze_start": "0 0 1 * *", "freeze_end": "0 0 2 * *" });
    let second = root.post(&all, plain).await.expect(201).json();
    assert_eq!(second["cron_timezone"], "UTC");
    assert_eq!(root.get(&all).await.expect(200).json(), json!([created, second]));
    assert_eq!(root.get(&format!("{all}?per_page=1&page=2")).await.expect(200).json(), json!([second]));
    let changed = root.put(&one, json!({ "freeze_end": "30 6 * * 1", "cron_timezone": "Pacific Time (US & Canada)" }));
    let changed = changed.await.expect(200).json();
    assert_eq!(
        changed,
        json!({
            "id": created["id"], "freeze_start": "0 23 * * fri", "freeze_end": "30 6 * * 1",
            "cron_timezone": "Pacific Time (US & Canada)", "created_at": created["created_at"],
            "updated_at": changed["updated_at"],
        })
    );
    assert_eq!(root.get(&one).await.expect(200).json(), changed);
    assert_eq!(root.put(&one, json!({})).await.expect(200).json()["freeze_end"], "30 6 * * 1");
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&one).await.expect(412);
    root.delete(&one).await.expect(204);
    for response in
        [root.get(&one).await, root.delete(&one).await, root.put(&one, json!({ "freeze_end": "0 0 * * *" })).await]
    {
        assert_eq!((response.status, response.message()), (404, "404 Not found".to_owned()));
    }
    assert_eq!(root.get(&all).await.expect(200).json(), json!([second]));
}

async fn freeze_period_writes_reject_invalid_cron_and_time_zone(server: TestServer) {
    let root = server.root();
    let all = format!("/projects/{}/freeze_periods", project(&root, "work", json!({})).await);
    let one = format!("{all}/{}", freeze_period(&root, all.trim_end_matches("/freeze_periods")).await);
    let original = root.get(&one).await.expect(200).json();
    let errors = async |body: Value| root.post(&all, body).await.expect(400).json()["message"].clone();
    let bad = json!({ "freeze_start": "x", "freeze_end": "0 0 0 * *", "cron_timezone": "Mars/Base" });
    let invalid = json!([" is invalid syntax"]);
    assert_eq!(
        errors(bad.clone()).await,
        json!({ "freeze_start": invalid, "freeze_end": invalid, "cron_timezone": invalid })
    );
    let blank = json!([" is invalid syntax", "can't be blank"]);
    let end = json!({ "freeze_start": "0 0 * * *", "freeze_end": " " });
    assert_eq!(errors(end).await, json!({ "freeze_end": blank }));
    assert_eq!(errors(json!({})).await, json!("freeze_start is missing, freeze_end is missing"));
    for never in ["0 0 31 2 *", "@daily", "* * * * * *", "0 0 * * 1; true", "99 * * * *"] {
        let body = json!({ "freeze_start": never, "freeze_end": "0 0 * * *" });
        assert_eq!(errors(body).await, json!({ "freeze_start": invalid }), "{never}");
        root.put(&one, json!({ "freeze_start": never })).await.expect(400);
    }
    root.put(&one, bad).await.expect(400);
    root.put(&one, json!({ "freeze_end": "0 8 * * 1", "cron_timezone": "" })).await.expect(400);
    assert_eq!(root.get(&one).await.expect(200).json(), original);
    assert_eq!(root.get(&all).await.expect(200).json(), json!([original]));
}

async fn freeze_periods_require_maintainer(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({ "visibility": "public" })).await);
    let (developer, maintainer) = (server.create_user("developer").await, server.create_user("maintainer").await);
    join(&root, &work, developer.id, 30).await;
    join(&root, &work, maintainer.id, 40).await;
    let one = format!("{work}/freeze_periods/{}", freeze_period(&maintainer.client, &work).await);
    let non_member = server.create_user("stranger").await.client;
    for (client, status) in [(&server.anonymous(), 401), (&non_member, 403), (&developer.client, 403)] {
        client.get(&format!("{work}/freeze_periods")).await.expect(status);
        client.get(&one).await.expect(status);
        client.get(&format!("{work}/freeze_periods/4711")).await.expect(status);
        client.put(&one, json!({ "freeze_end": "0 0 * * *" })).await.expect(status);
        client.delete(&one).await.expect(status);
    }
    let other = format!("/projects/{}", project(&root, "other", json!({})).await);
    root.get(&one.replace(&work, &other)).await.expect(404);
    root.delete(&one.replace(&work, &other)).await.expect(404);
    non_member.get(&format!("{other}/freeze_periods")).await.expect(404);
    root.post(&format!("{work}/archive"), json!({})).await.expect(201);
    maintainer.client.get(&one).await.expect(200);
    maintainer.client.put(&one, json!({ "freeze_end": "0 0 * * *" })).await.expect(403);
}

async fn is_frozen_between_start_and_end_of_period(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let all = format!("/projects/{work}/freeze_periods");
    let moments = [
        "2026-06-05T20:59:59Z",
        "2026-06-05T21:00:00Z",
        "2026-06-07T12:00:00Z",
        "2026-06-08T04:59:59Z",
        "2026-06-08T05:00:00Z",
        "2026-06-10T12:00:00Z",
    ];
    assert_eq!(frozen(&server, work, &moments).await, [false; 6]);
    // In summer, Berlin is two hours ahead.
    let weekend = json!({ "freeze_start": "0 23 * * 5", "freeze_end": "0 7 * * 1", "cron_timezone": "Europe/Berlin" });
    let created = root.post(&all, weekend).await.expect(201).json();
    assert_eq!(frozen(&server, work, &moments).await, [false, true, true, true, false, false]);
    // Another period starts twice each evening and ends at noon.
    let nights = json!({ "freeze_start": "0 20,22 * * *", "freeze_end": "0 12 * * *" });
    root.post(&all, nights).await.expect(201);
    let between = ["2026-06-10T19:00:00Z", "2026-06-10T21:00:00Z", "2026-06-11T11:59:00Z", "2026-06-11T12:00:00Z"];
    assert_eq!(frozen(&server, work, &between).await, [false, true, true, false]);
    // A period that ends when it starts is empty.
    root.delete(&format!("{all}/{}", created["id"])).await.expect(204);
    root.post(&all, json!({ "freeze_start": "* * * * *", "freeze_end": "* * * * *" })).await.expect(201);
    assert_eq!(frozen(&server, work, &moments[2..3]).await, [false]);
    let other = project(&root, "other", json!({})).await;
    assert_eq!(frozen(&server, other, &between).await, [false; 4]);
}

async fn is_frozen_handles_daylight_saving_changes(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let night = json!({ "freeze_start": "30 2 * * *", "freeze_end": "30 4 * * *", "cron_timezone": "Europe/Berlin" });
    root.post(&format!("/projects/{work}/freeze_periods"), night).await.expect(201);
    // The clocks go from two to three at one o'clock in UTC.
    let spring = ["2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z", "2026-03-29T02:29:59Z", "2026-03-29T02:30:00Z"];
    assert_eq!(frozen(&server, work, &spring).await, [false, true, true, false]);
    // They go from three back to two.
    let autumn = [
        "2026-10-25T00:29:59Z",
        "2026-10-25T00:30:00Z",
        "2026-10-25T01:15:00Z",
        "2026-10-25T03:29:59Z",
        "2026-10-25T03:30:00Z",
    ];
    assert_eq!(frozen(&server, work, &autumn).await, [false, true, true, true, false]);
}

async fn create_freeze_period_rejects_more_than_100_periods(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    for _ in 0..99 {
        freeze_period(&root, &work).await;
    }
    let all = format!("{work}/freeze_periods");
    let body = json!({ "freeze_start": "0 0 * * *", "freeze_end": "0 1 * * *" });
    let last = (0..3).map(|_| root.post(&all, body.clone()));
    let mut statuses: Vec<u16> =
        futures_util::future::join_all(last).await.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400, 400]);
}

async fn deleting_project_deletes_freeze_periods(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    freeze_period(&root, &format!("/projects/{work}")).await;
    let db = server.backend.database.write();
    storage::entities::projects::Entity::delete_by_id(work).exec(db).await.expect("a removal");
    let left = storage::entities::freeze_periods::Entity::find().all(db).await.expect("rows");
    assert_eq!(left, []);
}

on_every_database![
    freeze_period_lifecycle,
    freeze_period_writes_reject_invalid_cron_and_time_zone,
    freeze_periods_require_maintainer,
    is_frozen_between_start_and_end_of_period,
    is_frozen_handles_daylight_saving_changes,
    create_freeze_period_rejects_more_than_100_periods,
    deleting_project_deletes_freeze_periods,
];
