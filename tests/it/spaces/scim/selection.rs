//! Responses with selected attributes, by `attributes` and `excludedAttributes`.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Provider, rejection, user_attributes};
use crate::support::{ApiResponse, TestServer, on_every_database};

const USER: &str = "urn:ietf:params:scim:schemas:core:2.0:User";

fn ada(attributes: Value) -> Value {
    let mut user = json!({ "schemas": [USER], "id": "uid-ada" });
    let attributes = attributes.as_object().expect("an object");
    user.as_object_mut().expect("an object").extend(attributes.clone());
    user
}

async fn reads_return_selected_attributes(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    let whole = provider.user("uid-ada").await.expect(200).json();
    let qualified = format!("attributes={USER}:displayName");
    for (query, expected) in [
        ("attributes=userName", ada(json!({ "userName": "ada" }))),
        ("attributes=name.formatted", ada(json!({ "name": { "formatted": "Name of ada" } }))),
        ("attributes=NAME&count=5", ada(json!({ "name": { "formatted": "Name of ada" } }))),
        ("attributes=emails.value,active", ada(json!({ "active": true, "emails": [{ "value": "ada@example.org" }] }))),
        (qualified.as_str(), ada(json!({ "displayName": "Name of ada" }))),
        ("attributes=id", ada(json!({}))),
        ("attributes=unknown.part", ada(json!({}))),
        ("attributes=", whole.clone()),
    ] {
        let user = provider.get(&format!("/Users/uid-ada?{query}")).await.expect(200).json();
        assert_eq!(user, expected, "{query}");
        let list = provider.get(&format!("/Users?{query}")).await.expect(200).json();
        assert_eq!(list["Resources"], json!([expected]), "{query}");
        assert_eq!(list["totalResults"], 1);
    }
    for (excluded, absent) in
        [("active,emails", vec!["active", "emails"]), ("id,name", vec!["name", "name.formatted"]), ("schemas", vec![])]
    {
        let user = provider.get(&format!("/Users/uid-ada?excludedAttributes={excluded}")).await.expect(200).json();
        let mut expected = whole.clone();
        absent.iter().for_each(|name| drop(expected.as_object_mut().expect("an object").remove(*name)));
        assert_eq!(user, expected, "{excluded}");
    }
    for path in ["/Users", "/Users/uid-ada"] {
        let both = provider.get(&format!("{path}?attributes=id&excludedAttributes=active")).await;
        let (status, kind, _) = rejection(&both);
        assert_eq!((status, kind), (400, json!("invalidValue")));
    }
}

async fn writes_return_selected_attributes(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let send = async |method, path: &str, body: &Value| -> ApiResponse { provider.send(method, path, body).await };
    let created = send(Method::POST, "/Users?attributes=userName", &user_attributes("ada")).await.expect(201);
    assert_eq!(created.json(), ada(json!({ "userName": "ada" })));
    assert!(created.header("location").ends_with("/Users/uid-ada"));
    let put = json!({ "userName": "ada", "displayName": "Countess" });
    let replaced = send(Method::PUT, "/Users/uid-ada?attributes=displayName", &put).await.expect(200);
    assert_eq!(replaced.json(), ada(json!({ "displayName": "Countess" })));
    let patch = |path: &str, value: Value| json!({ "Operations": [{ "op": "replace", "path": path, "value": value }] });
    let changed = send(Method::PATCH, "/Users/uid-ada", &patch("displayName", json!("A"))).await.expect(204);
    assert!(changed.body.is_empty());
    // A response with attributes requires a status other than 204 (RFC 7644, section 3.5.2).
    for query in ["attributes=displayName", "excludedAttributes=userName,name,active,emails,meta,externalId"] {
        let path = format!("/Users/uid-ada?{query}");
        let changed = send(Method::PATCH, &path, &patch("displayName", json!("B"))).await.expect(200);
        assert_eq!(changed.header("content-type"), "application/scim+json");
        assert_eq!(changed.json(), ada(json!({ "displayName": "B" })));
    }
    let ended = send(Method::PATCH, "/Users/uid-ada?attributes=active", &patch("active", json!(false))).await;
    assert_eq!(ended.expect(200).json(), ada(json!({ "active": false })));
    // Both parameters are rejected before a change.
    let both = "/Users?attributes=id&excludedAttributes=active";
    assert_eq!(rejection(&send(Method::POST, both, &user_attributes("bob")).await).0, 400);
    assert_eq!(provider.list(&[]).await.expect(200).json()["totalResults"], 0);
}

on_every_database![reads_return_selected_attributes, writes_return_selected_attributes];
