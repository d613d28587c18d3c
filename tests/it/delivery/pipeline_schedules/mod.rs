//! Pipeline schedules of projects.

mod invalid_input;
mod nodes;
mod scheduler;
mod variables;

use chrono::{DateTime, TimeDelta, Timelike, Utc};
use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, pipeline_schedules};

use crate::support::code::Project;
use crate::support::spaces::id;
use crate::support::{Client, TestServer, on_every_database};

/// Creates a schedule below `/projects/:id` for `main` and returns its ID.
pub async fn schedule(client: &Client, project_path: &str) -> i64 {
    let body = json!({ "description": "nightly", "ref": "main", "cron": "0 0 1 1 *" });
    let created = client.post(&format!("{project_path}/pipeline_schedules"), body).await;
    id(&created.expect(201).json())
}

fn time(value: &Value) -> DateTime<Utc> {
    let text = value.as_str().expect("a time");
    DateTime::parse_from_rfc3339(text).expect("a time").to_utc()
}

async fn schedules_can_be_created_read_updated_and_deleted(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "work", Visibility::Private).await;
    let all = format!("/projects/{}/pipeline_schedules", project.id);
    assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
    let body = json!({ "description": "Nightly", "ref": "not-there-yet", "cron": " 30 2 * * 1-5 ", "cron_timezone": "Asia/Tokyo", "active": false });
    let created = root.post(&all, body).await.expect(201).json();
    assert_eq!(
        created,
        json!({
            "id": created["id"], "description": "Nightly", "ref": "not-there-yet", "cron": "30 2 * * 1-5", "cron_timezone": "Asia/Tokyo",
            "next_run_at": created["next_run_at"], "active": false, "created_at": created["created_at"], "updated_at": created["updated_at"],
            "owner": created["owner"], "last_pipeline": null, "variables": [],
        })
    );
    assert_eq!(created["owner"]["username"], "root");
    // Tokyo is always nine hours ahead of UTC.
    let next = time(&created["next_run_at"]);
    assert!((next.hour(), next.minute(), next.second()) == (17, 30, 0) && next > Utc::now());
    let one = format!("{all}/{}", created["id"]);
    assert_eq!(root.get(&one).await.expect(200).json(), created);
    let plain = json!({ "description": "x", "ref": "main", "cron": "0 * * * *" });
    let second = root.post(&all, plain).await.expect(201).json();
    assert_eq!((&second["cron_timezone"], &second["active"]), (&json!("UTC"), &json!(true)));
    assert!(time(&second["next_run_at"]) <= Utc::now() + TimeDelta::hours(1));
    let short = |full: &Value| {
        let mut short = full.clone();
        let fields = short.as_object_mut().expect("an object");
        fields.remove("last_pipeline");
        fields.remove("variables");
        short
    };
    assert_eq!(root.get(&all).await.expect(200).json(), json!([short(&second), short(&created)]));
    assert_eq!(root.get(&format!("{all}?scope=active")).await.expect(200).json(), json!([short(&second)]));
    assert_eq!(root.get(&format!("{all}?scope=inactive")).await.expect(200).json(), json!([short(&created)]));
    assert_eq!(root.get(&format!("{all}?per_page=1&page=2")).await.expect(200).json(), json!([short(&created)]));
    assert_eq!(root.get(&format!("{all}?scope=all")).await.expect(400).message(), "scope does not have a valid value");
    let changed =
        root.put(&one, json!({ "cron": "0 4 * * *", "active": true, "ref": "main" })).await.expect(200).json();
    assert_eq!(time(&changed["next_run_at"]).hour(), 19);
    assert_eq!(
        (&changed["description"], &changed["ref"], &changed["active"]),
        (&json!("Nightly"), &json!("main"), &json!(true))
    );
    let changed = root.put(&one, json!({ "cron_timezone": "UTC", "description": "Daily" })).await.expect(200).json();
    assert_eq!((time(&changed["next_run_at"]).hour(), &changed["description"]), (4, &json!("Daily")));
    assert_eq!(root.get(&one).await.expect(200).json(), changed);
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&one).await.expect(412);
    assert_eq!(root.delete(&one).await.expect(200).json(), changed);
    for response in [
        root.get(&one).await,
        root.delete(&one).await,
        root.put(&one, json!({ "active": true })).await,
        root.post(&format!("{one}/play"), json!({})).await,
        root.post(&format!("{one}/take_ownership"), json!({})).await,
        root.post(&format!("{one}/variables"), json!({ "key": "K", "value": "v" })).await,
    ] {
        assert_eq!((response.status, response.message()), (404, "404 Pipeline Schedule Not Found".to_owned()));
    }
}

async fn update_schedule_recalculates_next_run(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "anew", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let one = format!("{project_path}/pipeline_schedules/{}", schedule(&root, &project_path).await);
    let next = time(&root.get(&one).await.expect(200).json()["next_run_at"]);
    let db = server.backend.database.write();
    for change in [json!({}), json!({ "description": "x" }), json!({ "active": false }), json!({ "active": true })] {
        let late = pipeline_schedules::ActiveModel {
            id: sea_orm::ActiveValue::Set(one.rsplit('/').next().expect("an id").parse().expect("an id")),
            next_run_at: sea_orm::ActiveValue::Set(Utc::now() - TimeDelta::days(3)),
            ..Default::default()
        };
        pipeline_schedules::Entity::update(late).exec(db).await.expect("an update");
        let changed = root.put(&one, change).await.expect(200).json();
        assert_eq!(time(&changed["next_run_at"]), next);
    }
}

async fn create_and_update_schedule_reject_invalid_attributes(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "faults", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let all = format!("{project_path}/pipeline_schedules");
    let one = format!("{all}/{}", schedule(&root, &project_path).await);
    let unchanged = root.get(&one).await.expect(200).json();
    let message = async |body: Value| root.post(&all, body).await.expect(400).json()["message"].clone();
    assert_eq!(message(json!({})).await, "description is missing, ref is missing, cron is missing");
    let body_with = |name: &str, value: &str| {
        let mut body = json!({ "description": "x", "ref": "main", "cron": "* * * * *" });
        body[name] = json!(value);
        body
    };
    for blank in ["", " "] {
        assert_eq!(message(body_with("ref", blank)).await, "ref is empty");
        assert_eq!(message(body_with("description", blank)).await, json!({ "description": ["can't be blank"] }));
        assert_eq!(
            message(body_with("cron", blank)).await,
            json!({ "cron": [" is invalid syntax", "can't be blank"] })
        );
        let rejected = root.put(&one, json!({ "ref": blank })).await.expect(400);
        assert_eq!(rejected.json()["message"], json!({ "ref": ["can't be blank"] }));
        root.put(&one, json!({ "description": blank })).await.expect(400);
    }
    let invalid = json!([" is invalid syntax"]);
    for cron in ["0 0 0 * *", "x", "@daily", "* * * *", "* * * * * *", "0 0 31 2 *", "*/0 * * * *", "0 0 * * 1; rm"] {
        assert_eq!(message(body_with("cron", cron)).await, json!({ "cron": invalid }), "{cron}");
        root.put(&one, json!({ "cron": cron })).await.expect(400);
    }
    for zone in ["Mars/Base", "UTC+25", "../etc/passwd"] {
        assert_eq!(message(body_with("cron_timezone", zone)).await, json!({ "cron_timezone": invalid }), "{zone}");
        root.put(&one, json!({ "cron_timezone": zone })).await.expect(400);
    }
    for (name, length) in [("description", 256), ("ref", 1025), ("cron", 256)] {
        root.post(&all, body_with(name, &"x".repeat(length))).await.expect(400);
    }
    assert_eq!(root.get(&one).await.expect(200).json(), unchanged);
    assert_eq!(root.get(&all).await.expect(200).pluck("id"), [unchanged["id"].clone()]);
}

async fn project_has_at_most_ten_schedules(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "ten", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    for _ in 0..9 {
        schedule(&root, &project_path).await;
    }
    let all = format!("{project_path}/pipeline_schedules");
    let body = json!({ "description": "x", "ref": "main", "cron": "0 1 * * *" });
    let responses = futures_util::future::join_all((0..3).map(|_| root.post(&all, body.clone()))).await;
    let mut statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400, 400]);
    let rejected = responses.iter().find(|response| response.status == 400).expect("a refusal");
    let text = "Maximum number of ci pipeline schedules (10) exceeded";
    assert_eq!(rejected.json()["message"], json!({ "base": [text] }));
}

async fn schedule_writes_require_owner_or_maintainer(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "roles", Visibility::Public).await;
    let project_path = format!("/projects/{}", project.id);
    let all = format!("{project_path}/pipeline_schedules");
    let developer = project.member("developer", AccessLevel::Developer).await;
    let other = project.member("other", AccessLevel::Developer).await;
    let maintainer = project.member("maintainer", AccessLevel::Maintainer).await;
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    let non_member = server.create_user("stranger").await.client;
    let body = json!({ "description": "x", "ref": "feature/x", "cron": "0 1 * * *" });
    let one = format!("{all}/{}", id(&developer.post(&all, body.clone()).await.expect(201).json()));
    let variable = json!({ "key": "K", "value": "v" });
    developer.post(&format!("{one}/variables"), variable.clone()).await.expect(201);
    for (client, status) in [(&server.anonymous(), 401), (&non_member, 403), (&reporter, 403)] {
        client.get(&all).await.expect(status);
        client.get(&one).await.expect(status);
        client.post(&all, body.clone()).await.expect(status);
        client.put(&one, json!({ "active": false })).await.expect(status);
        client.delete(&one).await.expect(status);
        client.post(&format!("{one}/play"), json!({})).await.expect(status);
        client.post(&format!("{one}/take_ownership"), json!({})).await.expect(status);
        client.post(&format!("{one}/variables"), variable.clone()).await.expect(status);
        client.put(&format!("{one}/variables/K"), json!({ "value": "w" })).await.expect(status);
        client.delete(&format!("{one}/variables/K")).await.expect(status);
    }
    // Other Developers can read and play it.
    assert_eq!(other.get(&one).await.expect(200).json()["variables"][0]["value"], "v");
    assert_eq!(
        other.post(&format!("{one}/play"), json!({})).await.expect(201).json(),
        json!({ "message": "201 Created" })
    );
    let forbidden = other.put(&one, json!({ "active": false })).await.expect(403);
    assert_eq!(forbidden.message(), "403 Forbidden");
    other.delete(&one).await.expect(403);
    other.post(&format!("{one}/take_ownership"), json!({})).await.expect(403);
    other.post(&format!("{one}/variables"), variable).await.expect(403);
    other.put(&format!("{one}/variables/K"), json!({ "value": "w" })).await.expect(403);
    other.delete(&format!("{one}/variables/K")).await.expect(403);
    developer.put(&one, json!({ "description": "mine" })).await.expect(200);
    maintainer.put(&one, json!({ "description": "ours" })).await.expect(200);
    maintainer.put(&format!("{one}/variables/K"), json!({ "value": "w" })).await.expect(200);
    let taken = maintainer.post(&format!("{one}/take_ownership"), json!({})).await.expect(201).json();
    assert_eq!(taken["owner"]["username"], "maintainer");
    let again = maintainer.post(&format!("{one}/take_ownership"), json!({})).await.expect(201).json();
    assert_eq!(again["owner"], taken["owner"]);
    developer.put(&one, json!({ "description": "mine" })).await.expect(403);
    let elsewhere = Project::with_commits(&server, "elsewhere", Visibility::Private).await;
    root.get(&one.replace(&project_path, &format!("/projects/{}", elsewhere.id))).await.expect(404);
    maintainer.get(&format!("/projects/{}/pipeline_schedules", elsewhere.id)).await.expect(404);
    root.put(&project_path, json!({ "builds_access_level": "disabled" })).await.expect(200);
    maintainer.get(&all).await.expect(403);
    maintainer.post(&all, body.clone()).await.expect(403);
    root.put(&project_path, json!({ "builds_access_level": "enabled" })).await.expect(200);
    project.archive().await;
    maintainer.get(&one).await.expect(200);
    maintainer.post(&all, body).await.expect(403);
    maintainer.post(&format!("{one}/play"), json!({})).await.expect(403);
    maintainer.delete(&one).await.expect(403);
}

on_every_database![
    schedules_can_be_created_read_updated_and_deleted,
    update_schedule_recalculates_next_run,
    create_and_update_schedule_reject_invalid_attributes,
    project_has_at_most_ten_schedules,
    schedule_writes_require_owner_or_maintainer,
];
