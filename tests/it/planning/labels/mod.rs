//! Labels of projects and groups.

mod assignment;
mod promotion;

use serde_json::{Value, json};

use crate::support::client::segment;
use crate::support::spaces::{group, id, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Creates a label below `/projects/:id` or `/groups/:id` and returns its ID.
pub async fn label(client: &Client, parent: &str, name: &str) -> i64 {
    let body = json!({ "name": name, "color": "#D9534F" });
    id(&client.post(&format!("{parent}/labels"), body).await.expect(201).json())
}

const EARLY: &str = "Thu, 01 Jan 1970 00:00:00 GMT";

async fn labels_can_be_created_read_updated_and_deleted(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let team = group(&root, "team", json!({})).await;
    for parent in [format!("/projects/{work}"), format!("/groups/{team}")] {
        let all = format!("{parent}/labels");
        let body = json!({ "name": " c/d & e ", "color": "teal", "description": "<b>", "priority": 2 });
        let created = root.post(&all, body.clone()).await.expect(201).json();
        let mut expected = json!({
            "id": created["id"], "name": "c/d & e", "color": "#008080", "text_color": "#FFFFFF",
            "description": "<b>", "description_html": "&lt;b&gt;", "subscribed": false,
        });
        if parent.starts_with("/projects") {
            expected["priority"] = json!(2);
            expected["is_project_label"] = json!(true);
        }
        assert_eq!(created, expected);
        assert_eq!(root.post(&all, body).await.expect(409).message(), "Label already exists");
        for reference in [created["id"].to_string(), segment("c/d & e")] {
            assert_eq!(root.get(&format!("{all}/{reference}")).await.expect(200).json(), expected);
        }
        let one = format!("{all}/{}", created["id"]);
        let change = json!({ "new_name": "bug", "color": "#fab", "description": null });
        let changed = root.put(&one, change).await.expect(200).json();
        assert_eq!(changed["name"], "bug");
        assert_eq!((&changed["color"], &changed["text_color"]), (&json!("#ffaabb"), &json!("#333333")));
        assert_eq!((&changed["description"], &changed["description_html"]), (&Value::Null, &json!("")));
        let other = label(&root, &parent, "other").await;
        for path in [format!("{all}/{other}"), format!("{all}/other")] {
            root.put(&path, json!({ "new_name": "bug" })).await.expect(409);
            root.put(&path, json!({ "new_name": "other" })).await.expect(200);
        }
        // The older form with the label in the body.
        root.put(&all, json!({ "name": "other", "new_name": "bug" })).await.expect(409);
        let renamed = root.put(&all, json!({ "name": "other", "new_name": "third" })).await.expect(200);
        assert_eq!(renamed.json()["id"], other);
        root.put(&all, json!({ "label_id": other, "color": "#000000" })).await.expect(200);
        root.put(&all, json!({ "name": "bug", "label_id": other, "color": "red" })).await.expect(400);
        root.put(&all, json!({ "color": "red" })).await.expect(400);
        assert_eq!(root.get(&all).await.expect(200).pluck("name"), ["bug", "third"]);
        let early = root.clone().header("If-Unmodified-Since", EARLY);
        early.delete(&format!("{all}/third")).await.expect(412);
        early.delete(&format!("{all}?name=third")).await.expect(412);
        root.delete(&format!("{all}?name=third")).await.expect(204);
        root.delete(&format!("{all}?name=third")).await.expect(404);
        root.delete(&all).await.expect(400);
        root.delete(&format!("{all}/bug")).await.expect(204);
        assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
        let missing_label = root.get(&format!("{all}/bug")).await.expect(404);
        assert_eq!(missing_label.message(), "404 Label Not Found");
        root.put(&format!("{all}/bug"), json!({ "color": "red" })).await.expect(404);
        root.delete(&format!("{all}/bug")).await.expect(404);
        root.post(&format!("{all}/bug/subscribe"), json!({})).await.expect(404);
    }
}

async fn create_and_update_label_reject_invalid_attributes(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let all = format!("/projects/{work}/labels");
    let refused = async |name: &str, color: &str| {
        let body = json!({ "name": name, "color": color });
        root.post(&all, body).await.expect(400).json()["message"].clone()
    };
    assert_eq!(refused("a", "#12345").await, json!({ "color": ["must be a valid color code"] }));
    assert_eq!(refused("a", "reddish").await, json!({ "color": ["must be a valid color code"] }));
    assert_eq!(refused(" ", "red").await, json!({ "title": ["can't be blank"] }));
    assert_eq!(refused("a, b", "red").await, json!({ "title": ["is invalid"] }));
    let long = json!({ "title": ["is too long (maximum is 255 characters)"] });
    assert_eq!(refused(&"é".repeat(256), "red").await, long);
    let missing = root.post(&all, json!({})).await.expect(400).message();
    assert_eq!(missing, "name is missing, color is missing");
    for priority in [json!(-1), json!("foo"), json!(2_147_483_648_i64)] {
        root.post(&all, json!({ "name": "a", "color": "red", "priority": priority })).await.expect(400);
    }
    root.post(&all, json!({ "name": "é".repeat(255), "color": "red", "priority": 0 })).await.expect(201);
    let nothing = root.put(&format!("{all}/a"), json!({})).await.expect(400).message();
    assert_eq!(nothing, "new_name, color, description, priority are missing, at least one parameter must be provided");
    let team = group(&root, "team", json!({})).await;
    label(&root, &format!("/groups/{team}"), "a").await;
    root.put(&format!("/groups/{team}/labels/a"), json!({ "priority": 1 })).await.expect(400);
}

async fn list_labels_includes_labels_of_ancestor_groups(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let low = group(&root, "low", json!({ "parent_id": top })).await;
    let work = project(&root, "work", json!({ "namespace_id": low })).await;
    let (top, low, work) = (format!("/groups/{top}"), format!("/groups/{low}"), format!("/projects/{work}"));
    let inherited = label(&root, &top, "Security").await;
    label(&root, &low, "area").await;
    label(&root, &work, "bug").await;
    let names = async |path: &str| root.get(path).await.expect(200).pluck("name");
    assert_eq!(names(&format!("{top}/labels")).await, ["Security"]);
    assert_eq!(names(&format!("{low}/labels?search=SEC")).await, ["Security"]);
    assert_eq!(names(&format!("{low}/labels?include_ancestor_groups=false")).await, ["area"]);
    assert_eq!(names(&format!("{work}/labels?include_ancestor_groups=false")).await, ["bug"]);
    assert_eq!(names(&format!("{work}/labels?search=%25")).await, Vec::<Value>::new());
    let list = root.get(&format!("{work}/labels?per_page=2")).await.expect(200);
    assert_eq!((list.header("x-total"), list.pluck("name").len()), ("3", 2));
    let found = root.get(&format!("{work}/labels/Security")).await.expect(200).json();
    assert_eq!((&found["id"], &found["is_project_label"]), (&json!(inherited), &json!(false)));
    for parent in [&low, &work] {
        let taken = json!({ "name": "Security", "color": "red" });
        root.post(&format!("{parent}/labels"), taken).await.expect(409);
        root.put(&format!("{parent}/labels/Security"), json!({ "color": "red" })).await.expect(404);
        root.delete(&format!("{parent}/labels/Security")).await.expect(404);
    }
    // A project can set the priority of inherited labels.
    let ranked = root.put(&format!("{work}/labels/Security"), json!({ "priority": 3 })).await.expect(200);
    assert_eq!(ranked.json()["priority"], 3);
    // The project label precedes a group label of the same title that was created later.
    let same = label(&root, &top, "bug").await;
    assert_eq!(names(&format!("{work}/labels?search=bug")).await, ["bug", "bug"]);
    let own = root.get(&format!("{work}/labels/bug")).await.expect(200).json();
    assert_eq!(own["is_project_label"], true);
    let other = root.get(&format!("{work}/labels/{same}")).await.expect(200).json();
    assert_eq!(other["is_project_label"], false);
    // Digits are an ID first, and a title if no label has that ID.
    label(&root, &work, "4711").await;
    assert_eq!(root.get(&format!("{work}/labels/4711")).await.expect(200).json()["name"], "4711");
}

async fn label_writes_require_reporter_and_reads_require_visibility(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({ "visibility": "public" })).await;
    let team = group(&root, "team", json!({ "visibility": "public" })).await;
    let body = json!({ "name": "new", "color": "red" });
    for (number, parent) in [format!("/projects/{work}"), format!("/groups/{team}")].iter().enumerate() {
        let all = format!("{parent}/labels");
        let guest = server.create_user(&format!("guest-{number}")).await;
        let reporter = server.create_user(&format!("reporter-{number}")).await;
        join(&root, parent, guest.id, 10).await;
        join(&root, parent, reporter.id, 20).await;
        label(&reporter.client, parent, "bug").await;
        assert_eq!(server.anonymous().get(&all).await.expect(200).pluck("subscribed"), [false]);
        server.anonymous().get(&format!("{all}/bug")).await.expect(200);
        server.anonymous().post(&all, body.clone()).await.expect(401);
        server.anonymous().post(&format!("{all}/bug/subscribe"), json!({})).await.expect(401);
        guest.client.post(&all, body.clone()).await.expect(403);
        guest.client.put(&format!("{all}/bug"), json!({ "color": "red" })).await.expect(403);
        guest.client.delete(&format!("{all}/bug")).await.expect(403);
    }
    let all = format!("/projects/{work}/labels");
    let off = json!({ "issues_access_level": "private", "merge_requests_access_level": "disabled" });
    root.put(&format!("/projects/{work}"), off).await.expect(200);
    server.anonymous().get(&all).await.expect(403);
    root.put(&format!("/projects/{work}"), json!({ "merge_requests_access_level": "enabled" })).await.expect(200);
    server.anonymous().get(&all).await.expect(200);
    root.post(&format!("/projects/{work}/archive"), json!({})).await.expect(201);
    root.post(&all, body).await.expect(403);
    root.get(&all).await.expect(200);
}

async fn subscribe_to_label_affects_only_the_caller(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({ "visibility": "public" })).await;
    let team = group(&root, "team", json!({ "visibility": "public" })).await;
    let ada = server.create_user("ada").await.client;
    for parent in [format!("/projects/{work}"), format!("/groups/{team}")] {
        let number = label(&root, &parent, "bug").await;
        let all = format!("{parent}/labels");
        ada.post(&format!("{all}/bug/unsubscribe"), json!({})).await.expect(304);
        let subscribed = ada.post(&format!("{all}/bug/subscribe"), json!({})).await.expect(201).json();
        assert_eq!((&subscribed["id"], &subscribed["subscribed"]), (&json!(number), &json!(true)));
        ada.post(&format!("{all}/{number}/subscribe"), json!({})).await.expect(304);
        assert_eq!(ada.get(&all).await.expect(200).pluck("subscribed"), [true]);
        assert_eq!(root.get(&all).await.expect(200).pluck("subscribed"), [false]);
        let unsubscribed = ada.post(&format!("{all}/bug/unsubscribe"), json!({})).await.expect(201).json();
        assert_eq!(unsubscribed["subscribed"], false);
        assert_eq!(ada.get(&format!("{all}/bug")).await.expect(200).json()["subscribed"], false);
        ada.post(&format!("{all}/bug/subscribe"), json!({})).await.expect(201);
    }
}

async fn concurrent_creates_of_one_label_return_409_except_one(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let all = format!("/projects/{work}/labels");
    let same = (0..4).map(|_| root.post(&all, json!({ "name": "same", "color": "red" })));
    let mut statuses: Vec<u16> =
        futures_util::future::join_all(same).await.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409]);
    root.get(&format!("{all}/same")).await.expect(200);
}

on_every_database![
    labels_can_be_created_read_updated_and_deleted,
    create_and_update_label_reject_invalid_attributes,
    list_labels_includes_labels_of_ancestor_groups,
    label_writes_require_reporter_and_reads_require_visibility,
    subscribe_to_label_affects_only_the_caller,
    concurrent_creates_of_one_label_return_409_except_one,
];
