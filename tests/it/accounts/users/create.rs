//! `POST /users`.

use domain::operations::first_start::{GivenCredentials, first_start};
use sea_orm::{ConnectionTrait, EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use storage::entities::{Visibility, namespaces, users};

use crate::support::{TestServer, on_every_database};

fn ada() -> Value {
    json!({ "email": "ada@example.com", "name": "Ada", "username": "ada", "password": "long enough" })
}

fn with(field: &str, value: impl Into<Value>) -> Value {
    let mut body = ada();
    body[field] = value.into();
    body
}

async fn create_user_sets_all_sent_attributes(server: TestServer) {
    let mut body = ada();
    for (field, value) in [
        ("skype", json!("s")),
        ("linkedin", json!("l")),
        ("twitter", json!("t")),
        ("website_url", json!("https://example.com")),
        ("organization", json!("o")),
        ("bio", json!("b")),
        ("location", json!("London")),
        ("public_email", json!("p@example.com")),
        ("projects_limit", json!(3)),
        ("can_create_group", json!(false)),
        ("external", json!(true)),
        ("private_profile", json!(true)),
    ] {
        body[field] = value;
    }
    let mut sent = body.clone();
    sent["admin"] = json!(true);
    sent["skip_confirmation"] = json!(true);
    sent["provider"] = json!("saml");
    sent["extern_uid"] = json!("ada-1");
    let created = server.root().post("/users", sent).await.expect(201).json();
    for field in body.as_object().expect("an object").keys().filter(|field| *field != "password") {
        assert_eq!(created[field], body[field], "{field}");
    }
    assert_eq!(created["is_admin"], true);
    assert_eq!(created["identities"], json!([{ "provider": "saml", "extern_uid": "ada-1" }]));
    assert!(created["confirmed_at"].is_string());
    let space = server.personal_namespace(created["id"].as_i64().expect("an id")).await;
    assert_eq!((space.full_path.as_str(), space.name.as_str()), ("ada", "Ada"));
}

async fn create_user_confirms_email_only_on_request(server: TestServer) {
    let root = server.root();
    for (name, extra, confirmed) in [
        ("a", json!({}), false),
        ("b", json!({ "confirm": false }), true),
        ("c", json!({ "confirm": true }), false),
        ("d", json!({ "skip_confirmation": false }), false),
    ] {
        let mut body =
            json!({ "email": format!("{name}@x"), "name": name, "username": name, "password": "long enough" });
        for (field, value) in extra.as_object().expect("an object") {
            body[field] = value.clone();
        }
        let created = root.post("/users", body).await.expect(201).json();
        assert_eq!(created["confirmed_at"].is_string(), confirmed, "{name}");
    }
}

async fn create_user_rejects_duplicate_name_and_email_in_any_case(server: TestServer) {
    let root = server.root();
    root.post("/users", ada()).await.expect(201);
    let mut body = with("username", "ADA");
    body["email"] = json!("other@example.com");
    let taken = root.post("/users", body).await.expect(409);
    assert_eq!(taken.message(), "Username has already been taken");
    let mut body = with("email", "ADA@Example.com");
    body["username"] = json!("other");
    let taken = root.post("/users", body).await.expect(409);
    assert_eq!(taken.message(), "Email has already been taken");
}

async fn create_user_rejects_path_of_group(server: TestServer) {
    server.insert_group("Ada", Visibility::Private).await;
    let taken = server.root().post("/users", ada()).await.expect(409);
    assert_eq!(taken.message(), "Username has already been taken");
    assert_eq!(server.root().get("/users?username=ada").await.json(), json!([]));
}

async fn create_user_rejects_invalid_user_names(server: TestServer) {
    for name in ["-ada", "ada.git", "ada.atom", "ada.", "a b", "a/b", "../x", "ädä", "a\u{202e}b"] {
        let rejected = server.root().post("/users", with("username", name)).await.expect(400);
        assert!(rejected.json()["message"]["username"].is_array(), "{name}: {}", rejected.message());
    }
    for name in ["api", "Groups", "users", "-", "v2"] {
        let rejected = server.root().post("/users", with("username", name)).await;
        assert_eq!(rejected.status, 400, "{name}");
    }
    let rejected = server.root().post("/users", with("username", "Admin")).await.expect(400);
    assert_eq!(rejected.json()["message"], json!({ "username": ["is a reserved name"] }));
}

async fn create_user_rejects_passwords_of_invalid_length(server: TestServer) {
    let rejected = server.root().post("/users", with("password", "ääääääa")).await.expect(400);
    assert_eq!(rejected.json()["message"], json!({ "password": ["is too short (minimum is 8 characters)"] }));
    server.root().post("/users", with("password", "x".repeat(129))).await.expect(400);
    server.root().post("/users", with("password", "x".repeat(128))).await.expect(201);
}

async fn create_user_requires_password_or_random_password(server: TestServer) {
    let root = server.root();
    let mut body = ada();
    body.as_object_mut().expect("an object").remove("password");
    let rejected = root.post("/users", body.clone()).await.expect(400);
    assert_eq!(
        rejected.message(),
        "password, reset_password, force_random_password are missing, at least one parameter must be provided"
    );
    body["reset_password"] = json!(false);
    let rejected = root.post("/users", body.clone()).await.expect(400);
    assert_eq!(rejected.json()["message"], json!({ "password": ["can't be blank"] }));
    body["force_random_password"] = json!(true);
    root.post("/users", body).await.expect(201);
}

async fn create_user_reports_all_invalid_parameters(server: TestServer) {
    let rejected = server.root().post("/users", json!({ "admin": "perhaps", "projects_limit": [] })).await.expect(400);
    for text in ["email is missing", "name is missing", "username is missing", "admin is invalid", "projects_limit"] {
        assert!(rejected.message().contains(text), "{text}: {}", rejected.message());
    }
    for (field, value) in [
        ("name", json!("a\u{0}b")),
        ("name", json!("   ")),
        ("email", json!("no address")),
        ("email", json!("a@b\r\nc: d")),
        ("username", json!("x".repeat(256))),
        ("projects_limit", json!(3_000_000_000_i64)),
        ("projects_limit", json!(-1)),
        ("extern_uid", json!("alone")),
        ("bio", json!("x".repeat(256))),
        ("name", json!({ "a": 1 })),
    ] {
        let rejected = server.root().post("/users", with(field, value.clone())).await;
        assert_eq!(rejected.status, 400, "{field}: {value}");
    }
}

async fn create_user_rejects_taken_identity(server: TestServer) {
    let mut body = with("provider", "saml");
    body["extern_uid"] = json!("1");
    server.root().post("/users", body.clone()).await.expect(201);
    body["username"] = json!("bob");
    body["email"] = json!("bob@example.com");
    let rejected = server.root().post("/users", body).await.expect(400);
    assert_eq!(rejected.json()["message"], json!({ "identities.extern_uid": ["has already been taken"] }));
    assert_eq!(server.root().get("/users?username=bob").await.json(), json!([]));
}

async fn create_user_requires_administrator(server: TestServer) {
    let bob = server.create_user("bob").await;
    assert_eq!(server.anonymous().post("/users", ada()).await.status, 401);
    let rejected = bob.client.post("/users", ada()).await.expect(403);
    assert_eq!(rejected.message(), "403 Forbidden");
    assert_eq!(server.root().post("/users?sudo=missing-user", ada()).await.status, 404);
    let large = server.root().post("/users", with("bio", "x".repeat(1_100_000))).await;
    assert_eq!((large.status, large.message()), (413, "413 Request Entity Too Large".to_owned()));
}

async fn first_start_creates_administrator_only_with_token(server: TestServer) {
    let db = server.backend.database.write();
    namespaces::Entity::delete_many().exec(db).await.expect("a deletion");
    users::Entity::delete_many().exec(db).await.expect("a deletion");
    let start = async || first_start(&server.backend, GivenCredentials::default()).await;
    db.execute_unprepared("ALTER TABLE access_tokens RENAME TO hidden_tokens").await.expect("a rename");
    start().await.expect_err("a failed start");
    db.execute_unprepared("ALTER TABLE hidden_tokens RENAME TO access_tokens").await.expect("a rename");
    assert_eq!(users::Entity::find().count(db).await.expect("a count"), 0);
    let credentials = start().await.expect("a start").expect("credentials");
    let token = credentials.token.expect("a token");
    let user = server.with_token(token.expose()).get("/user").await.expect(200).json();
    assert_eq!((&user["username"], &user["is_admin"]), (&json!("root"), &json!(true)));
}

on_every_database![
    first_start_creates_administrator_only_with_token,
    create_user_sets_all_sent_attributes,
    create_user_confirms_email_only_on_request,
    create_user_rejects_duplicate_name_and_email_in_any_case,
    create_user_rejects_path_of_group,
    create_user_rejects_invalid_user_names,
    create_user_rejects_passwords_of_invalid_length,
    create_user_requires_password_or_random_password,
    create_user_reports_all_invalid_parameters,
    create_user_rejects_taken_identity,
    create_user_requires_administrator,
];
