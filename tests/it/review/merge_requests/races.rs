//! Concurrent creation and updates of merge requests.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::json;

use super::{propose, public_project};
use crate::planning::issues::open;
use crate::support::{TestServer, on_every_database};

async fn concurrent_creates_assign_iids_without_gaps(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "busy").await;
    let id = project.id;
    for number in 0..30 {
        project.git(&["branch", &format!("b{number}"), "feature/x"]);
    }
    let path = format!("/projects/{id}/merge_requests");
    let created = join_all((0..40).map(|number| {
        // Some branches are used twice and some titles are invalid. These requests must not use an IID.
        let title = if number % 10 == 9 { " ".to_owned() } else { format!("Number {number}") };
        let body = json!({"source_branch": format!("b{}", number % 30), "target_branch": "main", "title": title});
        root.post(&path, body)
    }))
    .await;
    let statuses: BTreeSet<u16> = created.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [201, 400, 409].into());
    let numbers: BTreeSet<i64> = created
        .iter()
        .filter(|answer| answer.status == 201)
        .map(|answer| answer.json()["iid"].as_i64().expect("a number"))
        .collect();
    // Three of the thirty branches were sent only with a blank title.
    assert_eq!(numbers, (1..=27).collect());
}

async fn concurrent_reopen_of_two_returns_409_to_one(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "torn").await;
    let id = project.id;
    let first = propose(&root, id, "feature/x", "main", json!({})).await;
    let path = |iid: i64| format!("/projects/{id}/merge_requests/{iid}");
    root.put(&path(first), json!({"state_event": "close"})).await.expect(200);
    let second = propose(&root, id, "feature/x", "main", json!({})).await;
    for _ in 0..5 {
        root.put(&path(second), json!({"state_event": "close"})).await.expect(200);
        root.put(&path(first), json!({"state_event": "close"})).await.expect(200);
        let (first_path, second_path, reopen) = (path(first), path(second), json!({"state_event": "reopen"}));
        let (one, other) = tokio::join!(root.put(&first_path, reopen.clone()), root.put(&second_path, reopen.clone()),);
        let mut statuses = [one.status, other.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409]);
    }
}

async fn concurrent_update_and_delete_leave_the_merge_request_deleted(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "gone").await;
    let id = project.id;
    for _ in 0..5 {
        let iid = propose(&root, id, "feature/x", "main", json!({})).await;
        let path = format!("/projects/{id}/merge_requests/{iid}");
        let (edited, removed) = tokio::join!(root.put(&path, json!({"state_event": "close"})), root.delete(&path));
        assert!([200, 404].contains(&edited.status), "{edited:?}");
        assert_eq!(removed.status, 204);
        root.get(&path).await.expect(404);
    }
}

async fn concurrent_updates_of_closed_issues_and_their_milestone_do_not_deadlock(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "circle").await;
    let at = format!("/projects/{}", project.id);
    let milestone = root.post(&format!("{at}/milestones"), json!({"title": "m"})).await.expect(201).json();
    let body = json!({"title": "t", "milestone_id": milestone["id"], "labels": "x"});
    for _ in 0..4 {
        open(&root, project.id, body.clone()).await;
    }
    let iid = propose(&root, project.id, "feature/x", "main", body).await;
    let merge_request = format!("{at}/merge_requests/{iid}");
    let milestone = format!("{at}/milestones/{}", milestone["id"]);
    let label = format!("{at}/labels/x");
    for round in 0..16 {
        let closed = if round % 2 == 0 { "Closes #4, #1" } else { "Closes #2, #3" };
        let (changed, moved, ranked) = tokio::join!(
            root.put(&merge_request, json!({"description": format!("{closed} ({round})")})),
            root.put(&milestone, json!({"due_date": format!("2031-02-{:02}", round + 1)})),
            root.put(&label, json!({"priority": round + 1})),
        );
        for answer in [changed, moved, ranked] {
            assert_eq!(answer.status, 200, "round {round}: {answer:?}");
        }
    }
}

on_every_database![
    concurrent_creates_assign_iids_without_gaps,
    concurrent_reopen_of_two_returns_409_to_one,
    concurrent_update_and_delete_leave_the_merge_request_deleted,
    concurrent_updates_of_closed_issues_and_their_milestone_do_not_deadlock,
];
