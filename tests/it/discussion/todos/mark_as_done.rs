//! Completion of to-do items, by request and by actions.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{pairs, pending, public_project, write};
use crate::planning::issues::open;
use crate::review::merge_requests::propose;
use crate::support::code::Project;
use crate::support::{TestServer, on_every_database};

async fn mark_todo_as_done_is_idempotent(server: TestServer) {
    let (root, ann, bob) = (server.root(), server.create_user("ann").await, server.create_user("bob").await);
    let id = public_project(&server, "p").await;
    for title in ["one", "two"] {
        open(&root, id, json!({"title": title, "description": "@ann @bob"})).await;
    }
    let first = ann.client.get("/todos").await.expect(200).json()[1]["id"].clone();
    let path = format!("/todos/{first}/mark_as_done");
    bob.client.post(&path, json!({})).await.expect(404);
    for _ in 0..2 {
        let done = ann.client.post(&path, json!({})).await.expect(201).json();
        assert_eq!((&done["id"], &done["state"]), (&first, &json!("done")));
    }
    server.anonymous().post(&path, json!({})).await.expect(401);
    assert_eq!(pending(&ann.client).await, pairs([("directly_addressed", "two")]));
    let done = ann.client.get("/todos?state=done").await.expect(200).pluck("id");
    assert_eq!(done, [first]);
    assert_eq!(pending(&bob.client).await.len(), 2);
}

async fn mark_all_todos_as_done_is_idempotent(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let id = public_project(&server, "p").await;
    open(&root, id, json!({"title": "one", "description": "@ann"})).await;
    server.anonymous().post("/todos/mark_as_done", json!({})).await.expect(401);
    for _ in 0..2 {
        assert!(ann.client.post("/todos/mark_as_done", json!({})).await.expect(204).body.is_empty());
        assert_eq!(pending(&ann.client).await, []);
    }
    assert_eq!(ann.client.get("/todos?state=done").await.expect(200).json().as_array().unwrap().len(), 1);
}

async fn actions_on_target_complete_todos(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let project = Project::with_commits(&server, "p", Visibility::Public).await;
    server.insert_member(project.id, ann.id, AccessLevel::Maintainer).await;
    let issue = format!("/projects/{}/issues/{}", project.id, open(&root, project.id, json!({"title": "t"})).await);
    propose(&root, project.id, "feature/x", "main", json!({})).await;
    let merge_request = format!("/projects/{}/merge_requests/1", project.id);
    let rounds = [
        (&issue, "notes", json!({"body": "answer"})),
        (&issue, "award_emoji", json!({"name": "tada"})),
        (&issue, "add_spent_time", json!({"duration": "1h"})),
        (&merge_request, "notes", json!({"body": "answer"})),
    ];
    for (on, action, body) in rounds {
        write(&root, on, "@ann?").await;
        assert_eq!(pending(&ann.client).await.len(), 1, "{action}");
        ann.client.post(&format!("{on}/{action}"), body).await.expect(201);
        assert_eq!(pending(&ann.client).await, [], "{action}");
    }
    for (on, action, body) in [
        (&issue, "", json!({"state_event": "close"})),
        (&merge_request, "", json!({"title": "other"})),
        (&merge_request, "/merge", json!({})),
    ] {
        write(&root, on, "@ann?").await;
        ann.client.put(&format!("{on}{action}"), body).await.expect(200);
        assert_eq!(pending(&ann.client).await, [], "{on}{action}");
    }
    // Actions of other users do not complete the item. A user who assigns themselves gets a new item.
    write(&root, &issue, "@ann?").await;
    write(&root, &issue, "still there?").await;
    assert_eq!(pending(&ann.client).await.len(), 1);
    ann.client.put(&issue, json!({"assignee_ids": [ann.id]})).await.expect(200);
    assert_eq!(pending(&ann.client).await, pairs([("assigned", "t")]));
}

on_every_database![
    mark_todo_as_done_is_idempotent,
    mark_all_todos_as_done_is_idempotent,
    actions_on_target_complete_todos,
];
