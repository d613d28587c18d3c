//! What carries labels: counted for who may see it, ordered by rank, and labelled by titles.

use std::collections::HashMap;

use domain::identity::access::ProjectAccess;
use domain::identity::authentication::Caller;
use domain::identity::places::Place;
use domain::planning::labels::resolve_or_create;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait};
use serde_json::{Value, json};
use storage::entities::{issue_assignees, issues, labels};

use super::label;
use crate::support::places::{group, join, project};
use crate::support::{Client, TestServer, on_every_database};

async fn counts(client: &Client, place: &str) -> [Value; 3] {
    let path = format!("{place}/labels/?with_counts=true").replace("/?", "?");
    let label = client.get(&path).await.expect(200).json()[0].clone();
    ["open_issues_count", "closed_issues_count", "open_merge_requests_count"].map(|name| label[name].clone())
}

async fn place_of(server: &TestServer, caller: Caller, project: i64) -> Place {
    let access = ProjectAccess::find(&server.backend, caller, &project.to_string()).await;
    access.expect("the project").into()
}

async fn resolve(server: &TestServer, place: &Place, titles: &[&str]) -> domain::kernel::error::Result<Vec<i64>> {
    let database = &server.backend.database;
    database.transaction(async |transaction| resolve_or_create(transaction, place, titles).await).await
}

async fn counts_are_of_what_the_caller_may_see(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({ "visibility": "public" })).await;
    let work = project(&root, "work", json!({ "visibility": "public", "namespace_id": team })).await;
    let hidden = project(&root, "hidden", json!({ "namespace_id": team })).await;
    let (guest, reporter) = (server.person("guest").await, server.person("reporter").await);
    for (person, level) in [(&guest, 10), (&reporter, 20)] {
        join(&root, &format!("/projects/{work}"), person.id, level).await;
    }
    let bug = label(&root, &format!("/groups/{team}"), "bug").await;
    server.bare_issue(work, 1, &[bug]).await;
    let secret = server.bare_issue(work, 2, &[bug]).await;
    server.change_issue(secret.id, |issue| issue.confidential = Set(true)).await;
    let closed = server.bare_issue(work, 3, &[bug]).await;
    server.change_issue(closed.id, |issue| issue.state = Set(issues::State::Closed)).await;
    server.bare_issue(hidden, 1, &[bug]).await;
    server.bare_merge_request(work, 1, &[bug], None).await;
    server.bare_merge_request(hidden, 1, &[bug], None).await;
    let (project, above) = (format!("/projects/{work}"), format!("/groups/{team}"));
    for (client, in_project, in_group) in [
        (&server.anonymous(), [1, 1, 1], [1, 1, 1]),
        (&guest.client, [1, 1, 1], [1, 1, 1]),
        (&reporter.client, [2, 1, 1], [2, 1, 1]),
        (&root, [2, 1, 1], [3, 1, 2]),
    ] {
        assert_eq!(counts(client, &project).await, in_project.map(Value::from));
        assert_eq!(counts(client, &above).await, in_group.map(Value::from));
    }
    let assigned =
        issue_assignees::ActiveModel { issue_id: Set(secret.id), user_id: Set(guest.id), ..Default::default() };
    assigned.insert(server.backend.database.write()).await.expect("an assignment");
    server.backend.database.forget();
    assert_eq!(counts(&guest.client, &project).await, [2, 1, 1].map(Value::from));
    let off = json!({ "issues_access_level": "private", "merge_requests_access_level": "private" });
    root.put(&project, off).await.expect(200);
    assert_eq!(counts(&server.anonymous(), &above).await, [0, 0, 0].map(Value::from));
    assert_eq!(counts(&reporter.client, &above).await, [2, 1, 1].map(Value::from));
    assert!(root.get(&format!("{above}/labels")).await.expect(200).json()[0].get("open_issues_count").is_none());
}

async fn what_carries_labels_knows_the_lowest_rank_of_them(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": team })).await;
    let other = project(&root, "other", json!({ "namespace_id": team })).await;
    let place = format!("/projects/{work}");
    let above = label(&root, &format!("/groups/{team}"), "above").await;
    let bug = label(&root, &place, "bug").await;
    let issue = server.bare_issue(work, 1, &[above, bug]).await.id;
    let elsewhere = server.bare_issue(other, 1, &[above]).await.id;
    let request = server.bare_merge_request(work, 1, &[bug], None).await;
    let ranks = async || {
        let of_request: Option<i32> = server.merge_request(request, "label_priority").await;
        (server.issue(issue).await.label_priority, of_request)
    };
    let rank = async |label: i64, priority: Value| {
        root.put(&format!("{place}/labels/{label}"), json!({ "priority": priority })).await.expect(200);
        server.backend.database.forget();
    };
    rank(bug, json!(5)).await;
    assert_eq!(ranks().await, (Some(5), Some(5)));
    rank(above, json!(2)).await;
    assert_eq!(ranks().await, (Some(2), Some(5)));
    assert_eq!(server.issue(elsewhere).await.label_priority, None);
    rank(bug, json!(0)).await;
    assert_eq!(ranks().await, (Some(0), Some(0)));
    rank(bug, Value::Null).await;
    assert_eq!(ranks().await, (Some(2), None));
    rank(bug, json!(1)).await;
    root.delete(&format!("{place}/labels/{bug}")).await.expect(204);
    assert_eq!(ranks().await, (Some(2), None));
}

async fn labels_are_found_by_titles_or_made(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": team })).await;
    let (guest, reporter) = (server.person("guest").await, server.person("reporter").await);
    for (person, level) in [(&guest, 10), (&reporter, 20)] {
        join(&root, &format!("/projects/{work}"), person.id, level).await;
    }
    let own = label(&root, &format!("/projects/{work}"), "bug").await;
    let above = label(&root, &format!("/groups/{team}"), "security").await;
    label(&root, &format!("/groups/{team}"), "bug").await;
    let place = place_of(&server, Caller::user(reporter.row.clone()), work).await;
    let found = resolve(&server, &place, &["security", " bug ", "", "security"]).await.expect("labels");
    assert_eq!(found, [above, own]);
    let made = resolve(&server, &place, &["z", "bug", "a"]).await.expect("labels");
    let rows: HashMap<i64, labels::Model> = labels::Entity::find()
        .all(server.backend.database.read())
        .await
        .expect("labels")
        .into_iter()
        .map(|label| (label.id, label))
        .collect();
    let kept = made.iter().map(|id| (rows[id].title.as_str(), rows[id].color.as_str(), rows[id].project_id));
    let kept: Vec<_> = kept.collect();
    assert_eq!(kept, [("z", "#428BCA", Some(work)), ("bug", "#D9534F", Some(work)), ("a", "#428BCA", Some(work))]);
    assert_eq!(resolve(&server, &place, &["a", "z"]).await.expect("labels"), [made[2], made[0]]);
    let many: Vec<String> = (0..101).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for refused in [many.as_slice(), &["a,b"], &[&"x".repeat(256)]] {
        assert!(resolve(&server, &place, refused).await.is_err());
    }
    assert_eq!(resolve(&server, &place, &many[..100]).await.expect("labels").len(), 100);
    let place = place_of(&server, Caller::user(guest.row.clone()), work).await;
    assert_eq!(resolve(&server, &place, &["unknown", "bug"]).await.expect("labels"), [own]);
    let place = place_of(&server, Caller::user(reporter.row.clone()), work).await;
    let (one, two) =
        tokio::join!(resolve(&server, &place, &["new", "newer"]), resolve(&server, &place, &["newer", "new"]));
    let (one, mut two) = (one.expect("labels"), two.expect("labels"));
    two.reverse();
    assert_eq!(one, two);
}

on_every_database![
    counts_are_of_what_the_caller_may_see,
    what_carries_labels_knows_the_lowest_rank_of_them,
    labels_are_found_by_titles_or_made,
];
