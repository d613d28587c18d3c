//! Labels on issues and merge requests: counts, priorities and resolution by title.

use std::collections::HashMap;

use domain::identity::access::ProjectAccess;
use domain::identity::space_access::SpaceAccess;
use domain::kernel::caller::Caller;
use domain::planning::labels::resolve_or_create;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait};
use serde_json::{Value, json};
use storage::entities::{issue_assignees, issues, labels};

use super::label;
use crate::support::spaces::{group, join, project};
use crate::support::{Client, TestServer, on_every_database};

async fn counts(client: &Client, parent: &str) -> [Value; 3] {
    let path = format!("{parent}/labels/?with_counts=true").replace("/?", "?");
    let label = client.get(&path).await.expect(200).json()[0].clone();
    ["open_issues_count", "closed_issues_count", "open_merge_requests_count"].map(|name| label[name].clone())
}

async fn access_of(server: &TestServer, caller: Caller, project: i64) -> SpaceAccess {
    let access = ProjectAccess::find(&server.backend, caller, &project.to_string()).await;
    access.expect("the project").into()
}

async fn resolve(
    server: &TestServer,
    parent: &SpaceAccess,
    titles: &[&str],
) -> domain::kernel::error::Result<Vec<i64>> {
    let database = &server.backend.database;
    database.transaction(async |transaction| resolve_or_create(transaction, parent, titles).await).await
}

async fn label_counts_include_only_visible_items(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({ "visibility": "public" })).await;
    let work = project(&root, "work", json!({ "visibility": "public", "namespace_id": team })).await;
    let hidden = project(&root, "hidden", json!({ "namespace_id": team })).await;
    let (guest, reporter) = (server.create_user("guest").await, server.create_user("reporter").await);
    for (user, level) in [(&guest, 10), (&reporter, 20)] {
        join(&root, &format!("/projects/{work}"), user.id, level).await;
    }
    let bug = label(&root, &format!("/groups/{team}"), "bug").await;
    server.insert_issue(work, 1, &[bug]).await;
    let secret = server.insert_issue(work, 2, &[bug]).await;
    server.update_issue_row(secret.id, |issue| issue.confidential = Set(true)).await;
    let closed = server.insert_issue(work, 3, &[bug]).await;
    server.update_issue_row(closed.id, |issue| issue.state = Set(issues::IssueState::Closed)).await;
    server.insert_issue(hidden, 1, &[bug]).await;
    server.insert_merge_request(work, 1, &[bug], None).await;
    server.insert_merge_request(hidden, 1, &[bug], None).await;
    let (project, inherited) = (format!("/projects/{work}"), format!("/groups/{team}"));
    for (client, in_project, in_group) in [
        (&server.anonymous(), [1, 1, 1], [1, 1, 1]),
        (&guest.client, [1, 1, 1], [1, 1, 1]),
        (&reporter.client, [2, 1, 1], [2, 1, 1]),
        (&root, [2, 1, 1], [3, 1, 2]),
    ] {
        assert_eq!(counts(client, &project).await, in_project.map(Value::from));
        assert_eq!(counts(client, &inherited).await, in_group.map(Value::from));
    }
    let assigned =
        issue_assignees::ActiveModel { issue_id: Set(secret.id), user_id: Set(guest.id), ..Default::default() };
    assigned.insert(server.backend.database.write()).await.expect("an assignment");
    server.backend.database.invalidate();
    assert_eq!(counts(&guest.client, &project).await, [2, 1, 1].map(Value::from));
    let off = json!({ "issues_access_level": "private", "merge_requests_access_level": "private" });
    root.put(&project, off).await.expect(200);
    assert_eq!(counts(&server.anonymous(), &inherited).await, [0, 0, 0].map(Value::from));
    assert_eq!(counts(&reporter.client, &inherited).await, [2, 1, 1].map(Value::from));
    assert!(root.get(&format!("{inherited}/labels")).await.expect(200).json()[0].get("open_issues_count").is_none());
}

async fn label_priority_of_items_is_the_lowest_of_their_labels(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": team })).await;
    let other = project(&root, "other", json!({ "namespace_id": team })).await;
    let parent = format!("/projects/{work}");
    let inherited = label(&root, &format!("/groups/{team}"), "above").await;
    let bug = label(&root, &parent, "bug").await;
    let issue = server.insert_issue(work, 1, &[inherited, bug]).await.id;
    let elsewhere = server.insert_issue(other, 1, &[inherited]).await.id;
    let request = server.insert_merge_request(work, 1, &[bug], None).await;
    let priorities = async || {
        let of_request: Option<i32> = server.merge_request(request, "label_priority").await;
        (server.issue(issue).await.label_priority, of_request)
    };
    let prioritize = async |label: i64, priority: Value| {
        root.put(&format!("{parent}/labels/{label}"), json!({ "priority": priority })).await.expect(200);
        server.backend.database.invalidate();
    };
    prioritize(bug, json!(5)).await;
    assert_eq!(priorities().await, (Some(5), Some(5)));
    prioritize(inherited, json!(2)).await;
    assert_eq!(priorities().await, (Some(2), Some(5)));
    assert_eq!(server.issue(elsewhere).await.label_priority, None);
    prioritize(bug, json!(0)).await;
    assert_eq!(priorities().await, (Some(0), Some(0)));
    prioritize(bug, Value::Null).await;
    assert_eq!(priorities().await, (Some(2), None));
    prioritize(bug, json!(1)).await;
    root.delete(&format!("{parent}/labels/{bug}")).await.expect(204);
    assert_eq!(priorities().await, (Some(2), None));
}

async fn resolve_or_create_finds_and_creates_labels_by_title(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": team })).await;
    let (guest, reporter) = (server.create_user("guest").await, server.create_user("reporter").await);
    for (member, level) in [(&guest, 10), (&reporter, 20)] {
        join(&root, &format!("/projects/{work}"), member.id, level).await;
    }
    let own = label(&root, &format!("/projects/{work}"), "bug").await;
    let inherited = label(&root, &format!("/groups/{team}"), "security").await;
    label(&root, &format!("/groups/{team}"), "bug").await;
    let parent = access_of(&server, Caller::user(reporter.row.clone()), work).await;
    let found = resolve(&server, &parent, &["security", " bug ", "", "security"]).await.expect("labels");
    assert_eq!(found, [inherited, own]);
    let created = resolve(&server, &parent, &["z", "bug", "a"]).await.expect("labels");
    let rows: HashMap<i64, labels::Model> = labels::Entity::find()
        .all(server.backend.database.read())
        .await
        .expect("labels")
        .into_iter()
        .map(|label| (label.id, label))
        .collect();
    let stored = created.iter().map(|id| (rows[id].title.as_str(), rows[id].color.as_str(), rows[id].project_id));
    let stored: Vec<_> = stored.collect();
    assert_eq!(stored, [("z", "#428BCA", Some(work)), ("bug", "#D9534F", Some(work)), ("a", "#428BCA", Some(work))]);
    assert_eq!(resolve(&server, &parent, &["a", "z"]).await.expect("labels"), [created[2], created[0]]);
    let many: Vec<String> = (0..101).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for refused in [many.as_slice(), &["a,b"], &[&"x".repeat(256)]] {
        assert!(resolve(&server, &parent, refused).await.is_err());
    }
    assert_eq!(resolve(&server, &parent, &many[..100]).await.expect("labels").len(), 100);
    let parent = access_of(&server, Caller::user(guest.row.clone()), work).await;
    assert_eq!(resolve(&server, &parent, &["unknown", "bug"]).await.expect("labels"), [own]);
    let parent = access_of(&server, Caller::user(reporter.row.clone()), work).await;
    let (one, two) =
        tokio::join!(resolve(&server, &parent, &["new", "newer"]), resolve(&server, &parent, &["newer", "new"]));
    let (one, mut two) = (one.expect("labels"), two.expect("labels"));
    two.reverse();
    assert_eq!(one, two);
}

on_every_database![
    label_counts_include_only_visible_items,
    label_priority_of_items_is_the_lowest_of_their_labels,
    resolve_or_create_finds_and_creates_labels_by_title,
];
