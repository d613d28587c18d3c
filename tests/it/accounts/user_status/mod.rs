//! The status of users.

use domain::accounts::users::status;
use domain::kernel::error::Error;
use serde_json::json;

use crate::support::{TestServer, on_every_database};

async fn user_status_can_be_set_read_and_cleared(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    let none = json!({ "emoji": null, "message": null, "message_html": null });
    assert_eq!(ada.client.get("/user/status").await.expect(200).json(), none);
    let set = ada
        .client
        .put("/user/status", json!({ "emoji": "coffee", "message": "In a <b>meeting</b>" }))
        .await
        .expect(200)
        .json();
    assert_eq!(
        set,
        json!({
            "emoji": "coffee", "message": "In a <b>meeting</b>", "message_html": "In a &lt;b&gt;meeting&lt;/b&gt;",
        })
    );
    for path in ["/users/ADA/status".to_owned(), format!("/users/{}/status", ada.id)] {
        assert_eq!(bob.client.get(&path).await.expect(200).json(), set);
    }
    assert_eq!(
        ada.client.put("/user/status", json!({ "message": "Away" })).await.expect(200).json()["emoji"],
        "speech_balloon"
    );
    assert_eq!(ada.client.put("/user/status", json!({ "emoji": "", "message": null })).await.expect(200).json(), none);
    assert_eq!(ada.client.get("/user/status").await.expect(200).json(), none);
    assert_eq!(bob.client.get("/user/status").await.expect(200).json(), none);
}

async fn update_status_rejects_invalid_values(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    let rejected = ada.put("/user/status", json!({ "emoji": "no such thing" })).await.expect(400);
    assert_eq!(rejected.json()["message"], json!({ "emoji": ["is not included in the list"] }));
    ada.put("/user/status", json!({ "message": "x".repeat(101) })).await.expect(400);
    ada.put("/user/status", json!({ "message": "x".repeat(1_100_000) })).await.expect(413);
    assert_eq!(server.anonymous().get("/user/status").await.status, 401);
    assert_eq!(server.anonymous().put("/user/status", json!({})).await.status, 401);
    assert_eq!(server.anonymous().get("/users/root/status").await.status, 401);
    assert_eq!(ada.get("/users/missing-user/status").await.message(), "404 User Not Found");
}

async fn update_status_of_missing_user_returns_not_found(server: TestServer) {
    let refused = status::set(&server.backend, 999_999, None, Some("Away".to_owned())).await;
    assert!(matches!(refused, Err(Error::NotFound(_))), "{refused:?}");
}

on_every_database![
    user_status_can_be_set_read_and_cleared,
    update_status_rejects_invalid_values,
    update_status_of_missing_user_returns_not_found,
];
