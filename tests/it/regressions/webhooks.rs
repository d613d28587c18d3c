//! Webhook deliveries when the server is killed.

use serde_json::json;

use crate::support::Client;
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::webhook_receiver::{Receiver, Reply};

/// Option that allows webhooks to local addresses.
const LOCAL: &str = "--allow-local-webhooks";

async fn webhook_is_delivered_after_kill_before_delivery(site: Site) {
    let mut receiver = Receiver::start().await;
    let server = site.serve(&[LOCAL, "--no-worker"]).await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let root = Client::new(&server.base, Some(TOKEN));
    root.post("/projects/root%2Fp/hooks", json!({ "url": receiver.url, "token": "t" })).await.expect(201);
    let tip = work.commit("file", "content").await;
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    server.kill().await;
    let server = site.serve(&[LOCAL]).await;
    let response = receiver.next().await;
    assert_eq!((&response.body["after"], response.header("x-service-token")), (&json!(tip), "t"));
    server.stop().await;
    assert!(receiver.rest().is_empty());
}

async fn webhook_is_redelivered_after_kill_during_delivery(site: Site) {
    let mut receiver = Receiver::with(|number| if number == 0 { Reply::Hang } else { Reply::Status(200) }).await;
    let server = site.serve(&[LOCAL]).await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let root = Client::new(&server.base, Some(TOKEN));
    root.post("/projects/root%2Fp/hooks", json!({ "url": receiver.url })).await.expect(201);
    let tip = work.commit("file", "content").await;
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    let first = receiver.next().await;
    server.kill().await;
    let server = site.serve(&[LOCAL]).await;
    let second = receiver.next().await;
    // URLs in the body may differ: the new server listens on another port.
    assert_eq!((&second.body["after"], &first.body["after"]), (&json!(tip), &json!(tip)));
    assert_eq!(second.header("x-service-event-uuid"), first.header("x-service-event-uuid"));
    server.stop().await;
}

on_every_site![webhook_is_delivered_after_kill_before_delivery, webhook_is_redelivered_after_kill_during_delivery,];
