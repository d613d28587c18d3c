//! Concurrent creation, updates and deletion of notes.

use futures_util::future::join_all;
use serde_json::json;

use super::{bodies, issue, write};
use crate::support::{TestServer, on_every_database};

async fn concurrent_update_and_deletes_leave_the_note_deleted(server: TestServer) {
    let root = server.root();
    let (_, path) = issue(&server, "torn").await;
    for _ in 0..10 {
        let note = write(&root, &path, json!({"body": "t"})).await;
        let (edited, removed, again) =
            tokio::join!(root.put(&note, json!({"body": "new"})), root.delete(&note), root.delete(&note));
        assert!([200, 404].contains(&edited.status), "{edited:?}");
        let mut removals = [removed.status, again.status];
        removals.sort_unstable();
        assert_eq!(removals, [204, 404]);
        root.get(&note).await.expect(404);
    }
    assert_eq!(root.get(&path).await.expect(200).json()["user_notes_count"], 0);
}

async fn concurrent_notes_are_all_counted_and_votes_count_once(server: TestServer) {
    let root = server.root();
    let (_, path) = issue(&server, "busy").await;
    let notes = format!("{path}/notes");
    let created = join_all((0..20).map(|number| root.post(&notes, json!({"body": format!("{number}")})))).await;
    assert!(created.iter().all(|response| response.status == 201));
    assert_eq!(root.get(&path).await.expect(200).json()["user_notes_count"], 20);
    assert_eq!(bodies(&root, &format!("{notes}?per_page=100")).await.len(), 20);
    let votes = join_all((0..10).map(|_| root.post(&notes, json!({"body": ":+1:"})))).await;
    assert!(votes.iter().all(|response| [201, 404].contains(&response.status)));
    assert_eq!(votes.iter().filter(|response| response.status == 201).count(), 1);
    assert_eq!(root.get(&path).await.expect(200).json()["upvotes"], 1);
}

async fn concurrent_create_note_and_delete_issue_are_consistent(server: TestServer) {
    let root = server.root();
    let (id, _) = issue(&server, "gone").await;
    for _ in 0..10 {
        let iid = crate::planning::issues::open(&root, id, json!({"title": "t"})).await;
        let path = format!("/projects/{id}/issues/{iid}");
        let notes = format!("{path}/notes");
        let (written, removed) = tokio::join!(root.post(&notes, json!({"body": "x"})), root.delete(&path));
        assert!([201, 404].contains(&written.status), "{written:?}");
        assert_eq!(removed.status, 204);
        root.get(&notes).await.expect(404);
    }
}

on_every_database![
    concurrent_update_and_deletes_leave_the_note_deleted,
    concurrent_notes_are_all_counted_and_votes_count_once,
    concurrent_create_note_and_delete_issue_are_consistent,
];
