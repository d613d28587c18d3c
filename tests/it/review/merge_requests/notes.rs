//! Notes on merge requests, and award emoji on both.

use serde_json::json;
use storage::entities::AccessLevel;

use super::{propose, public_project};
use crate::support::{TestServer, on_every_database, spaces};

async fn merge_request_notes_can_be_created_read_updated_and_deleted(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "noted").await;
    let id = project.id;
    let (ann, guest) = (server.create_user("ann").await, server.create_user("guest").await);
    let iid = propose(&root, id, "feature/x", "main", json!({})).await;
    let path = format!("/projects/{id}/merge_requests/{iid}");
    let notes = format!("{path}/notes");
    let created = ann.client.post(&notes, json!({"body": "Why?"})).await.expect(201).json();
    assert_eq!((&created["noteable_type"], &created["noteable_iid"]), (&json!("MergeRequest"), &json!(iid)));
    assert_eq!((&created["resolvable"], &created["author"]["username"]), (&json!(false), &json!("ann")));
    let note = format!("{notes}/{}", spaces::id(&created));
    assert_eq!(root.get(&note).await.expect(200).json(), created);
    let changed = ann.client.put(&note, json!({"body": "How?"})).await.expect(200).json();
    assert_eq!(changed["body"], "How?");
    assert_eq!(root.get(&path).await.expect(200).json()["user_notes_count"], 1);
    root.put(&path, json!({"title": "new"})).await.expect(200);
    let listed = root.get(&format!("{notes}?sort=asc")).await.expect(200);
    assert_eq!(listed.pluck("system"), [json!(false), json!(true)]);
    // In a locked discussion only members can write.
    root.put(&path, json!({"discussion_locked": true})).await.expect(200);
    ann.client.post(&notes, json!({"body": "x"})).await.expect(403);
    ann.client.put(&note, json!({"body": "x"})).await.expect(403);
    server.insert_member(id, guest.id, AccessLevel::Guest).await;
    guest.client.post(&notes, json!({"body": "me, too"})).await.expect(201);
    guest.client.put(&note, json!({"body": "x"})).await.expect(403);
    guest.client.delete(&note).await.expect(403);
    root.put(&path, json!({"discussion_locked": false})).await.expect(200);
    let old = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    old.delete(&note).await.expect(412);
    root.delete(&note).await.expect(204);
    assert_eq!(root.get(&path).await.expect(200).json()["user_notes_count"], 1);
    // Confidential notes are visible only to their author and to Reporters.
    let confidential_note = json!({"body": "hush", "confidential": true});
    let confidential_note = spaces::id(&ann.client.post(&notes, confidential_note).await.expect(201).json());
    guest.client.get(&format!("{notes}/{confidential_note}")).await.expect(404);
    ann.client.get(&format!("{notes}/{confidential_note}")).await.expect(200);
    let events = format!("/projects/{id}/events?target_type=note");
    let returned = ann.client.get(&events).await.expect(200).json();
    assert_eq!(
        (&returned[0]["note"]["noteable_type"], &returned[0]["note"]["noteable_iid"]),
        (&json!("MergeRequest"), &json!(iid))
    );
    assert!(!guest.client.get(&events).await.expect(200).pluck("target_id").contains(&json!(confidential_note)));
    // Missing resources, invalid parameters and missing permissions.
    let narrow = server.with_token(&server.create_token(ann.id, &["read_user"]).await);
    let missing = format!("/projects/{id}/merge_requests/99/notes");
    for (list, one) in [(&notes, &note), (&missing, &format!("{missing}/1"))] {
        root.get(one).await.expect(404);
        root.put(one, json!({"body": "x"})).await.expect(404);
        root.delete(one).await.expect(404);
        server.anonymous().get(list).await.expect(401);
        server.anonymous().get(one).await.expect(401);
        server.anonymous().post(list, json!({"body": "x"})).await.expect(401);
        server.anonymous().put(one, json!({"body": "x"})).await.expect(401);
        server.anonymous().delete(one).await.expect(401);
        narrow.get(list).await.expect(403);
        narrow.get(one).await.expect(403);
        narrow.post(list, json!({"body": "x"})).await.expect(403);
    }
    root.get(&missing).await.expect(404);
    root.post(&missing, json!({"body": "x"})).await.expect(404);
    for blank in [json!({}), json!({"body": " "})] {
        root.post(&notes, blank.clone()).await.expect(400);
        root.put(&format!("{notes}/{confidential_note}"), blank).await.expect(400);
    }
    root.get(&format!("{notes}?sort=up")).await.expect(400);
    root.get(&format!("{notes}/x")).await.expect(400);
    root.delete(&format!("{notes}/x")).await.expect(400);
    let huge = json!({"body": "x".repeat(13 << 20)});
    root.post(&notes, huge.clone()).await.expect(413);
    root.put(&format!("{notes}/{confidential_note}"), huge).await.expect(413);
    // In a private project, a member who cannot read the code cannot read the notes.
    root.put(&format!("/projects/{id}"), json!({"visibility": "private"})).await.expect(200);
    guest.client.get(&notes).await.expect(404);
    guest.client.post(&notes, json!({"body": "x"})).await.expect(404);
}

async fn award_emoji_work_on_merge_requests_and_their_notes(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "awarded").await;
    let id = project.id;
    let ann = server.create_user("ann").await;
    let ben = server.create_user("ben").await.client;
    let narrow = server.with_token(&server.create_token(ann.id, &["read_user"]).await);
    let iid = propose(&root, id, "feature/x", "main", json!({})).await;
    let path = format!("/projects/{id}/merge_requests/{iid}");
    let note = root.post(&format!("{path}/notes"), json!({"body": "n"})).await.expect(201).json();
    let note = format!("{path}/notes/{}", spaces::id(&note));
    for (to, kind) in [(&path, "MergeRequest"), (&note, "Note")] {
        let list = format!("{to}/award_emoji");
        let created = ann.client.post(&list, json!({"name": "thumbsup"})).await.expect(201).json();
        assert_eq!((&created["awardable_type"], &created["user"]["username"]), (&json!(kind), &json!("ann")));
        ann.client.post(&list, json!({"name": "thumbsup"})).await.expect(404);
        root.post(&list, json!({"name": "+1"})).await.expect(404);
        ben.post(&list, json!({"name": "+1"})).await.expect(201);
        ben.post(&list, json!({"name": "thumbsdown"})).await.expect(201);
        assert_eq!(
            root.get(&list).await.expect(200).pluck("name"),
            ["thumbsup", "thumbsup", "thumbsdown"].map(|name| json!(name))
        );
        let one = format!("{list}/{}", spaces::id(&created));
        assert_eq!(root.get(&one).await.expect(200).json(), created);
        let other = server.create_user(&format!("other-{}", kind.to_lowercase())).await;
        other.client.delete(&one).await.expect(401);
        let old = ann.client.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
        old.delete(&one).await.expect(412);
        ann.client.delete(&one).await.expect(204);
        for answer in [root.get(&one).await, root.delete(&one).await] {
            answer.expect(404);
        }
        root.get(&format!("{list}?page=x")).await.expect(400);
        root.get(&format!("{list}/x")).await.expect(400);
        root.delete(&format!("{list}/x")).await.expect(400);
        root.post(&list, json!({})).await.expect(400);
        root.post(&list, json!({"name": "x".repeat(2 << 20)})).await.expect(413);
        for client in [&narrow, &server.anonymous()] {
            let status = if std::ptr::eq(client, &narrow) { 403 } else { 401 };
            client.get(&list).await.expect(status);
            client.get(&one).await.expect(status);
            client.post(&list, json!({"name": "tada"})).await.expect(status);
            client.delete(&one).await.expect(status);
        }
    }
    let missing = format!("/projects/{id}/merge_requests/99");
    for list in [format!("{missing}/award_emoji"), format!("{path}/notes/99999/award_emoji")] {
        root.get(&list).await.expect(404);
        root.post(&list, json!({"name": "tada"})).await.expect(404);
    }
    let returned = root.get(&path).await.expect(200).json();
    assert_eq!((&returned["upvotes"], &returned["downvotes"]), (&json!(1), &json!(1)));
    // A note that consists of an emoji name awards the emoji.
    let award = ann.client.post(&format!("{path}/notes"), json!({"body": ":thumbsup:"})).await.expect(201).json();
    assert_eq!(award["awardable_type"], "MergeRequest");
    assert_eq!(root.get(&path).await.expect(200).json()["upvotes"], 2);
    // Deleting a user deletes their votes and notes.
    ann.client.post(&format!("{path}/notes"), json!({"body": "gone"})).await.expect(201);
    root.delete(&format!("/users/{}?hard_delete=true", ann.id)).await.expect(204);
    server.finish_jobs().await;
    let returned = root.get(&path).await.expect(200).json();
    assert_eq!((&returned["upvotes"], &returned["user_notes_count"]), (&json!(1), &json!(1)));
}

on_every_database![
    merge_request_notes_can_be_created_read_updated_and_deleted,
    award_emoji_work_on_merge_requests_and_their_notes,
];
