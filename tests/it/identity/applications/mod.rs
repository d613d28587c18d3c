//! OAuth applications.

use reqwest::Method;
use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::oauth_applications;

use crate::support::server::with_more_connections;
use crate::support::{TestServer, on_every_database};

const PATH: &str = "/applications";

fn body() -> Value {
    json!({ "name": "Mirror", "redirect_uri": "https://mirror.example/cb", "scopes": "api read_user api" })
}

async fn application_secret_is_returned_only_on_create_and_renew(server: TestServer) {
    let root = server.root();
    let created = root.post(PATH, body()).await.expect(201).json();
    let secret = created["secret"].as_str().expect("a secret").to_owned();
    assert_eq!(
        created,
        json!({
            "id": created["id"], "application_id": created["application_id"], "application_name": "Mirror",
            "callback_url": "https://mirror.example/cb", "confidential": true, "scopes": ["api", "read_user"],
            "secret": secret,
        })
    );
    assert_eq!(created["application_id"].as_str().map(str::len), Some(64));
    let listed = root.get(PATH).await.expect(200);
    assert!(!listed.text().contains(&secret));
    assert_eq!(listed.pluck("application_id"), [created["application_id"].clone()]);
    let renewed = root.post(&format!("{PATH}/{}/renew-secret", created["id"]), json!({})).await.expect(201).json();
    assert_ne!(renewed["secret"], created["secret"]);
    assert_eq!(renewed["application_id"], created["application_id"]);
}

async fn create_application_rejects_invalid_parameters(server: TestServer) {
    let root = server.root();
    for (field, value, text) in [
        ("redirect_uri", "/cb", "must be an absolute URI."),
        ("redirect_uri", "https://mirror.example/cb#x", "cannot contain a fragment."),
        ("redirect_uri", "javascript:alert(1)", "is forbidden by the server."),
        ("redirect_uri", "https://ok.example/\ndata:text/html,x", "is forbidden by the server."),
        ("scopes", "api everything", "can only contain available scopes"),
    ] {
        let mut body = body();
        body[field] = json!(value);
        let rejected = root.post(PATH, body).await.expect(400);
        assert_eq!(rejected.json()["message"], json!({ field: [text] }), "{value}");
    }
    let rejected = root.post(PATH, json!({})).await.expect(400);
    for name in ["name", "redirect_uri", "scopes"] {
        assert!(rejected.message().contains(&format!("{name} is missing")), "{name}");
    }
    root.post(PATH, json!({ "name": "x".repeat(1_100_000) })).await.expect(413);
}

async fn renewal_of_secret_during_deletion_returns_404(server: TestServer) {
    if !server.locks_rows() {
        return;
    }
    let root = server.root();
    let id = root.post(PATH, body()).await.expect(201).json()["id"].as_i64().expect("an ID");
    let transaction = server.backend.database.begin().await.expect("a transaction");
    oauth_applications::Entity::delete_by_id(id).exec(&transaction).await.expect("a deletion");
    // The renewal finds the application, and waits until the deletion is committed.
    let renewal = format!("{PATH}/{id}/renew-secret");
    let renew = root.post(&renewal, json!({}));
    let (renewed, ()) = tokio::join!(renew, server.commit_when_awaited(transaction));
    assert_eq!(renewed.expect(404).message(), "404 Application Not Found");
}

async fn applications_require_administrator(server: TestServer) {
    let (ada, root) = (server.create_user("ada").await.client, server.root());
    let id = root.post(PATH, body()).await.expect(201).json()["id"].clone();
    let one = format!("{PATH}/{id}");
    for (client, status) in [(server.anonymous(), 401), (ada, 403)] {
        assert_eq!(client.get(PATH).await.status, status);
        assert_eq!(client.post(PATH, body()).await.status, status);
        assert_eq!(client.delete(&one).await.status, status);
        assert_eq!(client.post(&format!("{one}/renew-secret"), json!({})).await.status, status);
    }
    let late = root.clone().header("If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT");
    late.send(late.request(Method::DELETE, &one)).await.expect(412);
    root.delete(&one).await.expect(204);
    assert_eq!(root.delete(&one).await.message(), "404 Application Not Found");
    assert_eq!(root.post(&format!("{one}/renew-secret"), json!({})).await.status, 404);
    assert_eq!(root.post(&format!("{PATH}/x/renew-secret"), json!({})).await.status, 400);
}

async fn list_applications_statement_count_is_constant(server: TestServer) {
    let root = server.root();
    root.get(PATH).await.expect(200);
    let count = async || {
        let before = server.statements();
        root.get(PATH).await.expect(200);
        server.statements() - before
    };
    let none = count().await;
    for _ in 0..10 {
        root.post(PATH, body()).await.expect(201);
    }
    assert_eq!(count().await, none);
    assert!(none <= 3, "{none}");
}

on_every_database![
    application_secret_is_returned_only_on_create_and_renew,
    create_application_rejects_invalid_parameters,
    renewal_of_secret_during_deletion_returns_404 with with_more_connections(),
    applications_require_administrator,
    list_applications_statement_count_is_constant,
];
