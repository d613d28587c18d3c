//! Visibility of groups to members of only a project in them.

use chrono::Days;
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::json;
use storage::entities::{AccessLevel, members, now};

use crate::support::spaces::{group, join, membership, project};
use crate::support::{TestServer, on_every_database};

async fn project_member_can_list_and_get_ancestor_groups(server: TestServer) {
    let (root, ada) = (server.root(), server.create_user("ada").await);
    let top = group(&root, "top", json!({})).await;
    let mid = group(&root, "mid", json!({ "parent_id": top })).await;
    let other = group(&root, "other", json!({ "parent_id": top })).await;
    let below = group(&root, "below", json!({ "parent_id": mid })).await;
    let work = project(&root, "work", json!({ "namespace_id": mid })).await;
    let hidden = project(&root, "hidden", json!({ "namespace_id": mid })).await;
    let listed = async || ada.client.get("/groups?all_available=true&order_by=id").await.expect(200).pluck("id");
    let reads = async |id: i64, status: u16| {
        ada.client.get(&format!("/groups/{id}")).await.expect(status);
    };
    assert_eq!(listed().await, Vec::<i64>::new());
    reads(top, 404).await;
    join(&root, &format!("/projects/{work}"), ada.id, 30).await;
    assert_eq!(listed().await, [top, mid]);
    for (id, status) in [(top, 200), (mid, 200), (other, 404), (below, 404)] {
        reads(id, status).await;
    }
    // The group is shown with the projects visible to the caller, without the runners token.
    let shown = ada.client.get(&format!("/groups/{mid}")).await.expect(200).json();
    assert_eq!(shown["projects"].as_array().map(Vec::len), Some(1));
    assert_eq!(shown["projects"][0]["id"], work);
    assert!(shown.get("runners_token").is_none());
    assert_eq!(
        ada.client.get(&format!("/groups/{top}/subgroups?all_available=true")).await.expect(200).pluck("id"),
        [mid]
    );
    assert_eq!(ada.client.get(&format!("/groups/{mid}/projects")).await.expect(200).pluck("id"), [work]);
    assert_eq!(ada.client.get(&format!("/groups/{mid}/members")).await.expect(200).pluck("username"), ["root"]);
    ada.client.get(&format!("/projects/{hidden}")).await.expect(404);
    // This visibility is not a role: nothing can be changed.
    ada.client.put(&format!("/groups/{mid}"), json!({ "description": "x" })).await.expect(403);
    ada.client.delete(&format!("/groups/{mid}")).await.expect(403);
    ada.client.post("/groups", json!({ "name": "n", "path": "n", "parent_id": mid })).await.expect(403);
    ada.client.post("/projects", json!({ "path": "n", "namespace_id": mid })).await.expect(400);
    ada.client
        .post(&format!("/groups/{mid}/members"), json!({ "user_id": ada.id, "access_level": 50 }))
        .await
        .expect(403);
    assert_eq!(ada.client.get("/groups?min_access_level=10").await.expect(200).json(), json!([]));
    root.delete(&format!("/projects/{work}/members/{}", ada.id)).await.expect(204);
    assert_eq!(listed().await, Vec::<i64>::new());
    reads(mid, 404).await;
}

async fn project_share_makes_ancestors_visible_until_it_expires(server: TestServer) {
    let (root, ada, bob) = (server.root(), server.create_user("ada").await, server.create_user("bob").await);
    let top = group(&root, "top", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": top })).await;
    let friends = group(&ada.client, "friends", json!({})).await;
    ada.client.get(&format!("/groups/{top}")).await.expect(404);
    let share = json!({ "group_id": friends, "group_access": 20 });
    root.post(&format!("/projects/{work}/share"), share).await.expect(201);
    ada.client.get(&format!("/groups/{top}")).await.expect(200);
    server.anonymous().get(&format!("/groups/{top}")).await.expect(404);
    let row = members::ActiveModel {
        project_id: Set(Some(work)),
        expires_at: Set(Some(now().date_naive() - Days::new(1))),
        ..membership(bob.id, AccessLevel::Maintainer)
    };
    row.insert(server.backend.database.write()).await.expect("a member");
    bob.client.get(&format!("/groups/{top}")).await.expect(404);
    assert_eq!(bob.client.get("/groups?all_available=true").await.expect(200).pluck("id"), Vec::<i64>::new());
}

on_every_database![
    project_member_can_list_and_get_ancestor_groups,
    project_share_makes_ancestors_visible_until_it_expires,
];
