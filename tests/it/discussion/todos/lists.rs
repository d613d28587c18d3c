//! Lists of to-do items.

use domain::discussion::todos::{self, TodoFilter};
use domain::kernel::caller::Caller;
use domain::kernel::error::Error;
use domain::kernel::page::PageRequest;
use holdfast::config::ConfigOptions;
use serde_json::json;
use storage::entities::AccessLevel;
use storage::entities::todos::TodoState;

use super::{pairs, pending, public_project};
use crate::planning::issues::open;
use crate::support::body_memory::request_memory;
use crate::support::spaces::{group, project};
use crate::support::{TestServer, on_every_database};

fn ultimate_plan() -> ConfigOptions {
    ConfigOptions { plan: Some("ultimate".to_owned()), ..ConfigOptions::default() }
}

async fn list_todos_supports_all_filters(server: TestServer) {
    let (root, ann, bob) = (server.root(), server.create_user("ann").await, server.create_user("bob").await);
    let id = public_project(&server, "p").await;
    let above = root.get(&format!("/projects/{id}")).await.expect(200).json()["namespace"]["id"].clone();
    let below = group(&root, "below", json!({"visibility": "public", "parent_id": above})).await;
    let other = project(&root, "other", json!({"visibility": "public", "namespace_id": below})).await;
    open(&root, id, json!({"title": "of p", "assignee_ids": [ann.id]})).await;
    open(&bob.client, other, json!({"title": "of other", "description": "for @ann"})).await;
    crate::planning::epics::epic(&root, below, "epic", json!({"description": "@ann"})).await;
    let apart = public_project(&server, "apart").await;
    open(&root, apart, json!({"title": "apart", "description": "for @ann"})).await;
    for (query, titles) in [
        ("", &["apart", "epic", "of other", "of p"][..]),
        ("action=assigned", &["of p"]),
        ("action=mentioned", &["apart", "of other"]),
        ("action=build_failed", &[]),
        (&format!("author_id={}", bob.id), &["of other"]),
        (&format!("project_id={id}"), &["of p"]),
        (&format!("group_id={below}"), &["epic", "of other"]),
        (&format!("group_id={above}"), &["epic", "of other", "of p"]),
        (&format!("group_id={above}&type=Issue&action=mentioned"), &["of other"]),
        ("type=Epic", &["epic"]),
        ("type=MergeRequest", &[]),
        ("state=done", &[]),
        ("state=pending&per_page=1&page=2", &["epic"]),
    ] {
        let shown = ann.client.get(&format!("/todos?{query}")).await.expect(200).json();
        let shown: Vec<&str> =
            shown.as_array().unwrap().iter().map(|one| one["target"]["title"].as_str().unwrap()).collect();
        assert_eq!(shown, titles, "{query}");
    }
    for wrong in ["action=other", "state=open", "type=Commit", "project_id=x"] {
        ann.client.get(&format!("/todos?{wrong}")).await.expect(400);
    }
    server.anonymous().get("/todos").await.expect(401);
}

async fn list_todos_omits_targets_that_are_no_longer_visible(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let id = project(&root, "p", json!({})).await;
    server.insert_member(id, ann.id, AccessLevel::Reporter).await;
    let iid = open(&root, id, json!({"title": "t", "confidential": true, "description": "@ann"})).await;
    let confidential_note = json!({"body": "@ann", "confidential": true});
    let other = open(&root, id, json!({"title": "open"})).await;
    root.post(&format!("/projects/{id}/issues/{other}/notes"), confidential_note).await.expect(201);
    let todo = ann.client.get("/todos").await.expect(200).json()[0]["id"].clone();
    assert_eq!(pending(&ann.client).await, pairs([("directly_addressed", "open"), ("directly_addressed", "t")]));
    root.put(&format!("/projects/{id}/members/{}", ann.id), json!({"access_level": 10})).await.expect(200);
    assert_eq!(pending(&ann.client).await, []);
    ann.client.post(&format!("/todos/{todo}/mark_as_done"), json!({})).await.expect(404);
    root.put(&format!("/projects/{id}/issues/{iid}"), json!({"confidential": false})).await.expect(200);
    assert_eq!(pending(&ann.client).await, pairs([("directly_addressed", "t")]));
    root.delete(&format!("/projects/{id}/issues/{iid}")).await.expect(204);
    assert_eq!(pending(&ann.client).await, []);
}

async fn copies_of_targets_count_against_the_memory(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let id = public_project(&server, "p").await;
    let iid = open(&root, id, json!({"title": "t", "description": "x".repeat(100_000)})).await;
    for _ in 0..3 {
        let todo = ann.client.post(&format!("/projects/{id}/issues/{iid}/todo"), json!({})).await.expect(201).json();
        let (_, memory) = request_memory(10);
        let caller = Caller::user(ann.row.clone()).with_memory(memory);
        // The response of a committed write does not fail because too little memory is left.
        let done = todos::mark_done(&server.backend, &caller, todo["id"].as_i64().expect("an id")).await;
        assert_eq!(done.expect("an item").todo.state, TodoState::Done);
    }
    let list = async |memory_bytes: u64| {
        let (_, memory) = request_memory(memory_bytes);
        let caller = Caller::user(ann.row.clone()).with_memory(memory);
        let filter = TodoFilter { state: Some(TodoState::Done), ..TodoFilter::default() };
        let page = todos::list(&server.backend, &caller, &filter, &PageRequest::default()).await;
        page.map(|page| page.items.len())
    };
    // The target is read once.
    assert!(matches!(list(399_990).await, Err(Error::Overloaded)));
    assert_eq!(list(400_000).await.expect("items"), 3);
}

on_every_database![
    list_todos_supports_all_filters with ultimate_plan(),
    list_todos_omits_targets_that_are_no_longer_visible,
    copies_of_targets_count_against_the_memory,
];
