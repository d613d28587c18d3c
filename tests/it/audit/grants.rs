//! Audit events of OAuth grants.

use domain::identity::oauth::authorization::{self, AuthorizationRequest};
use serde_json::{Value, json};
use url::Url;

use super::{events, newest};
use crate::support::client::http;
use crate::support::{TestServer, on_every_database};

const CALLBACK: &str = "https://app.example/cb";

async fn grant_and_revocation_are_recorded(server: TestServer) {
    let ada = server.create_user("ada").await;
    let body = json!({ "name": "App", "redirect_uri": CALLBACK, "scopes": "api" });
    let application = server.root().post("/applications", body).await.expect(201).json();
    let text = |name: &str| application[name].as_str().expect("a text").to_owned();
    let request = AuthorizationRequest {
        client_id: Some(text("application_id")),
        redirect_uri: Some(CALLBACK.to_owned()),
        response_type: Some("code".to_owned()),
        ..AuthorizationRequest::default()
    };
    let question = authorization::check(&server.backend, request).await.expect("a valid request");
    let address = Some([203, 0, 113, 9].into());
    let target = authorization::approve(&server.backend, &ada.row, address, &question).await.expect("a code");
    let granted = newest(&server, "oauth_access_granted").await;
    assert_eq!((&granted["author_id"], &granted["entity_id"]), (&json!(ada.id), &json!(ada.id)));
    assert_eq!((&granted["details"]["target_details"], &granted["details"]["to"]), (&json!("App"), &json!("api")));
    assert_eq!(granted["details"]["ip_address"], "203.0.113.9");

    let target = Url::parse(&target).expect("an address");
    let code = target.query_pairs().find(|(name, _)| name == "code").expect("a code").1.into_owned();
    let http = http().build().expect("a client");
    let post = async |path: &str, fields: &[(&str, &str)]| {
        let (id, secret) = (text("application_id"), text("secret"));
        let mut form = vec![("client_id", id.as_str()), ("client_secret", secret.as_str())];
        form.extend(fields);
        let sent = http.post(format!("{}/oauth/{path}", server.base)).form(&form).send().await.expect("a response");
        (sent.status().as_u16(), sent.json::<Value>().await.expect("JSON"))
    };
    let exchange = [("grant_type", "authorization_code"), ("code", code.as_str()), ("redirect_uri", CALLBACK)];
    let (status, issued) = post("token", &exchange).await;
    assert_eq!(status, 200, "{issued}");
    let token = issued["access_token"].as_str().expect("a token");
    assert_eq!(post("revoke", &[("token", token)]).await.0, 200);
    let revoked = newest(&server, "oauth_tokens_revoked").await;
    assert_eq!((&revoked["author_id"], &revoked["entity_id"]), (&json!(-1), &json!(ada.id)));
    assert_eq!(revoked["details"]["author_name"], "Application App");
    let count = events(&server).await.len();
    assert_eq!(post("revoke", &[("token", token)]).await.0, 200);
    assert_eq!(post("revoke", &[("token", "unknown")]).await.0, 200);
    assert_eq!(events(&server).await.len(), count);
    let all = Value::from(events(&server).await).to_string();
    for secret in [code.as_str(), token, issued["refresh_token"].as_str().expect("a token"), text("secret").as_str()] {
        assert!(!all.contains(secret), "{all}");
    }
}

on_every_database![grant_and_revocation_are_recorded];
