//! Faults of test servers.

use std::time::{Duration, Instant};

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::support::git::{self, Work};
use crate::support::temporary_directory;
use crate::support::test_server::RunningTestServer;

async fn body(response: Response) -> Value {
    serde_json::from_str(&response.text().await.unwrap()).unwrap()
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
}

async fn rules_of_the_start_apply_as_often_as_counted() {
    let directory = temporary_directory();
    let arguments = ["--fail", "GET /projects 503 x3", "--fail", "GET /user 500 x1"];
    let server = RunningTestServer::start(directory.path(), &arguments).await;
    for _ in 0..2 {
        for _ in 0..3 {
            let response = server.send(Method::GET, "/projects").await.unwrap();
            assert_eq!(response.status(), 503);
            assert_eq!(header(&response, "retry-after").as_deref(), Some("1"));
            assert_eq!(header(&response, "x-holdfast-fault").as_deref(), Some("true"));
            assert!(header(&response, "x-request-id").is_some());
            assert_eq!(header(&response, "content-type").as_deref(), Some("application/json"));
            let text = "503 Service Unavailable";
            assert_eq!(body(response).await, json!({ "message": text, "error": text }));
        }
        let response = server.send(Method::GET, "/projects").await.unwrap();
        assert_eq!((response.status().as_u16(), header(&response, "x-holdfast-fault")), (200, None));
        let response = server.send(Method::GET, "/user").await.unwrap();
        assert_eq!((response.status().as_u16(), header(&response, "retry-after")), (500, None));
        server.root().get("/user").await.expect(200);
        server.reset().await;
    }
}

async fn exceeded_rate_limits_have_the_usual_body_and_headers() {
    let directory = temporary_directory();
    let arguments = ["--fail", "* /projects/** rate-limit retry-after 7 x1", "--fail", "* /user 429 x1"];
    let server = RunningTestServer::start(directory.path(), &arguments).await;
    let response = server.send(Method::POST, "/projects/1/issues").await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(header(&response, "retry-after").as_deref(), Some("7"));
    assert_eq!(header(&response, "ratelimit-remaining").as_deref(), Some("0"));
    assert!(header(&response, "ratelimit-reset").is_some() && header(&response, "ratelimit-limit").is_some());
    let text = "This endpoint has been requested too many times. Try again later.";
    assert_eq!(body(response).await, json!({ "message": { "error": text } }));
    let response = server.send(Method::GET, "/user").await.unwrap();
    assert_eq!((response.status().as_u16(), header(&response, "retry-after").as_deref()), (429, Some("1")));
    assert_eq!(header(&response, "ratelimit-remaining"), None);
}

async fn errors_have_the_form_of_their_operation() {
    let directory = temporary_directory();
    let rules = [
        "* /api/scim/** 401 x1",
        "* /api/scim/** rate-limit",
        "* /projects/*/packages/cargo/** 401 x1",
        "* /projects/*/packages/cargo/** 429",
        "* /user 401",
    ];
    let arguments = rules.map(|rule| ["--fail", rule]).concat();
    let server = RunningTestServer::start(directory.path(), &arguments).await;
    let users = format!("{}/api/scim/v2/groups/a/Users", server.text("url"));
    let scim = reqwest::get(&users).await.unwrap();
    assert_eq!(header(&scim, "content-type").as_deref(), Some("application/scim+json"));
    assert_eq!(header(&scim, "www-authenticate").as_deref(), Some("Bearer realm=\"Holdfast\""));
    assert_eq!(body(scim).await["detail"], "401 Unauthorized");
    let often = "This endpoint has been requested too many times. Try again later.";
    let scim = reqwest::get(&users).await.unwrap();
    assert_eq!(header(&scim, "content-type").as_deref(), Some("application/scim+json"));
    assert_eq!(header(&scim, "ratelimit-remaining").as_deref(), Some("0"));
    assert_eq!(body(scim).await["detail"], often);
    let config = "/projects/1/packages/cargo/config.json";
    let cargo = server.send(Method::GET, config).await.unwrap();
    assert_eq!(header(&cargo, "www-authenticate").as_deref(), Some("Basic realm=\"Holdfast\""));
    assert_eq!(body(cargo).await["errors"], json!([{ "detail": "401 Unauthorized" }]));
    let cargo = server.send(Method::GET, config).await.unwrap();
    assert_eq!((cargo.status().as_u16(), header(&cargo, "retry-after").as_deref()), (429, Some("1")));
    assert_eq!(body(cargo).await["errors"], json!([{ "detail": often }]));
    let user = server.send(Method::GET, "/user").await.unwrap();
    assert_eq!(header(&user, "www-authenticate"), None);
    assert_eq!(body(user).await, json!({ "message": "401 Unauthorized", "error": "401 Unauthorized" }));
}

async fn closed_connections_have_no_response() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &["--fail", "* /projects close x2"]).await;
    for method in [Method::GET, Method::POST] {
        let error = server.send(method, "/projects").await.unwrap_err();
        assert!(error.is_request(), "{error:?}");
    }
    server.root().get("/projects").await.expect(200);
}

async fn delays_apply_before_response_or_error() {
    let directory = temporary_directory();
    let arguments = ["--fail", "GET /user delay 300ms x1", "--fail", "GET /user delay 300ms 418 x1"];
    let server = RunningTestServer::start(directory.path(), &arguments).await;
    for status in [200, 418] {
        let started = Instant::now();
        assert_eq!(server.send(Method::GET, "/user").await.unwrap().status(), status);
        assert!(started.elapsed() >= Duration::from_millis(300));
    }
}

async fn rules_are_added_listed_and_removed_by_control_requests() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &["--fail", "GET /user 500 x1"]).await;
    let rule = json!({ "rule": "GET /projects 502" });
    let added = json!({ "id": 2, "rule": "GET /projects 502", "injected": 0, "remaining": null });
    assert_eq!(server.control(Method::POST, "/faults", Some(rule)).await, (201, added));
    assert_eq!(server.send(Method::GET, "/projects").await.unwrap().status(), 502);
    let listed = json!([
        { "id": 1, "rule": "GET /user 500 x1", "injected": 0, "remaining": 1 },
        { "id": 2, "rule": "GET /projects 502", "injected": 1, "remaining": null },
    ]);
    assert_eq!(server.control(Method::GET, "/faults", None).await, (200, listed));
    assert_eq!(server.control(Method::DELETE, "/faults/2", None).await.0, 204);
    server.root().get("/projects").await.expect(200);
    assert_eq!(server.control(Method::DELETE, "/faults", None).await.0, 204);
    server.root().get("/user").await.expect(200);
    server.reset().await;
    assert_eq!(server.send(Method::GET, "/user").await.unwrap().status(), 500);
}

async fn faults_apply_to_git_and_never_to_control_requests() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &["--fail", "* /** 503"]).await;
    let address = git::address(server.text("url"), "root", server.text("token"), "root/p");
    let output = Work::empty().run(&["ls-remote", &address]).await;
    assert!(git::output_text(&output).contains("503"), "{}", git::output_text(&output));
    assert_eq!(server.control(Method::DELETE, "/faults", None).await.0, 204);
    server.root().get("/user").await.expect(200);
}

harness::tests![
    rules_of_the_start_apply_as_often_as_counted,
    exceeded_rate_limits_have_the_usual_body_and_headers,
    errors_have_the_form_of_their_operation,
    closed_connections_have_no_response,
    delays_apply_before_response_or_error,
    rules_are_added_listed_and_removed_by_control_requests,
    faults_apply_to_git_and_never_to_control_requests,
];
