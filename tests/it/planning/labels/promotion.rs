//! Promotion of project labels to group labels.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};
use serde_json::json;
use storage::entities::{issue_labels, labels};

use super::label;
use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn promote_label_replaces_project_labels_of_the_same_title(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let subgroup = group(&root, "below", json!({ "parent_id": team })).await;
    let work = project(&root, "work", json!({ "namespace_id": team })).await;
    let other = project(&root, "other", json!({ "namespace_id": subgroup })).await;
    let outside = project(&root, "outside", json!({})).await;
    let mut issues = Vec::new();
    for (number, project_id) in [work, other, outside].into_iter().enumerate() {
        let path = format!("/projects/{project_id}");
        let bug = label(&root, &path, "bug").await;
        let priority = json!({ "priority": 3 + number });
        root.put(&format!("{path}/labels/bug"), priority).await.expect(200);
        root.post(&format!("{path}/labels/bug/subscribe"), json!({})).await.expect(201);
        issues.push(server.insert_issue(project_id, 1, &[bug]).await.id);
    }
    let promoted = root.put(&format!("/projects/{work}/labels/bug/promote"), json!({})).await.expect(200).json();
    assert_eq!((&promoted["name"], &promoted["color"]), (&json!("bug"), &json!("#D9534F")));
    assert_eq!(promoted["subscribed"], true);
    let seen = root.get(&format!("/projects/{other}/labels/bug")).await.expect(200).json();
    assert_eq!((&seen["id"], &seen["is_project_label"]), (&promoted["id"], &json!(false)));
    assert_eq!((&seen["priority"], &seen["subscribed"]), (&json!(4), &json!(true)));
    let db = server.backend.database.read();
    let remaining = labels::Entity::find().filter(labels::Column::Title.eq("bug")).all(db).await.expect("labels");
    assert_eq!(remaining.len(), 2);
    let assigned =
        issue_labels::Entity::find().order_by_asc(issue_labels::Column::IssueId).all(db).await.expect("labels");
    let assigned: Vec<_> = assigned.iter().map(|row| (row.issue_id, json!(row.label_id) == promoted["id"])).collect();
    assert_eq!(assigned, [(issues[0], true), (issues[1], true), (issues[2], false)]);
    let mut priorities = Vec::new();
    for issue in &issues {
        priorities.push(server.issue(*issue).await.label_priority);
    }
    assert_eq!(priorities, [Some(3), Some(4), None]);
    root.put(&format!("/projects/{work}/labels/bug/promote"), json!({})).await.expect(404);
    let without_group = root.put(&format!("/projects/{outside}/labels/bug/promote"), json!({})).await.expect(400);
    assert_eq!(without_group.message(), "Failed to promote project label to group label");
}

async fn promote_label_merges_into_existing_group_label(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": team })).await;
    let path = format!("/projects/{work}");
    let own = label(&root, &path, "bug").await;
    let group_label = label(&root, &format!("/groups/{team}"), "bug").await;
    let issue = server.insert_issue(work, 1, &[own, group_label]).await.id;
    for number in [own, group_label] {
        root.post(&format!("{path}/labels/{number}/subscribe"), json!({})).await.expect(201);
        root.put(&format!("{path}/labels/{number}"), json!({ "priority": 1 })).await.expect(200);
    }
    let promoted = root.put(&format!("{path}/labels/bug/promote"), json!({})).await.expect(200).json();
    assert_eq!(promoted["id"], group_label);
    let assigned = issue_labels::Entity::find().all(server.backend.database.read()).await.expect("labels");
    assert_eq!(assigned.iter().map(|row| (row.issue_id, row.label_id)).collect::<Vec<_>>(), [(issue, group_label)]);
    assert_eq!(server.issue(issue).await.label_priority, Some(1));
}

async fn promote_label_requires_reporter_of_the_group(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": team })).await;
    let path = format!("/projects/{work}");
    label(&root, &path, "bug").await;
    let ada = server.create_user("ada").await;
    join(&root, &path, ada.id, 40).await;
    ada.client.put(&format!("{path}/labels/bug/promote"), json!({})).await.expect(403);
    join(&root, &format!("/groups/{team}"), ada.id, 20).await;
    ada.client.put(&format!("{path}/labels/bug/promote"), json!({})).await.expect(200);
}

async fn promotion_preserves_concurrent_assignments(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": team })).await;
    let other = project(&root, "other", json!({ "namespace_id": team })).await;
    server.insert_issue(other, 1, &[]).await;
    let issue = format!("/projects/{other}/issues/1");
    for round in 0..10 {
        let title = format!("bug{round}");
        for parent in [work, other] {
            label(&root, &format!("/projects/{parent}"), &title).await;
        }
        let promote = format!("/projects/{work}/labels/{title}/promote");
        let assign = root.put(&issue, json!({ "labels": title }));
        let (promoted, assigned) = tokio::join!(root.put(&promote, json!({})), assign);
        promoted.expect(200);
        assigned.expect(200);
        assert_eq!(root.get(&issue).await.expect(200).json()["labels"], json!([title]));
    }
}

on_every_database![
    promote_label_replaces_project_labels_of_the_same_title,
    promote_label_merges_into_existing_group_label,
    promote_label_requires_reporter_of_the_group,
    promotion_preserves_concurrent_assignments,
];
