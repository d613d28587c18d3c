//! Labels on issues and merge requests: counts, priorities and resolution by title.

use std::collections::HashMap;
use std::sync::Arc;

use domain::identity::access::ProjectAccess;
use domain::identity::space_access::SpaceAccess;
use domain::kernel::caller::Caller;
use domain::kernel::error::Error;
use domain::planning::labels::{reserve_descriptions, resolve_or_create};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ConnectionTrait, EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use storage::entities::issuables::{IssuableKind, label_links};
use storage::entities::labels::{LabelParts, LabelSummary};
use storage::entities::related_rows::RelatedRows;
use storage::entities::{issue_assignees, issue_labels, issues, labels, resource_events};

use super::label;
use crate::support::body_memory::request_memory;
use crate::support::spaces::{group, id, join, project};
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

async fn description_of_a_label_is_read_once_for_all_issues(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let description = "x".repeat(60_000);
    let body = json!({ "name": "bug", "color": "teal", "description": description });
    root.post(&format!("{path}/labels"), body).await.expect(201);
    label(&root, &path, "alone").await;
    let mut issue_ids = Vec::new();
    for number in 0..3 {
        let body = json!({ "title": format!("Issue {number}"), "labels": "bug,alone" });
        issue_ids.push(id(&root.post(&format!("{path}/issues"), body).await.expect(201).json()));
    }
    let db = server.backend.database.read();
    let mut related = RelatedRows::default();
    let links = label_links(IssuableKind::Issue);
    let parts = LabelParts::add(&mut related, db.get_database_backend(), links, &issue_ids);
    let found = parts.take(&mut related.load(db).await.expect("rows"));
    let of_issues: Vec<&[LabelSummary]> = issue_ids.iter().map(|id| found[id].as_slice()).collect();
    for labels in &of_issues {
        let titles = [labels[0].title.as_str(), labels[1].title.as_str()];
        assert_eq!((titles, labels[0].description.as_deref()), (["alone", "bug"], None));
    }
    let descriptions = of_issues.iter().map(|labels| labels[1].description.as_ref().expect("a description"));
    let descriptions: Vec<&Arc<str>> = descriptions.collect();
    assert_eq!(&**descriptions[0], description.as_str());
    assert!(descriptions.iter().all(|description| Arc::ptr_eq(description, descriptions[0])));
    // The response contains each description as text and as HTML for each issue.
    for (memory_bytes, fits) in [(359_990, false), (360_000, true)] {
        let (_, memory) = request_memory(memory_bytes);
        let caller = Caller::anonymous().with_memory(memory);
        let reserved = reserve_descriptions(&caller, found.values().flatten());
        assert!(matches!((&reserved, fits), (Ok(()), true) | (Err(Error::Overloaded), false)), "{reserved:?}");
    }
    let listed = root.get(&format!("{path}/issues?with_labels_details=true")).await.expect(200).json();
    for issue in listed.as_array().expect("a list") {
        assert_eq!(
            (&issue["labels"][0]["description"], &issue["labels"][1]["description"]),
            (&Value::Null, &json!(description))
        );
    }
}

async fn issue_has_limited_number_of_labels(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    label(&root, &format!("/projects/{work}"), "first").await;
    let issue = server.insert_issue(work, 1, &[]).await.id;
    let db = server.backend.database.write();
    let run = async |statement: String| {
        db.execute_unprepared(&statement).await.expect("rows");
        server.backend.database.invalidate();
    };
    run("INSERT INTO labels (project_id, title, title_key, color, created_at, updated_at) \
         WITH RECURSIVE numbers(number) AS (SELECT 2 UNION ALL SELECT number + 1 FROM numbers WHERE number < 4100) \
         SELECT project_id, 'l' || CAST(number AS text), 'l' || CAST(number AS text), color, created_at, updated_at \
         FROM labels, numbers WHERE title = 'first'"
        .to_owned())
    .await;
    // As before the limit.
    run(format!("INSERT INTO issue_labels (issue_id, label_id) SELECT {issue}, id FROM labels")).await;
    let path = format!("/projects/{work}/issues/1");
    let refused = json!({
        "labels": ["are too many (an issue can have at most 1000 labels; remove labels first)"],
    });
    let rejected = root.put(&path, json!({ "add_labels": "new" })).await.expect(400);
    assert_eq!(rejected.json()["message"], refused);
    assert_eq!(labels::Entity::find().count(db).await.expect("a count"), 4_100);
    // One statement for all events would have too many values.
    root.put(&path, json!({ "labels": "l2" })).await.expect(200);
    assert_eq!(resource_events::Entity::find().count(db).await.expect("a count"), 4_099);
    run(format!(
        "INSERT INTO issue_labels (issue_id, label_id) SELECT {issue}, id FROM labels WHERE title <> 'l2' \
         ORDER BY id LIMIT 998"
    ))
    .await;
    root.put(&path, json!({ "add_labels": "l4000" })).await.expect(200);
    assert_eq!(issue_labels::Entity::find().count(db).await.expect("a count"), 1_000);
    let rejected = root.put(&path, json!({ "add_labels": "l4001" })).await.expect(400);
    assert_eq!(rejected.json()["message"], refused);
    root.put(&path, json!({ "add_labels": "l4001", "remove_labels": "l4000" })).await.expect(200);
}

on_every_database![
    label_counts_include_only_visible_items,
    label_priority_of_items_is_the_lowest_of_their_labels,
    resolve_or_create_finds_and_creates_labels_by_title,
    description_of_a_label_is_read_once_for_all_issues,
    issue_has_limited_number_of_labels,
];
