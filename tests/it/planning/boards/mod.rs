//! Boards of projects and groups, and their lists.

mod lists;

use domain::identity::access::ProjectAccess;
use domain::identity::space_access::SpaceAccess;
use domain::kernel::caller::Caller;
use domain::kernel::error::Error;
use domain::kernel::page::PageRequest;
use domain::planning::boards;
use holdfast::config::ConfigOptions;
use serde_json::{Value, json};
use storage::entities::AccessLevel;

use crate::planning::labels::label;
use crate::planning::milestones::milestone;
use crate::support::body_memory::request_memory;
use crate::support::spaces::{group, id, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Creates a board of `/projects/:id` or `/groups/:id` and returns its ID.
pub async fn board(client: &Client, parent: &str, name: &str) -> i64 {
    let body = json!({ "name": name });
    id(&client.post(&format!("{parent}/boards"), body).await.expect(201).json())
}

/// Adds a list to a board and returns its ID.
pub async fn list(client: &Client, parent: &str, board: i64, of: Value) -> i64 {
    let path = format!("{parent}/boards/{board}/lists");
    id(&client.post(&path, of).await.expect(201).json())
}

async fn project_and_group_board_lifecycle(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({ "name": "Work" })).await;
    let team = group(&root, "team", json!({ "name": "Team" })).await;
    let page = root.get(&format!("/projects/{work}")).await.expect(200).json()["web_url"].clone();
    let of_project =
        json!({ "id": work, "name": "Work", "path": "work", "path_with_namespace": "root/work", "web_url": page });
    let page = root.get(&format!("/groups/{team}")).await.expect(200).json()["web_url"].clone();
    let of_group = json!({ "id": team, "name": "Team", "web_url": page });
    for (parent, of_project, of_group) in
        [(format!("/projects/{work}"), of_project, Value::Null), (format!("/groups/{team}"), Value::Null, of_group)]
    {
        let all = format!("{parent}/boards");
        let created = root.post(&all, json!({ "name": " Development " })).await.expect(201).json();
        let expected = json!({
            "id": created["id"], "name": "Development", "hide_backlog_list": false, "hide_closed_list": false,
            "project": of_project, "group": of_group, "milestone": null, "assignee": null, "labels": [],
            "weight": null, "lists": [],
        });
        assert_eq!(created, expected);
        let one = format!("{all}/{}", created["id"]);
        assert_eq!(root.get(&one).await.expect(200).json(), expected);
        assert_eq!(root.get(&all).await.expect(200).json(), json!([expected]));
        label(&root, &parent, "bug").await;
        let v1 = milestone(&root, &parent, "v1").await;
        let change = json!({
            "name": "Plan", "hide_backlog_list": true, "hide_closed_list": true, "milestone_id": v1, "labels": "bug, ",
            "weight": 3,
        });
        let changed = root.put(&one, change).await.expect(200).json();
        assert_eq!((&changed["name"], &changed["weight"]), (&json!("Plan"), &json!(3)));
        assert_eq!((&changed["hide_backlog_list"], &changed["hide_closed_list"]), (&json!(true), &json!(true)));
        assert_eq!((&changed["milestone"]["title"], &changed["labels"][0]["name"]), (&json!("v1"), &json!("bug")));
        let ada = server.create_user(&format!("ada{}", created["id"])).await;
        root.put(&one, json!({ "assignee_id": ada.id })).await.expect(400);
        join(&root, &parent, ada.id, 10).await;
        let assigned = root
            .put(&one, json!({ "assignee_id": ada.id, "labels": "", "milestone_id": null }))
            .await
            .expect(200)
            .json();
        assert_eq!((&assigned["assignee"]["id"], &assigned["labels"]), (&json!(ada.id), &json!([])));
        assert_eq!((&assigned["milestone"], &assigned["weight"]), (&Value::Null, &json!(3)));
        for bad in [
            json!({}),
            json!({ "name": " " }),
            json!({ "milestone_id": 4711 }),
            json!({ "labels": "unknown" }),
            json!({ "assignee_id": 4711 }),
            json!({ "weight": -1 }),
        ] {
            root.put(&one, bad).await.expect(400);
        }
        root.post(&all, json!({ "name": " " })).await.expect(400);
        let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
        early.delete(&one).await.expect(412);
        root.delete(&one).await.expect(204);
        root.delete(&one).await.expect(404);
        assert_eq!(root.get(&one).await.expect(404).message(), "404 Board Not Found");
        root.put(&one, json!({ "name": "x" })).await.expect(404);
    }
}

async fn board_writes_require_reporter(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({ "visibility": "public" })).await;
    let team = group(&root, "team", json!({ "visibility": "public" })).await;
    for (number, parent) in [format!("/projects/{work}"), format!("/groups/{team}")].iter().enumerate() {
        let guest = server.create_user(&format!("guest-{number}")).await;
        let reporter = server.create_user(&format!("reporter-{number}")).await;
        join(&root, parent, guest.id, 10).await;
        join(&root, parent, reporter.id, 20).await;
        let one = board(&reporter.client, parent, "x").await;
        let all = format!("{parent}/boards");
        server.anonymous().get(&all).await.expect(200);
        server.anonymous().get(&format!("{all}/{one}/lists")).await.expect(200);
        for (client, status) in [(&server.anonymous(), 401), (&guest.client, 403)] {
            client.post(&all, json!({ "name": "y" })).await.expect(status);
            client.put(&format!("{all}/{one}"), json!({ "name": "y" })).await.expect(status);
            client.delete(&format!("{all}/{one}")).await.expect(status);
        }
    }
    root.put(&format!("/projects/{work}"), json!({ "issues_access_level": "private" })).await.expect(200);
    server.anonymous().get(&format!("/projects/{work}/boards")).await.expect(403);
    root.get(&format!("/projects/{work}/boards")).await.expect(200);
}

async fn create_board_rejects_more_than_100_boards(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    for number in 0..100 {
        board(&root, &work, &number.to_string()).await;
    }
    root.post(&format!("{work}/boards"), json!({ "name": "more" })).await.expect(400);
    let page = root.get(&format!("{work}/boards?per_page=3&page=2")).await.expect(200);
    assert_eq!((page.pluck("name"), page.header("x-total")), (vec![json!("3"), json!("4"), json!("5")], "100"));
}

async fn free_plan_rejects_board_scope_and_other_list_types(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    let one = board(&root, &work, "x").await;
    let path = format!("{work}/boards/{one}");
    root.put(&path, json!({ "hide_closed_list": true })).await.expect(200);
    root.put(&path, json!({ "weight": 1 })).await.expect(403);
    let v1 = milestone(&root, &work, "v1").await;
    root.post(&format!("{path}/lists"), json!({ "milestone_id": v1 })).await.expect(403);
    root.post(&format!("{path}/lists"), json!({ "assignee_id": 1 })).await.expect(403);
    let bug = label(&root, &work, "bug").await;
    list(&root, &work, one, json!({ "label_id": bug })).await;
}

fn free_plan_options() -> ConfigOptions {
    ConfigOptions { plan: Some("free".to_owned()), ..ConfigOptions::default() }
}

async fn copies_of_descriptions_count_against_the_memory(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let path = format!("/projects/{id}");
    let large = json!({ "title": "large", "description": "x".repeat(100_000) });
    let large = root.post(&format!("{path}/milestones"), large).await.expect(201).json()["id"].clone();
    let bug = json!({ "name": "bug", "color": "teal", "description": "x".repeat(10_000) });
    let bug = root.post(&format!("{path}/labels"), bug).await.expect(201).json()["id"].clone();
    for name in ["one", "two", "three"] {
        let board = board(&root, &path, name).await;
        list(&root, &path, board, json!({ "milestone_id": large })).await;
        list(&root, &path, board, json!({ "label_id": bug })).await;
    }
    let user = server.create_user("ann").await;
    server.insert_member(id, user.id, AccessLevel::Developer).await;
    let listed = async |memory_bytes: u64| {
        let (_, memory) = request_memory(memory_bytes);
        let caller = Caller::user(user.row.clone()).with_memory(memory);
        let access = ProjectAccess::find(&server.backend, caller, &id.to_string()).await.expect("access");
        let page = boards::list(&server.backend, &SpaceAccess::from(access), &PageRequest::default()).await;
        page.map(|page| page.items.len())
    };
    // The milestone is read once. The response contains it three times, and the label as text and as HTML.
    assert!(matches!(listed(459_990).await, Err(Error::Overloaded)));
    assert_eq!(listed(460_000).await.expect("boards"), 3);
    let shown = root.get(&format!("{path}/boards")).await.expect(200).json();
    for board in shown.as_array().expect("a list") {
        assert_eq!(board["lists"][0]["milestone"]["description"].as_str().map(str::len), Some(100_000));
        assert_eq!(board["lists"][1]["label"]["description"].as_str().map(str::len), Some(10_000));
    }
}

on_every_database![
    project_and_group_board_lifecycle,
    board_writes_require_reporter,
    create_board_rejects_more_than_100_boards,
    free_plan_rejects_board_scope_and_other_list_types with free_plan_options(),
    copies_of_descriptions_count_against_the_memory,
];
