//! Issues made and changed at the same time.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::{Value, json};
use storage::entities::Visibility;

use super::{open, public_project};
use crate::merge_requests::propose;
use crate::support::code::Project;
use crate::support::{TestServer, on_every_database};

async fn two_hundred_at_once_get_numbers_without_a_gap(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "busy").await;
    let path = format!("/projects/{id}/issues");
    let made = join_all((0..200).map(|number| {
        // Some name the same labels, some do not do at all and must take no number.
        let title = if number % 10 == 9 { String::new() } else { format!("Issue {number}") };
        root.post(&path, json!({"title": title, "labels": format!("l{}", number % 3)}))
    }))
    .await;
    let (made, refused): (Vec<_>, Vec<_>) = made.into_iter().partition(|answer| answer.status == 201);
    assert!(refused.iter().all(|answer| answer.status == 400));
    let numbers: BTreeSet<i64> = made.iter().map(|answer| answer.json()["iid"].as_i64().expect("a number")).collect();
    assert_eq!((made.len(), numbers), (180, (1..=180).collect()));
    let labels = root.get(&format!("/projects/{id}/labels")).await.expect(200).pluck("name");
    assert_eq!(labels, ["l0", "l1", "l2"].map(Value::from));
}

async fn of_changes_at_once_none_is_lost(server: TestServer) {
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

async fn an_edit_and_a_removal_at_once_leave_one_outcome(server: TestServer) {
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

async fn what_is_named_while_it_is_removed_is_either_there_or_not(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "fading").await;
    let (issues, labels) = (format!("/projects/{id}/issues"), format!("/projects/{id}/labels"));
    let milestones = format!("/projects/{id}/milestones");
    let (one, two) = (open(&root, id, json!({"title": "t"})).await, open(&root, id, json!({"title": "t"})).await);
    let (one, two) = (format!("{issues}/{one}"), format!("{issues}/{two}"));
    for round in 0..15 {
        let milestone = json!({"title": format!("m{round}"), "due_date": "2031-02-03"});
        let milestone = root.post(&milestones, milestone).await.expect(201).json()["id"].clone();
        root.post(&labels, json!({"name": "l", "color": "#123456"})).await.expect(201);
        let leaving = format!("{issues}/{}", open(&root, id, json!({"title": "t"})).await);
        let (of_label, of_issue) = (format!("{labels}/l/subscribe"), format!("{leaving}/subscribe"));
        let unsubscribe = format!("{leaving}/unsubscribe");
        let (this, label) = (format!("{milestones}/{milestone}"), format!("{labels}/l"));
        let said = json!({"milestone_id": milestone, "labels": "l"});
        let new = json!({"title": "t", "milestone_id": milestone, "labels": "l"});
        let outcomes = tokio::join!(
            root.put(&one, said.clone()),
            root.put(&two, said.clone()),
            root.post(&issues, new),
            root.delete(&this),
            root.delete(&label),
            root.post(&of_label, json!({})),
            root.delete(&leaving),
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
        for wish in [&outcomes.7, &outcomes.8] {
            assert!([201, 304, 404].contains(&wish.status), "{wish:?}");
        }
        for issue in [&one, &two] {
            let found = root.get(issue).await.expect(200).json();
            assert_eq!(found["milestone"], Value::Null);
            let row = server.issue(found["id"].as_i64().expect("an id")).await;
            assert_eq!(row.milestone_due_on, None, "what is due with a milestone that is gone");
        }
        let again = root.get(&format!("{labels}/l")).await;
        if again.status == 200 {
            root.delete(&label).await.expect(204);
        }
    }
}

async fn changes_of_several_issues_at_once_do_not_wait_in_a_circle(server: TestServer) {
    let root = server.root();
    let project = Project::filled(&server, "circle", Visibility::Public).await;
    let at = format!("/projects/{}", project.id);
    let mut milestones = Vec::new();
    for title in ["a", "b"] {
        let made = root.post(&format!("{at}/milestones"), json!({"title": title})).await.expect(201).json();
        milestones.push(made["id"].clone());
    }
    for number in 0..8 {
        let body = json!({"title": "t", "labels": "x,y", "milestone_id": milestones[number % 2]});
        open(&root, project.id, body).await;
    }
    let changes = [
        propose(&root, project.id, "feature/x", "main", json!({})).await,
        propose(&root, project.id, "merged", "main", json!({})).await,
    ];
    for round in 0..12_usize {
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
        let done = join_all(work.iter().map(|(path, body)| root.put(path, body.clone()))).await;
        for (answer, (path, _)) in done.iter().zip(&work) {
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
        }
    }
}

on_every_database![
    two_hundred_at_once_get_numbers_without_a_gap,
    of_changes_at_once_none_is_lost,
    an_edit_and_a_removal_at_once_leave_one_outcome,
    what_is_named_while_it_is_removed_is_either_there_or_not,
    changes_of_several_issues_at_once_do_not_wait_in_a_circle,
];
