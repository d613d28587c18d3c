//! Receivers with redirects, credentials or invalid certificates, and forbidden hosts.

use std::sync::{Arc, OnceLock};

use domain::webhooks::delivery::deliver;
use holdfast::config::ConfigOptions;
use sea_orm::EntityTrait;
use sea_orm::sea_query::Expr;
use serde_json::{Value, json};
use storage::entities::{Visibility, project_hooks};

use super::{commit, hook};
use crate::support::code::Project;
use crate::support::webhook_receiver::{Receiver, Reply};
use crate::support::{TestServer, on_every_database};

/// Error of a delivery to a local address that the settings forbid.
const LOCAL: &str = "the address is not allowed (setting: allow_local_requests_from_hooks_and_services)";

/// Creates a webhook for a URL, sends a test delivery and returns its log entry.
async fn send_test(server: &TestServer, project: &Project<'_>, url: &str, extra: Value) -> Value {
    let root = server.root();
    let id = hook(&root, project.id, url, extra).await;
    let url = format!("/projects/{}/hooks/{id}/test/push_events", project.id);
    root.post(&url, json!({})).await.expect(201).json()
}

async fn redirect_is_followed_with_same_request_and_without_token(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut last = Receiver::start().await;
    let to = format!("{}/final", last.url);
    let mut first = Receiver::with(move |_| Reply::Redirect(307, to.clone())).await;
    let delivery = send_test(&server, &project, &first.url, json!({ "token": "t0ken" })).await;
    assert_eq!((&delivery["state"], &delivery["response_status"]), (&json!("delivered"), &json!("200")));
    assert_eq!(first.next().await.header("x-service-token"), "t0ken");
    let arrived = last.next().await;
    assert_eq!((arrived.line.as_str(), &arrived.body["object_kind"]), ("POST /final", &json!("push")));
    // The secret token is not sent to another origin.
    assert_eq!(arrived.header("x-service-token"), "");
}

async fn token_is_not_sent_after_a_redirect_left_the_origin(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let first_url = Arc::new(OnceLock::<String>::new());
    let to = Arc::clone(&first_url);
    let mut second =
        Receiver::with(move |_| Reply::Redirect(307, format!("{}/back", to.get().expect("an address")))).await;
    let to = second.url.clone();
    let script = move |number| if number == 0 { Reply::Redirect(307, to.clone()) } else { Reply::Status(200) };
    let mut first = Receiver::with(script).await;
    first_url.set(first.url.clone()).expect("one address");
    let address = first.url.replace("http://", "http://ada:secret@");
    let delivery = send_test(&server, &project, &address, json!({ "token": "t0ken" })).await;
    assert_eq!(delivery["state"], "delivered");
    let sent = first.next().await;
    assert_eq!((sent.header("x-service-token"), sent.header("authorization").is_empty()), ("t0ken", false));
    for (arrived, line) in [(second.next().await, "POST /"), (first.next().await, "POST /back")] {
        assert_eq!(arrived.line, line);
        assert_eq!((arrived.header("x-service-token"), arrived.header("authorization")), ("", ""), "{line}");
    }
}

async fn endless_redirects_fail_after_the_limit(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::with(|_| Reply::Redirect(302, "/again".to_owned())).await;
    let delivery = send_test(&server, &project, &receiver.url, json!({ "token": "t0ken" })).await;
    assert_eq!(
        (&delivery["state"], &delivery["error"]),
        (&json!("failed"), &json!("the receiver redirected too many times"))
    );
    let arrived = receiver.rest();
    assert_eq!(arrived.len(), 4);
    assert!(arrived.iter().all(|one| one.header("x-service-token") == "t0ken"));
}

async fn redirect_to_forbidden_address_is_not_followed(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    for to in [
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:169.254.169.254]/",
        "http://168.63.129.16/",
        "http://[::ffff:168.63.129.16]/",
        "http://100.100.100.200/",
        "http://[fd00:ec2::254]/",
        "http://192.0.0.192/",
        "http://0.0.0.0/",
        "file:///etc/passwd",
    ] {
        let mut receiver = Receiver::with(move |_| Reply::Redirect(307, to.to_owned())).await;
        let delivery = send_test(&server, &project, &receiver.url, json!({})).await;
        assert_eq!(
            (&delivery["state"], &delivery["error"]),
            (&json!("failed"), &json!("the address is not allowed")),
            "{to}"
        );
        assert_eq!(receiver.rest().len(), 1);
    }
}

async fn hosts_that_resolve_to_local_addresses_are_rejected(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let port = receiver.url.rsplit_once(':').expect("a port").1.to_owned();
    let root = server.root();
    let id = hook(&root, project.id, "http://example.com/", json!({})).await;
    let url = format!("/projects/{}/hooks/{id}/test/push_events", project.id);
    // The URLs are stored directly, as if they had been allowed earlier or resolved differently.
    for (address, reason) in [
        (format!("http://127.0.0.1:{port}/"), LOCAL),
        (format!("http://localhost:{port}/"), LOCAL),
        (format!("http://[::ffff:127.0.0.1]:{port}/"), LOCAL),
        ("http://unused_address.invalid/".to_owned(), "the host does not resolve to an allowed address"),
    ] {
        let update =
            project_hooks::Entity::update_many().col_expr(project_hooks::Column::Url, Expr::value(address.clone()));
        update.exec(server.backend.database.write()).await.unwrap();
        let delivery = root.post(&url, json!({})).await.expect(201).json();
        assert_eq!((&delivery["state"], &delivery["error"]), (&json!("failed"), &json!(reason)), "{address}");
    }
    assert_eq!(receiver.rest().len(), 0);
}

async fn stored_url_of_metadata_service_is_rejected_at_delivery(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let root = server.root();
    let id = hook(&root, project.id, "http://example.com/", json!({ "token": "t0ken" })).await;
    let test = format!("/projects/{}/hooks/{id}/test/push_events", project.id);
    // The URLs are stored directly, as if an earlier version had allowed them.
    for address in ["http://168.63.129.16/", "http://[fd00:ec2::254]/", "http://[::168.63.129.16]/"] {
        let update = project_hooks::Entity::update_many().col_expr(project_hooks::Column::Url, Expr::value(address));
        update.exec(server.backend.database.write()).await.unwrap();
        let delivery = root.post(&test, json!({})).await.expect(201).json();
        let reason = json!("the address is not allowed");
        assert_eq!((&delivery["state"], &delivery["error"]), (&json!("failed"), &reason), "{address}");
    }
}

async fn setting_allows_and_forbids_webhooks_to_local_addresses(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let url = format!("/projects/{}/hooks", project.id);
    let body = json!({ "url": receiver.url });
    let set = async |allowed: bool| {
        let change = json!({ "allow_local_requests_from_hooks_and_services": allowed });
        server.root().put("/application/settings", change).await.expect(200);
    };
    root.post(&url, body.clone()).await.expect(422);
    set(true).await;
    let id = hook(&root, project.id, &receiver.url, json!({})).await;
    let test = format!("{url}/{id}/test/push_events");
    assert_eq!(root.post(&test, json!({})).await.expect(201).json()["state"], "delivered");
    assert_eq!(receiver.rest().len(), 1);
    // A host name of a local address works as well. Metadata services remain forbidden.
    let by_host_name = receiver.url.replace("127.0.0.1", "localhost");
    root.put(&format!("{url}/{id}"), json!({ "url": by_host_name })).await.expect(200);
    assert_eq!(root.post(&test, json!({})).await.expect(201).json()["state"], "delivered");
    assert_eq!(receiver.rest().len(), 1);
    for address in [
        "http://169.254.169.254/",
        "http://168.63.129.16/",
        "http://0xa83f8110/",
        "http://[::ffff:168.63.129.16]/",
        "http://[64:ff9b::a83f:8110]/",
        "http://100.100.100.200/",
        "http://192.0.0.192/",
        "http://[fd00:ec2::254]/",
        "http://[fd20:ce::254]/",
    ] {
        let rejected = root.post(&url, json!({ "url": address })).await;
        assert_eq!(rejected.expect(422).message(), "Invalid url given", "{address}");
    }
    set(false).await;
    for rejected in [root.post(&url, body.clone()).await, root.put(&format!("{url}/{id}"), body.clone()).await] {
        let rejected = rejected.expect(422);
        assert_eq!(rejected.json()["setting"], "allow_local_requests_from_hooks_and_services");
        let message = rejected.message();
        assert!(message.starts_with("Invalid url given: requests to the local network are not allowed"), "{message}");
        assert!(message.ends_with("the setting allow_local_requests_from_hooks_and_services"), "{message}");
    }
    let delivery = root.post(&test, json!({})).await.expect(201).json();
    assert_eq!((&delivery["state"], &delivery["error"]), (&json!("failed"), &json!(LOCAL)));
    commit(&root, project.id, "main", "a").await;
    deliver(&server.backend, id).await.expect("a turn");
    let log = root.get(&format!("{url}/{id}/events")).await.expect(200).json();
    assert_eq!((&log[0]["state"], &log[0]["error"]), (&json!("pending"), &json!(LOCAL)));
    assert_eq!(receiver.rest().len(), 0);
}

async fn certificate_is_verified_unless_the_webhook_disables_it(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::self_signed().await;
    let delivery = send_test(&server, &project, &receiver.url, json!({})).await;
    assert_eq!(
        (&delivery["state"], &delivery["error"]),
        (&json!("failed"), &json!("the certificate is not valid, or TLS failed"))
    );
    assert_eq!(receiver.rest().len(), 0);
    let delivery = send_test(&server, &project, &receiver.url, json!({ "enable_ssl_verification": false })).await;
    assert_eq!(delivery["state"], "delivered");
    assert_eq!(receiver.next().await.header("x-service-event"), "Push Hook");
}

async fn credentials_in_url_are_sent_as_basic_authentication(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let address = receiver.url.replace("http://", "http://ada:p%40ss@");
    let delivery = send_test(&server, &project, &format!("{address}/x"), json!({})).await;
    assert!(!delivery.to_string().contains("p%40ss"), "{delivery}");
    let arrived = receiver.next().await;
    assert_eq!(arrived.line, "POST /x");
    // "ada:p@ss" in Base64.
    assert_eq!(arrived.header("authorization"), "Basic YWRhOnBAc3M=");
}

fn hosts_that_resolve_to_local_addresses_are_rejected_options() -> ConfigOptions {
    ConfigOptions { allow_local_webhooks: Some(false), ..ConfigOptions::default() }
}

fn setting_allows_and_forbids_webhooks_to_local_addresses_options() -> ConfigOptions {
    ConfigOptions { allow_local_webhooks: Some(false), ..ConfigOptions::default() }
}

on_every_database![
    redirect_is_followed_with_same_request_and_without_token,
    token_is_not_sent_after_a_redirect_left_the_origin,
    endless_redirects_fail_after_the_limit,
    redirect_to_forbidden_address_is_not_followed,
    hosts_that_resolve_to_local_addresses_are_rejected with hosts_that_resolve_to_local_addresses_are_rejected_options(),
    stored_url_of_metadata_service_is_rejected_at_delivery,
    setting_allows_and_forbids_webhooks_to_local_addresses with setting_allows_and_forbids_webhooks_to_local_addresses_options(),
    certificate_is_verified_unless_the_webhook_disables_it,
    credentials_in_url_are_sent_as_basic_authentication,
];
