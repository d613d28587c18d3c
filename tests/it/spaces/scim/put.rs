//! Replacement of users with PUT, for providers that do not change single attributes.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Provider, account, rejection, user_attributes};
use crate::support::client::segment;
use crate::support::{ApiResponse, TestServer, on_every_database};

async fn put(provider: &Provider, uid: &str, body: &Value) -> ApiResponse {
    provider.send(Method::PUT, &format!("/Users/{}", segment(uid)), body).await
}

async fn replace_user_sets_all_sent_attributes(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    let mut attributes = user_attributes("countess");
    attributes["id"] = json!("overlooked");
    attributes["groups"] = json!([]);
    let user = put(&provider, "UID-ada", &attributes).await.expect(200).json();
    assert_eq!(
        (&user["id"], &user["userName"], &user["displayName"], &user["emails"][0]["value"], &user["active"]),
        (
            &json!("uid-countess"),
            &json!("countess"),
            &json!("Name of countess"),
            &json!("countess@example.org"),
            &json!(true)
        )
    );
    assert_eq!(provider.user("uid-countess").await.expect(200).json(), user);
    assert_eq!(account(&server, "countess").await, Some(ada));
    // Attributes that are not sent keep their values.
    let user = put(&provider, "uid-countess", &json!({ "userName": "ada", "name": null })).await.expect(200).json();
    assert_eq!((&user["userName"], &user["displayName"]), (&json!("ada"), &json!("Name of countess")));
    assert_eq!(user["emails"][0]["value"], json!("countess@example.org"));
}

async fn replace_user_with_active_false_removes_member(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    let mut attributes = user_attributes("ada");
    attributes["active"] = json!(false);
    let user = put(&provider, "uid-ada", &attributes).await.expect(200).json();
    assert_eq!((&user["id"], &user["active"]), (&json!("uid-ada"), &json!(false)));
    assert_eq!(provider.role(&server, ada).await, None);
    assert_eq!(rejection(&put(&provider, "uid-ada", &attributes).await).0, 404);
}

async fn rejected_replace_changes_nothing(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    provider.provision(&server, "bob").await;
    let before = provider.user("uid-ada").await.expect(200).json();
    for (attribute, value, status) in [
        ("externalId", json!("uid-bob"), 409),
        ("userName", json!("bob"), 409),
        ("emails", json!([{ "type": "work", "value": "bob@example.org" }]), 409),
        ("emails", json!([{ "type": "work", "value": "none" }]), 400),
        ("userName", json!(""), 400),
        ("userName", Value::Null, 400),
        ("name", json!("Ada"), 400),
        ("active", json!(7), 400),
        ("emails", json!([]), 400),
    ] {
        let mut attributes = user_attributes("ada");
        attributes[attribute] = value.clone();
        assert_eq!(rejection(&put(&provider, "uid-ada", &attributes).await).0, status, "{attribute}: {value}");
    }
    assert_eq!(provider.user("uid-ada").await.expect(200).json(), before);
}

on_every_database![
    replace_user_sets_all_sent_attributes,
    replace_user_with_active_false_removes_member,
    rejected_replace_changes_nothing,
];
