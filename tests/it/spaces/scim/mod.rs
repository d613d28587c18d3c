//! SCIM provisioning and single sign-on of groups.

mod addresses;
mod create;
mod delete;
mod errors;
mod get;
mod identities;
mod patch;
mod permissions;
mod put;
mod search;
mod selection;
mod settings;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::client::segment;
use crate::support::spaces::group;
use crate::support::{ApiResponse, Client, TestServer};

/// The identity provider of a group.
pub struct Provider {
    /// HTTP client with the SCIM token.
    pub client: Client,
    /// SCIM token.
    pub token: String,
    /// ID of the group.
    pub group: i64,
    /// Base path of its resources.
    pub base: String,
}

impl Provider {
    /// Creates a group with a provider. The administrator is the only owner.
    pub async fn of(server: &TestServer, path: &str) -> Self {
        let group = group(&server.root(), path, json!({})).await;
        enable(&server.root(), group).await;
        Self::with_token(server, group, path, token(&server.root(), group).await)
    }

    pub fn with_token(server: &TestServer, group: i64, path: &str, token: String) -> Self {
        Self {
            client: server.anonymous().header("Authorization", &format!("Bearer {token}")),
            token,
            group,
            base: format!("//api/scim/v2/groups/{}", segment(path)),
        }
    }

    pub async fn get(&self, path: &str) -> ApiResponse {
        self.client.get(&format!("{}{path}", self.base)).await
    }

    /// Lists users.
    pub async fn list(&self, query: &[(&str, &str)]) -> ApiResponse {
        let request = self.client.request(Method::GET, &format!("{}/Users", self.base));
        self.client.send(request.query(query)).await
    }

    /// Returns the IDs of the users that match a filter.
    pub async fn found(&self, filter: &str) -> Vec<Value> {
        let list = self.list(&[("filter", filter)]).await.expect(200).json();
        let users = list["Resources"].as_array().expect("a list");
        users.iter().map(|user| user["id"].clone()).collect()
    }

    pub async fn user(&self, uid: &str) -> ApiResponse {
        self.get(&format!("/Users/{}", segment(uid))).await
    }

    pub async fn send(&self, method: Method, path: &str, body: &Value) -> ApiResponse {
        let request = self.client.request(method, &format!("{}{path}", self.base));
        let request = request.header("Content-Type", "application/scim+json");
        self.client.send(request.body(body.to_string())).await
    }

    pub async fn create(&self, body: &Value) -> ApiResponse {
        self.send(Method::POST, "/Users", body).await
    }

    pub async fn patch(&self, uid: &str, operations: Value) -> ApiResponse {
        let body = json!({
            "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": operations,
        });
        self.send(Method::PATCH, &format!("/Users/{}", segment(uid)), &body).await
    }

    pub async fn delete(&self, uid: &str) -> ApiResponse {
        let path = format!("{}/Users/{}", self.base, segment(uid));
        self.client.delete(&path).await
    }

    /// Provisions a user with the external ID `uid-<name>` and returns the ID of the account.
    pub async fn provision(&self, server: &TestServer, name: &str) -> i64 {
        self.create(&user_attributes(name)).await.expect(201);
        account(server, name).await.expect("an account")
    }

    /// Returns the role of a user in the group, or `None` if the user is not a member.
    pub async fn role(&self, server: &TestServer, user: i64) -> Option<i64> {
        let member = server.root().get(&format!("/groups/{}/members/{user}", self.group)).await;
        (member.status == 200).then(|| member.json()["access_level"].as_i64().expect("a role"))
    }
}

/// Returns the attributes that a provider sends for a new user.
pub fn user_attributes(name: &str) -> Value {
    json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
        "externalId": format!("uid-{name}"),
        "userName": format!("{name}@example.org"),
        "active": true,
        "name": { "formatted": format!("Name of {name}"), "givenName": "Name", "familyName": name },
        "emails": [{ "type": "work", "value": format!("{name}@example.org"), "primary": true }],
        "meta": { "resourceType": "User" },
    })
}

/// Enables single sign-on of a group.
pub async fn enable(owner: &Client, group: i64) {
    let enabled = owner.put(&format!("/groups/{group}/saml"), json!({ "enabled": true })).await;
    enabled.expect(200);
}

/// Creates the SCIM token of a group.
pub async fn token(owner: &Client, group: i64) -> String {
    let created = owner.post(&format!("/groups/{group}/scim_token"), json!({})).await.expect(201);
    created.json()["token"].as_str().expect("a token").to_owned()
}

/// Returns the ID of the account with this user name, if it exists.
pub async fn account(server: &TestServer, username: &str) -> Option<i64> {
    let found = server.root().get(&format!("/users?username={username}")).await.expect(200);
    found.json()[0]["id"].as_i64()
}

/// Checks that a response is a SCIM error and returns its status, type and detail.
#[track_caller]
pub fn rejection(response: &ApiResponse) -> (u16, Value, String) {
    assert_eq!(response.header("content-type"), "application/scim+json");
    let body = response.json();
    assert_eq!(body["schemas"], json!(["urn:ietf:params:scim:api:messages:2.0:Error"]));
    assert_eq!(body["status"], json!(response.status.to_string()));
    assert!(body["message"].is_null() || body["message"] == body["detail"], "{body}");
    let detail = body["detail"].as_str().expect("a text").to_owned();
    (response.status, body["scimType"].clone(), detail)
}
