//! Additional email addresses of users.

use domain::accounts::users::emails::add;
use domain::audit::Actor;
use domain::kernel::error::Error;
use sea_orm::EntityTrait;
use serde_json::json;
use storage::entities::taken_emails;

use crate::support::{TestServer, on_every_database};

async fn user_emails_can_be_created_read_and_deleted(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    let created = ada.post("/user/emails", json!({ "email": "Ada@work.example" })).await.expect(201).json();
    assert_eq!(created, json!({ "id": created["id"], "email": "Ada@work.example", "confirmed_at": null }));
    let one = format!("/user/emails/{}", created["id"]);
    let read = ada.get(&one).await.expect(200);
    assert_eq!(read.json(), created);
    ada.clone().header("If-None-Match", read.header("etag")).get(&one).await.expect(304);
    assert_eq!(ada.get("/user/emails").await.expect(200).json(), json!([created]));
    ada.clone().header("If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT").delete(&one).await.expect(412);
    ada.delete(&one).await.expect(204);
    for response in [ada.get(&one).await, ada.delete(&one).await] {
        assert_eq!((response.status, response.message()), (404, "404 Email Not Found".to_owned()));
    }
}

async fn email_address_belongs_to_one_user(server: TestServer) {
    let (ada, bob, root) = (server.create_user("ada").await, server.create_user("bob").await, server.root());
    ada.client.post("/user/emails", json!({ "email": "ada@work.example" })).await.expect(201);
    for email in ["ADA@work.example", "ada@example.com", "bob@example.com"] {
        let rejected = bob.client.post("/user/emails", json!({ "email": email })).await.expect(400);
        assert_eq!(rejected.json()["message"], json!({ "email": ["has already been taken"] }), "{email}");
    }
    let taken = json!({ "email": "ada@Work.example" });
    let rejected = root.put(&format!("/users/{}", bob.id), taken.clone()).await.expect(409);
    assert_eq!(rejected.message(), "Email has already been taken");
    let body = json!({ "email": "ada@work.example", "name": "C", "username": "c", "force_random_password": true });
    root.post("/users", body).await.expect(409);
    // Its owner may make it the primary address; it is then no longer listed as an additional one.
    root.put(&format!("/users/{}", ada.id), taken).await.expect(200);
    assert_eq!(ada.client.get("/user/emails").await.expect(200).json(), json!([]));
    assert_eq!(ada.client.get("/user").await.json()["email"], "ada@Work.example");
}

async fn concurrent_claims_of_one_email_succeed_once(server: TestServer) {
    let root = server.root();
    let mut holders = Vec::new();
    for round in 0..4 {
        let (ada, bob) =
            (server.create_user(&format!("a{round}")).await, server.create_user(&format!("b{round}")).await);
        let address = format!("shared{round}@example.net");
        let (one, two) = (format!("/users/{}", ada.id), json!({ "email": address }));
        // Claim the address in three ways at once: as a primary one, as an additional one and for a new user.
        let new =
            json!({ "email": address, "name": "C", "username": format!("c{round}"), "force_random_password": true });
        let (primary, additional, created) = tokio::join!(
            root.put(&one, two.clone()),
            bob.client.post("/user/emails", two.clone()),
            root.post("/users", new),
        );
        let won = [primary.status == 200, additional.status == 201, created.status == 201];
        let statuses = (primary.status, additional.status, created.status);
        assert_eq!(won.iter().filter(|won| **won).count(), 1, "{statuses:?}");
        assert!(primary.status == 200 || primary.status == 409, "{statuses:?}");
        assert!(additional.status == 201 || additional.status == 400, "{statuses:?}");
        assert!(created.status == 201 || created.status == 409, "{statuses:?}");
        holders.push(address);
    }
    let taken = taken_emails::Entity::find().all(server.backend.database.read()).await.expect("rows");
    for address in holders {
        assert_eq!(taken.iter().filter(|row| row.email_key == address).count(), 1);
    }
}

async fn create_email_over_limit_of_100_returns_400(server: TestServer) {
    let ada = server.create_user("ada").await;
    for number in 0..100 {
        add(&server.backend, &Actor::system(), &ada.row, format!("a{number}@example.net"), true)
            .await
            .expect("an address");
    }
    let rejected = ada.client.post("/user/emails", json!({ "email": "more@example.net" })).await.expect(400);
    assert_eq!(rejected.json()["message"], json!({ "emails": ["are too many (maximum is 100)"] }));
}

async fn released_email_can_be_reused(server: TestServer) {
    let (ada, bob, root) = (server.create_user("ada").await, server.create_user("bob").await, server.root());
    let take = |email: &str| json!({ "email": email });
    root.put(&format!("/users/{}", ada.id), take("new@example.net")).await.expect(200);
    let created = bob.client.post("/user/emails", take("ada@example.com")).await.expect(201).json();
    root.put(&format!("/users/{}", ada.id), take("ada@example.com")).await.expect(409);
    bob.client.delete(&format!("/user/emails/{}", created["id"])).await.expect(204);
    root.put(&format!("/users/{}", ada.id), take("ADA@example.com")).await.expect(200);
    // A change of case only is not another address.
    root.put(&format!("/users/{}", ada.id), take("ada@example.com")).await.expect(200);
    ada.client.post("/user/emails", take("ada@example.com")).await.expect(400);
    bob.client.post("/user/emails", take("bob@example.net")).await.expect(201);
    root.delete(&format!("/users/{}", bob.id)).await.expect(204);
    server.finish_jobs().await;
    for free in ["bob@example.com", "bob@example.net"] {
        ada.client.post("/user/emails", take(free)).await.expect(201);
    }
}

async fn create_email_rejects_invalid_addresses(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    for bad in ["x", "a@b@c", "a@b\r\nBcc: c@d", "<a@b>"] {
        let rejected = ada.post("/user/emails", json!({ "email": bad })).await.expect(400);
        assert_eq!(rejected.json()["message"], json!({ "email": ["is invalid"] }), "{bad}");
    }
    assert!(ada.post("/user/emails", json!({})).await.expect(400).message().contains("email is missing"));
    ada.post("/user/emails", json!({ "email": "x".repeat(1_100_000) })).await.expect(413);
}

async fn administrators_manage_emails_of_other_users(server: TestServer) {
    let (ada, bob, root) = (server.create_user("ada").await, server.create_user("bob").await, server.root());
    let path = format!("/users/{}/emails", ada.id);
    let body = json!({ "email": "ada@work.example", "skip_confirmation": true });
    for (client, status) in [(server.anonymous(), 401), (bob.client, 403)] {
        assert_eq!(client.get(&path).await.status, status);
        assert_eq!(client.post(&path, body.clone()).await.status, status);
        assert_eq!(client.delete(&format!("{path}/1")).await.status, status);
    }
    let created = root.post(&path, body).await.expect(201).json();
    assert!(created["confirmed_at"].is_string());
    let open = root.post(&path, json!({ "email": "ada@home.example" })).await.expect(201).json();
    assert!(open["confirmed_at"].is_null());
    assert_eq!(root.get(&path).await.expect(200).json(), json!([created, open]));
    let one = format!("{path}/{}", created["id"]);
    root.clone().header("If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT").delete(&one).await.expect(412);
    assert_eq!(root.delete(&format!("/users/{}/emails/{}", bob.id, created["id"])).await.status, 404);
    root.delete(&one).await.expect(204);
}

async fn list_emails_uses_constant_number_of_statements(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    ada.get("/user/emails").await.expect(200);
    let count = async || {
        let before = server.statements();
        ada.get("/user/emails").await.expect(200);
        server.statements() - before
    };
    let none = count().await;
    for number in 0..20 {
        ada.post("/user/emails", json!({ "email": format!("ada@{number}.example") })).await.expect(201);
    }
    assert_eq!(count().await, none);
    assert!(none <= 4, "{none}");
}

async fn deleted_user_gets_no_email(server: TestServer) {
    let ada = server.create_user("ada").await;
    server.root().delete(&format!("/users/{}", ada.id)).await.expect(204);
    let refused = add(&server.backend, &Actor::system(), &ada.row, "ada@work.example".to_owned(), true).await;
    assert!(matches!(refused, Err(Error::NotFound(_))), "{refused:?}");
    let taken = taken_emails::Entity::find().all(server.backend.database.read()).await.expect("a read");
    assert!(taken.iter().all(|row| row.user_id != ada.id));
}

on_every_database![
    user_emails_can_be_created_read_and_deleted,
    email_address_belongs_to_one_user,
    concurrent_claims_of_one_email_succeed_once,
    create_email_over_limit_of_100_returns_400,
    deleted_user_gets_no_email,
    released_email_can_be_reused,
    create_email_rejects_invalid_addresses,
    administrators_manage_emails_of_other_users,
    list_emails_uses_constant_number_of_statements,
];
