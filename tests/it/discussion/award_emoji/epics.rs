//! Emoji awarded to epics and to the notes on them.

use serde_json::json;

use super::award;
use crate::planning::epics::epic;
use crate::support::spaces::{group, join};
use crate::support::{TestServer, on_every_database};

/// Creates a group with an epic and a note. Returns the group ID, the path of the epic and the path of the note.
async fn setup(server: &TestServer, name: &str, visibility: &str) -> (i64, [String; 2]) {
    let root = server.root();
    let id = group(&root, name, json!({"visibility": visibility})).await;
    // Makes the IID of the epic differ from its ID.
    let other = group(&root, &format!("other-{name}"), json!({})).await;
    epic(&root, other, "Other", json!({})).await;
    let (iid, epic_id) = epic(&root, id, "Whole", json!({})).await;
    assert_ne!(iid, epic_id);
    let notes = format!("/groups/{id}/epics/{epic_id}/notes");
    let note = root.post(&notes, json!({"body": "A note"})).await.expect(201).json()["id"].clone();
    let path = format!("/groups/{id}/epics/{iid}");
    let note = format!("{path}/notes/{note}");
    (id, [path, note])
}

async fn epic_award_emoji_can_be_created_listed_and_deleted(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let (_, paths) = setup(&server, "whole", "public").await;
    let shown = root.get(&paths[0]).await.expect(200).json();
    let note = paths[1].rsplit('/').next().expect("a number").parse::<i64>().expect("a number");
    for (path, kind, number) in [(&paths[0], "Epic", &shown["id"]), (&paths[1], "Note", &json!(note))] {
        let list = format!("{path}/award_emoji");
        assert_eq!(root.get(&list).await.expect(200).json(), json!([]));
        let created = ann.client.post(&list, json!({"name": "tada"})).await.expect(201).json();
        assert_eq!((&created["name"], &created["user"]["username"]), (&json!("tada"), &json!("ann")));
        assert_eq!((&created["awardable_id"], &created["awardable_type"]), (number, &json!(kind)));
        let this = format!("{list}/{}", created["id"]);
        assert_eq!(root.get(&this).await.expect(200).json(), created);
        award(&root, path, "rocket").await;
        let listed = ann.client.get(&format!("{list}?per_page=1")).await.expect(200);
        assert_eq!((listed.pluck("name"), listed.header("X-Total")), (vec![json!("tada")], "2"));
        for name in ["tada", "unheard of"] {
            let refused = ann.client.post(&list, json!({"name": name})).await.expect(404);
            assert!(refused.message().starts_with("404 Award Emoji"), "{}", refused.message());
        }
        ann.client.post(&list, json!({})).await.expect(400);
        let old = ann.client.request(reqwest::Method::DELETE, &this);
        let old = old.header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
        ann.client.send(old).await.expect(412);
        ann.client.delete(&this).await.expect(204);
        ann.client.get(&this).await.expect(404);
    }
    // An award on a note is not an award on its epic.
    let own = award(&root, &paths[1], "heart").await;
    let own = own.rsplit('/').next().expect("a number");
    root.get(&format!("{}/award_emoji/{own}", paths[0])).await.expect(404);
    award(&ann.client, &paths[0], "+1").await;
    assert_eq!(root.get(&paths[0]).await.expect(200).json()["upvotes"], 1);
}

async fn epic_award_emoji_access_follows_visibility_and_author(server: TestServer) {
    let root = server.root();
    let (ann, ben) = (server.create_user("ann").await, server.create_user("ben").await);
    let (id, paths) = setup(&server, "hidden", "private").await;
    join(&root, &format!("/groups/{id}"), ann.id, 10).await;
    for path in &paths {
        let (list, anonymous) = (format!("{path}/award_emoji"), server.anonymous());
        let given = award(&ann.client, path, "tada").await;
        anonymous.get(&list).await.expect(401);
        anonymous.post(&list, json!({"name": "tada"})).await.expect(401);
        anonymous.get(&given).await.expect(401);
        anonymous.delete(&given).await.expect(401);
        for response in [
            ben.client.get(&list).await,
            ben.client.post(&list, json!({"name": "tada"})).await,
            ben.client.get(&given).await,
            ben.client.delete(&given).await,
        ] {
            assert_eq!(response.expect(404).message(), "404 Group Not Found");
        }
        let others = award(&root, path, "rocket").await;
        assert_eq!(ann.client.delete(&others).await.expect(401).message(), "401 Unauthorized");
        root.delete(&given).await.expect(204);
    }
    for path in ["epics/99", "epics/99/notes/1"] {
        let list = format!("/groups/{id}/{path}/award_emoji");
        for response in [
            root.get(&list).await,
            root.post(&list, json!({"name": "tada"})).await,
            root.get(&format!("{list}/1")).await,
            root.delete(&format!("{list}/1")).await,
        ] {
            assert_eq!(response.expect(404).message(), "404 Epic Not Found");
        }
    }
}

on_every_database![
    epic_award_emoji_can_be_created_listed_and_deleted,
    epic_award_emoji_access_follows_visibility_and_author,
];
