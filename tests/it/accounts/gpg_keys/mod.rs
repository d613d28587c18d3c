//! GPG keys.

use sea_orm::{ActiveValue::Set, EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use storage::entities::{gpg_key_ids, gpg_keys, now};

use crate::support::openpgp::{ADA, ADA_FINGERPRINT, ADA_SECRET, BEN, EXPIRED, P256, REVOKED, RSA};
use crate::support::{Client, TestServer, on_every_database};

async fn add(client: &Client, key: &str) -> Value {
    client.post("/user/gpg_keys", json!({ "key": key })).await.expect(201).json()
}

async fn gpg_keys_can_be_created_read_and_deleted(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    let created = add(&ada, ADA).await;
    let expected = json!({ "id": created["id"], "key": ADA.trim(), "created_at": created["created_at"] });
    assert_eq!(created, expected);
    let one = format!("/user/gpg_keys/{}", created["id"]);
    let read = ada.get(&one).await.expect(200);
    assert_eq!(read.json(), created);
    ada.clone().header("If-None-Match", read.header("etag")).get(&one).await.expect(304);
    assert_eq!(ada.get("/user/gpg_keys").await.expect(200).json(), json!([created]));
    let late = ada.clone().header("If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT");
    late.delete(&one).await.expect(412);
    ada.delete(&one).await.expect(204);
    for response in [ada.get(&one).await, ada.delete(&one).await] {
        assert_eq!((response.status, response.message()), (404, "404 GPG Key Not Found".to_owned()));
    }
    let rest = gpg_key_ids::Entity::find().count(server.backend.database.read()).await.expect("a number");
    assert_eq!(rest, 0);
}

async fn revoked_gpg_key_is_removed(server: TestServer) {
    let (ada, root) = (server.create_user("ada").await, server.root());
    for (client, path) in [(&ada.client, "/user/gpg_keys".to_owned()), (&root, format!("/users/{}/gpg_keys", ada.id))] {
        let created = client.post(&path, json!({ "key": ADA })).await.expect(201).json();
        let revoke = format!("{path}/{}/revoke", created["id"]);
        let accepted = client.post(&revoke, json!({})).await.expect(202);
        assert_eq!(accepted.message(), "202 Accepted");
        assert_eq!(client.post(&revoke, json!({})).await.expect(404).message(), "404 GPG Key Not Found");
        assert_eq!(client.get(&path).await.expect(200).json(), json!([]));
    }
}

async fn create_gpg_key_rejects_invalid_keys(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    let two = format!("{ADA}{RSA}");
    let invalid = "is invalid. A valid public GPG key begins with '-----BEGIN PGP PUBLIC KEY BLOCK-----' and ends with \
                   '-----END PGP PUBLIC KEY BLOCK-----'";
    let unusable = "is expired or revoked, or has no user ID";
    for (bad, reason) in [
        ("x", invalid),
        (ADA_SECRET, invalid),
        (two.as_str(), invalid),
        (&ADA[..ADA.len() / 2], invalid),
        (EXPIRED, unusable),
        (REVOKED, unusable),
    ] {
        let rejected = ada.post("/user/gpg_keys", json!({ "key": bad })).await.expect(400);
        assert_eq!(rejected.json()["message"], json!({ "key": [reason] }), "{bad}");
    }
    assert!(ada.post("/user/gpg_keys", json!({})).await.expect(400).message().contains("key is missing"));
    ada.post("/user/gpg_keys", json!({ "key": "x".repeat(65_537) })).await.expect(400);
    ada.post("/user/gpg_keys", json!({ "key": "x".repeat(1_100_000) })).await.expect(413);
    server.root().post("/users/1/gpg_keys", json!({ "key": "x".repeat(1_100_000) })).await.expect(413);
}

async fn gpg_key_belongs_to_one_user(server: TestServer) {
    let (ada, ben) = (server.create_user("ada").await, server.create_user("ben").await);
    add(&ada.client, ADA).await;
    for client in [&ada.client, &ben.client] {
        let again = client.post("/user/gpg_keys", json!({ "key": format!("{ADA}\n") })).await.expect(400);
        assert_eq!(again.json()["message"], json!({ "fingerprint": ["has already been taken"] }));
    }
    add(&ben.client, BEN).await;
    server.root().delete(&format!("/users/{}", ada.id)).await.expect(204);
    add(&ben.client, ADA).await;
}

async fn gpg_keys_of_users_are_public(server: TestServer) {
    let (ada, ben, root) = (server.create_user("ada").await, server.create_user("ben").await, server.root());
    let path = format!("/users/{}/gpg_keys", ada.id);
    let body = json!({ "key": ADA });
    ben.client.post(&path, body.clone()).await.expect(403);
    server.anonymous().post(&path, body.clone()).await.expect(401);
    let created = root.post(&path, body).await.expect(201).json();
    let one = format!("{path}/{}", created["id"]);
    for client in [&server.anonymous(), &ben.client, &ada.client] {
        assert_eq!(client.get("/users/ADA/gpg_keys").await.expect(200).json(), json!([created]));
        assert_eq!(client.get(&one).await.expect(200).json(), created);
    }
    let elsewhere = format!("/users/{}/gpg_keys/{}", ben.id, created["id"]);
    assert_eq!(root.get(&elsewhere).await.expect(404).message(), "404 GPG Key Not Found");
    root.delete(&elsewhere).await.expect(404);
    root.post(&format!("{elsewhere}/revoke"), json!({})).await.expect(404);
    assert_eq!(server.anonymous().get("/users/4711/gpg_keys").await.expect(404).message(), "404 User Not Found");
    ben.client.get(&format!("/user/gpg_keys/{}", created["id"])).await.expect(404);
    ben.client.delete(&one).await.expect(403);
    ben.client.post(&format!("{one}/revoke"), json!({})).await.expect(403);
    let late = root.clone().header("If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT");
    late.delete(&one).await.expect(412);
    root.delete(&one).await.expect(204);
    assert_eq!(ada.client.get(&path).await.expect(200).json(), json!([]));
}

async fn user_has_at_most_100_gpg_keys(server: TestServer) {
    let ada = server.create_user("ada").await;
    let rows = (0..99).map(|number| gpg_keys::ActiveModel {
        user_id: Set(ada.id),
        key: Set(ADA.to_owned()),
        fingerprint: Set(format!("{number}")),
        created_at: Set(now()),
        ..Default::default()
    });
    let write = server.backend.database.write();
    gpg_keys::Entity::insert_many(rows).exec_without_returning(write).await.expect("keys");
    // Of several requests at once, one gets the last place.
    let bodies = [ADA, RSA, P256].map(|key| json!({ "key": key }));
    let statuses = futures_util::future::join_all(bodies.map(|body| async {
        let response = ada.client.post("/user/gpg_keys", body).await;
        (response.status, response.json()["message"]["gpg_keys"].clone())
    }))
    .await;
    assert_eq!(statuses.iter().filter(|(status, _)| *status == 201).count(), 1, "{statuses:?}");
    let text = json!(["are too many (maximum is 100)"]);
    assert_eq!(statuses.iter().filter(|refused| **refused == (400, text.clone())).count(), 2, "{statuses:?}");
}

async fn audit_log_names_fingerprint_of_gpg_key(server: TestServer) {
    let ada = server.create_user("ada").await;
    let created = add(&ada.client, ADA).await;
    ada.client.post(&format!("/user/gpg_keys/{}/revoke", created["id"]), json!({})).await.expect(202);
    let events = server.root().get(&format!("/audit_events?entity_type=User&entity_id={}", ada.id)).await.expect(200);
    let targets = events.pluck("details").into_iter().filter(|details| details["target_type"] == "GPG key");
    let names: Vec<Value> = targets.map(|details| details["target_details"].clone()).collect();
    assert_eq!(names, [json!(ADA_FINGERPRINT), json!(ADA_FINGERPRINT)]);
}

async fn list_gpg_keys_requires_read_user_scope(server: TestServer) {
    let ada = server.create_user("ada").await;
    for (scope, status) in [("read_user", 200), ("read_api", 200), ("read_repository", 403)] {
        let client = server.with_token(&server.create_token(ada.id, &[scope]).await);
        assert_eq!(client.get("/user/gpg_keys").await.status, status, "{scope}");
        assert_eq!(client.post("/user/gpg_keys", json!({ "key": ADA })).await.status, 403);
    }
}

on_every_database![
    gpg_keys_can_be_created_read_and_deleted,
    revoked_gpg_key_is_removed,
    create_gpg_key_rejects_invalid_keys,
    gpg_key_belongs_to_one_user,
    gpg_keys_of_users_are_public,
    user_has_at_most_100_gpg_keys,
    audit_log_names_fingerprint_of_gpg_key,
    list_gpg_keys_requires_read_user_scope,
];
