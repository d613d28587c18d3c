//! Expired memberships.

use chrono::Days;
use domain::spaces::jobs::sweep_expired_access::{self, SweepExpiredAccess};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, group_shares, members, now, project_shares};

use crate::support::spaces::{group, group_share, join, membership, project};
use crate::support::{TestServer, on_every_database};

async fn expired_membership_is_hidden_from_its_expiry_date(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let work = project(&root, "work", json!({})).await;
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    let today = now().date_naive();
    for parent in [format!("/groups/{engines}"), format!("/projects/{work}")] {
        let new = |id: i64, day| json!({"user_id": id, "access_level": 30, "expires_at": day});
        let list = format!("{parent}/members");
        root.post(&list, new(ada.id, today)).await.expect(201);
        root.post(&list, new(bob.id, today + Days::new(1))).await.expect(201);
        ada.client.get(&parent).await.expect(404);
        bob.client.get(&parent).await.expect(200);
        for members in [list.clone(), format!("{list}/all")] {
            assert_eq!(root.get(&members).await.expect(200).pluck("username"), ["root", "bob"]);
            root.get(&format!("{members}/{}", ada.id)).await.expect(404);
        }
        let one = format!("{list}/{}", ada.id);
        root.put(&one, json!({"access_level": 30})).await.expect(404);
        root.delete(&one).await.expect(404);
        // An expired membership does not prevent a new one.
        root.post(&list, new(ada.id, today + Days::new(1))).await.expect(201);
        root.post(&list, new(ada.id, today + Days::new(1))).await.expect(409);
        ada.client.get(&parent).await.expect(200);
    }
}

async fn past_expiry_date_is_accepted_and_grants_no_access(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let friends = group(&root, "friends", json!({})).await;
    let work = project(&root, "work", json!({})).await;
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    join(&root, &format!("/groups/{friends}"), bob.id, 40).await;
    let past = "2020-01-01";
    for parent in [format!("/groups/{engines}"), format!("/projects/{work}")] {
        let list = format!("{parent}/members");
        let one = format!("{list}/{}", ada.id);
        let new = json!({"user_id": ada.id, "access_level": 30, "expires_at": past});
        assert_eq!(root.post(&list, new).await.expect(201).json()["expires_at"], past);
        root.get(&one).await.expect(404);
        join(&root, &parent, ada.id, 30).await;
        ada.client.get(&parent).await.expect(200);
        let change = json!({"access_level": 30, "expires_at": past});
        assert_eq!(root.put(&one, change).await.expect(200).json()["expires_at"], past);
        ada.client.get(&parent).await.expect(404);
        root.get(&one).await.expect(404);
        let share = json!({"group_id": friends, "group_access": 30, "expires_at": past});
        root.post(&format!("{parent}/share"), share).await.expect(201);
        bob.client.get(&parent).await.expect(404);
        for path in [format!("{list}/all"), list] {
            assert_eq!(root.get(&path).await.expect(200).pluck("username"), ["root"]);
        }
    }
}

async fn expired_role_is_not_inherited(server: TestServer) {
    let root = server.root();
    let outer = group(&root, "outer", json!({})).await;
    let inner = group(&root, "inner", json!({"parent_id": outer})).await;
    let ada = server.create_user("ada").await;
    let list = format!("/groups/{outer}/members");
    let expired = json!({"user_id": ada.id, "access_level": 40, "expires_at": now().date_naive()});
    root.post(&list, expired).await.expect(201);
    join(&root, &format!("/groups/{inner}"), ada.id, 10).await;
    let all = root.get(&format!("/groups/{inner}/members/all/{}", ada.id)).await.expect(200).json();
    assert_eq!(all["access_level"], 10);
}

async fn expired_owner_does_not_count_as_owner(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let engines = group(&ada.client, "engines", json!({})).await;
    let bob = server.create_user("bob").await;
    let list = format!("/groups/{engines}/members");
    let expired = json!({"user_id": bob.id, "access_level": 50, "expires_at": now().date_naive()});
    root.post(&list, expired).await.expect(201);
    ada.client.delete(&format!("{list}/{}", ada.id)).await.expect(403);
}

async fn expired_project_membership_creates_an_event(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let work = project(&root, "work", json!({"namespace_id": engines})).await;
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    let today = now().date_naive();
    for (id, parent) in [(ada.id, format!("/projects/{work}")), (bob.id, format!("/groups/{engines}"))] {
        let expired = json!({"user_id": id, "access_level": 30, "expires_at": today});
        root.post(&format!("{parent}/members"), expired).await.expect(201);
    }
    let before = root.get(&format!("/projects/{work}")).await.expect(200).json()["last_activity_at"].clone();
    let names = async || root.get(&format!("/projects/{work}/events")).await.expect(200).pluck("action_name");
    for _ in 0..2 {
        sweep_expired_access::run(server.backend.clone(), SweepExpiredAccess {}).await.expect("a sweep");
        assert_eq!(names().await, ["removed due to membership expiration from", "joined", "created"]);
    }
    let events = root.get(&format!("/projects/{work}/events")).await.expect(200).json();
    assert_eq!(events[0]["author_username"], "ada");
    assert_eq!(root.get(&format!("/projects/{work}")).await.expect(200).json()["last_activity_at"], before);
    // The expiry is recorded as well if the user is added again before the sweep.
    let expired = json!({"user_id": ada.id, "access_level": 30, "expires_at": today});
    root.post(&format!("/projects/{work}/members"), expired).await.expect(201);
    join(&root, &format!("/projects/{work}"), ada.id, 30).await;
    assert_eq!(names().await[..3], ["joined", "removed due to membership expiration from", "joined"]);
}

async fn sweep_removes_only_expired_members_and_shares(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let friends = group(&root, "friends", json!({})).await;
    let work = project(&root, "work", json!({"namespace_id": engines})).await;
    let today = now().date_naive();
    for (name, ends) in [("ada", Some(today)), ("bob", Some(today + Days::new(1))), ("eve", None)] {
        let user = server.create_user(name).await;
        for (group, project) in [(Some(engines), None), (None, Some(work))] {
            let row = members::ActiveModel {
                namespace_id: Set(group),
                project_id: Set(project),
                expires_at: Set(ends),
                ..membership(user.id, AccessLevel::Guest)
            };
            row.insert(server.backend.database.write()).await.expect("a member");
        }
    }
    for (guest, ends) in [(friends, Some(today)), (engines, None)] {
        let row = project_shares::ActiveModel {
            project_id: Set(work),
            group_id: Set(guest),
            access_level: Set(AccessLevel::Guest),
            expires_at: Set(ends),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        };
        row.insert(server.backend.database.write()).await.expect("a share");
    }
    let row = group_shares::ActiveModel {
        expires_at: Set(Some(today - Days::new(9))),
        ..group_share(engines, friends, AccessLevel::Guest)
    };
    row.insert(server.backend.database.write()).await.expect("a share");
    let rows = async || {
        let read = server.backend.database.read();
        [
            members::Entity::find().count(read).await.expect("a count"),
            group_shares::Entity::find().count(read).await.expect("a count"),
            project_shares::Entity::find().count(read).await.expect("a count"),
        ]
    };
    // The administrator owns both groups.
    assert_eq!(rows().await, [8, 1, 2]);
    for _ in 0..2 {
        sweep_expired_access::run(server.backend.clone(), SweepExpiredAccess {}).await.expect("a sweep");
        assert_eq!(rows().await, [6, 0, 1]);
    }
    assert_eq!(
        root.get(&format!("/groups/{engines}")).await.expect(200).json()["shared_with_groups"],
        Value::Array(vec![])
    );
}

on_every_database![
    expired_membership_is_hidden_from_its_expiry_date,
    past_expiry_date_is_accepted_and_grants_no_access,
    expired_role_is_not_inherited,
    expired_owner_does_not_count_as_owner,
    expired_project_membership_creates_an_event,
    sweep_removes_only_expired_members_and_shares,
];
