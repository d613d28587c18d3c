//! Notes on epics, as far as they differ from notes on issues.

use serde_json::{Value, json};

use super::{epic, group, join};
use crate::support::{TestServer, on_every_database};

async fn epic_note_lifecycle(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let id = group(&server, "noted", json!({})).await;
    // Makes the IID of the epic differ from its ID.
    epic(&root, id, "Another", json!({})).await;
    let other = group(&server, "other", json!({})).await;
    epic(&root, other, "Elsewhere", json!({})).await;
    let (iid, number) = epic(&root, id, "Whole", json!({})).await;
    assert!(iid != number);
    let this = format!("/groups/{id}/epics/{iid}");
    let before = root.get(&this).await.expect(200).json();
    let notes = format!("/groups/{id}/epics/{number}/notes");
    let body = json!({"body": "Nice", "created_at": "2016-03-11T03:45:40Z"});
    let created = root.post(&notes, body).await.expect(201).json();
    assert_eq!((&created["noteable_id"], &created["noteable_type"]), (&json!(number), &json!("Epic")));
    assert_eq!((&created["noteable_iid"], &created["body"]), (&json!(iid), &json!("Nice")));
    assert!(created["created_at"] != "2016-03-11T03:45:40.000Z", "created_at must be ignored for epics");
    let note = format!("{notes}/{}", created["id"]);
    let mut returned = ann.client.get(&note).await.expect(200).json();
    assert_eq!((&returned["title"], &returned["file_name"]), (&json!("Whole"), &Value::Null));
    assert_eq!((&returned["expires_at"], &returned["confidential"]), (&Value::Null, &json!(false)));
    for extra in ["title", "file_name", "expires_at"] {
        returned.as_object_mut().expect("an object").remove(extra);
    }
    assert_eq!(returned, created, "all other fields must match the note");
    assert_eq!(ann.client.get(&notes).await.expect(200).json(), json!([created]));
    let after = root.get(&this).await.expect(200).json();
    assert_eq!(after["user_notes_count"], 1);
    assert!(after["updated_at"].as_str() > before["updated_at"].as_str());
    ann.client.put(&note, json!({"body": "x"})).await.expect(403);
    ann.client.delete(&note).await.expect(403);
    assert_eq!(root.put(&note, json!({"body": "New"})).await.expect(200).json()["body"], "New");
    let old = root.request(reqwest::Method::DELETE, &note);
    let old = old.header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    root.send(old).await.expect(412);
    root.delete(&note).await.expect(204);
    root.delete(&note).await.expect(404);
    assert_eq!(root.get(&this).await.expect(200).json()["user_notes_count"], 0);
    for blank in [json!({}), json!({"body": " "}), json!({"body": "x".repeat(1_000_001)})] {
        root.post(&notes, blank.clone()).await.expect(400);
        root.put(&note, blank).await.expect(400);
    }
    let elsewhere = format!("/groups/{other}/epics/{number}/notes");
    for answer in [root.get(&elsewhere).await, root.post(&elsewhere, json!({"body": "x"})).await] {
        assert_eq!(answer.expect(404).message(), "404 Epic Not Found");
    }
    for answer in [server.anonymous().get(&notes).await, server.anonymous().post(&notes, json!({"body": "x"})).await] {
        answer.expect(401);
    }
    root.get(&format!("{notes}/one")).await.expect(400);
    root.get(&format!("{notes}?order_by=id")).await.expect(400);
}

async fn confidential_and_system_notes_are_protected(server: TestServer) {
    let (root, ann, reporter) = (server.root(), server.create_user("ann").await, server.create_user("reporter").await);
    let id = group(&server, "few", json!({})).await;
    join(&server, id, reporter.id, 20).await;
    let (iid, number) = epic(&root, id, "Whole", json!({})).await;
    let notes = format!("/groups/{id}/epics/{number}/notes");
    let hidden = root.post(&notes, json!({"body": "hush", "confidential": true})).await.expect(201).json();
    let hidden = format!("{notes}/{}", hidden["id"]);
    reporter.client.get(&hidden).await.expect(200);
    ann.client.get(&hidden).await.expect(404);
    assert_eq!(root.get(&format!("/groups/{id}/epics/{iid}")).await.expect(200).json()["user_notes_count"], 0);
    root.put(&format!("/groups/{id}/epics/{iid}"), json!({"state_event": "close"})).await.expect(200);
    let system_notes = ann.client.get(&notes).await.expect(200).json();
    assert_eq!((&system_notes[0]["body"], &system_notes[0]["system"]), (&json!("closed"), &json!(true)));
    let system_notes = format!("{notes}/{}", system_notes[0]["id"]);
    root.put(&system_notes, json!({"body": "x"})).await.expect(403);
    root.delete(&system_notes).await.expect(403);
}

async fn note_with_single_emoji_creates_award(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let id = group(&server, "voted", json!({})).await;
    let (iid, number) = epic(&root, id, "Whole", json!({})).await;
    let notes = format!("/groups/{id}/epics/{number}/notes");
    let this = format!("/groups/{id}/epics/{iid}");
    let award = ann.client.post(&notes, json!({"body": ":+1:"})).await.expect(201).json();
    assert_eq!((&award["name"], &award["awardable_type"]), (&json!("thumbsup"), &json!("Epic")));
    assert_eq!(award["awardable_id"], number);
    ann.client.post(&notes, json!({"body": ":thumbsup:"})).await.expect(404);
    root.post(&notes, json!({"body": ":-1:"})).await.expect(201);
    ann.client.post(&notes, json!({"body": "Text"})).await.expect(201);
    let returned = root.get(&this).await.expect(200).json();
    assert_eq!(
        (&returned["upvotes"], &returned["downvotes"], &returned["user_notes_count"]),
        (&json!(1), &json!(1), &json!(1))
    );
    root.delete(&format!("/users/{}?hard_delete=true", ann.id)).await.expect(204);
    server.finish_jobs().await;
    let returned = root.get(&this).await.expect(200).json();
    assert_eq!(
        (&returned["upvotes"], &returned["downvotes"], &returned["user_notes_count"]),
        (&json!(0), &json!(1), &json!(0))
    );
}

on_every_database![
    epic_note_lifecycle,
    confidential_and_system_notes_are_protected,
    note_with_single_emoji_creates_award,
];
