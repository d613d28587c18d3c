//! Emoji awarded to issues and to the notes on them.

mod epics;

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use crate::discussion::notes::write;
use crate::planning::issues::open;
use crate::support::spaces::{group, project};
use crate::support::{Client, TestServer, on_every_database};

/// Creates a public project with an issue and a note. Returns the project ID and the paths of both.
async fn setup(server: &TestServer, name: &str) -> (i64, [String; 2]) {
    let root = server.root();
    let group = group(&root, &format!("of-{name}"), json!({"visibility": "public"})).await;
    let public = json!({"visibility": "public", "namespace_id": group});
    let id = project(&root, name, public).await;
    let iid = open(&root, id, json!({"title": "Talk"})).await;
    let issue = format!("/projects/{id}/issues/{iid}");
    let note = write(&root, &issue, json!({"body": "A note"})).await;
    (id, [issue, note])
}

/// Awards an emoji and returns the path of the award.
async fn award(client: &Client, to: &str, name: &str) -> String {
    let created = client.post(&format!("{to}/award_emoji"), json!({"name": name})).await.expect(201);
    format!("{to}/award_emoji/{}", created.json()["id"])
}

async fn votes(client: &Client, issue: &str) -> (Value, Value) {
    let shown = client.get(issue).await.expect(200).json();
    (shown["upvotes"].clone(), shown["downvotes"].clone())
}

async fn issue_award_emoji_can_be_created_listed_and_deleted(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let (_, paths) = setup(&server, "life").await;
    for (path, kind) in paths.iter().zip(["Issue", "Note"]) {
        let list = format!("{path}/award_emoji");
        assert_eq!(root.get(&list).await.expect(200).json(), json!([]));
        let number = root.get(path).await.expect(200).json()["id"].clone();
        let created = ann.client.post(&list, json!({"name": "tada"})).await.expect(201).json();
        let keys: Vec<&String> = created.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["id", "name", "user", "created_at", "updated_at", "awardable_id", "awardable_type"]);
        assert_eq!((&created["name"], &created["user"]["username"]), (&json!("tada"), &json!("ann")));
        assert_eq!((&created["awardable_id"], &created["awardable_type"]), (&number, &json!(kind)));
        let this = format!("{list}/{}", created["id"]);
        assert_eq!(root.get(&this).await.expect(200).json(), created);
        award(&root, path, "tada").await;
        award(&root, path, "rocket").await;
        let listed = ann.client.get(&format!("{list}?per_page=2")).await.expect(200);
        assert_eq!((listed.pluck("name"), listed.header("X-Total")), (vec![json!("tada"), json!("tada")], "3"));
        let old = ann.client.request(reqwest::Method::DELETE, &this);
        let old = old.header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
        ann.client.send(old).await.expect(412);
        ann.client.delete(&this).await.expect(204);
        for gone in [ann.client.delete(&this).await, ann.client.get(&this).await] {
            assert_eq!(gone.expect(404).message(), "404 Not found");
        }
    }
}

async fn create_award_emoji_with_invalid_name_returns_404(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let (_, [issue, note]) = setup(&server, "refused").await;
    for path in [&issue, &note] {
        let list = format!("{path}/award_emoji");
        let missing = ann.client.post(&list, json!({})).await.expect(400);
        assert!(missing.message().starts_with("name is missing"), "{}", missing.message());
        for name in ["unheard of", ":tada:", "tada "] {
            let refused = ann.client.post(&list, json!({"name": name})).await.expect(404);
            assert!(refused.message().starts_with("404 Award Emoji"), "{}", refused.message());
        }
        for name in ["thumbsup", "-1"] {
            let own = root.post(&list, json!({"name": name})).await.expect(404);
            assert_eq!(own.message(), "404 Award Emoji Name must not be a vote on your own item Not Found");
        }
        award(&ann.client, path, "-1").await;
        for name in ["-1", "thumbsdown"] {
            let again = ann.client.post(&list, json!({"name": name})).await.expect(404);
            assert!(again.message().starts_with("404 Award Emoji"), "{}", again.message());
        }
        root.get(&format!("{list}/one")).await.expect(400);
    }
    // An award on a note is not an award on its issue.
    let own = award(&ann.client, &note, "rocket").await;
    let own = own.rsplit('/').next().expect("a number");
    root.get(&format!("{issue}/award_emoji/{own}")).await.expect(404);
    root.delete(&format!("{issue}/award_emoji/{own}")).await.expect(404);
    root.put(&issue, json!({"state_event": "close"})).await.expect(200);
    let system_note = root.get(&format!("{issue}/notes")).await.expect(200).json()[0]["id"].clone();
    root.post(&format!("{issue}/notes/{system_note}/award_emoji"), json!({"name": "tada"})).await.expect(404);
    root.get(&format!("{issue}/notes/999999/award_emoji")).await.expect(404);
}

async fn award_emoji_access_follows_visibility_and_author(server: TestServer) {
    let root = server.root();
    let (ann, ben) = (server.create_user("ann").await, server.create_user("ben").await);
    let (id, [issue, note]) = setup(&server, "access").await;
    for path in [&issue, &note] {
        let (list, anonymous) = (format!("{path}/award_emoji"), server.anonymous());
        let given = award(&ann.client, path, "tada").await;
        anonymous.get(&list).await.expect(401);
        anonymous.get(&given).await.expect(401);
        anonymous.post(&list, json!({"name": "tada"})).await.expect(401);
        anonymous.delete(&given).await.expect(401);
        assert_eq!(ben.client.delete(&given).await.expect(401).message(), "401 Unauthorized");
        root.delete(&given).await.expect(204);
    }
    let hidden = write(&root, &issue, json!({"body": "secret", "confidential": true})).await;
    ann.client.get(&format!("{hidden}/award_emoji")).await.expect(404);
    ann.client.post(&format!("{hidden}/award_emoji"), json!({"name": "tada"})).await.expect(404);
    let given = award(&ann.client, &note, "rocket").await;
    root.put(&issue, json!({"discussion_locked": true})).await.expect(200);
    for path in [&issue, &note] {
        ann.client.post(&format!("{path}/award_emoji"), json!({"name": "tada"})).await.expect(403);
    }
    server.insert_member(id, ben.id, AccessLevel::Guest).await;
    award(&ben.client, &issue, "tada").await;
    root.put(&issue, json!({"confidential": true})).await.expect(200);
    for path in [&issue, &note] {
        let list = format!("{path}/award_emoji");
        for response in [ann.client.get(&list).await, ann.client.post(&list, json!({"name": "tada"})).await] {
            assert_eq!(response.expect(404).message(), "404 Issue Not Found");
        }
    }
    ann.client.delete(&given).await.expect(404);
    root.post(&format!("/projects/{id}/archive"), json!({})).await.expect(201);
    root.post(&format!("{issue}/award_emoji"), json!({"name": "tada"})).await.expect(403);
    root.delete(&given).await.expect(403);
    root.get(&given).await.expect(200);
}

async fn issue_vote_counts_follow_award_emoji(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let (_, [issue, note]) = setup(&server, "votes").await;
    let ben = server.create_user("ben").await.client;
    award(&ben, &issue, "+1").await;
    let given = award(&ann.client, &issue, "thumbsup").await;
    award(&ann.client, &issue, "-1").await;
    award(&ann.client, &issue, "tada").await;
    award(&ann.client, &note, "+1").await;
    assert_eq!(root.get(&given).await.expect(200).json()["name"], "thumbsup");
    assert_eq!(votes(&root, &issue).await, (json!(2), json!(1)));
    ann.client.delete(&given).await.expect(204);
    assert_eq!(votes(&root, &issue).await, (json!(1), json!(1)));
    let list = format!("{issue}/award_emoji");
    let (first, second) = tokio::join!(
        ann.client.post(&list, json!({"name": "+1"})),
        ann.client.post(&list, json!({"name": "thumbsup"})),
    );
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 404]);
    assert_eq!(votes(&root, &issue).await, (json!(2), json!(1)));
    root.delete(&format!("/users/{}", ann.id)).await.expect(204);
    server.finish_jobs().await;
    assert_eq!(votes(&root, &issue).await, (json!(1), json!(0)), "deleting a user removes their votes");
    assert_eq!(root.get(&list).await.expect(200).pluck("name"), ["thumbsup"]);
}

on_every_database![
    issue_award_emoji_can_be_created_listed_and_deleted,
    create_award_emoji_with_invalid_name_returns_404,
    award_emoji_access_follows_visibility_and_author,
    issue_vote_counts_follow_award_emoji,
];
