//! `PUT /users/:id`, blocking and unblocking.

use domain::accounts::users::{UserUpdate, update};
use domain::audit::Actor;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, IntoActiveModel};
use serde_json::json;
use storage::entities::Visibility;
use storage::entities::users::{self, UserState};

use crate::support::{TestServer, on_every_database};

async fn set_state(server: &TestServer, id: i64, state: UserState) {
    let found = users::Entity::find_by_id(id).one(server.backend.database.read()).await;
    let mut row = found.expect("the database").expect("a user").into_active_model();
    row.state = Set(state);
    row.update(server.backend.database.write()).await.expect("a row");
}

async fn update_user_changes_only_sent_attributes(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}", ada.id);
    let before = server.root().get(&path).await.json();
    let after = server.root().put(&path, json!({ "location": "Surrey", "admin": true })).await.expect(200).json();
    let mut expected = before.clone();
    expected["location"] = json!("Surrey");
    expected["is_admin"] = json!(true);
    assert_eq!(after, expected);
    assert_eq!(server.root().put(&path, json!({})).await.expect(200).json(), expected);
}

async fn update_username_moves_personal_namespace(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}", ada.id);
    let changed = server.root().put(&path, json!({ "username": "Countess", "name": "Ada King" })).await;
    assert_eq!(changed.expect(200).json()["web_url"], format!("{}/Countess", server.base));
    let space = server.personal_namespace(ada.id).await;
    assert_eq!(
        (space.path.as_str(), space.full_path.as_str(), space.full_path_key.as_str(), space.name.as_str()),
        ("Countess", "Countess", "countess", "Ada King")
    );
    assert_eq!(ada.client.get("/user").await.expect(200).json()["username"], "Countess");
}

async fn update_user_with_taken_name_returns_409_and_changes_nothing(server: TestServer) {
    let (ada, _) = (server.create_user("ada").await, server.create_user("bob").await);
    server.insert_group("tools", Visibility::Private).await;
    let path = format!("/users/{}", ada.id);
    for (body, text) in [
        (json!({ "username": "BOB", "bio": "x" }), "Username has already been taken"),
        (json!({ "username": "Tools", "bio": "x" }), "Username has already been taken"),
        (json!({ "email": "BOB@example.com", "bio": "x" }), "Email has already been taken"),
    ] {
        let rejected = server.root().put(&path, body).await.expect(409);
        assert_eq!(rejected.message(), text);
    }
    let user = server.root().get(&path).await.json();
    assert_eq!((&user["username"], &user["bio"]), (&json!("ada"), &json!(null)));
    assert_eq!(server.personal_namespace(ada.id).await.full_path, "ada");
    server.root().put(&path, json!({ "username": "ADA", "email": "ADA@example.com" })).await.expect(200);
}

async fn update_email_is_unconfirmed_unless_reconfirmation_is_skipped(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}", ada.id);
    let put = async |body| server.root().put(&path, body).await.expect(200).json()["confirmed_at"].is_string();
    assert!(!put(json!({ "email": "new@example.com" })).await);
    assert!(put(json!({ "email": "newer@example.com", "skip_reconfirmation": true })).await);
    assert!(put(json!({ "email": "NEWER@example.com" })).await);
}

async fn update_user_rejects_invalid_values(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}", ada.id);
    for body in [
        json!({ "username": "a/b" }),
        json!({ "username": "" }),
        json!({ "email": "x" }),
        json!({ "password": "short" }),
        json!({ "name": " " }),
        json!({ "provider": "saml" }),
        json!({ "projects_limit": 1_i64 << 40 }),
        json!({ "external": 7 }),
        json!({ "name": "a\u{0}" }),
    ] {
        assert_eq!(server.root().put(&path, body.clone()).await.status, 400, "{body}");
    }
    assert_eq!(server.root().put(&path, json!({ "bio": "x".repeat(1_100_000) })).await.status, 413);
}

async fn update_user_replaces_identity_of_same_provider(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}", ada.id);
    server.root().put(&path, json!({ "provider": "saml", "extern_uid": "1" })).await.expect(200);
    let both = json!({ "provider": "ldap", "extern_uid": "2" });
    server.root().put(&path, both.clone()).await.expect(200);
    let changed = server.root().put(&path, json!({ "provider": "saml", "extern_uid": "3" })).await.expect(200);
    assert_eq!(
        changed.json()["identities"],
        json!([
            { "provider": "ldap", "extern_uid": "2" }, { "provider": "saml", "extern_uid": "3" },
        ])
    );
}

async fn identities_are_deleted_by_provider(server: TestServer) {
    let (root, ada) = (server.root(), server.create_user("ada").await);
    let path = format!("/users/{}", ada.id);
    for (provider, uid) in [("saml", "1"), ("corporate/sso", "2")] {
        root.put(&path, json!({ "provider": provider, "extern_uid": uid })).await.expect(200);
    }
    let one = format!("{path}/identities/corporate%2Fsso");
    ada.client.delete(&one).await.expect(403);
    server.anonymous().delete(&one).await.expect(401);
    root.delete(&one).await.expect(204);
    let left = root.get(&path).await.expect(200).json()["identities"].clone();
    assert_eq!(left, json!([{ "provider": "saml", "extern_uid": "1" }]));
    assert_eq!(root.delete(&one).await.expect(404).message(), "404 Identity Not Found");
    root.delete(&format!("{path}/identities/%00")).await.expect(400);
    root.delete("/users/4711/identities/saml").await.expect(404);
}

async fn user_changes_require_administrator(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    let path = format!("/users/{}", ada.id);
    for (caller, status) in [(&server.anonymous(), 401), (&bob.client, 403), (&ada.client, 403)] {
        assert_eq!(caller.put(&path, json!({ "admin": true })).await.status, status);
        assert_eq!(caller.delete(&path).await.status, status);
        assert_eq!(caller.post(&format!("{path}/block"), json!({})).await.status, status);
        assert_eq!(caller.post(&format!("{path}/unblock"), json!({})).await.status, status);
    }
    for (missing, status) in [("/users/4711", 404), ("/users/ada", 400)] {
        assert_eq!(server.root().put(missing, json!({})).await.status, status);
        assert_eq!(server.root().delete(missing).await.status, status);
        assert_eq!(server.root().post(&format!("{missing}/block"), json!({})).await.status, status);
        assert_eq!(server.root().post(&format!("{missing}/unblock"), json!({})).await.status, status);
    }
}

async fn blocked_user_gets_403_until_unblocked(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}", ada.id);
    let root = server.root();
    let post = async |verb: &str| root.post(&format!("{path}/{verb}"), json!({})).await.expect(201).json();
    assert_eq!(post("unblock").await, false);
    assert_eq!(post("block").await, true);
    assert_eq!(post("block").await, false);
    let rejected = ada.client.get("/user").await;
    assert_eq!((rejected.status, rejected.message().as_str()), (403, "403 Forbidden - Your account has been blocked."));
    assert_eq!(root.get(&path).await.json()["state"], "blocked");
    assert_eq!(post("unblock").await, true);
    ada.client.get("/user").await.expect(200);
}

async fn ldap_blocked_and_deactivated_users_cannot_be_unblocked(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}", ada.id);
    set_state(&server, ada.id, UserState::LdapBlocked).await;
    for verb in ["block", "unblock"] {
        let rejected = server.root().post(&format!("{path}/{verb}"), json!({})).await.expect(403);
        assert_eq!(rejected.message(), "403 Forbidden - LDAP blocked users cannot be modified by the API");
    }
    set_state(&server, ada.id, UserState::Deactivated).await;
    let rejected = server.root().post(&format!("{path}/unblock"), json!({})).await.expect(403);
    assert_eq!(rejected.message(), "403 Forbidden - Deactivated users cannot be unblocked by the API");
    assert!(ada.client.get("/user").await.expect(403).message().contains("deactivated"));
}

async fn update_does_not_confirm_address_that_was_replaced_concurrently(server: TestServer) {
    let (root, backend) = (server.root(), &server.backend);
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}", ada.id);
    root.put(&path, json!({ "email": "first@example.org" })).await.expect(200);
    let found = users::Entity::find_by_id(ada.id).one(backend.database.read()).await;
    let loaded = found.expect("the database").expect("a user");
    assert_eq!(loaded.confirmed_at, None);
    // Another request confirms another address after the row was loaded.
    let confirmed = json!({ "email": "second@example.org", "skip_reconfirmation": true });
    root.put(&path, confirmed).await.expect(200);
    let changes = UserUpdate { email: Some("first@example.org".to_owned()), ..UserUpdate::default() };
    let updated = update(backend, &Actor::system(), loaded, changes).await.expect("an update");
    assert_eq!((updated.email.as_str(), updated.confirmed_at), ("first@example.org", None));
}

async fn block_own_account_returns_403(server: TestServer) {
    let rejected = server.root().post("/users/1/block", json!({})).await.expect(403);
    assert_eq!(rejected.message(), "403 Forbidden - The API initiating user cannot be blocked by the API");
}

on_every_database![
    update_user_changes_only_sent_attributes,
    update_username_moves_personal_namespace,
    update_user_with_taken_name_returns_409_and_changes_nothing,
    update_email_is_unconfirmed_unless_reconfirmation_is_skipped,
    update_user_rejects_invalid_values,
    update_user_replaces_identity_of_same_provider,
    identities_are_deleted_by_provider,
    user_changes_require_administrator,
    blocked_user_gets_403_until_unblocked,
    ldap_blocked_and_deactivated_users_cannot_be_unblocked,
    update_does_not_confirm_address_that_was_replaced_concurrently,
    block_own_account_returns_403,
];
