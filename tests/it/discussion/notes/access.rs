//! Permissions on notes.

use serde_json::json;
use storage::entities::AccessLevel;

use super::{bodies, issue, write};
use crate::planning::epics::epic;
use crate::planning::issues::open;
use crate::support::spaces::{group, project};
use crate::support::{TestServer, on_every_database};

async fn notes_return_401_to_anonymous_and_404_to_non_members(server: TestServer) {
    let root = server.root();
    let (_, path) = issue(&server, "open").await;
    let note = write(&root, &path, json!({"body": "open"})).await;
    let (anonymous, ann) = (server.anonymous(), server.create_user("ann").await);
    let notes = format!("{path}/notes");
    for response in [
        anonymous.get(&notes).await,
        anonymous.get(&note).await,
        anonymous.post(&notes, json!({"body": "x"})).await,
        anonymous.put(&note, json!({"body": "x"})).await,
        anonymous.delete(&note).await,
    ] {
        assert_eq!(response.expect(401).message(), "401 Unauthorized");
    }
    assert_eq!(bodies(&ann.client, &notes).await, ["open"]);
    let id = project(&root, "hidden", json!({})).await;
    let iid = open(&root, id, json!({"title": "t"})).await;
    let hidden = format!("/projects/{id}/issues/{iid}");
    let secret = write(&root, &hidden, json!({"body": "secret"})).await;
    for response in [
        ann.client.get(&format!("{hidden}/notes")).await,
        ann.client.get(&secret).await,
        ann.client.post(&format!("{hidden}/notes"), json!({"body": "x"})).await,
        ann.client.put(&secret, json!({"body": "x"})).await,
        ann.client.delete(&secret).await,
    ] {
        assert_eq!(response.expect(404).message(), "404 Project Not Found");
    }
    server.insert_member(id, ann.id, AccessLevel::Guest).await;
    write(&ann.client, &hidden, json!({"body": "me, too"})).await;
    root.post(&format!("/projects/{id}/archive"), json!({})).await.expect(201);
    root.post(&format!("{hidden}/notes"), json!({"body": "x"})).await.expect(403);
    root.put(&secret, json!({"body": "x"})).await.expect(403);
    root.delete(&secret).await.expect(403);
    assert_eq!(bodies(&ann.client, &format!("{hidden}/notes")).await, ["me, too", "secret"]);
}

async fn notes_on_confidential_issues_are_hidden(server: TestServer) {
    let root = server.root();
    let (id, _) = issue(&server, "secret").await;
    let (author, guest) = (server.create_user("author").await, server.create_user("guest").await);
    server.insert_member(id, guest.id, AccessLevel::Guest).await;
    let iid = open(&author.client, id, json!({"title": "secret", "confidential": true})).await;
    let path = format!("/projects/{id}/issues/{iid}");
    let note = write(&author.client, &path, json!({"body": "secret"})).await;
    assert_eq!(bodies(&author.client, &format!("{path}/notes")).await, ["secret"]);
    for response in [
        guest.client.get(&format!("{path}/notes")).await,
        guest.client.get(&note).await,
        guest.client.post(&format!("{path}/notes"), json!({"body": "x"})).await,
        guest.client.put(&note, json!({"body": "x"})).await,
        guest.client.delete(&note).await,
    ] {
        assert_eq!(response.expect(404).message(), "404 Issue Not Found");
    }
    let seen = "?target_type=note";
    for list in [format!("/projects/{id}/events{seen}"), format!("/users/{}/events{seen}", author.id)] {
        assert_eq!(guest.client.get(&list).await.expect(200).json(), json!([]), "{list}");
        assert_eq!(server.anonymous().get(&list).await.expect(200).json(), json!([]), "{list}");
        assert_eq!(root.get(&list).await.expect(200).json()[0]["note"]["body"], "secret");
    }
    // Authors cannot read their notes on an issue that became confidential.
    let (_, open_path) = issue(&server, "turned").await;
    let note = write(&guest.client, &open_path, json!({"body": "mine"})).await;
    root.put(&open_path, json!({"confidential": true})).await.expect(200);
    guest.client.get(&note).await.expect(404);
    assert_eq!(guest.client.get("/events?target_type=note").await.expect(200).json(), json!([]));
}

async fn confidential_note_with_only_an_emoji_awards_nothing(server: TestServer) {
    let (id, path) = issue(&server, "quiet").await;
    let guest = server.create_user("guest").await;
    server.insert_member(id, guest.id, AccessLevel::Guest).await;
    for (number, flag) in ["confidential", "internal"].into_iter().enumerate() {
        let notes = format!("{path}/notes");
        let created = server.root().post(&notes, json!({"body": ":tada:", flag: true})).await.expect(201).json();
        assert_eq!((&created["body"], &created["confidential"]), (&json!(":tada:"), &json!(true)));
        assert_eq!(server.root().get(&notes).await.expect(200).pluck("body").len(), number + 1);
        assert_eq!(guest.client.get(&notes).await.expect(200).json(), json!([]));
    }
    assert_eq!(guest.client.get(&format!("{path}/award_emoji")).await.expect(200).json(), json!([]));
    server.root().post(&format!("{path}/notes"), json!({"body": ":tada:"})).await.expect(201);
    let awarded = guest.client.get(&format!("{path}/award_emoji")).await.expect(200);
    assert_eq!(awarded.pluck("name"), ["tada"]);
}

async fn confidential_notes_are_visible_to_author_and_reporters(server: TestServer) {
    let (id, path) = issue(&server, "few").await;
    let (ann, guest) = (server.create_user("ann").await, server.create_user("guest").await);
    let reporter = server.create_user("reporter").await;
    server.insert_member(id, guest.id, AccessLevel::Guest).await;
    server.insert_member(id, reporter.id, AccessLevel::Reporter).await;
    write(&ann.client, &path, json!({"body": "open"})).await;
    let hidden = write(&ann.client, &path, json!({"body": "secret", "confidential": true})).await;
    let list = format!("{path}/notes");
    for user in [&ann, &reporter] {
        assert_eq!(bodies(&user.client, &list).await, ["secret", "open"]);
        assert_eq!(user.client.get(&hidden).await.expect(200).json()["confidential"], true);
    }
    let listed = guest.client.get(&list).await.expect(200);
    assert_eq!((listed.pluck("body"), listed.header("X-Total")), (vec![json!("open")], "1"));
    for response in [
        guest.client.get(&hidden).await,
        guest.client.put(&hidden, json!({"body": "x"})).await,
        guest.client.delete(&hidden).await,
    ] {
        assert_eq!(response.expect(404).message(), "404 Not found");
    }
    assert_eq!(guest.client.get(&path).await.expect(200).json()["user_notes_count"], 1);
    let events = format!("/projects/{id}/events?target_type=note");
    assert_eq!(guest.client.get(&events).await.expect(200).json().as_array().map(Vec::len), Some(1));
    for user in [&ann, &reporter] {
        assert_eq!(user.client.get(&events).await.expect(200).json().as_array().map(Vec::len), Some(2));
    }
    ann.client.delete(&hidden).await.expect(204);
    assert_eq!(ann.client.get(&path).await.expect(200).json()["user_notes_count"], 1);
}

async fn create_note_accepts_internal_as_alias_of_confidential(server: TestServer) {
    let root = server.root();
    let (id, issue) = issue(&server, "internal").await;
    let guest = server.create_user("guest").await;
    server.insert_member(id, guest.id, AccessLevel::Guest).await;
    let snippet = json!({"title": "s", "file_name": "s.txt", "content": "s", "visibility": "public"});
    let snippet = root.post(&format!("/projects/{id}/snippets"), snippet).await.expect(201).json()["id"].clone();
    let parent = group(&root, "whole", json!({"visibility": "public"})).await;
    let (_, epic) = epic(&root, parent, "Whole", json!({})).await;
    let paths = [issue, format!("/projects/{id}/snippets/{snippet}"), format!("/groups/{parent}/epics/{epic}")];
    for path in &paths {
        let notes = format!("{path}/notes");
        for (sent, confidential) in [
            (json!({"body": "x", "internal": true}), true),
            (json!({"body": "x", "internal": true, "confidential": false}), true),
            (json!({"body": "x", "internal": false, "confidential": true}), true),
            (json!({"body": "x", "internal": false}), false),
        ] {
            let created = root.post(&notes, sent.clone()).await.expect(201).json();
            let both = (&created["confidential"], &created["internal"]);
            assert_eq!(both, (&json!(confidential), &json!(confidential)), "{path} {sent}");
            let read = root.get(&format!("{notes}/{}", created["id"])).await.expect(200).json();
            assert_eq!(read["internal"], confidential, "{path} {sent}");
        }
        assert_eq!(root.get(&notes).await.expect(200).json().as_array().map(Vec::len), Some(4));
        assert_eq!(guest.client.get(&notes).await.expect(200).json().as_array().map(Vec::len), Some(1), "{path}");
    }
}

async fn locked_discussion_allows_writes_by_members_only(server: TestServer) {
    let root = server.root();
    let (id, path) = issue(&server, "locked").await;
    let (ann, guest) = (server.create_user("ann").await, server.create_user("guest").await);
    server.insert_member(id, guest.id, AccessLevel::Guest).await;
    let note = write(&ann.client, &path, json!({"body": "before"})).await;
    root.put(&path, json!({"discussion_locked": true})).await.expect(200);
    for body in ["x", ":tada:"] {
        ann.client.post(&format!("{path}/notes"), json!({"body": body})).await.expect(403);
    }
    ann.client.put(&note, json!({"body": "x"})).await.expect(403);
    ann.client.delete(&note).await.expect(403);
    ann.client.get(&note).await.expect(200);
    write(&guest.client, &path, json!({"body": "after"})).await;
}

async fn create_note_accepts_created_at_from_owners_only(server: TestServer) {
    let (id, path) = issue(&server, "dated").await;
    let (owner, maintainer) = (server.create_user("owner").await, server.create_user("maintainer").await);
    server.insert_member(id, owner.id, AccessLevel::Owner).await;
    server.insert_member(id, maintainer.id, AccessLevel::Maintainer).await;
    let body = json!({"body": "old", "created_at": "2016-03-11T03:45:40Z"});
    for (user, accepted) in [(&owner, true), (&maintainer, false)] {
        let created = user.client.post(&format!("{path}/notes"), body.clone()).await.expect(201).json();
        assert_eq!(created["created_at"] == "2016-03-11T03:45:40.000Z", accepted);
        assert_eq!(created["created_at"], created["updated_at"]);
    }
}

on_every_database![
    notes_return_401_to_anonymous_and_404_to_non_members,
    notes_on_confidential_issues_are_hidden,
    confidential_note_with_only_an_emoji_awards_nothing,
    confidential_notes_are_visible_to_author_and_reporters,
    create_note_accepts_internal_as_alias_of_confidential,
    locked_discussion_allows_writes_by_members_only,
    create_note_accepts_created_at_from_owners_only,
];
