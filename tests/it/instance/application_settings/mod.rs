//! Settings of the instance and their effects on other operations.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde_json::json;
use storage::entities::settings;

use crate::support::server::DELETION_DELAY;
use crate::support::users::PASSWORD;
use crate::support::{TestServer, on_every_database};

const PATH: &str = "/application/settings";

/// Removes the deletion delay that test servers set at startup.
async fn reset_deletion_delay(server: &TestServer) {
    let row = settings::Entity::delete_many().filter(settings::Column::Key.eq(DELETION_DELAY));
    row.exec(server.backend.database.write()).await.expect("a setting");
}

async fn get_settings_returns_defaults_on_new_instance(server: TestServer) {
    reset_deletion_delay(&server).await;
    assert_eq!(
        server.root().get(PATH).await.expect(200).json(),
        json!({
            "allow_account_creation_by_groups": true,
            "allow_local_requests_from_hooks_and_services": false,
            "audit_event_retention_days": 0,
            "default_branch_name": "main",
            "default_group_visibility": "private",
            "default_project_visibility": "private",
            "default_projects_limit": 100_000,
            "deletion_adjourned_period": 7,
            "impersonation_enabled": true,
            "max_attachment_size": 10,
            "password_authentication_enabled_for_git": true,
            "plan": "ultimate",
            "require_two_factor_authentication": false,
            "restricted_visibility_levels": [],
            "signup_enabled": false,
            "two_factor_grace_period": 48,
            "user_default_external": false,
            "user_oauth_applications": false,
        })
    );
}

async fn update_settings_changes_only_sent_attributes(server: TestServer) {
    reset_deletion_delay(&server).await;
    let root = server.root();
    let levels = json!(["public", "internal", "public"]);
    let changed = root
        .put(PATH, json!({ "max_attachment_size": 20, "restricted_visibility_levels": levels }))
        .await
        .expect(200)
        .json();
    assert_eq!(changed["max_attachment_size"], 20);
    assert_eq!(changed["restricted_visibility_levels"], json!(["internal", "public"]));
    assert_eq!(changed["deletion_adjourned_period"], 7);
    assert_eq!(root.get(PATH).await.expect(200).json(), changed);
    let emptied = root.put(PATH, json!({ "restricted_visibility_levels": [] })).await.expect(200).json();
    assert_eq!(emptied["restricted_visibility_levels"], json!([]));
}

async fn settings_require_administrator(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    for (caller, status) in [(server.anonymous(), 401), (ada, 403)] {
        assert_eq!(caller.get(PATH).await.status, status);
        assert_eq!(caller.put(PATH, json!({ "max_attachment_size": 1 })).await.status, status);
    }
    for method in ["get", "put"] {
        let path = format!("{PATH}?sudo=missing-user");
        let body = json!({ "max_attachment_size": 1 });
        let response =
            if method == "get" { server.root().get(&path).await } else { server.root().put(&path, body).await };
        assert_eq!(response.status, 404);
    }
}

async fn update_settings_rejects_invalid_values(server: TestServer) {
    let root = server.root();
    for body in [
        json!({}),
        json!({ "unknown": 1 }),
        json!({ "max_attachment_size": 0 }),
        json!({ "deletion_adjourned_period": 91 }),
        json!({ "deletion_adjourned_period": -1 }),
        json!({ "default_projects_limit": 2_147_483_648_i64 }),
        json!({ "default_project_visibility": "secret" }),
        json!({ "default_branch_name": "" }),
        json!({ "default_branch_name": "a..b" }),
        json!({ "restricted_visibility_levels": ["secret"] }),
        json!({ "signup_enabled": true }),
        json!({ "user_oauth_applications": true }),
    ] {
        assert_eq!(root.put(PATH, body.clone()).await.status, 400, "{body}");
    }
    root.put(PATH, json!({ "signup_enabled": false })).await.expect(200);
    assert_eq!(root.put(PATH, json!({ "unknown": "x".repeat(1_100_000) })).await.status, 413);
    assert_eq!(root.get(&format!("{PATH}?a=%FF")).await.status, 400);
}

async fn new_projects_and_groups_use_default_visibility(server: TestServer) {
    let root = server.root();
    let defaults = json!({ "default_project_visibility": "public", "default_group_visibility": "internal" });
    root.put(PATH, defaults).await.expect(200);
    let ada = server.create_user("ada").await.client;
    let group = ada.post("/groups", json!({ "name": "g", "path": "g" })).await.expect(201).json();
    assert_eq!(group["visibility"], "internal");
    assert_eq!(ada.post("/projects", json!({ "path": "own" })).await.expect(201).json()["visibility"], "public");
    // The default is capped at the visibility of the parent group.
    let inside = json!({ "path": "inside", "namespace_id": group["id"] });
    assert_eq!(ada.post("/projects", inside).await.expect(201).json()["visibility"], "internal");
    root.put(PATH, json!({ "default_group_visibility": "public" })).await.expect(200);
    let below = json!({ "name": "b", "path": "b", "parent_id": group["id"] });
    assert_eq!(ada.post("/groups", below).await.expect(201).json()["visibility"], "internal");
}

async fn restricted_visibility_requires_administrator(server: TestServer) {
    let root = server.root();
    root.put(PATH, json!({ "restricted_visibility_levels": ["public"] })).await.expect(200);
    let ada = server.create_user("ada").await.client;
    let text = "public has been restricted by your administrator";
    let rejected = ada.post("/projects", json!({ "path": "p", "visibility": "public" })).await.expect(400);
    assert_eq!(rejected.json()["message"], json!({ "visibility_level": [text] }));
    assert_eq!(rejected.json()["setting"], "restricted_visibility_levels");
    let project = ada.post("/projects", json!({ "path": "p", "visibility": "internal" })).await.expect(201).json();
    let path = format!("/projects/{}", project["id"]);
    let rejected = ada.put(&path, json!({ "visibility": "public" })).await.expect(400);
    assert_eq!(rejected.json()["message"], json!({ "visibility_level": [text] }));
    assert_eq!(rejected.json()["setting"], "restricted_visibility_levels");
    let rejected = ada.post("/groups", json!({ "name": "g", "path": "g", "visibility": "public" })).await.expect(400);
    assert!(rejected.message().contains(text));
    assert_eq!(rejected.json()["setting"], "restricted_visibility_levels");
    root.post("/groups", json!({ "name": "g", "path": "g", "visibility": "public" })).await.expect(201);
    root.put(&path, json!({ "visibility": "public" })).await.expect(200);
    // Sending the current visibility is not a change.
    ada.put(&path, json!({ "visibility": "public", "description": "x" })).await.expect(200);
}

async fn create_user_applies_default_limit_and_external(server: TestServer) {
    let root = server.root();
    let body = json!({ "default_projects_limit": 3, "user_default_external": true });
    root.put(PATH, body).await.expect(200);
    let user = |name: &str| {
        json!({
            "name": name, "username": name, "email": format!("{name}@example.com"), "force_random_password": true,
        })
    };
    let ada = root.post("/users", user("ada")).await.expect(201).json();
    assert_eq!((&ada["projects_limit"], &ada["external"]), (&json!(3), &json!(true)));
    let mut chosen = user("bob");
    chosen["projects_limit"] = json!(5);
    chosen["external"] = json!(false);
    let bob = root.post("/users", chosen).await.expect(201).json();
    assert_eq!((&bob["projects_limit"], &bob["external"]), (&json!(5), &json!(false)));
}

async fn disabled_impersonation_rejects_impersonation_tokens(server: TestServer) {
    let (root, ada) = (server.root(), server.create_user("ada").await);
    let path = format!("/users/{}/impersonation_tokens", ada.id);
    let created = root.post(&path, json!({ "name": "x", "scopes": ["api"] })).await.expect(201).json();
    let impersonator = server.with_token(created["token"].as_str().expect("a token"));
    impersonator.get("/user").await.expect(200);
    root.put(PATH, json!({ "impersonation_enabled": false })).await.expect(200);
    let rejected = impersonator.get("/user").await.expect(401);
    assert_eq!(
        rejected.json(),
        json!({
            "message": "401 Unauthorized", "error": "invalid_token",
            "error_description": "Token is an impersonation token but impersonation was disabled.",
            "setting": "impersonation_enabled",
        })
    );
    assert!(rejected.header("www-authenticate").contains("error=\"invalid_token\""));
    ada.client.get("/user").await.expect(200);
    root.put(PATH, json!({ "impersonation_enabled": true })).await.expect(200);
    impersonator.get("/user").await.expect(200);
}

async fn git_rejects_passwords_when_setting_is_disabled(server: TestServer) {
    let (root, ada) = (server.root(), server.create_user("ada").await);
    server.set_password(&ada).await;
    ada.client.post("/projects", json!({ "path": "p" })).await.expect(201);
    let refs = async |password: &str| {
        let request = server.anonymous().request(reqwest::Method::GET, "//ada/p.git/info/refs?service=git-upload-pack");
        server.anonymous().send(request.basic_auth("ada", Some(password))).await.status
    };
    assert_eq!((refs(PASSWORD).await, refs(&ada.token).await), (200, 200));
    root.put(PATH, json!({ "password_authentication_enabled_for_git": false })).await.expect(200);
    assert_eq!((refs(PASSWORD).await, refs(&ada.token).await), (401, 200));
}

async fn deletion_period_setting_delays_project_deletion(server: TestServer) {
    reset_deletion_delay(&server).await;
    let root = server.root();
    let project = async |path: &str| root.post("/projects", json!({ "path": path })).await.expect(201).json();
    let marked = format!("/projects/{}", project("marked").await["id"]);
    root.delete(&marked).await.expect(202);
    assert!(root.get(&marked).await.expect(200).json()["marked_for_deletion_on"].is_string());
    root.put(PATH, json!({ "deletion_adjourned_period": 0 })).await.expect(200);
    let deleted = format!("/projects/{}", project("gone").await["id"]);
    root.delete(&deleted).await.expect(202);
    root.get(&deleted).await.expect(404);
}

on_every_database![
    get_settings_returns_defaults_on_new_instance,
    update_settings_changes_only_sent_attributes,
    settings_require_administrator,
    update_settings_rejects_invalid_values,
    new_projects_and_groups_use_default_visibility,
    restricted_visibility_requires_administrator,
    create_user_applies_default_limit_and_external,
    disabled_impersonation_rejects_impersonation_tokens,
    git_rejects_passwords_when_setting_is_disabled,
    deletion_period_setting_delays_project_deletion,
];
