//! Signatures of webhook deliveries.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sea_orm::EntityTrait;
use serde_json::json;
use storage::entities::{Visibility, now, project_hooks};

use super::{commit, hook};
use crate::support::code::Project;
use crate::support::webhook_receiver::{ReceivedRequest, Receiver, Reply, hmac_sha256};
use crate::support::{TestServer, on_every_database};

/// Returns a signing token with a key of 32 equal bytes.
fn token(byte: u8) -> String {
    format!("whsec_{}", STANDARD.encode([byte; 32]))
}

/// Returns the signature that a request must have.
fn expected(request: &ReceivedRequest, byte: u8) -> String {
    let mut signed = format!("{}.{}.", request.header("webhook-id"), request.header("webhook-timestamp")).into_bytes();
    signed.extend(&request.bytes);
    format!("v1,{}", STANDARD.encode(hmac_sha256(&[byte; 32], &signed)))
}

async fn row(server: &TestServer) -> project_hooks::Model {
    let found = project_hooks::Entity::find().one(server.backend.database.read()).await;
    found.expect("a query").expect("a webhook")
}

async fn each_attempt_is_signed_with_the_id_of_the_delivery(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::with(|number| Reply::Status(if number == 0 { 500 } else { 200 })).await;
    let root = server.root();
    let extra = json!({ "token": "t0ken", "signing_token": token(7) });
    let id = hook(&root, project.id, &receiver.url, extra).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    let shown = root.get(&one).await.expect(200);
    assert!(!shown.text().contains(&token(7)) && !format!("{:?}", row(&server).await).contains(&token(7)));
    let shown = shown.json();
    assert_eq!((&shown["token_present"], &shown["signing_token_present"]), (&json!(true), &json!(true)));
    let before = now().timestamp();
    commit(&root, project.id, "main", "a").await;
    server.finish_jobs().await;
    let [first, second] = receiver.rest().try_into().expect("two attempts");
    for request in [&first, &second] {
        assert_eq!(request.header("webhook-signature"), expected(request, 7));
        let time: i64 = request.header("webhook-timestamp").parse().expect("seconds");
        assert!((before..=now().timestamp()).contains(&time), "{time}");
        assert_eq!(request.header("webhook-id"), request.header("x-service-event-uuid"));
        assert_eq!(request.header("x-service-token"), "t0ken");
    }
    assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
    let log = root.get(&format!("{one}/events")).await.expect(200).json();
    let logged = &log[0]["request_headers"];
    assert_eq!(logged["webhook-signature"], second.header("webhook-signature"));
    assert_eq!(logged["webhook-timestamp"], second.header("webhook-timestamp"));
    assert_eq!((&logged["webhook-id"], &logged["X-Service-Token"]), (&log[0]["uuid"], &json!("[REDACTED]")));
    root.post(&format!("{one}/events/{}/resend", log[0]["id"]), json!({})).await.expect(201);
    let again = receiver.next().await;
    assert_eq!(again.header("webhook-id"), first.header("webhook-id"));
    assert_eq!(again.header("webhook-signature"), expected(&again, 7));
}

async fn signing_token_is_replaced_and_removed(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let id = hook(&root, project.id, &receiver.url, json!({})).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    let mut send = async |signing_token: serde_json::Value| {
        let body = json!({ "url": receiver.url, "signing_token": signing_token });
        let shown = root.put(&one, body).await.expect(200).json();
        root.post(&format!("{one}/test/push_events"), json!({})).await.expect(201);
        let request = receiver.next().await;
        assert_eq!(shown["signing_token_present"], !request.header("webhook-signature").is_empty());
        request
    };
    for byte in [1, 2] {
        let request = send(json!(token(byte))).await;
        assert_eq!(request.header("webhook-signature"), expected(&request, byte));
    }
    for none in [json!(""), json!(null)] {
        assert_eq!(send(none).await.header("webhook-signature"), "");
        send(json!(token(3))).await;
    }
}

async fn malformed_signing_tokens_are_rejected(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let root = server.root();
    let all = format!("/projects/{}/hooks", project.id);
    let id = hook(&root, project.id, "https://a.example.com/", json!({})).await;
    for bad in [
        "secret".to_owned(),
        STANDARD.encode([1; 32]),
        format!("whsec_{}", STANDARD.encode([1; 31])),
        format!("whsec_{}", STANDARD.encode([1; 33])),
        token(1).trim_end_matches('=').to_owned(),
        format!("{}\n", token(1)),
    ] {
        let body = json!({ "url": "https://a.example.com/", "signing_token": bad });
        for rejected in [root.post(&all, body.clone()).await, root.put(&format!("{all}/{id}"), body).await] {
            let message = rejected.expect(422).message();
            assert!(message.starts_with("Invalid signing token given"), "{bad}: {message}");
        }
    }
}

async fn another_origin_deletes_the_signing_token(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let root = server.root();
    let id = hook(&root, project.id, "https://a.example.com/", json!({ "signing_token": token(1) })).await;
    let one = format!("/projects/{}/hooks/{id}", project.id);
    let stored = row(&server).await.signing_token_encrypted;
    root.put(&one, json!({ "url": "https://a.example.com/other" })).await.expect(200);
    assert!(stored.is_some() && row(&server).await.signing_token_encrypted == stored);
    for url in ["https://b.example.com/", "https://b.example.com:8443/", "http://b.example.com:8443/"] {
        let shown = root.put(&one, json!({ "url": url })).await.expect(200).json();
        assert_eq!(shown["signing_token_present"], false);
        let body = json!({ "url": url, "signing_token": token(2) });
        assert_eq!(root.put(&one, body).await.expect(200).json()["signing_token_present"], true);
    }
}

on_every_database![
    each_attempt_is_signed_with_the_id_of_the_delivery,
    signing_token_is_replaced_and_removed,
    malformed_signing_tokens_are_rejected,
    another_origin_deletes_the_signing_token,
];
