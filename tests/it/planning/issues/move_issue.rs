//! Moving issues to another project.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{open, public_project, system_notes};
use crate::review::merge_requests::propose;
use crate::support::code::Project;
use crate::support::spaces::{group, project};
use crate::support::{TestServer, on_every_database};

async fn move_issue_preserves_labels_and_milestones_of_the_target(server: TestServer) {
    let root = server.root();
    let (from, to) = (public_project(&server, "from").await, public_project(&server, "to").await);
    let ann = server.create_user("ann").await;
    for id in [from, to] {
        root.post(&format!("/projects/{id}/labels"), json!({"name": "both", "color": "#123456"})).await.expect(201);
        root.post(&format!("/projects/{id}/milestones"), json!({"title": "next"})).await.expect(201);
    }
    let milestones = root.get(&format!("/projects/{from}/milestones")).await.expect(200).pluck("id");
    let body = json!({
        "title": "t", "description": "d", "labels": "both,here", "milestone_id": milestones[0],
        "assignee_ids": [ann.id], "weight": 2, "confidential": true,
    });
    let iid = open(&root, from, body).await;
    let path = format!("/projects/{from}/issues/{iid}/move");
    let moved = root.post(&path, json!({"to_project_id": to})).await.expect(201).json();
    assert_eq!((&moved["project_id"], &moved["iid"], &moved["state"]), (&json!(to), &json!(1), &json!("opened")));
    assert_eq!((&moved["labels"], &moved["milestone"]["title"]), (&json!(["both"]), &json!("next")));
    assert_eq!((&moved["assignee"]["username"], &moved["weight"]), (&json!("ann"), &json!(2)));
    assert_eq!((&moved["description"], &moved["confidential"]), (&json!("d"), &json!(true)));
    assert_eq!(moved["references"], json!({"short": "#1", "relative": "of-to/to#1", "full": "of-to/to#1"}));
    let original = root.get(&format!("/projects/{from}/issues/{iid}")).await.expect(200).json();
    assert_eq!((&original["state"], &original["moved_to_id"]), (&json!("closed"), &moved["id"]));
    assert_eq!(system_notes(&server, from, iid).await, ["moved to of-to/to#1"]);
    assert_eq!(system_notes(&server, to, 1).await, ["moved to of-to/to#1", "moved from of-from/from#1"][1..]);
    root.post(&path, json!({"to_project_id": to})).await.expect(400);
}

async fn moved_issue_receives_the_nearest_milestone_of_its_title(server: TestServer) {
    let root = server.root();
    let from = public_project(&server, "from").await;
    let above = group(&root, "above", json!({"visibility": "public"})).await;
    let below = json!({"visibility": "public", "parent_id": above});
    let below = group(&root, "below", below).await;
    let to = project(&root, "to", json!({"visibility": "public", "namespace_id": below})).await;
    let milestone = async |parent: String, title: &str| {
        let body = json!({"title": title, "due_date": "2031-02-03"});
        root.post(&format!("{parent}/milestones"), body).await.expect(201).json()["id"].clone()
    };
    let here = milestone(format!("/projects/{from}"), "next").await;
    // The farthest milestone is the oldest one.
    let farthest = milestone(format!("/groups/{above}"), "later").await;
    let near = milestone(format!("/groups/{below}"), "soon").await;
    let nearest = milestone(format!("/projects/{to}"), "next").await;
    root.put(&format!("/groups/{below}/milestones/{near}"), json!({"title": "next"})).await.expect(200);
    root.put(&format!("/groups/{above}/milestones/{farthest}"), json!({"title": "next"})).await.expect(200);
    let go = async || {
        let iid = open(&root, from, json!({"title": "t", "milestone_id": here})).await;
        let path = format!("/projects/{from}/issues/{iid}/move");
        let moved = root.post(&path, json!({"to_project_id": to})).await.expect(201).json();
        let row = server.issue(moved["id"].as_i64().expect("an id")).await;
        assert_eq!(row.milestone_due_on.map(|day| day.to_string()).as_deref(), Some("2031-02-03"));
        moved["milestone"]["id"].clone()
    };
    assert_eq!(go().await, nearest);
    root.delete(&format!("/projects/{to}/milestones/{nearest}")).await.expect(204);
    assert_eq!(go().await, near);
}

async fn moved_issue_still_refers_to_its_former_project(server: TestServer) {
    let root = server.root();
    let from = Project::with_commits(&server, "from", Visibility::Public).await;
    let to = Project::with_commits(&server, "to", Visibility::Public).await;
    open(&root, from.id, json!({"title": "first"})).await;
    open(&root, to.id, json!({"title": "unrelated"})).await;
    let text = "See #1, !1, `#1`, root/to#1 and #123456";
    let iid = open(&root, from.id, json!({"title": "t", "description": text})).await;
    let path = format!("/projects/{}/issues/{iid}", from.id);
    root.post(&format!("{path}/notes"), json!({"body": "As in #1 and !1"})).await.expect(201);
    let body = json!({"title": "source", "description": format!("For #{iid}")});
    propose(&root, from.id, "feature/x", "main", body).await;
    propose(&root, to.id, "feature/x", "main", json!({"title": "unrelated"})).await;
    let moved = root.post(&format!("{path}/move"), json!({"to_project_id": to.id})).await.expect(201).json();
    assert_eq!(moved["description"], "See root/from#1, root/from!1, `#1`, root/to#1 and #123456");
    let moved = format!("/projects/{}/issues/{}", to.id, moved["iid"]);
    let notes = root.get(&format!("{moved}/notes?sort=asc&per_page=100")).await.expect(200).pluck("body");
    for expected in ["As in root/from#1 and root/from!1", "mentioned in merge request root/from!1"] {
        assert!(notes.contains(&json!(expected)), "{expected}: {notes:?}");
    }
    let related = root.get(&format!("{moved}/related_merge_requests")).await.expect(200);
    assert_eq!(related.pluck("title"), ["source"]);
    let original = root.get(&path).await.expect(200).json();
    assert_eq!(original["description"], text);
}

async fn move_issue_preserves_visible_assignees_and_all_labels(server: TestServer) {
    let root = server.root();
    let from = public_project(&server, "from").await;
    let to = project(&root, "to", json!({"visibility": "private"})).await;
    let (insider, outsider) = (server.create_user("insider").await, server.create_user("outsider").await);
    server.insert_member(to, insider.id, AccessLevel::Reporter).await;
    let titles: Vec<String> = (0..120).map(|number| format!("label-{number:03}")).collect();
    for title in &titles {
        for id in [from, to] {
            root.post(&format!("/projects/{id}/labels"), json!({"name": title, "color": "#123456"})).await.expect(201);
        }
    }
    let assignees = json!([outsider.id, insider.id]);
    let body = json!({"title": "t", "assignee_ids": assignees, "labels": titles[..60].join(",")});
    let iid = open(&root, from, body).await;
    let more = json!({"add_labels": titles[60..].join(",")});
    root.put(&format!("/projects/{from}/issues/{iid}"), more).await.expect(200);
    let path = format!("/projects/{from}/issues/{iid}/move");
    let moved = root.post(&path, json!({"to_project_id": to})).await.expect(201).json();
    assert_eq!(moved["labels"], json!(titles));
    let remaining: Vec<_> =
        moved["assignees"].as_array().expect("a list").iter().map(|user| &user["username"]).collect();
    assert_eq!(remaining, ["insider"]);
    let original = root.get(&format!("/projects/{from}/issues/{iid}")).await.expect(200).json();
    assert_eq!(original["assignees"].as_array().expect("a list").len(), 2);
}

async fn moved_to_id_is_returned_only_if_the_new_issue_is_visible(server: TestServer) {
    let root = server.root();
    let (from, to) = (public_project(&server, "from").await, public_project(&server, "to").await);
    let hidden = project(&root, "hidden", json!({"visibility": "private"})).await;
    let ann = server.create_user("ann").await.client;
    let mut moved = Vec::new();
    for (target, confidential) in [(to, false), (to, true), (hidden, false)] {
        let iid = open(&root, from, json!({"title": "t"})).await;
        let path = format!("/projects/{from}/issues/{iid}");
        let moved_issue = root.post(&format!("{path}/move"), json!({"to_project_id": target})).await.expect(201).json();
        let moved_path = format!("/projects/{target}/issues/{}", moved_issue["iid"]);
        root.put(&moved_path, json!({"confidential": confidential})).await.expect(200);
        ann.get(&moved_path).await.expect(if confidential || target == hidden { 404 } else { 200 });
        moved.push((path, moved_issue["id"].clone()));
    }
    for (client, seen) in
        [(&root, [true; 3]), (&ann, [true, false, false]), (&server.anonymous(), [true, false, false])]
    {
        for ((path, id), seen) in moved.iter().zip(seen) {
            let moved_to = client.get(path).await.expect(200).json()["moved_to_id"].clone();
            assert_eq!(moved_to, if seen { id.clone() } else { json!(null) }, "{path}");
        }
    }
    let listed = ann.get(&format!("/projects/{from}/issues?sort=asc")).await.expect(200).pluck("moved_to_id");
    assert_eq!(listed, [moved[0].1.clone(), json!(null), json!(null)]);
}

async fn move_issue_requires_permission_in_the_target(server: TestServer) {
    let root = server.root();
    let (from, to) = (public_project(&server, "from").await, public_project(&server, "to").await);
    let ann = server.create_user("ann").await;
    server.insert_member(from, ann.id, AccessLevel::Reporter).await;
    let iid = open(&root, from, json!({"title": "t"})).await;
    let path = format!("/projects/{from}/issues/{iid}/move");
    let rejected = ann.client.post(&path, json!({"to_project_id": to})).await.expect(400).json();
    assert_eq!(rejected["message"], "Cannot move issue due to insufficient permissions!");
    let same = root.post(&path, json!({"to_project_id": from})).await.expect(400).json();
    assert_eq!(same["message"], "Cannot move issue to project it originates from!");
    root.post(&path, json!({"to_project_id": 999_999})).await.expect(404);
    root.post(&path, json!({})).await.expect(400);
    root.post(&format!("/projects/{from}/issues/99/move"), json!({"to_project_id": to})).await.expect(404);
    root.post(&format!("/projects/{to}/archive"), json!({})).await.expect(201);
    root.post(&path, json!({"to_project_id": to})).await.expect(400);
    server.create_user("stranger").await.client.post(&path, json!({"to_project_id": to})).await.expect(403);
    let remaining = root.get(&format!("/projects/{from}/issues/{iid}")).await.expect(200).json();
    assert_eq!((&remaining["state"], &remaining["moved_to_id"]), (&json!("opened"), &json!(null)));
}

on_every_database![
    moved_issue_receives_the_nearest_milestone_of_its_title,
    moved_issue_still_refers_to_its_former_project,
    move_issue_preserves_labels_and_milestones_of_the_target,
    move_issue_preserves_visible_assignees_and_all_labels,
    moved_to_id_is_returned_only_if_the_new_issue_is_visible,
    move_issue_requires_permission_in_the_target,
];
