//! Sharing groups with groups.

use serde_json::{Value, json};

use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn share_group_caps_roles_at_group_access(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let inner = group(&root, "inner", json!({"parent_id": engines})).await;
    let work = project(&root, "work", json!({"namespace_id": inner})).await;
    let friends = group(&root, "friends", json!({})).await;
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    join(&root, &format!("/groups/{friends}"), ada.id, 40).await;
    join(&root, &format!("/groups/{friends}"), bob.id, 10).await;
    ada.client.get(&format!("/projects/{work}")).await.expect(404);
    let share = json!({"group_id": friends, "group_access": 20, "expires_at": "2999-01-31"});
    let shared = root.post(&format!("/groups/{engines}/share"), share).await.expect(201).json();
    assert_eq!(shared["id"], json!(engines));
    assert_eq!(
        shared["shared_with_groups"],
        json!([{
            "group_id": friends, "group_name": "friends", "group_full_path": "friends", "group_access_level": 20,
            "expires_at": "2999-01-31",
        }])
    );
    for (user, level) in [(&ada, 20), (&bob, 10)] {
        for path in [format!("/groups/{engines}"), format!("/groups/{inner}"), format!("/projects/{work}")] {
            user.client.get(&path).await.expect(200);
            let member = root.get(&format!("{path}/members/all/{}", user.id)).await.expect(200).json();
            assert_eq!(member["access_level"], json!(level), "{path}");
            root.get(&format!("{path}/members/{}", user.id)).await.expect(404);
        }
    }
    ada.client.put(&format!("/groups/{engines}"), json!({})).await.expect(403);
    let mine = ada.client.get("/groups?min_access_level=20").await.expect(200).pluck("path");
    assert_eq!(mine, ["engines", "friends", "inner"]);
    root.delete(&format!("/groups/{engines}/share/{friends}")).await.expect(204);
    ada.client.get(&format!("/projects/{work}")).await.expect(404);
}

async fn share_group_rejects_invalid_groups_and_levels(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let outer = group(&ada.client, "outer", json!({})).await;
    let inner = group(&ada.client, "inner", json!({"parent_id": outer})).await;
    let hidden = group(&root, "hidden", json!({})).await;
    let open = group(&root, "open", json!({"visibility": "public"})).await;
    let path = format!("/groups/{inner}/share");
    let try_with =
        async |id: i64, level: i64| ada.client.post(&path, json!({"group_id": id, "group_access": level})).await;
    for missing in [hidden, 999_999] {
        assert_eq!(try_with(missing, 30).await.expect(404).message(), "404 Group Not Found");
    }
    for level in [0, 5, 35, 60] {
        let response = try_with(open, level).await.expect(400);
        assert_eq!(response.message(), "group_access does not have a valid value");
    }
    let missing = ada.client.post(&path, json!({})).await.expect(400);
    assert_eq!(missing.message(), "group_id is missing, group_access is missing");
    let date = json!({"group_id": open, "group_access": 10, "expires_at": "soon"});
    assert_eq!(ada.client.post(&path, date).await.expect(400).message(), "expires_at is invalid");
    for already in [inner, outer] {
        try_with(already, 30).await.expect(409);
    }
    try_with(open, 50).await.expect(201);
    assert_eq!(try_with(open, 30).await.expect(409).message(), "Group already shared with this group");
    let link = format!("/groups/{inner}/share/{open}");
    let late = ada.client.clone().header("If-Unmodified-Since", "Wed, 21 Oct 2015 07:28:00 GMT");
    late.delete(&link).await.expect(412);
    ada.client.delete(&link).await.expect(204);
    assert_eq!(ada.client.delete(&link).await.expect(404).message(), "404 Group Link Not Found");
}

async fn share_group_requires_owner(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({"visibility": "public"})).await;
    let friends = group(&root, "friends", json!({"visibility": "public"})).await;
    let (path, body) = (format!("/groups/{engines}/share"), json!({"group_id": friends, "group_access": 30}));
    for (level, user) in server.create_member_per_role(&root, engines).await {
        let shared = user.client.post(&path, body.clone()).await.status;
        assert_eq!(shared, if level == 50 { 201 } else { 403 }, "{level}");
        let ended = user.client.delete(&format!("{path}/{friends}")).await.status;
        assert_eq!(ended, if level == 50 { 204 } else { 403 }, "{level}");
    }
    server.anonymous().post(&path, body).await.expect(401);
}

async fn expired_share_grants_nothing_and_can_be_replaced(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let friends = group(&root, "friends", json!({})).await;
    let ada = server.create_user("ada").await;
    join(&root, &format!("/groups/{friends}"), ada.id, 40).await;
    let (one, share) = (format!("/groups/{engines}"), format!("/groups/{engines}/share"));
    let today = chrono::Utc::now().date_naive();
    let ended = json!({"group_id": friends, "group_access": 30, "expires_at": today});
    let shown = root.post(&share, ended).await.expect(201).json();
    assert_eq!(shown["shared_with_groups"], json!([]));
    ada.client.get(&one).await.expect(404);
    let levels = root.get(&format!("{one}/members/all")).await.expect(200).pluck("username");
    assert_eq!(levels, ["root"]);
    root.delete(&format!("{share}/{friends}")).await.expect(404);
    let again = json!({"group_id": friends, "group_access": 10});
    let shown = root.post(&share, again).await.expect(201).json();
    assert_eq!(shown["shared_with_groups"][0]["expires_at"], Value::Null);
    ada.client.get(&one).await.expect(200);
}

on_every_database![
    share_group_caps_roles_at_group_access,
    share_group_rejects_invalid_groups_and_levels,
    share_group_requires_owner,
    expired_share_grants_nothing_and_can_be_replaced,
];
