//! What snippets go with.

use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::json;
use storage::entities::{snippet_contents, snippets};

use super::{home, snippet, titles};
use crate::support::{TestServer, on_every_database};

/// How many snippets there are, and how many contents.
async fn left(server: &TestServer) -> (u64, u64) {
    let db = server.backend.database.read();
    let snippets = snippets::Entity::find().count(db).await.expect("a count");
    let contents = snippet_contents::Entity::find().count(db).await.expect("a count");
    (snippets, contents)
}

async fn snippets_go_with_their_project(server: TestServer) {
    let root = server.root();
    let (_, place) = home(&server, "gone", "public").await;
    let id = snippet(&root, &place, "t", json!({})).await;
    let note = json!({"body": "On it"});
    root.post(&format!("{place}/snippets/{id}/notes"), note).await.expect(201);
    snippet(&root, "", "kept", json!({})).await;
    assert_eq!(left(&server).await, (2, 2));
    root.delete(&place).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(left(&server).await, (1, 1));
}

async fn snippets_go_with_whoever_made_them(server: TestServer) {
    let root = server.root();
    let (id, place) = home(&server, "kept", "public").await;
    let (ann, ben) = (server.person("ann").await, server.person("ben").await);
    for person in [&ann, &ben] {
        server.enrol(id, person.id, storage::entities::AccessLevel::Reporter).await;
        snippet(&person.client, "", "Own", json!({"visibility": "public"})).await;
    }
    let hers = snippet(&ann.client, &place, "Hers", json!({"visibility": "public"})).await;
    snippet(&ben.client, &place, "His", json!({"visibility": "public"})).await;
    ben.client.post(&format!("{place}/snippets/{hers}/notes"), json!({"body": "Nice"})).await.expect(201);
    root.delete(&format!("/users/{}", ann.id)).await.expect(204);
    // At once, and not only when the job was there.
    assert_eq!(titles(&server.anonymous(), &place).await, ["His"]);
    assert_eq!(server.anonymous().get("/snippets/public").await.expect(200).pluck("author")[0]["username"], "ben");
    server.finish_jobs().await;
    assert_eq!(left(&server).await, (2, 2));
}

on_every_database![snippets_go_with_their_project, snippets_go_with_whoever_made_them,];
