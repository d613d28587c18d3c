//! Who may not call, and what is refused to those who may.

use domain::kernel::policy::On;
use domain::secrets::digest;
use holdfast::api::contract::OPERATIONS;
use holdfast::config::Options;
use reqwest::Method;
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, now, saml_providers, scim_tokens};

use super::{Provider, enable, refusal, token, wish};
use crate::support::client::{Client, segment};
use crate::support::contract::check;
use crate::support::places::group;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::server::ROOT_TOKEN;
use crate::support::wire::Wire;
use crate::support::{Answer, TestServer, on_every_database};

/// What every operation answers a caller on a group of this path, which is encoded.
async fn all(client: &Client, path: &str) -> Vec<Answer> {
    let mut answers = Vec::new();
    for operation in OPERATIONS.iter().filter(|operation| operation.access.on == On::Scim) {
        let method = Method::from_bytes(operation.method.as_bytes()).expect("a method");
        let url = operation.path.replace("{group_path}", path).replace("{id}", "x");
        answers.push(client.send(client.request(method, &format!("/{url}"))).await);
    }
    assert_eq!(answers.len(), 11);
    answers
}

fn on_the_free_plan() -> Options {
    Options { plan: Some("free".to_owned()), ..Options::default() }
}

async fn the_token_of_the_group_is_taken_as_a_bearers_and_no_other(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let nobody = server.anonymous();
    let bearer = |token: &str| nobody.clone().header("Authorization", &format!("Bearer {token}"));
    let callers = [
        nobody.clone(),
        server.root(),
        bearer(ROOT_TOKEN),
        bearer("unknown"),
        bearer(""),
        bearer(&digest(&provider.token)),
        nobody.clone().header("Private-Token", &provider.token),
        nobody.clone().header("Job-Token", &provider.token),
        nobody.clone().header("Authorization", &format!("Basic {}", provider.token)),
        nobody.clone().header("Authorization", &provider.token),
        nobody.clone().header("Cookie", &format!("_service_session={}", provider.token)),
    ];
    for caller in callers {
        // What is there, what is private to others, and what is not there: nobody is told which it is.
        for path in ["engines", "root", "nothing", "1"] {
            for answer in all(&caller, path).await {
                assert_eq!(refusal(&answer), (401, Value::Null, "401 Unauthorized".to_owned()));
            }
        }
    }
    for name in ["private_token", "access_token", "job_token"] {
        let path = format!("{}/Users?{name}={}", provider.base, provider.token);
        nobody.get(&path).await.expect(401);
    }
    let lower = nobody.clone().header("Authorization", &format!("bearer {}", provider.token));
    lower.get(&format!("{}/Users", provider.base)).await.expect(200);
    // To act as somebody says nothing here.
    provider.client.clone().header("Sudo", "root").get(&format!("{}/Users", provider.base)).await.expect(200);
}

async fn the_token_opens_nothing_else(server: TestServer) {
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

async fn the_token_of_another_group_tells_no_more_than_that_a_name_is_taken(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let other = Provider::of(&server, "motors").await;
    let root = server.root();
    group(&root, "below", json!({ "parent_id": other.group })).await;
    group(&root, "own", json!({ "parent_id": provider.group })).await;
    for answer in all(&provider.client, "Motors").await {
        assert_eq!(refusal(&answer), (401, Value::Null, "401 Unauthorized".to_owned()));
    }
    let number = provider.group.to_string();
    for path in ["nothing", "motors/below", "motors/nothing", "engines/own", "engines/nothing", "root", &number] {
        for answer in all(&provider.client, &segment(path)).await {
            assert_eq!(refusal(&answer), (404, Value::Null, format!("Group {path} not found")));
        }
    }
    provider.create(&wish("ada")).await.expect(201);
    other.user("uid-ada").await.expect(404);
    assert_eq!(refusal(&other.delete("uid-ada").await).0, 404);
    provider.user("uid-ada").await.expect(200);
}

async fn who_may_not_call_is_told_so_before_what_is_wrong(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let nobody = server.anonymous();
    nobody.get(&format!("{}/Users?count=x", provider.base)).await.expect(401);
    for path in ["%FF", "%00", &"x".repeat(1_025)] {
        for answer in all(&provider.client, path).await {
            if path == "%FF" {
                // Nobody knows what is meant by what is no text.
                assert_eq!((answer.status, answer.header("content-type")), (400, "application/json"));
                continue;
            }
            let (status, kind, detail) = refusal(&answer);
            assert_eq!((status, kind), (400, json!("invalidValue")), "{detail}");
        }
    }
    provider.client.get("//api/scim/v2/groups/nothing/Users?count=x").await.expect(404);
    server.root().put(&format!("/groups/{}/saml", provider.group), json!({ "enabled": false })).await.expect(200);
    provider.list(&[("count", "x")]).await.expect(403);
}

async fn plans_below_have_neither_the_switch_nor_provisioning(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    for path in ["saml", "scim_token"] {
        let path = format!("/groups/{engines}/{path}");
        match path.ends_with("saml") {
            true => root.put(&path, json!({ "enabled": true })).await.expect(403),
            false => root.post(&path, json!({})).await.expect(403),
        };
    }
    // As after a change of the plan.
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
    for answer in all(&provider.client, "engines").await {
        let (status, _, detail) = refusal(&answer);
        assert_eq!((status, detail.contains("plan")), (403, true), "{detail}");
    }
}

async fn bodies_that_are_too_large_too_deep_or_no_objects_are_refused(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    provider.provision(&server, "ada").await;
    let url = |path: &str| format!("{}{path}", provider.base);
    for (method, path) in [(Method::POST, "/Users"), (Method::PUT, "/Users/uid-ada"), (Method::PATCH, "/Users/uid-ada")]
    {
        let send = async |body: String| {
            let request =
                provider.client.request(method.clone(), &url(path)).header("Content-Type", "application/scim+json");
            refusal(&provider.client.send(request.body(body)).await)
        };
        // Announced is as good as sent.
        let head = format!(
            "{method} {} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\nContent-Type: application/scim+json\r\n\
             Content-Length: {}\r\n\r\n",
            &url(path)[1..],
            provider.token,
            (1 << 20) + 1,
        );
        let mut wire = Wire::connect(&server.base).await;
        wire.send(head).await;
        let answer: Answer = wire.answer().await.into();
        check(method.as_str(), &url(path)[1..], &answer);
        assert_eq!(refusal(&answer).0, 413);
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
            assert_eq!((status, kind), (400, json!("invalidValue")), "{detail}");
        }
    }
    let mut deep = json!("x");
    for _ in 0..100 {
        deep = json!([{ "value": deep }]);
    }
    let operations = json!([{ "op": "replace", "path": "displayName", "value": deep }]);
    let answer = provider.patch("uid-ada", operations).await;
    assert!(matches!(answer.status, 204 | 400), "{}", answer.status);
    provider.user("uid-ada").await.expect(200);
}

on_every_database![
    the_token_of_the_group_is_taken_as_a_bearers_and_no_other,
    the_token_opens_nothing_else,
    the_token_of_another_group_tells_no_more_than_that_a_name_is_taken,
    who_may_not_call_is_told_so_before_what_is_wrong,
    plans_below_have_neither_the_switch_nor_provisioning with on_the_free_plan(),
    bodies_that_are_too_large_too_deep_or_no_objects_are_refused,
];

async fn tokens_and_what_is_provisioned_stay_out_of_the_log(site: Site) {
    let log = site.beside("log");
    let server = site.serve_logging(&log).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let nobody = Client::new(&server.base, None);
    let engines = group(&root, "engines", json!({})).await;
    enable(&root, engines).await;
    let secret = token(&root, engines).await;
    let client = nobody.clone().header("Authorization", &format!("Bearer {secret}"));
    let users = "//api/scim/v2/groups/engines/Users";
    let made = client.post(users, wish("planted-name")).await.expect(201);
    assert!(!made.text().contains(&secret));
    client.post(users, json!({ "externalId": "planted-wrong" })).await.expect(400);
    nobody.clone().header("Authorization", "Bearer planted-unknown").get(users).await.expect(401);
    nobody.get(&format!("{users}?access_token=planted-queried")).await.expect(401);
    server.stop().await;
    let said = std::fs::read_to_string(&log).expect("a log");
    assert!(said.contains("/api/scim/v2/groups"), "the log tells of the requests");
    for planted in [secret.as_str(), "planted-unknown", "planted-queried", "planted-name@example.org", "planted-wrong"]
    {
        let leak = said.lines().find(|line| line.contains(planted));
        assert_eq!(leak, None, "{planted} is in the log");
    }
}

on_every_site![tokens_and_what_is_provisioned_stay_out_of_the_log,];

#[test]
fn every_operation_of_the_protocol_is_refused_in_its_form() {
    use holdfast::api::operation::Errors;

    for operation in OPERATIONS {
        let scim = operation.access.on == On::Scim;
        assert_eq!(operation.errors == Errors::Scim, scim, "{}", operation.id);
        assert_eq!(operation.path.starts_with("/api/scim/"), scim, "{}", operation.id);
    }
}
