//! Deletion of epics and of their related rows.

use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use storage::entities::{epic_issues, epic_labels, epics, notes};

use super::{epic, group, join};
use crate::planning::issues::open;
use crate::support::spaces::{id, project};
use crate::support::{TestServer, on_every_database};

/// Returns the numbers of epics, epic labels, epic issues and notes.
async fn row_counts(server: &TestServer) -> [u64; 4] {
    let db = server.backend.database.read();
    [
        epics::Entity::find().count(db).await.expect("a count"),
        epic_labels::Entity::find().count(db).await.expect("a count"),
        epic_issues::Entity::find().count(db).await.expect("a count"),
        notes::Entity::find().count(db).await.expect("a count"),
    ]
}

async fn deleting_epic_or_group_deletes_related_rows(server: TestServer) {
    let root = server.root();
    let top = group(&server, "top", json!({})).await;
    let inside = project(&root, "inside", json!({"namespace_id": top})).await;
    let iid = open(&root, inside, json!({"title": "t"})).await;
    let issue = id(&root.get(&format!("/projects/{inside}/issues/{iid}")).await.expect(200).json());
    let (whole, number) = epic(&root, top, "Whole", json!({"labels": "a"})).await;
    let (part, _) = epic(&root, top, "Part", json!({"labels": "a", "parent_id": number})).await;
    let this = format!("/groups/{top}/epics/{whole}");
    root.post(&format!("{this}/issues/{issue}"), json!({})).await.expect(201);
    root.post(&format!("/groups/{top}/epics/{number}/notes"), json!({"body": "Nice"})).await.expect(201);
    assert_eq!(row_counts(&server).await, [2, 2, 1, 1]);
    root.delete(&this).await.expect(204);
    assert_eq!(row_counts(&server).await, [1, 1, 0, 0]);
    let part = format!("/groups/{top}/epics/{part}");
    assert_eq!(root.get(&part).await.expect(200).json()["parent_id"], Value::Null);
    root.get(&format!("/projects/{inside}/issues/{iid}")).await.expect(200);
    root.post(&format!("{part}/issues/{issue}"), json!({})).await.expect(201);
    root.delete(&format!("/projects/{inside}/issues/{iid}")).await.expect(204);
    assert_eq!(row_counts(&server).await, [1, 1, 0, 0]);
    root.delete(&format!("/groups/{top}")).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(row_counts(&server).await, [0, 0, 0, 0]);
}

async fn epic_survives_deletion_of_author(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let group = group(&server, "kept", json!({})).await;
    join(&server, group, ann.id, 20).await;
    let (iid, _) = epic(&ann.client, group, "Kept", json!({})).await;
    let this = format!("/groups/{group}/epics/{iid}");
    ann.client.put(&this, json!({"state_event": "close"})).await.expect(200);
    root.delete(&format!("/users/{}", ann.id)).await.expect(204);
    server.finish_jobs().await;
    let kept = root.get(&this).await.expect(200).json();
    assert_eq!(
        (&kept["title"], &kept["author"]["username"], &kept["state"]),
        (&json!("Kept"), &json!("ghost"), &json!("closed"))
    );
}

on_every_database![deleting_epic_or_group_deletes_related_rows, epic_survives_deletion_of_author,];
