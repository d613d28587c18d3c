//! Adding, changing and removing members.

use sea_orm::ActiveModelTrait;
use sea_orm::ActiveValue::Set;
use serde_json::json;
use storage::entities::namespaces;

use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn add_member_requires_group_owner_or_project_maintainer(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({"visibility": "public"})).await;
    let work = project(&root, "work", json!({"namespace_id": engines, "visibility": "public"})).await;
    let members = server.create_member_per_role(&root, engines).await;
    let non_member = server.create_user("stranger").await;
    for (level, user) in &members {
        let name = format!("new{level}");
        let new = json!({"user_id": server.create_user(&name).await.id, "access_level": 20});
        let to_group = user.client.post(&format!("/groups/{engines}/members"), new.clone()).await.status;
        assert_eq!(to_group, if *level == 50 { 201 } else { 403 }, "{level}");
        let to_project = user.client.post(&format!("/projects/{work}/members"), new).await.status;
        assert_eq!(to_project, if *level >= 40 { 201 } else { 403 }, "{level}");
    }
    for parent in [format!("/groups/{engines}"), format!("/projects/{work}")] {
        let (list, one) = (format!("{parent}/members"), format!("{parent}/members/{}", members[0].1.id));
        let new = json!({"user_id": non_member.id, "access_level": 50});
        non_member.client.post(&list, new.clone()).await.expect(403);
        non_member.client.put(&one, json!({"access_level": 20})).await.expect(403);
        server.anonymous().post(&list, new).await.expect(401);
        server.anonymous().put(&one, json!({"access_level": 20})).await.expect(401);
        server.anonymous().delete(&one).await.expect(401);
    }
    non_member.client.delete(&format!("/groups/{engines}/members/{}", members[0].1.id)).await.expect(403);
}

async fn add_member_rejects_invalid_parameters_and_existing_members(server: TestServer) {
    let root = server.root();
    let outer = group(&root, "outer", json!({})).await;
    let inner = group(&root, "Inner", json!({"parent_id": outer})).await;
    let work = project(&root, "work", json!({"namespace_id": inner})).await;
    let ada = server.create_user("ada").await;
    join(&root, &format!("/groups/{outer}"), ada.id, 30).await;
    for parent in [format!("/groups/{inner}/members"), format!("/projects/{work}/members")] {
        let missing = root.post(&parent, json!({})).await.expect(400);
        assert_eq!(missing.message(), "user_id is missing, access_level is missing");
        let unknown = root.post(&parent, json!({"user_id": 999_999, "access_level": 30})).await.expect(404);
        assert_eq!(unknown.message(), "404 User Not Found");
        for level in [0, 5, 35, 60, -10, i64::MAX] {
            let response = root.post(&parent, json!({"user_id": ada.id, "access_level": level})).await.expect(400);
            assert_eq!(response.json()["message"], json!({"access_level": ["is not included in the list"]}));
        }
        let low = root.post(&parent, json!({"user_id": ada.id, "access_level": 20})).await.expect(400);
        let text = "should be greater than or equal to Developer inherited membership from group outer";
        assert_eq!(low.json()["message"], json!({"access_level": [text]}));
        let date = root.post(&parent, json!({"user_id": ada.id, "access_level": 30, "expires_at": "soon"})).await;
        assert_eq!(date.expect(400).message(), "expires_at is invalid");
        let new = json!({"user_id": ada.id, "access_level": 30, "expires_at": "2030-01-31"});
        assert_eq!(root.post(&parent, new.clone()).await.expect(201).json()["expires_at"], "2030-01-31");
        let again = root.post(&parent, new).await.expect(409);
        assert_eq!(again.message(), "Member already exists");
    }
    let owner = json!({"user_id": server.create_user("bob").await.id, "access_level": 50});
    root.post(&format!("/projects/{work}/members"), owner.clone()).await.expect(400);
    root.post(&format!("/groups/{inner}/members"), owner).await.expect(201);
}

async fn add_member_returns_404_for_user_being_deleted(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let ada = server.create_user("ada").await;
    root.delete(&format!("/users/{}", ada.id)).await.expect(204);
    let body = json!({ "user_id": ada.id, "access_level": 30 });
    let rejected = root.post(&format!("/groups/{engines}/members"), body).await.expect(404);
    assert_eq!(rejected.message(), "404 User Not Found");
}

async fn update_member_changes_role_and_preserves_or_clears_expiry(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let ada = server.create_user("ada").await;
    let parent = format!("/projects/{work}/members");
    let one = format!("{parent}/{}", ada.id);
    assert_eq!(root.put(&one, json!({"access_level": 30})).await.expect(404).message(), "404 Not found");
    let new = json!({"user_id": ada.id, "access_level": 20, "expires_at": "2030-01-31"});
    root.post(&parent, new).await.expect(201);
    assert_eq!(root.put(&one, json!({})).await.expect(400).message(), "access_level is missing");
    root.put(&one, json!({"access_level": 50})).await.expect(400);
    let updated = root.put(&one, json!({"access_level": 30})).await.expect(200).json();
    assert_eq!((&updated["access_level"], &updated["expires_at"]), (&json!(30), &json!("2030-01-31")));
    let cleared = root.put(&one, json!({"access_level": 30, "expires_at": ""})).await.expect(200).json();
    assert_eq!(cleared["expires_at"], json!(null));
    let past = json!({"access_level": 30, "expires_at": "2020-01-01"});
    root.put(&one, past).await.expect(200);
    // An expired membership grants no access.
    ada.client.get(&format!("/projects/{work}")).await.expect(404);
}

async fn last_group_owner_cannot_leave_or_lose_the_role(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let engines = group(&ada.client, "engines", json!({})).await;
    let one = format!("/groups/{engines}/members/{}", ada.id);
    for client in [&ada.client, &root] {
        client.put(&one, json!({"access_level": 40})).await.expect(403);
        client.put(&one, json!({"access_level": 50, "expires_at": "2030-01-31"})).await.expect(403);
        client.delete(&one).await.expect(403);
    }
    let bob = server.create_user("bob").await;
    join(&ada.client, &format!("/groups/{engines}"), bob.id, 50).await;
    ada.client.delete(&one).await.expect(204);
    ada.client.get(&format!("/groups/{engines}")).await.expect(404);
    bob.client.delete(&format!("/groups/{engines}/members/{}", bob.id)).await.expect(403);
}

async fn remove_member_allows_self_and_maintainers_only(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({"visibility": "public"})).await;
    let ada = server.create_user("ada").await;
    let bob = server.create_user("bob").await;
    for user in [&ada, &bob] {
        join(&root, &format!("/projects/{work}"), user.id, 30).await;
    }
    let one = |id: i64| format!("/projects/{work}/members/{id}");
    ada.client.delete(&one(bob.id)).await.expect(403);
    let late = root.clone().header("If-Unmodified-Since", "Wed, 21 Oct 2015 07:28:00 GMT");
    late.delete(&one(bob.id)).await.expect(412);
    ada.client.delete(&one(ada.id)).await.expect(204);
    assert_eq!(ada.client.delete(&one(ada.id)).await.expect(404).message(), "404 Not found");
    root.delete(&one(bob.id)).await.expect(204);
    root.delete(&format!("/projects/{work}/members/x")).await.expect(400);
    // The owner of a personal project cannot be removed or changed.
    root.delete(&one(1)).await.expect(403);
    root.put(&one(1), json!({"access_level": 30})).await.expect(403);
}

async fn remove_group_member_removes_memberships_of_descendants(server: TestServer) {
    let root = server.root();
    let outer = group(&root, "outer", json!({})).await;
    let inner = group(&root, "inner", json!({"parent_id": outer})).await;
    let work = project(&root, "work", json!({"namespace_id": inner})).await;
    let elsewhere = project(&root, "elsewhere", json!({})).await;
    let ada = server.create_user("ada").await;
    for parent in [
        format!("/groups/{outer}"),
        format!("/groups/{inner}"),
        format!("/projects/{work}"),
        format!("/projects/{elsewhere}"),
    ] {
        join(&root, &parent, ada.id, 30).await;
    }
    let member = format!("/groups/{outer}/members/{}", ada.id);
    let late = root.clone().header("If-Unmodified-Since", "Wed, 21 Oct 2015 07:28:00 GMT");
    late.delete(&member).await.expect(412);
    root.delete(&member).await.expect(204);
    root.get(&format!("/groups/{inner}/members/{}", ada.id)).await.expect(404);
    root.get(&format!("/projects/{work}/members/{}", ada.id)).await.expect(404);
    root.get(&format!("/projects/{elsewhere}/members/{}", ada.id)).await.expect(200);
}

async fn member_operations_return_404_for_private_groups_and_projects(server: TestServer) {
    let root = server.root();
    let hidden = group(&root, "hidden", json!({})).await;
    let work = project(&root, "work", json!({"namespace_id": hidden})).await;
    let non_member = server.create_user("stranger").await;
    for parent in [format!("/groups/{hidden}"), format!("/projects/{work}")] {
        let one = format!("{parent}/members/1");
        let new = json!({"user_id": non_member.id, "access_level": 40});
        non_member.client.post(&format!("{parent}/members"), new).await.expect(404);
        non_member.client.put(&one, json!({"access_level": 10})).await.expect(404);
        non_member.client.delete(&one).await.expect(404);
        non_member.client.get(&one).await.expect(404);
        non_member.client.get(&format!("{parent}/members/all/1")).await.expect(404);
    }
}

on_every_database![
    add_member_requires_group_owner_or_project_maintainer,
    add_member_rejects_invalid_parameters_and_existing_members,
    add_member_returns_404_for_user_being_deleted,
    update_member_changes_role_and_preserves_or_clears_expiry,
    last_group_owner_cannot_leave_or_lose_the_role,
    remove_member_allows_self_and_maintainers_only,
    remove_group_member_removes_memberships_of_descendants,
    member_operations_return_404_for_private_groups_and_projects,
];

async fn membership_lock_rejects_new_project_members(server: TestServer) {
    let root = server.root();
    let crew = group(&root, "crew", json!({})).await;
    let work = project(&root, "work", json!({"namespace_id": crew})).await;
    let ada = server.create_user("ada").await;
    let lock = namespaces::ActiveModel { id: Set(crew), membership_lock: Set(true), ..Default::default() };
    lock.update(server.backend.database.write()).await.expect("a lock");
    let new = json!({"user_id": ada.id, "access_level": 30});
    let rejected = root.post(&format!("/projects/{work}/members"), new.clone()).await.expect(405);
    assert_eq!(rejected.message(), "405 Method Not Allowed");
    root.post(&format!("/groups/{crew}/members"), new).await.expect(201);
}

async fn update_group_member_changes_role_and_expiry(server: TestServer) {
    let root = server.root();
    let crew = group(&root, "crew", json!({})).await;
    let ada = server.create_user("ada").await;
    join(&root, &format!("/groups/{crew}"), ada.id, 20).await;
    let member = format!("/groups/{crew}/members/{}", ada.id);
    let change = json!({ "access_level": 30, "expires_at": "2999-12-31" });
    let changed = root.put(&member, change).await.expect(200).json();
    assert_eq!((&changed["access_level"], &changed["expires_at"]), (&json!(30), &json!("2999-12-31")));
    assert_eq!(root.get(&member).await.expect(200).json(), changed);
}

on_every_database![membership_lock_rejects_new_project_members, update_group_member_changes_role_and_expiry,];
