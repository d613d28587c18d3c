//! Deletion of snippets with their project or author.

use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::json;
use storage::entities::{snippet_contents, snippets};

use super::{home, snippet, titles};
use crate::support::{TestServer, on_every_database};

/// Returns the number of snippets and of snippet contents.
async fn snippet_counts(server: &TestServer) -> (u64, u64) {
    let db = server.backend.database.read();
    let snippets = snippets::Entity::find().count(db).await.expect("a count");
    let contents = snippet_contents::Entity::find().count(db).await.expect("a count");
    (snippets, contents)
}

async fn delete_project_deletes_its_snippets(server: TestServer) {
    let root = server.root();
    let (_, path) = home(&server, "gone", "public").await;
    let id = snippet(&root, &path, "t", json!({})).await;
    let note = json!({"body": "On it"});
    root.post(&format!("{path}/snippets/{id}/notes"), note).await.expect(201);
    snippet(&root, "", "kept", json!({})).await;
    assert_eq!(snippet_counts(&server).await, (2, 2));
    root.delete(&path).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(snippet_counts(&server).await, (1, 1));
}

async fn delete_user_deletes_their_snippets(server: TestServer) {
    let root = server.root();
    let (id, path) = home(&server, "kept", "public").await;
    let (ann, ben) = (server.create_user("ann").await, server.create_user("ben").await);
    for user in [&ann, &ben] {
        server.insert_member(id, user.id, storage::entities::AccessLevel::Reporter).await;
        snippet(&user.client, "", "Own", json!({"visibility": "public"})).await;
    }
    let hers = snippet(&ann.client, &path, "Hers", json!({"visibility": "public"})).await;
    snippet(&ben.client, &path, "His", json!({"visibility": "public"})).await;
    ben.client.post(&format!("{path}/snippets/{hers}/notes"), json!({"body": "Nice"})).await.expect(201);
    let is_deletion = |sql: &String| sql.starts_with("DELETE FROM \"snippets\"");
    let before = server.statements();
    root.delete(&format!("/users/{}", ann.id)).await.expect(204);
    assert!(!server.statement_texts(before).iter().any(is_deletion), "the request deletes all snippets");
    // The snippet is hidden at once, before the job runs.
    root.get(&format!("{path}/snippets/{hers}")).await.expect(404);
    assert_eq!(titles(&server.anonymous(), &path).await, ["His"]);
    assert_eq!(server.anonymous().get("/snippets/public").await.expect(200).pluck("author")[0]["username"], "ben");
    let before = server.statements();
    server.finish_jobs().await;
    assert!(server.statement_texts(before).iter().any(is_deletion), "the deletion of the user deletes all snippets");
    assert_eq!(snippet_counts(&server).await, (2, 2));
}

on_every_database![delete_project_deletes_its_snippets, delete_user_deletes_their_snippets,];
