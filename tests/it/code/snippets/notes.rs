//! Notes and award emoji on snippets: differences from issues, which `notes` and `award_emoji` test.

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::{home, snippet};
use crate::discussion::notes::write;
use crate::support::webhook_receiver::Receiver;
use crate::support::{TestServer, on_every_database};

async fn get_snippet_note_returns_snippet_fields(server: TestServer) {
    let (_, base_path) = home(&server, "read", "public").await;
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let attributes = json!({"visibility": "public", "file_name": "start.sh"});
    let id = snippet(&root, &base_path, "How to start", attributes).await;
    let this = format!("{base_path}/snippets/{id}");
    let before = root.get(&this).await.expect(200).json();
    let created = ann.client.post(&format!("{this}/notes"), json!({"body": "It works"})).await.expect(201).json();
    assert_eq!((&created["noteable_id"], &created["noteable_type"]), (&json!(id), &json!("Snippet")));
    assert_eq!((&created["noteable_iid"], &created["system"]), (&Value::Null, &json!(false)));
    let note = format!("{this}/notes/{}", created["id"]);
    let mut shown = root.get(&note).await.expect(200).json();
    assert_eq!((&shown["title"], &shown["file_name"]), (&json!("How to start"), &json!("start.sh")));
    assert_eq!((&shown["expires_at"], &shown["author"]["username"]), (&Value::Null, &json!("ann")));
    for extra in ["title", "file_name", "expires_at"] {
        shown.as_object_mut().expect("an object").remove(extra);
    }
    assert_eq!(shown, created, "the other fields are those of the note");
    assert_eq!(root.get(&format!("{this}/notes")).await.expect(200).json(), json!([created]));
    let after = root.get(&this).await.expect(200).json();
    assert!(after["updated_at"].as_str() > before["updated_at"].as_str(), "the note updates the snippet");
    let changed = ann.client.put(&note, json!({"body": "Not any more"})).await.expect(200).json();
    assert_eq!((&changed["body"], changed.get("file_name")), (&json!("Not any more"), None));
    let old = ann.client.request(reqwest::Method::DELETE, &note);
    let old = old.header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    ann.client.send(old).await.expect(412);
    ann.client.delete(&note).await.expect(204);
    ann.client.get(&note).await.expect(404);
}

async fn snippet_notes_reject_invalid_requests(server: TestServer) {
    let (_, base_path) = home(&server, "refused", "public").await;
    let root = server.root();
    let id = snippet(&root, &base_path, "t", json!({})).await;
    let notes = format!("{base_path}/snippets/{id}/notes");
    root.post(&notes, json!({})).await.expect(400);
    let blank = root.post(&notes, json!({"body": " "})).await.expect(400);
    assert!(blank.text().contains("can't be blank"));
    root.post(&notes, json!({"body": "x".repeat(1_000_001)})).await.expect(400);
    root.get(&format!("{notes}?sort=up")).await.expect(400);
    for missing in [format!("{base_path}/snippets/999999/notes"), format!("/projects/999999/snippets/{id}/notes")] {
        root.get(&missing).await.expect(404);
        root.post(&missing, json!({"body": "x"})).await.expect(404);
    }
    let other = snippet(&root, &base_path, "other", json!({})).await;
    let note = write(&root, &format!("{base_path}/snippets/{id}"), json!({"body": "x"})).await;
    let number = note.rsplit('/').next().expect("a number");
    let elsewhere = format!("{base_path}/snippets/{other}/notes/{number}");
    for deleted in
        [root.get(&elsewhere).await, root.put(&elsewhere, json!({"body": "x"})).await, root.delete(&elsewhere).await]
    {
        assert_eq!(deleted.expect(404).message(), "404 Not found");
    }
}

async fn snippet_notes_require_visible_snippet(server: TestServer) {
    let (id, base_path) = home(&server, "seen", "public").await;
    let (root, ann, guest) = (server.root(), server.create_user("ann").await, server.create_user("guest").await);
    server.insert_member(id, guest.id, AccessLevel::Guest).await;
    let hidden = snippet(&root, &base_path, "few", json!({"visibility": "private"})).await;
    let this = format!("{base_path}/snippets/{hidden}");
    let note = write(&guest.client, &this, json!({"body": "hush"})).await;
    let awards = format!("{this}/award_emoji");
    guest.client.post(&awards, json!({"name": "tada"})).await.expect(201);
    for answer in [
        ann.client.get(&format!("{this}/notes")).await,
        ann.client.get(&note).await,
        ann.client.post(&format!("{this}/notes"), json!({"body": "x"})).await,
        ann.client.put(&note, json!({"body": "x"})).await,
        ann.client.delete(&note).await,
        ann.client.get(&awards).await,
        ann.client.post(&awards, json!({"name": "tada"})).await,
        ann.client.get(&format!("{note}/award_emoji")).await,
    ] {
        assert_eq!(answer.expect(404).message(), "404 Snippet Not Found");
    }
    for answer in [
        server.anonymous().get(&format!("{this}/notes")).await,
        server.anonymous().post(&format!("{this}/notes"), json!({"body": "x"})).await,
    ] {
        answer.expect(401);
    }
    let events = format!("{base_path}/events?target_type=note");
    let response = guest.client.get(&events).await.expect(200).json();
    assert_eq!(
        (&response[0]["target_title"], &response[0]["note"]["noteable_type"]),
        (&json!("few"), &json!("Snippet"))
    );
    assert_eq!((&response[0]["note"]["body"], &response[0]["note"]["noteable_iid"]), (&json!("hush"), &Value::Null));
    for list in [events, format!("/users/{}/events?target_type=note", guest.id)] {
        assert_eq!(ann.client.get(&list).await.expect(200).json(), json!([]), "{list}");
        assert_eq!(server.anonymous().get(&list).await.expect(200).json(), json!([]), "{list}");
    }
    root.put(&this, json!({"visibility": "public"})).await.expect(200);
    let list = format!("/users/{}/events?target_type=note", guest.id);
    assert_eq!(ann.client.get(&list).await.expect(200).pluck("target_title"), ["few"]);
    // Confidential notes require Reporter, as on other noteables.
    let few = write(&root, &this, json!({"body": "fewer", "confidential": true})).await;
    guest.client.get(&few).await.expect(404);
    ann.client.put(&note, json!({"body": "x"})).await.expect(403);
    ann.client.delete(&note).await.expect(403);
    root.delete(&note).await.expect(204);
}

async fn snippets_and_their_notes_support_award_emoji(server: TestServer) {
    let (_, base_path) = home(&server, "awarded", "public").await;
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let id = snippet(&root, &base_path, "t", json!({"visibility": "public"})).await;
    let this = format!("{base_path}/snippets/{id}");
    let note = write(&ann.client, &this, json!({"body": "Nice"})).await;
    let note_id = root.get(&note).await.expect(200).json()["id"].clone();
    for (path, kind, number) in [(&this, "Snippet", &json!(id)), (&note, "Note", &note_id)] {
        let list = format!("{path}/award_emoji");
        let created = ann.client.post(&list, json!({"name": "tada"})).await.expect(201).json();
        assert_eq!((&created["awardable_type"], &created["awardable_id"]), (&json!(kind), number));
        let award = format!("{list}/{}", created["id"]);
        assert_eq!(root.get(&award).await.expect(200).json(), created);
        assert_eq!(root.get(&list).await.expect(200).json(), json!([created]));
        ann.client.post(&list, json!({"name": "tada"})).await.expect(404);
        root.get(&format!("{list}/999999")).await.expect(404);
        let ben = server.create_user(&format!("ben-{kind}")).await;
        let maker = if kind == "Note" { &ann.client } else { &root };
        maker.post(&list, json!({"name": "thumbsup"})).await.expect(404);
        let vote = ben.client.post(&list, json!({"name": "+1"})).await.expect(201).json();
        ben.client.delete(&format!("{list}/{}", vote["id"])).await.expect(204);
        ben.client.delete(&award).await.expect(401);
        let old = ann.client.request(reqwest::Method::DELETE, &award);
        let old = old.header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
        ann.client.send(old).await.expect(412);
        ann.client.delete(&award).await.expect(204);
    }
    let award = root.post(&format!("{this}/notes"), json!({"body": ":tada:"})).await.expect(201).json();
    assert_eq!((&award["name"], &award["awardable_type"]), (&json!("tada"), &json!("Snippet")));
    root.delete(&format!("/users/{}", ann.id)).await.expect(204);
    server.finish_jobs().await;
    assert_eq!(root.get(&format!("{this}/notes")).await.expect(200).pluck("body"), ["Nice"]);
}

async fn snippet_notes_trigger_webhooks(server: TestServer) {
    let (project, base_path) = home(&server, "hooked", "public").await;
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let attributes = json!({"visibility": "public", "file_name": "start.sh", "content": "holdfast serve"});
    let id = snippet(&root, &base_path, "How to start", attributes).await;
    let mut receiver = Receiver::start().await;
    let hook = json!({"url": receiver.url, "push_events": false, "note_events": true});
    root.post(&format!("{base_path}/hooks"), hook).await.expect(201);
    let this = format!("{base_path}/snippets/{id}");
    let note = write(&ann.client, &this, json!({"body": "Nice"})).await;
    let number = note.rsplit('/').next().expect("a number");
    server.finish_jobs().await;
    let body = receiver.next().await.body;
    assert_eq!((&body["object_kind"], &body["event_type"]), (&json!("note"), &json!("note")));
    let noteables = ["commit", "issue", "merge_request", "snippet"];
    assert_eq!(noteables.map(|noteable| body.get(noteable).is_some()), [false, false, false, true]);
    let about = &body["object_attributes"];
    assert_eq!((&about["noteable_type"], &about["noteable_id"]), (&json!("Snippet"), &json!(id)));
    let page = format!("{}/of-hooked/hooked/-/snippets/{id}", server.base);
    assert_eq!(about["url"], format!("{page}#note_{number}"));
    let sent = &body["snippet"];
    for (field, value) in [
        ("id", json!(id)),
        ("title", json!("How to start")),
        ("file_name", json!("start.sh")),
        ("content", json!("holdfast serve")),
        ("project_id", json!(project)),
        ("type", json!("ProjectSnippet")),
        ("visibility_level", json!(20)),
        ("url", json!(page)),
    ] {
        assert_eq!(sent[field], value, "{field}");
    }
    root.put(&this, json!({"content": "x".repeat((1 << 20) + 1)})).await.expect(200);
    write(&ann.client, &this, json!({"body": "Long"})).await;
    server.finish_jobs().await;
    assert_eq!(receiver.next().await.body["snippet"]["content"], Value::Null, "long content is not sent");
}

on_every_database![
    get_snippet_note_returns_snippet_fields,
    snippet_notes_reject_invalid_requests,
    snippet_notes_require_visible_snippet,
    snippets_and_their_notes_support_award_emoji,
    snippet_notes_trigger_webhooks,
];
