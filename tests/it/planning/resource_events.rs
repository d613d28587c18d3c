//! Events of the labels, the state and the milestone of issues and merge requests.

use std::sync::Arc;

use domain::identity::access::ProjectAccess;
use domain::kernel::caller::Caller;
use domain::kernel::error::Error;
use domain::kernel::page::PageRequest;
use domain::planning::issuables::IssuableKind;
use domain::planning::issuables::resource_events::{self as events_service, ResourceEventKind};
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, resource_events};

use super::labels::label;
use super::milestones::milestone;
use crate::planning::issues::open;
use crate::review::merge_requests::propose;
use crate::support::body_memory::request_memory;
use crate::support::code::Project;
use crate::support::spaces::{group, id, project};
use crate::support::{Client, TestServer, on_every_database};

/// Returns the values of an attribute of all events of a kind, oldest first.
async fn events(client: &Client, path: &str, kind: &str, field: &str) -> Vec<Value> {
    client.get(&format!("{path}/resource_{kind}_events")).await.expect(200).pluck(field)
}

/// Returns the actions and names of the label events, oldest first.
async fn label_events(client: &Client, path: &str) -> Vec<String> {
    let list = client.get(&format!("{path}/resource_label_events")).await.expect(200).json();
    let list = list.as_array().expect("a list").iter();
    let text = |event: &Value| {
        let name = event["label"]["name"].as_str().unwrap_or("-");
        format!("{} {name}", event["action"].as_str().expect("an action"))
    };
    list.map(text).collect()
}

/// Returns the actions and titles of the milestone events, oldest first.
async fn milestone_events(client: &Client, path: &str) -> Vec<String> {
    let list = client.get(&format!("{path}/resource_milestone_events")).await.expect(200).json();
    let list = list.as_array().expect("a list").iter();
    let text = |event: &Value| {
        let title = event["milestone"]["title"].as_str().expect("a title");
        format!("{} {title}", event["action"].as_str().expect("an action"))
    };
    list.map(text).collect()
}

async fn changes_of_issues_are_recorded(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let in_project = format!("/projects/{work}");
    let (one, two) = (milestone(&root, &in_project, "one").await, milestone(&root, &in_project, "two").await);
    let user = server.create_user("ada").await;
    server.insert_member(work, user.id, AccessLevel::Developer).await;
    let body = json!({ "title": "t", "labels": "a,b", "milestone_id": one });
    let iid = open(&user.client, work, body).await;
    let path = format!("{in_project}/issues/{iid}");
    let change = async |body: Value| {
        root.put(&path, body).await.expect(200);
    };
    change(json!({ "add_labels": "c", "remove_labels": "a" })).await;
    change(json!({ "labels": "c" })).await;
    // Nothing changes.
    change(json!({ "labels": "c", "milestone_id": one, "title": "other" })).await;
    change(json!({ "milestone_id": two })).await;
    change(json!({ "milestone_id": 0 })).await;
    for event in ["close", "close", "reopen", "close"] {
        change(json!({ "state_event": event })).await;
    }
    let mut labels = label_events(&root, &path).await;
    labels[..2].sort();
    assert_eq!(labels, ["add a", "add b", "add c", "remove a", "remove b"]);
    assert_eq!(milestone_events(&root, &path).await, ["add one", "add two", "remove two"]);
    assert_eq!(events(&root, &path, "state", "state").await, ["closed", "reopened", "closed"]);
    let issue = root.get(&path).await.expect(200).json();
    let list = root.get(&format!("{path}/resource_label_events?per_page=2&page=2")).await.expect(200);
    assert_eq!((list.header("X-Total"), list.json().as_array().map(Vec::len)), ("5", Some(2)));
    let first = root.get(&format!("{path}/resource_label_events?per_page=1")).await.expect(200).json()[0].clone();
    assert_eq!((&first["user"]["username"], &first["resource_type"]), (&json!("ada"), &json!("Issue")));
    assert_eq!(first["resource_id"], issue["id"]);
    assert!(first["label"]["color"].is_string() && first["label"]["text_color"].is_string());
    for (kind, others) in [("label", "state"), ("state", "milestone"), ("milestone", "label")] {
        let list = root.get(&format!("{path}/resource_{kind}_events")).await.expect(200).json();
        let one = &list[0];
        let single = format!("{path}/resource_{kind}_events/{}", one["id"]);
        assert_eq!(&root.get(&single).await.expect(200).json(), one);
        root.get(&format!("{path}/resource_{others}_events/{}", one["id"])).await.expect(404);
        root.get(&format!("{path}/resource_{kind}_events/999999")).await.expect(404);
        root.get(&format!("{path}/resource_{kind}_events/x")).await.expect(400);
        let other = open(&root, work, json!({ "title": "other" })).await;
        root.get(&format!("{in_project}/issues/{other}/resource_{kind}_events/{}", one["id"])).await.expect(404);
    }
    let milestones = root.get(&format!("{path}/resource_milestone_events")).await.expect(200).json();
    assert_eq!(
        milestones[0]["milestone"],
        root.get(&format!("{in_project}/milestones/{one}")).await.expect(200).json()
    );
    // The user is null after the deletion.
    root.delete(&format!("/users/{}", user.id)).await.expect(204);
    server.finish_jobs().await;
    assert_eq!(events(&root, &path, "milestone", "user").await[0], Value::Null);
    // The events are deleted with the issue and the project.
    let count = async || {
        let events = resource_events::Entity::find().count(server.backend.database.read());
        events.await.expect("a count")
    };
    root.delete(&path).await.expect(204);
    assert_eq!(count().await, 0);
    open(&root, work, json!({ "title": "t", "labels": "a" })).await;
    assert_eq!(count().await, 1);
    root.delete(&in_project).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(count().await, 0);
}

async fn changes_of_merge_requests_are_recorded(server: TestServer) {
    let root = server.root();
    let work = Project::with_commits(&server, "work", Visibility::Public).await;
    let in_project = format!("/projects/{}", work.id);
    let first = milestone(&root, &in_project, "one").await;
    let issue = open(&root, work.id, json!({ "title": "t" })).await;
    let body = json!({ "labels": "a", "milestone_id": first, "description": format!("Closes #{issue}") });
    let iid = propose(&root, work.id, "feature/x", "main", body).await;
    let path = format!("{in_project}/merge_requests/{iid}");
    root.put(&path, json!({ "remove_labels": "a", "milestone_id": 0 })).await.expect(200);
    for event in ["close", "reopen"] {
        root.put(&path, json!({ "state_event": event })).await.expect(200);
        server.finish_jobs().await;
    }
    root.put(&format!("{path}/merge"), json!({})).await.expect(200);
    server.finish_jobs().await;
    assert_eq!(label_events(&root, &path).await, ["add a", "remove a"]);
    assert_eq!(milestone_events(&root, &path).await, ["add one", "remove one"]);
    let list = root.get(&format!("{path}/resource_state_events")).await.expect(200);
    assert_eq!(list.pluck("state"), ["closed", "reopened", "merged"]);
    assert_eq!(list.pluck("resource_type"), ["MergeRequest"; 3]);
    let single = format!("{path}/resource_state_events/{}", list.json()[2]["id"]);
    assert_eq!(root.get(&single).await.expect(200).json(), list.json()[2]);
    // The merge has closed the issue.
    let closed = root.get(&format!("{in_project}/issues/{issue}/resource_state_events")).await.expect(200);
    assert_eq!(closed.pluck("state"), ["closed"]);
    assert_eq!(closed.json()[0]["user"]["username"], "root");
}

async fn events_are_visible_with_their_issue(server: TestServer) {
    let root = server.root();
    let work = Project::with_commits(&server, "work", Visibility::Private).await;
    let in_project = format!("/projects/{}", work.id);
    let body = json!({ "title": "t", "labels": "a", "confidential": true });
    let issue = open(&root, work.id, body).await;
    let merge_request = propose(&root, work.id, "feature/x", "main", json!({ "labels": "a" })).await;
    let (guest, reporter) = (server.create_user("guest").await, server.create_user("reporter").await);
    server.insert_member(work.id, guest.id, AccessLevel::Guest).await;
    server.insert_member(work.id, reporter.id, AccessLevel::Reporter).await;
    let stranger = server.create_user("stranger").await;
    for path in [format!("{in_project}/issues/{issue}"), format!("{in_project}/merge_requests/{merge_request}")] {
        for kind in ["label", "state", "milestone"] {
            let list = format!("{path}/resource_{kind}_events");
            reporter.client.get(&list).await.expect(200);
            for client in [&guest.client, &stranger.client] {
                client.get(&list).await.expect(404);
                client.get(&format!("{list}/1")).await.expect(404);
            }
            server.anonymous().get(&list).await.expect(401);
            server.anonymous().get(&format!("{list}/1")).await.expect(401);
        }
    }
    root.get(&format!("{in_project}/issues/99/resource_label_events")).await.expect(404);
    root.get(&format!("{in_project}/issues/x/resource_label_events")).await.expect(400);
}

async fn events_follow_deleted_promoted_and_foreign_labels_and_milestones(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let other = group(&root, "other", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": top })).await;
    let in_project = format!("/projects/{work}");
    for name in ["gone", "promoted"] {
        label(&root, &in_project, name).await;
    }
    label(&root, &format!("/groups/{top}"), "above").await;
    let gone = milestone(&root, &in_project, "gone").await;
    let promoted = milestone(&root, &in_project, "promoted").await;
    let above = milestone(&root, &format!("/groups/{top}"), "above").await;
    let body = json!({ "title": "t", "labels": "gone,promoted,above", "milestone_id": gone });
    let iid = open(&root, work, body).await;
    let path = format!("{in_project}/issues/{iid}");
    for id in [promoted, above] {
        root.put(&path, json!({ "milestone_id": id })).await.expect(200);
    }
    root.delete(&format!("{in_project}/labels/gone")).await.expect(204);
    root.delete(&format!("{in_project}/milestones/{gone}")).await.expect(204);
    let sorted = async |path: &str| {
        let mut labels = label_events(&root, path).await;
        labels.sort();
        labels
    };
    assert_eq!(sorted(&path).await, ["add -", "add above", "add promoted"]);
    assert_eq!(milestone_events(&root, &path).await, ["add promoted", "add above"]);
    root.put(&format!("{in_project}/labels/promoted/promote"), json!({})).await.expect(200);
    root.post(&format!("{in_project}/milestones/{promoted}/promote"), json!({})).await.expect(200);
    assert_eq!(sorted(&path).await, ["add -", "add above", "add promoted"]);
    assert_eq!(milestone_events(&root, &path).await, ["add promoted", "add above"]);
    // Labels and milestones of a former group are not returned.
    root.put(&format!("{in_project}/transfer"), json!({ "namespace": other })).await.expect(200);
    assert_eq!(sorted(&path).await, ["add -"]);
    assert_eq!(milestone_events(&root, &path).await, [""; 0]);
    let total = root.get(&format!("{path}/resource_milestone_events")).await.expect(200);
    assert_eq!(total.header("X-Total"), "0");
}

async fn moved_issue_has_events_of_its_labels(server: TestServer) {
    let root = server.root();
    let (from, to) = (project(&root, "from", json!({})).await, project(&root, "to", json!({})).await);
    label(&root, &format!("/projects/{to}"), "a").await;
    let iid = open(&root, from, json!({ "title": "t", "labels": "a,b" })).await;
    let moved = root.post(&format!("/projects/{from}/issues/{iid}/move"), json!({ "to_project_id": to })).await;
    let moved = moved.expect(201).json();
    let path = format!("/projects/{to}/issues/{}", moved["iid"]);
    assert_eq!(label_events(&root, &path).await, ["add a"]);
    assert_eq!(events(&root, &path, "label", "resource_id").await, [id(&moved)].map(Value::from));
    assert_eq!(events(&root, &format!("/projects/{from}/issues/{iid}"), "state", "state").await, ["closed"]);
}

async fn lists_run_few_statements(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let names: Vec<String> = (0..20).map(|number| format!("l{number}")).collect();
    let iid = open(&root, work, json!({ "title": "t", "labels": names.join(",") })).await;
    let list = format!("/projects/{work}/issues/{iid}/resource_label_events");
    let before = server.statements();
    assert_eq!(root.get(&list).await.expect(200).pluck("label").len(), 20);
    let statements = server.statements() - before;
    assert!(statements <= 8, "{statements}: {:?}", server.statement_texts(before));
}

async fn label_and_milestone_of_many_events_are_read_once(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({ "visibility": "public" })).await;
    let in_project = format!("/projects/{work}");
    let body = json!({ "name": "large", "color": "#123456", "description": "x".repeat(50_000) });
    root.post(&format!("{in_project}/labels"), body).await.expect(201);
    let body = json!({ "title": "large", "description": "x".repeat(100_000) });
    let large = root.post(&format!("{in_project}/milestones"), body).await.expect(201).json()["id"].clone();
    let iid = open(&root, work, json!({ "title": "t", "labels": "large", "milestone_id": large })).await;
    let path = format!("{in_project}/issues/{iid}");
    root.put(&path, json!({ "remove_labels": "large", "milestone_id": 0 })).await.expect(200);
    root.put(&path, json!({ "add_labels": "large", "milestone_id": large })).await.expect(200);
    let list = async |kind: ResourceEventKind, memory_bytes: u64| {
        let (budgets, memory) = request_memory(memory_bytes);
        let caller = Caller::anonymous().with_memory(memory);
        let access = ProjectAccess::find(&server.backend, caller, &work.to_string()).await.expect("access");
        let (issuable, page) = ((IssuableKind::Issue, iid), PageRequest::default());
        let page = events_service::list(&server.backend, &access, issuable, kind, &page).await;
        (page, budgets.memory.used())
    };
    // The response contains the description of the milestone three times, and that of the label also as HTML.
    let mut found = Vec::new();
    for kind in [ResourceEventKind::Label, ResourceEventKind::Milestone] {
        let before = server.statements();
        let (refused, _) = list(kind, 299_990).await;
        assert!(matches!(refused, Err(Error::Overloaded)));
        let read = server.statement_texts(before);
        for column in ["\"labels\".\"description\"", "\"milestones\".\"description\""] {
            let mut read = read.iter().filter(|text| text.contains(column));
            assert!(read.all(|text| text.contains("octet_length")), "{kind:?}");
        }
        let (page, used) = list(kind, 300_000).await;
        assert_eq!(used, 300_000);
        found.push(page.expect("events").items);
    }
    let labels: Vec<_> = found[0].iter().map(|event| event.label.as_ref().expect("a label")).collect();
    let descriptions: Vec<_> = labels.iter().map(|label| label.description.as_ref().expect("a text")).collect();
    assert_eq!(descriptions.len(), 3);
    assert!(descriptions.iter().all(|one| Arc::ptr_eq(one, descriptions[0])));
    let milestones: Vec<_> = found[1].iter().map(|event| event.milestone.as_ref().expect("a milestone")).collect();
    assert_eq!(milestones.len(), 3);
    assert!(milestones.iter().all(|one| Arc::ptr_eq(one, milestones[0])));
    for label in events(&root, &path, "label", "label").await {
        for field in ["description", "description_html"] {
            assert_eq!(label[field].as_str().map(str::len), Some(50_000));
        }
    }
    let single = root.get(&format!("{in_project}/milestones/{large}")).await.expect(200).json();
    assert_eq!(events(&root, &path, "milestone", "milestone").await, [single.clone(), single.clone(), single]);
}

async fn single_events_can_be_revalidated(server: TestServer) {
    let root = server.root();
    let work = Project::with_commits(&server, "work", Visibility::Public).await;
    let in_project = format!("/projects/{}", work.id);
    let one = milestone(&root, &in_project, "one").await;
    let issue = open(&root, work.id, json!({ "title": "t", "labels": "a", "milestone_id": one })).await;
    let more = json!({ "labels": "a", "milestone_id": one });
    let merge_request = propose(&root, work.id, "feature/x", "main", more).await;
    let global = root.get(&format!("{in_project}/issues/{issue}")).await.expect(200).json()["id"].clone();
    let mut paths = vec![format!("/issues/{global}")];
    for path in [format!("{in_project}/issues/{issue}"), format!("{in_project}/merge_requests/{merge_request}")] {
        root.put(&path, json!({ "state_event": "close" })).await.expect(200);
        for kind in ["label", "state", "milestone"] {
            let list = format!("{path}/resource_{kind}_events");
            let listed = root.get(&list).await.expect(200).json();
            let event = format!("{list}/{}", listed[0]["id"]);
            assert_eq!(root.get(&event).await.expect(200).json(), listed[0], "{event}");
            paths.push(event);
        }
    }
    for path in paths {
        let tag = root.get(&path).await.expect(200).header("etag").to_owned();
        root.clone().header("If-None-Match", &tag).get(&path).await.expect(304);
    }
}

on_every_database![
    changes_of_issues_are_recorded,
    single_events_can_be_revalidated,
    changes_of_merge_requests_are_recorded,
    events_are_visible_with_their_issue,
    events_follow_deleted_promoted_and_foreign_labels_and_milestones,
    moved_issue_has_events_of_its_labels,
    lists_run_few_statements,
    label_and_milestone_of_many_events_are_read_once,
];
