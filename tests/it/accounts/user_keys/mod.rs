//! SSH keys.

use chrono::TimeDelta;
use reqwest::Method;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::{now, user_keys};

use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
const RSA: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAABJQAAAIEAiPWx6WM4lhHNedGfBpPJNPpZ7yKu+dnn1SJejgt4596k6YjzGGphH2TUxwKzxcKDKKezwkpfnxPkSMkuEspGRt/aZZ9wa++Oi7Qkr8prgHc4soW6NUlfDzpvZK2H5E7eQaSeP3SAwGmQKUFHCddNaP0L+hM7zhFNzjFvpaMgJw0=";

const FINGERPRINT: &str = "SHA256:T7SvZ2cslqpPj6nKzitCBHHlpVF3r3MvLwmFL0fk0IE";
const RSA_FINGERPRINT: &str = "SHA256:MQHWhS9nhzUezUdD42ytxubZoBKrZLbyBZzxCkmnxXc";

async fn create_key_over_limit_of_100_returns_400(server: TestServer) {
    let ada = server.create_user("ada").await;
    let rows = (0..100).map(|number| user_keys::ActiveModel {
        user_id: Set(ada.id),
        title: Set("laptop".to_owned()),
        key: Set(KEY.to_owned()),
        fingerprint: Set(format!("fingerprint {number}")),
        created_at: Set(now()),
        ..Default::default()
    });
    let write = server.backend.database.write();
    user_keys::Entity::insert_many(rows).exec_without_returning(write).await.expect("keys");
    let rejected = ada.client.post("/user/keys", json!({ "title": "more", "key": KEY })).await.expect(400);
    assert_eq!(rejected.json()["message"], json!({ "keys": ["are too many (maximum is 100)"] }));
}

async fn user_keys_can_be_created_read_and_deleted(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    let body = json!({ "title": "laptop", "key": format!("{KEY} ada@laptop\n") });
    let created = ada.post("/user/keys", body).await.expect(201).json();
    assert_eq!(
        created,
        json!({
            "id": created["id"], "title": "laptop", "key": format!("{KEY} ada@laptop"), "created_at": created["created_at"],
            "expires_at": null, "usage_type": "auth_and_signing",
        })
    );
    let one = format!("/user/keys/{}", created["id"]);
    let read = ada.get(&one).await.expect(200);
    assert_eq!(read.json(), created);
    ada.clone().header("If-None-Match", read.header("etag")).get(&one).await.expect(304);
    assert_eq!(ada.get("/user/keys").await.expect(200).json(), json!([created]));
    let late = ada.clone().header("If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT");
    late.send(late.request(Method::DELETE, &one)).await.expect(412);
    ada.delete(&one).await.expect(204);
    for response in [ada.get(&one).await, ada.delete(&one).await] {
        assert_eq!((response.status, response.message()), (404, "404 Key Not Found".to_owned()));
    }
}

async fn keys_have_expiry_dates_and_uses(server: TestServer) {
    let (root, ada) = (server.root(), server.create_user("ada").await);
    let limited = json!({
        "title": "laptop", "key": KEY, "expires_at": "2100-01-31T12:00:00+01:00", "usage_type": "signing",
    });
    let created = ada.client.post("/user/keys", limited).await.expect(201).json();
    assert_eq!(
        (&created["expires_at"], &created["usage_type"]),
        (&json!("2100-01-31T11:00:00.000Z"), &json!("signing"))
    );
    assert_eq!(ada.client.get("/user/keys").await.expect(200).json(), json!([created]));
    let found = root.get(&format!("/keys/{}", created["id"])).await.expect(200).json();
    for name in ["expires_at", "usage_type"] {
        assert_eq!(found[name], created[name]);
    }
    assert_eq!(found["last_used_at"], Value::Null);
    let unlimited = json!({ "title": "rsa", "key": RSA, "expires_at": null, "usage_type": "auth" });
    let path = format!("/users/{}/keys", ada.id);
    let second = root.post(&path, unlimited).await.expect(201).json();
    assert_eq!((&second["expires_at"], &second["usage_type"]), (&Value::Null, &json!("auth")));
    assert_eq!(root.get(&path).await.expect(200).json(), json!([created, second]));
}

async fn create_key_rejects_expired_keys_and_unknown_uses(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    let past = json!({ "title": "x", "key": KEY, "expires_at": "2000-01-01T00:00:00Z" });
    let rejected = ada.post("/user/keys", past).await.expect(400).json();
    assert_eq!(rejected["message"], json!({ "key": ["has expired"] }));
    for (name, value, text) in [
        ("expires_at", json!("soon"), "expires_at is invalid"),
        ("usage_type", json!("login"), "usage_type does not have a valid value"),
    ] {
        let mut body = json!({ "title": "x", "key": KEY });
        body[name] = value;
        assert_eq!(ada.post("/user/keys", body).await.expect(400).message(), text);
    }
    assert_eq!(ada.get("/user/keys").await.expect(200).json(), json!([]));
}

async fn page_of_keys_contains_only_keys_for_authentication(server: TestServer) {
    let ada = server.create_user("ada").await;
    let page = async || server.anonymous().get("//ada.keys").await.expect(200).text();
    let signing = json!({ "title": "a", "key": KEY, "usage_type": "signing" });
    let signing = ada.client.post("/user/keys", signing).await.expect(201).json()["id"].clone();
    assert_eq!(page().await, "");
    ada.client.delete(&format!("/user/keys/{signing}")).await.expect(204);
    let expiring = json!({ "title": "a", "key": KEY, "usage_type": "auth", "expires_at": "2100-01-01T00:00:00Z" });
    ada.client.post("/user/keys", expiring).await.expect(201);
    ada.client.post("/user/keys", json!({ "title": "b", "key": RSA })).await.expect(201);
    assert_eq!(page().await, format!("{KEY}\n{RSA}\n"));
    let end = Expr::value(now() - TimeDelta::seconds(1));
    user_keys::Entity::update_many()
        .col_expr(user_keys::Column::ExpiresAt, end)
        .filter(user_keys::Column::Key.eq(KEY))
        .exec(server.backend.database.write())
        .await
        .expect("a change");
    assert_eq!(page().await, format!("{RSA}\n"));
}

async fn key_belongs_to_one_user_regardless_of_comment(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await.client, server.create_user("bob").await.client);
    ada.post("/user/keys", json!({ "title": "a", "key": KEY })).await.expect(201);
    for client in [&ada, &bob] {
        let again = client.post("/user/keys", json!({ "title": "b", "key": format!("{KEY} other") })).await.expect(400);
        assert_eq!(again.json()["message"], json!({ "fingerprint": ["has already been taken"] }));
    }
    bob.post("/user/keys", json!({ "title": "rsa", "key": RSA })).await.expect(201);
}

async fn create_key_rejects_invalid_keys(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    let two = format!("{KEY}\n{RSA}");
    for bad in ["x", "ssh-ed25519 AAAA", "-----BEGIN OPENSSH PRIVATE KEY-----", two.as_str()] {
        let rejected = ada.post("/user/keys", json!({ "title": "x", "key": bad })).await.expect(400);
        assert_eq!(
            rejected.json()["message"],
            json!({ "key": ["is invalid"], "fingerprint": ["cannot be generated"] }),
            "{bad}"
        );
    }
    let rejected = ada.post("/user/keys", json!({})).await.expect(400);
    for text in ["title is missing", "key is missing"] {
        assert!(rejected.message().contains(text));
    }
    ada.post("/user/keys", json!({ "title": "x", "key": "x".repeat(1_100_000) })).await.expect(413);
}

async fn administrators_manage_keys_of_other_users(server: TestServer) {
    let (ada, bob, root) = (server.create_user("ada").await, server.create_user("bob").await, server.root());
    let path = format!("/users/{}/keys", ada.id);
    let body = json!({ "title": "laptop", "key": KEY });
    assert_eq!(bob.client.post(&path, body.clone()).await.status, 403);
    assert_eq!(server.anonymous().post(&path, body.clone()).await.status, 401);
    let created = root.post(&path, body).await.expect(201).json();
    let one = format!("{path}/{}", created["id"]);
    assert_eq!(ada.client.get("/user/keys").await.json(), json!([created]));
    // Public keys of a user are visible to every signed-in user, by ID and by user name.
    assert_eq!(bob.client.get("/users/ADA/keys").await.expect(200).json(), json!([created]));
    assert_eq!(bob.client.get(&one).await.expect(200).json(), created);
    assert_eq!(server.anonymous().get(&path).await.status, 401);
    let elsewhere = format!("/users/{}/keys/{}", bob.id, created["id"]);
    for status in [root.get(&elsewhere).await.status, root.delete(&elsewhere).await.status] {
        assert_eq!(status, 404);
    }
    assert_eq!(bob.client.get(&format!("/user/keys/{}", created["id"])).await.status, 404);
    assert_eq!(bob.client.delete(&one).await.status, 403);
    let late = root.clone().header("If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT");
    late.delete(&one).await.expect(412);
    root.delete(&one).await.expect(204);
    assert_eq!(root.get("/users/4711/keys").await.message(), "404 User Not Found");
}

async fn list_keys_requires_read_user_scope(server: TestServer) {
    let ada = server.create_user("ada").await;
    for (scope, status) in [("read_user", 200), ("read_api", 200), ("read_repository", 403)] {
        let client = server.with_token(&server.create_token(ada.id, &[scope]).await);
        assert_eq!(client.get("/user/keys").await.status, status, "{scope}");
        assert_eq!(client.post("/user/keys", json!({ "title": "x", "key": KEY })).await.status, 403);
    }
}

async fn delete_user_releases_its_keys(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    ada.client.post("/user/keys", json!({ "title": "a", "key": KEY })).await.expect(201);
    server.root().delete(&format!("/users/{}", ada.id)).await.expect(204);
    bob.client.post("/user/keys", json!({ "title": "a", "key": KEY })).await.expect(201);
}

async fn list_keys_uses_constant_number_of_statements(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    ada.post("/user/keys", json!({ "title": "a", "key": KEY })).await.expect(201);
    ada.get("/user/keys").await.expect(200);
    let count = async || {
        let before = server.statements();
        ada.get("/user/keys").await.expect(200);
        server.statements() - before
    };
    let one = count().await;
    ada.post("/user/keys", json!({ "title": "b", "key": RSA })).await.expect(201);
    assert_eq!(count().await, one);
    assert!(one <= 4, "{one}");
    assert_eq!(ada.get("/user/keys?per_page=1&page=2").await.expect(200).pluck("title"), ["b"]);
}

async fn administrators_find_keys_by_id_and_fingerprint(server: TestServer) {
    let (root, ada) = (server.root(), server.create_user("ada").await);
    let of_user = format!("{KEY} ada@laptop");
    let created = ada.client.post("/user/keys", json!({ "title": "laptop", "key": of_user })).await.expect(201).json();
    let by_id = root.get(&format!("/keys/{}", created["id"])).await.expect(200).json();
    for (name, expected) in [("id", &created["id"]), ("title", &json!("laptop")), ("key", &json!(of_user))] {
        assert_eq!(&by_id[name], expected);
    }
    assert_eq!((&by_id["user"]["username"], &by_id["user"]["email"]), (&json!("ada"), &json!(ada.row.email)));
    assert_eq!(by_id["deploy_keys_projects"], json!([]));
    let find = |fingerprint: &str| format!("/keys?fingerprint={}", fingerprint.replace('+', "%2B"));
    assert_eq!(root.get(&find(FINGERPRINT)).await.expect(200).json(), by_id);
    // A deploy key.
    let work = project(&root, "work", json!({})).await;
    let body = json!({ "title": "robot", "key": RSA, "can_push": true });
    let key = root.post(&format!("/projects/{work}/deploy_keys"), body).await.expect(201).json();
    let found = root.get(&find(RSA_FINGERPRINT)).await.expect(200).json();
    assert_eq!((&found["key"], &found["user"]), (&json!(RSA), &Value::Null));
    assert_eq!((&found["expires_at"], &found["usage_type"]), (&Value::Null, &json!("auth_and_signing")));
    let of_project = &found["deploy_keys_projects"][0];
    assert_eq!(
        (&of_project["project_id"], &of_project["deploy_key_id"], &of_project["can_push"]),
        (&json!(work), &key["id"], &json!(true))
    );
    // Deploy keys have other IDs.
    root.get("/keys/4711").await.expect(404);
    let absent = format!("SHA256:{}", "A".repeat(43));
    assert_eq!(root.get(&find(&absent)).await.expect(404).message(), "404 Key Not Found");
    for invalid in ["", "x", "SHA256:", "SHA256:AAAA", "MD5:00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff", "%00"] {
        root.get(&format!("/keys?fingerprint={invalid}")).await.expect(400);
    }
    let rejected = root.get("/keys?fingerprint=00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff").await.expect(400);
    assert!(rejected.message().contains("in the form 'SHA256:<Base64>'"), "{}", rejected.message());
    root.get("/keys").await.expect(400);
    for (client, status) in [(&ada.client, 403), (&server.anonymous(), 401)] {
        client.get(&find(FINGERPRINT)).await.expect(status);
        client.get(&format!("/keys/{}", created["id"])).await.expect(status);
    }
}

on_every_database![
    administrators_find_keys_by_id_and_fingerprint,
    create_key_over_limit_of_100_returns_400,
    user_keys_can_be_created_read_and_deleted,
    keys_have_expiry_dates_and_uses,
    create_key_rejects_expired_keys_and_unknown_uses,
    page_of_keys_contains_only_keys_for_authentication,
    key_belongs_to_one_user_regardless_of_comment,
    create_key_rejects_invalid_keys,
    administrators_manage_keys_of_other_users,
    list_keys_requires_read_user_scope,
    delete_user_releases_its_keys,
    list_keys_uses_constant_number_of_statements,
];
