//! Members of a directory synchronization.

use chrono::Days;
use domain::spaces::members::{SyncResult, synchronize};
use holdfast::config::ConfigOptions;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, members, now};

use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

/// Synchronizes a group with a directory that lists the given members.
async fn sync(server: &TestServer, group: i64, listed: &[(&str, AccessLevel)]) -> SyncResult {
    let listed: Vec<_> = listed.iter().map(|(name, level)| ((*name).to_owned(), *level)).collect();
    synchronize(&server.backend, &group.to_string(), &listed).await.expect("a synchronization")
}

/// Expected outcome of a synchronization without skipped members.
fn outcome(joined: u64, changed: u64, left: u64) -> SyncResult {
    SyncResult { joined, changed, left, passed_over: Vec::new() }
}

async fn directory_role_can_be_changed_only_while_overridden(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let work = project(&root, "work", json!({"namespace_id": engines})).await;
    let ada = server.create_user("ada").await;
    join(&root, &format!("/groups/{engines}"), ada.id, 20).await;
    let one = format!("/groups/{engines}/members/{}", ada.id);
    assert_eq!(root.get(&one).await.expect(200).json().get("override"), None);
    // A listed member is managed by the directory from then on.
    assert_eq!(sync(&server, engines, &[("ADA", AccessLevel::Reporter)]).await, outcome(0, 1, 0));
    assert_eq!(root.get(&one).await.expect(200).json()["override"], json!(false));
    root.put(&one, json!({"access_level": 30})).await.expect(403);
    let path = format!("{one}/override");
    let on = root.post(&path, json!({})).await.expect(201).json();
    assert_eq!((&on["id"], &on["access_level"], &on["override"]), (&json!(ada.id), &json!(20), &json!(true)));
    assert_eq!(root.post(&path, json!({})).await.expect(201).json(), on);
    assert_eq!(root.put(&one, json!({"access_level": 30})).await.expect(200).json()["override"], json!(true));
    assert_eq!(sync(&server, engines, &[("ada", AccessLevel::Reporter)]).await, outcome(0, 0, 0));
    let all = root.get(&format!("/projects/{work}/members/all/{}", ada.id)).await.expect(200).json();
    assert_eq!((&all["access_level"], &all["override"]), (&json!(30), &json!(true)));
    let off = root.delete(&path).await.expect(200).json();
    assert_eq!((&off["access_level"], &off["override"]), (&json!(30), &json!(false)));
    root.put(&one, json!({"access_level": 20})).await.expect(403);
    // Without the override the directory sets the role.
    assert_eq!(sync(&server, engines, &[("ada", AccessLevel::Reporter)]).await, outcome(0, 1, 0));
    assert_eq!(root.get(&one).await.expect(200).json()["access_level"], 20);
    // Removing a member does not require the override.
    root.delete(&one).await.expect(204);
}

async fn override_requires_directory_member_and_group_owner(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let members = server.create_member_per_role(&root, engines).await;
    let target = server.create_user("target").await;
    join(&root, &format!("/groups/{engines}"), target.id, 20).await;
    let path = format!("/groups/{engines}/members/{}/override", target.id);
    root.post(&path, json!({})).await.expect(403);
    root.delete(&path).await.expect(403);
    sync(&server, engines, &[("target", AccessLevel::Reporter)]).await;
    for (level, user) in &members {
        let expected = |success: u16| if *level == 50 { success } else { 403 };
        assert_eq!(user.client.post(&path, json!({})).await.status, expected(201), "{level}");
        assert_eq!(user.client.delete(&path).await.status, expected(200), "{level}");
    }
    let unknown = format!("/groups/{engines}/members/999999/override");
    assert_eq!(root.post(&unknown, json!({})).await.expect(404).message(), "404 Not found");
    assert_eq!(root.delete(&unknown).await.expect(404).message(), "404 Not found");
    let shown = root.get(&format!("/groups/{engines}/members")).await.expect(200);
    assert_eq!(shown.pluck("group_saml_identity"), vec![Value::Null; 7]);
}

async fn synchronize_adds_updates_and_removes_members(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let inner = group(&root, "inner", json!({"parent_id": engines})).await;
    let work = project(&root, "work", json!({"namespace_id": inner})).await;
    let (ada, bob, eve) =
        (server.create_user("ada").await, server.create_user("bob").await, server.create_user("eve").await);
    let list = format!("/groups/{engines}/members");
    let expired = json!({"user_id": eve.id, "access_level": 40, "expires_at": now().date_naive()});
    root.post(&list, expired).await.expect(201);
    use AccessLevel::{Developer, Guest, Maintainer, Owner, Reporter};
    // The highest of several roles applies; an expired membership is renewed.
    let listed = [("ada", Guest), ("Ada", Developer), ("bob", Reporter), ("eve", Guest)];
    assert_eq!(sync(&server, engines, &listed).await, outcome(3, 0, 0));
    let shown = async || {
        let members = root.get(&list).await.expect(200);
        members.pluck("username").into_iter().zip(members.pluck("access_level")).collect::<Vec<_>>()
    };
    let expected =
        |members: &[(&str, i64)]| members.iter().map(|(name, level)| (json!(name), json!(level))).collect::<Vec<_>>();
    let mut members_after = shown().await;
    members_after.sort_by_key(|(name, _)| name.to_string());
    assert_eq!(members_after, expected(&[("ada", 30), ("bob", 20), ("eve", 10), ("root", 50)]));
    join(&root, &format!("/groups/{inner}"), bob.id, 30).await;
    join(&root, &format!("/projects/{work}"), bob.id, 40).await;
    // A member who is no longer listed is removed, also from descendants. Manually added members remain.
    let result = sync(&server, engines, &[("ada", Maintainer), ("missing-user", Guest)]).await;
    assert_eq!((result.joined, result.changed, result.left), (0, 1, 2));
    assert_eq!(result.passed_over, [("missing-user".to_owned(), "does not exist".to_owned())]);
    assert_eq!(shown().await, expected(&[("root", 50), ("ada", 40)]));
    bob.client.get(&format!("/projects/{work}")).await.expect(404);
    // The inherited role is the minimum.
    assert_eq!(sync(&server, inner, &[("ada", Guest)]).await, outcome(1, 0, 0));
    let one = root.get(&format!("/groups/{inner}/members/{}", ada.id)).await.expect(200).json();
    assert_eq!(one["access_level"], 40);
    // The directory removes a manually set expiry date.
    let tomorrow = json!({"user_id": bob.id, "access_level": 10, "expires_at": now().date_naive() + Days::new(1)});
    root.post(&list, tomorrow).await.expect(201);
    assert_eq!(sync(&server, engines, &[("ada", Maintainer), ("bob", Guest)]).await, outcome(0, 1, 0));
    assert_eq!(root.get(&format!("{list}/{}", bob.id)).await.expect(200).json()["expires_at"], Value::Null);
    // The last Owner remains unless the directory adds another Owner.
    let last_owner = vec![("root".to_owned(), "remains the last owner of the group".to_owned())];
    assert_eq!(sync(&server, engines, &[("root", Guest)]).await.passed_over, last_owner);
    assert_eq!(sync(&server, engines, &[("root", Owner)]).await, outcome(0, 1, 0));
    assert_eq!(sync(&server, engines, &[]).await.passed_over, last_owner);
    assert_eq!(sync(&server, engines, &[("root", Guest), ("ada", Owner)]).await, outcome(1, 1, 0));
    assert_eq!(shown().await, expected(&[("root", 10), ("ada", 50)]));
    let missing = synchronize(&server.backend, "nowhere", &[]).await;
    assert!(missing.is_err());
}

on_every_database![
    directory_role_can_be_changed_only_while_overridden,
    override_requires_directory_member_and_group_owner,
    synchronize_adds_updates_and_removes_members,
];

fn free_plan() -> ConfigOptions {
    ConfigOptions { plan: Some("free".to_owned()), ..ConfigOptions::default() }
}

/// Members from the directory remain when an instance moves to a plan without synchronization.
async fn override_is_available_on_free_plan(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let ada = server.create_user("ada").await;
    join(&root, &format!("/groups/{engines}"), ada.id, 20).await;
    members::Entity::update_many()
        .col_expr(members::Column::Ldap, Expr::value(true))
        .filter(members::Column::UserId.eq(ada.id))
        .exec(server.backend.database.write())
        .await
        .expect("an update");
    let one = format!("/groups/{engines}/members/{}", ada.id);
    root.put(&one, json!({"access_level": 30})).await.expect(403);
    let path = format!("{one}/override");
    assert_eq!(root.post(&path, json!({})).await.expect(201).json()["override"], json!(true));
    root.put(&one, json!({"access_level": 30})).await.expect(200);
    assert_eq!(root.delete(&path).await.expect(200).json()["override"], json!(false));
}

on_every_database![override_is_available_on_free_plan with free_plan(),];
