//! Concurrent creation and updates of issues.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::{Value, json};
use storage::entities::Visibility;

use super::{open, public_project};
use crate::planning::boards::board;
use crate::planning::epics::epic;
use crate::review::merge_requests::propose;
use crate::support::code::Project;
use crate::support::spaces::{group, project};
use crate::support::{TestServer, on_every_database};

async fn concurrent_creates_assign_iids_without_gaps(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "busy").await;
    let path = format!("/projects/{id}/issues");
    let created = join_all((0..60).map(|number| {
        // Several requests use the same labels. Some are invalid and must not use an IID.
        let title = if number % 10 == 9 { String::new() } else { format!("Issue {number}") };
        root.post(&path, json!({"title": title, "labels": format!("l{}", number % 3)}))
    }))
    .await;
    let (created, rejected): (Vec<_>, Vec<_>) = created.into_iter().partition(|answer| answer.status == 201);
    assert!(rejected.iter().all(|answer| answer.status == 400));
    let numbers: BTreeSet<i64> =
        created.iter().map(|answer| answer.json()["iid"].as_i64().expect("a number")).collect();
    assert_eq!((created.len(), numbers), (54, (1..=54).collect()));
    let labels = root.get(&format!("/projects/{id}/labels")).await.expect(200).pluck("name");
    assert_eq!(labels, ["l0", "l1", "l2"].map(Value::from));
}

async fn concurrent_updates_are_all_applied(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "shared").await;
    let iid = open(&root, id, json!({"title": "t"})).await;
    let path = format!("/projects/{id}/issues/{iid}");
    let added = join_all((0..20).map(|number| root.put(&path, json!({"add_labels": format!("label {number}")})))).await;
    assert!(added.iter().all(|answer| answer.status == 200));
    let labels = root.get(&path).await.expect(200).json()["labels"].as_array().map(Vec::len);
    assert_eq!(labels, Some(20));
    let spend = format!("{path}/add_spent_time");
    let spent = join_all((0..20).map(|_| root.post(&spend, json!({"duration": "1m"})))).await;
    assert!(spent.iter().all(|answer| answer.status == 201));
    assert_eq!(root.get(&path).await.expect(200).json()["time_stats"]["total_time_spent"], 1200);
}

async fn concurrent_update_and_delete_leave_the_issue_deleted(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "torn").await;
    for _ in 0..10 {
        let iid = open(&root, id, json!({"title": "t"})).await;
        let path = format!("/projects/{id}/issues/{iid}");
        let (edited, removed) = tokio::join!(root.put(&path, json!({"state_event": "close"})), root.delete(&path));
        assert!([200, 404].contains(&edited.status), "{edited:?}");
        assert_eq!(removed.status, 204);
        root.get(&path).await.expect(404);
    }
}

async fn concurrent_delete_of_referenced_items_leaves_no_dangling_values(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "fading").await;
    let (issues, labels) = (format!("/projects/{id}/issues"), format!("/projects/{id}/labels"));
    let milestones = format!("/projects/{id}/milestones");
    let (one, two) = (open(&root, id, json!({"title": "t"})).await, open(&root, id, json!({"title": "t"})).await);
    let (one, two) = (format!("{issues}/{one}"), format!("{issues}/{two}"));
    for round in 0..6 {
        let milestone = json!({"title": format!("m{round}"), "due_date": "2031-02-03"});
        let milestone = root.post(&milestones, milestone).await.expect(201).json()["id"].clone();
        root.post(&labels, json!({"name": "l", "color": "#123456"})).await.expect(201);
        let deleted_issue = format!("{issues}/{}", open(&root, id, json!({"title": "t"})).await);
        let (of_label, of_issue) = (format!("{labels}/l/subscribe"), format!("{deleted_issue}/subscribe"));
        let unsubscribe = format!("{deleted_issue}/unsubscribe");
        let (this, label) = (format!("{milestones}/{milestone}"), format!("{labels}/l"));
        let body = json!({"milestone_id": milestone, "labels": "l"});
        let new = json!({"title": "t", "milestone_id": milestone, "labels": "l"});
        let outcomes = tokio::join!(
            root.put(&one, body.clone()),
            root.put(&two, body.clone()),
            root.post(&issues, new),
            root.delete(&this),
            root.delete(&label),
            root.post(&of_label, json!({})),
            root.delete(&deleted_issue),
            root.post(&of_issue, json!({})),
            root.post(&unsubscribe, json!({})),
        );
        for named in [&outcomes.0, &outcomes.1, &outcomes.2] {
            assert!([200, 201, 400].contains(&named.status), "{named:?}");
            if named.status == 400 {
                assert_eq!(named.json()["message"], json!({"milestone": ["is invalid"]}));
            }
        }
        assert_eq!((outcomes.3.status, outcomes.4.status, outcomes.6.status), (204, 204, 204), "{outcomes:?}");
        assert!([201, 304, 404].contains(&outcomes.5.status), "{:?}", outcomes.5);
        for subscription in [&outcomes.7, &outcomes.8] {
            assert!([201, 304, 404].contains(&subscription.status), "{subscription:?}");
        }
        for issue in [&one, &two] {
            let found = root.get(issue).await.expect(200).json();
            assert_eq!(found["milestone"], Value::Null);
            let row = server.issue(found["id"].as_i64().expect("an id")).await;
            assert_eq!(row.milestone_due_on, None, "the due date of a deleted milestone remains");
        }
        let again = root.get(&format!("{labels}/l")).await;
        if again.status == 200 {
            root.delete(&label).await.expect(204);
        }
    }
}

async fn concurrent_updates_of_several_issues_do_not_deadlock(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "circle", Visibility::Public).await;
    let at = format!("/projects/{}", project.id);
    let mut milestones = Vec::new();
    for title in ["a", "b"] {
        let created = root.post(&format!("{at}/milestones"), json!({"title": title})).await.expect(201).json();
        milestones.push(created["id"].clone());
    }
    for number in 0..8 {
        let body = json!({"title": "t", "labels": "x,y", "milestone_id": milestones[number % 2]});
        open(&root, project.id, body).await;
    }
    let changes = [
        propose(&root, project.id, "feature/x", "main", json!({})).await,
        propose(&root, project.id, "merged", "main", json!({})).await,
    ];
    for round in 0..6_usize {
        let day = format!("2031-02-{:02}", round + 1);
        let closes = |iids: [usize; 4]| {
            let all: Vec<String> = iids.iter().map(|iid| format!("#{iid}")).collect();
            json!({"description": format!("Closes {} ({round})", all.join(", "))})
        };
        let mut work: Vec<(String, Value)> = Vec::new();
        for milestone in &milestones {
            work.push((format!("{at}/milestones/{milestone}"), json!({"due_date": day})));
        }
        let (there, back) = match round % 2 {
            0 => ([8, 1, 5, 2], [2, 5, 1, 8]),
            _ => ([3, 7, 6, 4], [4, 6, 7, 3]),
        };
        work.push((format!("{at}/merge_requests/{}", changes[0]), closes(there)));
        work.push((format!("{at}/merge_requests/{}", changes[1]), closes(back)));
        for iid in 1..=8 {
            let to = &milestones[(iid + round) % 2];
            work.push((format!("{at}/issues/{iid}"), json!({"milestone_id": to, "add_labels": "z"})));
        }
        for (label, priority) in [("x", round), ("y", 20 - round)] {
            work.push((format!("{at}/labels/{label}"), json!({"priority": priority})));
        }
        let answers = join_all(work.iter().map(|(path, body)| root.put(path, body.clone()))).await;
        for (answer, (path, _)) in answers.iter().zip(&work) {
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
        }
    }
}

async fn concurrent_transfer_of_a_project_leaves_no_items_of_the_former_group(server: TestServer) {
    let root = server.root();
    let groups = [group(&root, "one", json!({})).await, group(&root, "two", json!({})).await];
    let id = project(&root, "wanders", json!({"namespace_id": groups[0]})).await;
    let at = format!("/projects/{id}");
    let issue = format!("{at}/issues/{}", open(&root, id, json!({"title": "t"})).await);
    let issue_id = root.get(&issue).await.expect(200).json()["id"].clone();
    let lists = format!("{at}/boards/{}/lists", board(&root, &at, "b").await);
    for round in 0..12 {
        let (from, to) = (groups[round % 2], groups[(round + 1) % 2]);
        let milestone = json!({"title": format!("m{round}")});
        let milestone = root.post(&format!("/groups/{from}/milestones"), milestone).await.expect(201).json();
        let label = format!("l{round}");
        root.post(&format!("/groups/{from}/labels"), json!({"name": label, "color": "#123456"})).await.expect(201);
        let epic_issues = format!("/groups/{from}/epics/{}/issues", epic(&root, from, "e", json!({})).await.0);
        let (in_epic, transfer) = (format!("{epic_issues}/{issue_id}"), format!("{at}/transfer"));
        let outcomes = tokio::join!(
            root.put(&issue, json!({"milestone_id": milestone["id"], "labels": label})),
            root.post(&lists, json!({"milestone_id": milestone["id"]})),
            root.post(&in_epic, json!({})),
            root.put(&transfer, json!({"namespace": to})),
        );
        assert!([200, 400].contains(&outcomes.0.status), "{:?}", outcomes.0);
        assert!([201, 400].contains(&outcomes.1.status), "{:?}", outcomes.1);
        assert!([201, 404].contains(&outcomes.2.status), "{:?}", outcomes.2);
        assert_eq!(outcomes.3.status, 200, "{:?}", outcomes.3);
        let found = root.get(&issue).await.expect(200).json();
        assert_ne!(found["milestone"]["group_id"], from, "round {round}");
        let available = root.get(&format!("{at}/labels?per_page=100")).await.expect(200).pluck("name");
        for label in found["labels"].as_array().expect("a list") {
            assert!(available.contains(label), "round {round}: {label}");
        }
        for list in root.get(&lists).await.expect(200).json().as_array().expect("lists") {
            assert_ne!(list["milestone"]["group_id"], from, "round {round}");
        }
        assert_eq!(root.get(&epic_issues).await.expect(200).json(), json!([]), "round {round}");
    }
}

async fn concurrent_transfer_of_a_group_leaves_no_parent_of_the_former_group(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let below = group(&root, "below", json!({"parent_id": top})).await;
    let (_, parent) = epic(&root, top, "Parent", json!({})).await;
    let child = format!("/groups/{below}/epics/{}", epic(&root, below, "Child", json!({})).await.0);
    let transfer = format!("/groups/{below}/transfer");
    for round in 0..8 {
        let (changed, moved) =
            tokio::join!(root.put(&child, json!({"parent_id": parent})), root.post(&transfer, json!({})));
        assert!([200, 400].contains(&changed.status), "{changed:?}");
        assert_eq!(moved.status, 201, "{moved:?}");
        assert_eq!(root.get(&child).await.expect(200).json()["parent_id"], Value::Null, "round {round}");
        root.post(&transfer, json!({"group_id": top})).await.expect(201);
    }
}

on_every_database![
    concurrent_creates_assign_iids_without_gaps,
    concurrent_updates_are_all_applied,
    concurrent_update_and_delete_leave_the_issue_deleted,
    concurrent_delete_of_referenced_items_leaves_no_dangling_values,
    concurrent_updates_of_several_issues_do_not_deadlock,
    concurrent_transfer_of_a_project_leaves_no_items_of_the_former_group,
    concurrent_transfer_of_a_group_leaves_no_parent_of_the_former_group,
];
