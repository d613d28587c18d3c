//! Access to epics.

use holdfast::config::ConfigOptions;
use serde_json::json;
use storage::entities::AccessLevel;

use super::{epic, group, join, titles};
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

async fn epics_are_visible_with_their_group(server: TestServer) {
    let root = server.root();
    let (ann, inside) = (server.create_user("ann").await, server.create_user("inside").await);
    let open = group(&server, "open", json!({})).await;
    epic(&root, open, "Seen", json!({})).await;
    for client in [&server.anonymous(), &ann.client] {
        assert_eq!(titles(client, &format!("/groups/{open}/epics")).await, ["Seen"]);
        client.get(&format!("/groups/{open}/epics/1")).await.expect(200);
    }
    let hidden = group(&server, "hidden", json!({"visibility": "private"})).await;
    epic(&root, hidden, "Hidden", json!({})).await;
    for answer in [
        ann.client.get(&format!("/groups/{hidden}/epics")).await,
        ann.client.get(&format!("/groups/{hidden}/epics/1")).await,
        server.anonymous().get(&format!("/groups/{hidden}/epics")).await,
    ] {
        assert_eq!(answer.expect(404).message(), "404 Group Not Found");
    }
    // A member of a project in the group sees its epics.
    let below = project(&root, "below", json!({"namespace_id": hidden})).await;
    server.insert_member(below, inside.id, AccessLevel::Guest).await;
    assert_eq!(titles(&inside.client, &format!("/groups/{hidden}/epics")).await, ["Hidden"]);
    // Epics of subgroups that are not visible are not listed.
    let sub = group(&server, "sub", json!({"parent_id": open, "visibility": "private"})).await;
    epic(&root, sub, "Below", json!({})).await;
    assert_eq!(titles(&ann.client, &format!("/groups/{open}/epics")).await, ["Seen"]);
    assert_eq!(titles(&root, &format!("/groups/{open}/epics")).await, ["Below", "Seen"]);
}

async fn confidential_parent_is_hidden_without_access(server: TestServer) {
    let root = server.root();
    let id = group(&server, "family", json!({"visibility": "public"})).await;
    let reporter = server.create_user("reporter").await;
    join(&server, id, reporter.id, 20).await;
    let (_, parent) = epic(&root, id, "Parent", json!({"confidential": true})).await;
    let (iid, _) = epic(&root, id, "Child", json!({"parent_id": parent})).await;
    let non_member = server.create_user("stranger").await;
    for (client, expected) in
        [(&root, json!(parent)), (&reporter.client, json!(parent)), (&non_member.client, json!(null))]
    {
        let one = client.get(&format!("/groups/{id}/epics/{iid}")).await.expect(200).json();
        assert_eq!(one["parent_id"], expected);
        let list = client.get(&format!("/groups/{id}/epics?search=Child")).await.expect(200);
        assert_eq!(list.pluck("parent_id"), [expected]);
    }
}

async fn confidential_epics_require_reporter_or_author(server: TestServer) {
    let id = group(&server, "secret", json!({})).await;
    let (ann, guest, reporter, author) = (
        server.create_user("ann").await,
        server.create_user("guest").await,
        server.create_user("reporter").await,
        server.create_user("author").await,
    );
    for (user, level) in [(&guest, 10), (&reporter, 20), (&author, 20)] {
        join(&server, id, user.id, level).await;
    }
    let (iid, number) = epic(&author.client, id, "Few", json!({"confidential": true})).await;
    let member = format!("/groups/{id}/members/{}", author.id);
    server.root().delete(&member).await.expect(204);
    let (all, this) = (format!("/groups/{id}/epics"), format!("/groups/{id}/epics/{iid}"));
    for client in [&reporter.client, &author.client, &server.root()] {
        assert_eq!(titles(client, &all).await, ["Few"]);
        client.get(&this).await.expect(200);
    }
    for client in [&ann.client, &guest.client] {
        let none: [serde_json::Value; 0] = [];
        assert_eq!(titles(client, &all).await, none);
        for answer in [
            client.get(&this).await,
            client.put(&this, json!({"title": "x"})).await,
            client.get(&format!("{this}/issues")).await,
            client.get(&format!("/groups/{id}/epics/{number}/notes")).await,
            client.post(&format!("/groups/{id}/epics/{number}/notes"), json!({"body": "x"})).await,
        ] {
            assert_eq!(answer.expect(404).message(), "404 Epic Not Found");
        }
    }
    server.anonymous().get(&this).await.expect(404);
    // The author can still change the epic.
    author.client.put(&this, json!({"title": "Fewer"})).await.expect(200);
    assert_eq!(titles(&reporter.client, &format!("{all}?confidential=true")).await, ["Fewer"]);
    let none: [serde_json::Value; 0] = [];
    assert_eq!(titles(&reporter.client, &format!("{all}?confidential=false")).await, none);
}

async fn epic_writes_require_reporter_and_deletes_owner(server: TestServer) {
    let id = group(&server, "made", json!({})).await;
    let (ann, guest, reporter, maintainer, owner) = (
        server.create_user("ann").await,
        server.create_user("guest").await,
        server.create_user("reporter").await,
        server.create_user("maintainer").await,
        server.create_user("owner").await,
    );
    for (user, level) in [(&guest, 10), (&reporter, 20), (&maintainer, 40), (&owner, 50)] {
        join(&server, id, user.id, level).await;
    }
    let all = format!("/groups/{id}/epics");
    for user in [&ann, &guest] {
        user.client.post(&all, json!({"title": "t"})).await.expect(403);
    }
    let (iid, _) = epic(&reporter.client, id, "Made", json!({})).await;
    let this = format!("{all}/{iid}");
    for user in [&ann, &guest] {
        user.client.put(&this, json!({"title": "x"})).await.expect(403);
    }
    reporter.client.put(&this, json!({"title": "Changed"})).await.expect(200);
    for user in [&ann, &reporter, &maintainer] {
        user.client.delete(&this).await.expect(403);
    }
    server.anonymous().post(&all, json!({"title": "t"})).await.expect(401);
    owner.client.delete(&this).await.expect(204);
}

async fn epics_require_premium_plan(server: TestServer) {
    let root = server.root();
    let id = group(&server, "basic", json!({})).await;
    let epics = format!("/groups/{id}/epics");
    for answer in [
        root.get(&epics).await,
        root.post(&epics, json!({"title": "t"})).await,
        root.get(&format!("{epics}/1")).await,
        root.put(&format!("{epics}/1"), json!({"title": "t"})).await,
        root.delete(&format!("{epics}/1")).await,
        root.get(&format!("{epics}/1/issues")).await,
        root.post(&format!("{epics}/1/issues/1"), json!({})).await,
        root.put(&format!("{epics}/1/issues/1"), json!({"move_after_id": 1})).await,
        root.delete(&format!("{epics}/1/issues/1")).await,
        root.get(&format!("{epics}/1/notes")).await,
        root.post(&format!("{epics}/1/notes"), json!({"body": "x"})).await,
        root.get(&format!("{epics}/1/notes/1")).await,
        root.put(&format!("{epics}/1/notes/1"), json!({"body": "x"})).await,
        root.delete(&format!("{epics}/1/notes/1")).await,
    ] {
        assert_eq!(answer.expect(403).json()["setting"], "plan");
    }
}

fn starter_plan_options() -> ConfigOptions {
    ConfigOptions { plan: Some("starter".to_owned()), ..ConfigOptions::default() }
}

on_every_database![
    epics_are_visible_with_their_group,
    confidential_parent_is_hidden_without_access,
    confidential_epics_require_reporter_or_author,
    epic_writes_require_reporter_and_deletes_owner,
    epics_require_premium_plan with starter_plan_options(),
];
