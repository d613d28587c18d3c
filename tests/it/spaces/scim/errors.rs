//! Authentication, authorization and rejected requests.

use contract::operation::{ErrorFormat, ResourceKind};
use contract::table::operations;
use domain::secrets::digest;
use holdfast::config::ConfigOptions;
use reqwest::Method;
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, now, saml_providers, scim_tokens};

use super::{Provider, enable, rejection, token, user_attributes};
use crate::support::client::{Client, segment};
use crate::support::contract::check;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::raw_http::RawConnection;
use crate::support::server::ROOT_TOKEN;
use crate::support::spaces::group;
use crate::support::{ApiResponse, TestServer, on_every_database};

/// Calls every SCIM operation on a group with this encoded path and returns the responses.
async fn call_all(client: &Client, path: &str) -> Vec<ApiResponse> {
    let mut responses = Vec::new();
    for operation in operations().iter().filter(|operation| operation.access.on == ResourceKind::Scim) {
        let method = Method::from_bytes(operation.method.as_bytes()).expect("a method");
        let url = operation.path.replace("{group_path}", path).replace("{id}", "x");
        responses.push(client.send(client.request(method, &format!("/{url}"))).await);
    }
    assert_eq!(responses.len(), 13);
    responses
}

fn free_plan() -> ConfigOptions {
    ConfigOptions { plan: Some("free".to_owned()), ..ConfigOptions::default() }
}

async fn scim_accepts_only_bearer_token_of_group(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let anonymous = server.anonymous();
    let bearer = |token: &str| anonymous.clone().header("Authorization", &format!("Bearer {token}"));
    let callers = [
        anonymous.clone(),
        server.root(),
        bearer(ROOT_TOKEN),
        bearer("unknown"),
        bearer(""),
        bearer(&digest(&provider.token)),
        anonymous.clone().header("Private-Token", &provider.token),
        anonymous.clone().header("Job-Token", &provider.token),
        anonymous.clone().header("Authorization", &format!("Basic {}", provider.token)),
        anonymous.clone().header("Authorization", &provider.token),
        anonymous.clone().header("Cookie", &format!("_service_session={}", provider.token)),
    ];
    for caller in callers {
        // Existing, private and missing groups are indistinguishable.
        for path in ["engines", "root", "nothing", "1"] {
            for response in call_all(&caller, path).await {
                assert_eq!(rejection(&response), (401, Value::Null, "401 Unauthorized".to_owned()));
            }
        }
    }
    for name in ["private_token", "access_token", "job_token"] {
        let path = format!("{}/Users?{name}={}", provider.base, provider.token);
        anonymous.get(&path).await.expect(401);
    }
    let lower = anonymous.clone().header("Authorization", &format!("bearer {}", provider.token));
    lower.get(&format!("{}/Users", provider.base)).await.expect(200);
    // The `Sudo` header is ignored.
    provider.client.clone().header("Sudo", "root").get(&format!("{}/Users", provider.base)).await.expect(200);
}

async fn scim_token_is_rejected_by_rest_api(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let private = server.anonymous().header("Private-Token", &provider.token);
    for client in [&provider.client, &private] {
        for path in
            ["/user", "/projects", "/groups/engines", "/groups/engines/members", "/version", "/groups/engines/saml"]
        {
            client.get(path).await.expect(401);
        }
        client.post("/groups/engines/scim_token", json!({})).await.expect(401);
    }
    private.get(&format!("{}/Users", provider.base)).await.expect(401);
}

async fn scim_token_of_another_group_returns_401_or_404(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let other = Provider::of(&server, "motors").await;
    let root = server.root();
    group(&root, "below", json!({ "parent_id": other.group })).await;
    group(&root, "own", json!({ "parent_id": provider.group })).await;
    for response in call_all(&provider.client, "Motors").await {
        assert_eq!(rejection(&response), (401, Value::Null, "401 Unauthorized".to_owned()));
    }
    let number = provider.group.to_string();
    for path in ["nothing", "motors/below", "motors/nothing", "engines/own", "engines/nothing", "root", &number] {
        for response in call_all(&provider.client, &segment(path)).await {
            assert_eq!(rejection(&response), (404, Value::Null, format!("Group {path} not found")));
        }
    }
    provider.create(&user_attributes("ada")).await.expect(201);
    other.user("uid-ada").await.expect(404);
    assert_eq!(rejection(&other.delete("uid-ada").await).0, 404);
    provider.user("uid-ada").await.expect(200);
}

async fn authorization_is_checked_before_parameters(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let anonymous = server.anonymous();
    anonymous.get(&format!("{}/Users?count=x", provider.base)).await.expect(401);
    for path in ["%FF", "%00", &"x".repeat(1_025)] {
        for response in call_all(&provider.client, path).await {
            let (status, kind, detail) = rejection(&response);
            assert_eq!((status, kind), (400, json!("invalidValue")), "{detail}");
        }
    }
    provider.client.get("//api/scim/v2/groups/nothing/Users?count=x").await.expect(404);
    server.root().put(&format!("/groups/{}/saml", provider.group), json!({ "enabled": false })).await.expect(200);
    provider.list(&[("count", "x")]).await.expect(403);
}

async fn lower_plans_reject_saml_and_scim(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    for path in ["saml", "scim_token"] {
        let path = format!("/groups/{engines}/{path}");
        match path.ends_with("saml") {
            true => root.put(&path, json!({ "enabled": true })).await.expect(403),
            false => root.post(&path, json!({})).await.expect(403),
        };
    }
    // Rows as they remain after a change of the plan.
    let provider = saml_providers::ActiveModel {
        namespace_id: Set(engines),
        enabled: Set(true),
        default_membership_role: Set(AccessLevel::Guest),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    };
    let db = server.backend.database.write();
    let provider = provider.insert(db).await.expect("a row");
    let row = scim_tokens::ActiveModel {
        saml_provider_id: Set(provider.id),
        digest: Set(digest("kept")),
        created_at: Set(now()),
        ..Default::default()
    };
    row.insert(db).await.expect("a row");
    let provider = Provider::with_token(&server, engines, "engines", "kept".to_owned());
    for response in call_all(&provider.client, "engines").await {
        let (status, _, detail) = rejection(&response);
        assert_eq!((status, detail.contains("plan")), (403, true), "{detail}");
    }
}

async fn oversized_deep_and_invalid_bodies_are_rejected(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    let url = |path: &str| format!("{}{path}", provider.base);
    for (method, path) in [
        (Method::POST, "/Users"),
        (Method::PUT, "/Users/uid-ada"),
        (Method::PATCH, "/Users/uid-ada"),
        (Method::POST, "/Users/.search"),
        (Method::POST, "/.search"),
    ] {
        let send = async |body: String| {
            let request =
                provider.client.request(method.clone(), &url(path)).header("Content-Type", "application/scim+json");
            rejection(&provider.client.send(request.body(body)).await)
        };
        // The `Content-Length` alone is sufficient for the rejection.
        let head = format!(
            "{method} {} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\nContent-Type: application/scim+json\r\n\
             Content-Length: {}\r\n\r\n",
            &url(path)[1..],
            provider.token,
            (1 << 20) + 1,
        );
        let mut connection = RawConnection::connect(&server.base).await;
        connection.send(head).await;
        let response: ApiResponse = connection.response().await.into();
        check(method.as_str(), &url(path)[1..], &response);
        assert_eq!(rejection(&response).0, 413);
        for body in [
            format!("{{\"Operations\": {}{}}}", "[".repeat(50_000), "]".repeat(50_000)),
            format!("{{\"name\": {}1{}}}", "{\"a\":".repeat(50_000), "}".repeat(50_000)),
            "[]".to_owned(),
            "7".to_owned(),
            "{".to_owned(),
            "{\"a\": 1, \"a\": 2}".to_owned(),
            "\"\\ud800\"".to_owned(),
        ] {
            let (status, kind, detail) = send(body).await;
            assert_eq!((status, kind), (400, json!("invalidSyntax")), "{detail}");
        }
    }
    let mut deep = json!("x");
    for _ in 0..100 {
        deep = json!([{ "value": deep }]);
    }
    let operations = json!([{ "op": "replace", "path": "displayName", "value": deep }]);
    let response = provider.patch("uid-ada", operations).await;
    assert!(matches!(response.status, 204 | 400), "{}", response.status);
    provider.user("uid-ada").await.expect(200);
}

async fn errors_contain_message_only_for_other_clients(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    for (accepted, other) in [
        ("*/*", true),
        ("application/json", true),
        ("application/scim+json, application/json", true),
        ("application/scim+json", false),
    ] {
        let client = provider.client.clone().header("Accept", accepted);
        let ids = operations().iter().filter(|operation| operation.access.on == ResourceKind::Scim);
        let ids = ids.map(|operation| operation.id);
        for (id, response) in ids.zip(call_all(&client, "nothing").await) {
            assert_eq!(rejection(&response), (404, Value::Null, "Group nothing not found".to_owned()), "{id}");
            let message = other && WITH_MESSAGE.contains(&id);
            assert_eq!(response.json()["message"].is_string(), message, "{id} {accepted}");
        }
    }
}

async fn unknown_scim_paths_return_scim_errors(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    for (method, path, status) in [
        (Method::GET, "//api/scim", 404),
        (Method::GET, "//api/scim/v2", 404),
        (Method::GET, "//api/scim/v1/groups/engines/Users", 404),
        (Method::GET, "//api/scim/v2/groups/engines/Groups", 404),
        (Method::POST, "//api/scim/v2/groups/engines/Bulk", 404),
        (Method::GET, "//api/scim/v2/groups/engines/Me", 404),
        (Method::PUT, "//api/scim/v2/groups/engines/Users", 405),
        (Method::DELETE, "//api/scim/v2/groups/engines/Schemas", 405),
    ] {
        for client in [&provider.client, &server.anonymous()] {
            let response = client.send(client.request(method.clone(), path)).await;
            let text = if status == 404 { "404 Not Found" } else { "405 Method Not Allowed" };
            assert_eq!(rejection(&response), (status, Value::Null, text.to_owned()), "{path}");
            assert!(response.json()["message"].is_null(), "{path}");
            assert_eq!(response.header("allow").is_empty(), status == 404, "{path}");
        }
    }
    let other = server.anonymous().get("//api/scimitar").await.expect(404);
    assert_eq!((other.header("content-type"), other.message().as_str()), ("application/json", "404 Not Found"));
}

async fn unauthorized_responses_name_the_scheme(server: TestServer) {
    for response in call_all(&server.anonymous(), "engines").await {
        assert_eq!((response.status, response.header("www-authenticate")), (401, "Bearer realm=\"Holdfast\""));
    }
}

on_every_database![
    scim_accepts_only_bearer_token_of_group,
    errors_contain_message_only_for_other_clients,
    unknown_scim_paths_return_scim_errors,
    unauthorized_responses_name_the_scheme,
    scim_token_is_rejected_by_rest_api,
    scim_token_of_another_group_returns_401_or_404,
    authorization_is_checked_before_parameters,
    lower_plans_reject_saml_and_scim with free_plan(),
    oversized_deep_and_invalid_bodies_are_rejected,
];

async fn scim_tokens_and_user_data_do_not_appear_in_log(site: Site) {
    let log = site.sibling_path("log");
    let server = site.serve_logging(&log).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let anonymous = Client::new(&server.base, None);
    let engines = group(&root, "engines", json!({})).await;
    enable(&root, engines).await;
    let secret = token(&root, engines).await;
    let client = anonymous.clone().header("Authorization", &format!("Bearer {secret}"));
    let users = "//api/scim/v2/groups/engines/Users";
    let created = client.post(users, user_attributes("planted-name")).await.expect(201);
    assert!(!created.text().contains(&secret));
    client.post(users, json!({ "externalId": "planted-wrong" })).await.expect(400);
    anonymous.clone().header("Authorization", "Bearer planted-unknown").get(users).await.expect(401);
    anonymous.get(&format!("{users}?access_token=planted-queried")).await.expect(401);
    server.stop().await;
    let output = std::fs::read_to_string(&log).expect("a log");
    assert!(output.contains("/api/scim/v2/groups"), "the log contains the requests");
    for planted in [secret.as_str(), "planted-unknown", "planted-queried", "planted-name@example.org", "planted-wrong"]
    {
        let leak = output.lines().find(|line| line.contains(planted));
        assert_eq!(leak, None, "{planted} is in the log");
    }
}

on_every_site![scim_tokens_and_user_data_do_not_appear_in_log,];

/// The operations of the reference service, whose errors have `message` for its clients.
const WITH_MESSAGE: [&str; 5] =
    ["list_scim_users", "create_scim_user", "get_scim_user", "update_scim_user", "delete_scim_user"];

fn scim_operations_use_scim_error_format() {
    for operation in operations() {
        let scim = operation.access.on == ResourceKind::Scim;
        let format = match (scim, WITH_MESSAGE.contains(&operation.id)) {
            (false, _) => ErrorFormat::Plain,
            (true, false) => ErrorFormat::Scim,
            (true, true) => ErrorFormat::ScimWithMessage,
        };
        assert_eq!(operation.error_format, format, "{}", operation.id);
        assert_eq!(operation.path.starts_with("/api/scim/"), scim, "{}", operation.id);
    }
}

harness::tests![scim_operations_use_scim_error_format];
