//! Deactivation and activation, memberships, and filters and fields for administrators.

use chrono::{Days, TimeDelta};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};
use serde_json::json;
use storage::entities::{Visibility, now, users};

use crate::registry::registry_protocol::basic;
use crate::support::browser::Browser;
use crate::support::spaces::{group, join, project};
use crate::support::users::{PASSWORD, TestUser};
use crate::support::{TestServer, on_every_database};

async fn change(server: &TestServer, user: &TestUser, change: impl FnOnce(&mut users::ActiveModel)) {
    let mut row = user.row.clone().into_active_model();
    change(&mut row);
    row.update(server.backend.database.write()).await.expect("an update");
}

async fn deactivated_user_is_activated_by_sign_in(server: TestServer) {
    let (ada, root) = (server.create_user("ada").await, server.root());
    server.set_password(&ada).await;
    let path = format!("/users/{}/deactivate", ada.id);
    assert_eq!(root.post(&path, json!({})).await.expect(201).json(), json!(true));
    assert_eq!(root.post(&path, json!({})).await.expect(201).json(), json!(false));
    let rejected = ada.client.get("/user").await.expect(403);
    assert!(rejected.message().contains("deactivated"));
    let mut browser = Browser::new(&server);
    assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 303);
    ada.client.get("/user").await.expect(200);
}

async fn administrator_activates_deactivated_user(server: TestServer) {
    let (ada, root) = (server.create_user("ada").await, server.root());
    let path = format!("/users/{}", ada.id);
    root.post(&format!("{path}/deactivate"), json!({})).await.expect(201);
    assert_eq!(root.post(&format!("{path}/activate"), json!({})).await.expect(201).json(), json!(true));
    assert_eq!(root.post(&format!("{path}/activate"), json!({})).await.expect(201).json(), json!(false));
    ada.client.get("/user").await.expect(200);
}

async fn deactivate_recently_active_user_returns_403(server: TestServer) {
    let root = server.root();
    let (ada, bob, eve) =
        (server.create_user("ada").await, server.create_user("bob").await, server.create_user("eve").await);
    change(&server, &ada, |row| row.current_sign_in_at = Set(Some(now() - TimeDelta::days(179)))).await;
    change(&server, &bob, |row| row.last_activity_on = Set(Some(now().date_naive() - Days::new(181)))).await;
    eve.client.get("/user").await.expect(200);
    for (user, status) in [(&ada, 403), (&eve, 403), (&bob, 201)] {
        let response = root.post(&format!("/users/{}/deactivate", user.id), json!({})).await;
        assert_eq!(response.status, status, "{}", user.row.username);
    }
}

async fn git_client_with_password_is_active(server: TestServer) {
    let ada = server.create_user("ada").await;
    server.set_password(&ada).await;
    server.insert_project_at("g/p", Visibility::Public).await;
    let path = format!("/users/{}", ada.id);
    let root = server.root();
    assert_eq!(root.get(&path).await.expect(200).json()["last_activity_on"], json!(null));
    let git = server.anonymous().header("Authorization", &basic("ada", PASSWORD));
    git.get("//g/p.git/info/refs?service=git-upload-pack").await.expect(200);
    assert_eq!(root.get(&path).await.expect(200).json()["last_activity_on"], json!(now().date_naive().to_string()));
    let rejected = root.post(&format!("{path}/deactivate"), json!({})).await.expect(403);
    assert!(rejected.message().contains("has been active"), "{}", rejected.message());
}

async fn blocked_users_cannot_be_activated_or_deactivated(server: TestServer) {
    let (ada, root) = (server.create_user("ada").await, server.root());
    let path = format!("/users/{}", ada.id);
    root.post(&format!("{path}/block"), json!({})).await.expect(201);
    let rejected = root.post(&format!("{path}/deactivate"), json!({})).await.expect(403);
    assert_eq!(rejected.message(), "403 Forbidden - A blocked user cannot be deactivated by the API");
    let rejected = root.post(&format!("{path}/activate"), json!({})).await.expect(403);
    assert_eq!(rejected.message(), "403 Forbidden - A blocked user must be unblocked to be activated");
    assert_eq!(root.post("/users/1/deactivate", json!({})).await.status, 403);
    for action in ["activate", "deactivate"] {
        assert_eq!(server.anonymous().post(&format!("{path}/{action}"), json!({})).await.status, 401);
        assert_eq!(root.post(&format!("/users/4711/{action}"), json!({})).await.status, 404);
        assert_eq!(root.post(&format!("/users/x/{action}"), json!({})).await.status, 400);
    }
}

async fn list_memberships_returns_groups_and_projects(server: TestServer) {
    let (ada, root) = (server.create_user("ada").await, server.root());
    let team = group(&root, "team", json!({})).await;
    let engine = project(&root, "engine", json!({ "namespace_id": team })).await;
    join(&root, &format!("/groups/{team}"), ada.id, 20).await;
    join(&root, &format!("/projects/{engine}"), ada.id, 40).await;
    let path = format!("/users/{}/memberships", ada.id);
    let in_group = json!({ "source_id": team, "source_name": "team", "source_type": "Namespace", "access_level": 20 });
    let in_project =
        json!({ "source_id": engine, "source_name": "engine", "source_type": "Project", "access_level": 40 });
    let before = server.statements();
    assert_eq!(root.get(&path).await.expect(200).json(), json!([in_group, in_project]));
    assert!(server.statements() - before <= 7);
    assert_eq!(root.get(&format!("{path}?type=Project")).await.expect(200).json(), json!([in_project]));
    assert_eq!(root.get(&format!("{path}?type=Namespace")).await.expect(200).json(), json!([in_group]));
    assert_eq!(root.get(&format!("{path}?type=Other")).await.status, 400);
    assert_eq!(ada.client.get(&path).await.status, 403);
    assert_eq!(server.anonymous().get(&path).await.status, 401);
    assert_eq!(root.get("/users/4711/memberships").await.status, 404);
    root.put("/application/settings", json!({ "deletion_adjourned_period": 0 })).await.expect(200);
    root.delete(&format!("/projects/{engine}")).await.expect(202);
    assert_eq!(root.get(&path).await.expect(200).json(), json!([in_group]));
}

async fn list_users_supports_administrator_filters(server: TestServer) {
    let (ada, bob, root) = (server.create_user("ada").await, server.create_user("bob").await, server.root());
    let team = group(&root, "team", json!({})).await;
    let engine = project(&root, "engine", json!({ "namespace_id": team })).await;
    join(&root, &format!("/projects/{engine}"), ada.id, 20).await;
    for (query, expected) in [
        ("admins=true", vec!["root"]),
        ("two_factor=enabled", vec![]),
        ("two_factor=disabled", vec!["bob", "ada", "root"]),
        ("without_projects=true", vec!["bob", "root"]),
    ] {
        let found = root.get(&format!("/users?{query}")).await.expect(200).pluck("username");
        assert_eq!(found, expected, "{query}");
    }
    project(&bob.client, "own", json!({})).await;
    assert_eq!(root.get("/users?without_projects=true").await.pluck("username"), ["root"]);
    assert_eq!(bob.client.get("/users?admins=true&two_factor=enabled").await.pluck("username").len(), 3);
    assert_eq!(root.get("/users?two_factor=maybe").await.status, 400);
}

async fn administrators_set_note_job_title_and_theme(server: TestServer) {
    let (ada, root) = (server.create_user("ada").await, server.root());
    let path = format!("/users/{}", ada.id);
    let body = json!({ "note": "On leave", "job_title": "Countess", "theme_id": 3, "color_scheme_id": 2 });
    let changed = root.put(&path, body).await.expect(200).json();
    assert_eq!((&changed["note"], &changed["job_title"]), (&json!("On leave"), &json!("Countess")));
    assert_eq!((&changed["theme_id"], &changed["color_scheme_id"]), (&json!(3), &json!(2)));
    let own = ada.client.get("/user").await.expect(200).json();
    assert_eq!((own.get("note"), &own["job_title"]), (None, &json!("Countess")));
    let seen = ada.client.get(&path).await.expect(200).json();
    assert_eq!((seen.get("note"), &seen["job_title"]), (None, &json!("Countess")));
    for bad in [json!({ "theme_id": 0 }), json!({ "color_scheme_id": 7 }), json!({ "note": "x".repeat(5000) })] {
        assert_eq!(root.put(&path, bad).await.status, 400);
    }
}

on_every_database![
    deactivated_user_is_activated_by_sign_in,
    administrator_activates_deactivated_user,
    deactivate_recently_active_user_returns_403,
    git_client_with_password_is_active,
    blocked_users_cannot_be_activated_or_deactivated,
    list_memberships_returns_groups_and_projects,
    list_users_supports_administrator_filters,
    administrators_set_note_job_title_and_theme,
];
