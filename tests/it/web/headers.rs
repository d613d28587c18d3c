//! Headers of every response and the option `compat`.

use std::collections::BTreeSet;

use holdfast::config::ConfigOptions;
use reqwest::Method;
use serde_json::json;

use crate::support::browser::{Browser, Seen, token};
use crate::support::users::PASSWORD;
use crate::support::{DatabaseKind, TestServer, on_every_database};

async fn every_response_has_security_headers_and_request_id(server: TestServer) {
    for path in ["/version", "/nothing", "//docs/", "//-/liveness"] {
        let response = server.anonymous().get(path).await;
        assert_eq!(response.header("x-frame-options"), "SAMEORIGIN", "{path}");
        assert_eq!(response.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(response.header("x-request-id").len(), 32, "{path}");
        // The public URL of the server does not use TLS.
        assert!(!response.headers.contains_key("strict-transport-security"), "{path}");
    }
}

async fn confirmed_response_has_the_same_vary(server: TestServer) {
    let root = server.root();
    for path in ["/version", "//docs/operation/get_project", "//api/v4/openapi.json"] {
        let response = root.get(path).await.expect(200);
        let request = root.request(Method::GET, path).header("If-None-Match", response.header("etag"));
        let confirmed = root.send(request).await.expect(304);
        let vary: Vec<_> = confirmed.headers.get_all("vary").iter().collect();
        assert!(vary.iter().any(|value| *value == "Accept-Encoding"), "{path}: {vary:?}");
        assert_eq!(vary, response.headers.get_all("vary").iter().collect::<Vec<_>>(), "{path}");
    }
}

async fn file_metadata_headers_have_no_alias_by_default(server: TestServer) {
    let response = file(&server).await;
    assert_eq!(response.header("x-service-file-name"), "README.md");
    assert!(!response.headers.keys().any(|name| name.as_str().starts_with("x-gitlab-")));
}

on_every_database![
    every_response_has_security_headers_and_request_id,
    confirmed_response_has_the_same_vary,
    file_metadata_headers_have_no_alias_by_default,
];

async fn file(server: &TestServer) -> crate::support::ApiResponse {
    let body = json!({ "name": "tour", "initialize_with_readme": true });
    let project = server.root().post("/projects", body).await.expect(201).json();
    let branch = project["default_branch"].as_str().expect("a branch").to_owned();
    let path = format!("/projects/{}/repository/files/README.md?ref={branch}", project["id"]);
    server.root().head(&path).await.expect(200)
}

async fn compat_option_adds_aliases_of_metadata_headers() {
    let options = ConfigOptions { compat: Some(true), ..ConfigOptions::default() };
    let server = TestServer::start_with(DatabaseKind::Sqlite, options).await;
    let response = file(&server).await;
    assert_eq!(response.header("x-service-blob-id").len(), 40);
    assert_eq!(response.header("x-gitlab-blob-id"), response.header("x-service-blob-id"));
    assert_eq!(response.header("x-gitlab-file-name"), "README.md");
    server.stop().await;
}

async fn https_server_sends_transport_security_and_secure_cookies() {
    let options = ConfigOptions { base_url: Some("https://git.example".to_owned()), ..ConfigOptions::default() };
    let server = TestServer::start_with(DatabaseKind::Sqlite, options).await;
    for path in ["/version", "/nothing", "//docs/", "//users/sign_in"] {
        let response = server.anonymous().get(path).await;
        assert_eq!(response.header("strict-transport-security"), "max-age=31536000", "{path}");
    }
    let (_, factor) = server.create_user_with_second_factor("ada").await;
    let mut browser = Browser::new(&server);
    let form = browser.get("/users/sign_in").await;
    let cookie = form.set_cookies()[0];
    assert!(cookie.starts_with("__Host-_service_sign_in="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; Max-Age=3600; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    // The form accepts its token with this cookie only.
    let form_token = token(&form);
    let pairs = [("authenticity_token", form_token.as_str()), ("login", "ada"), ("password", PASSWORD)];
    let (value, _) = cookie.split_once(';').expect("a value");
    let request = browser.http.post(format!("{}/users/sign_in", server.base)).form(&pairs);
    let response = request.header("cookie", value.trim_start_matches("__Host-")).send().await.expect("a response");
    assert_eq!(response.status(), 403);
    let waiting = browser.post("/users/sign_in", &pairs).await;
    assert_eq!(waiting.status, 303);

    let page = browser.get("/users/sign_in/code").await;
    let (code_token, code) = (token(&page), factor.app.code());
    let started = browser.post("/users/sign_in/code", &[("authenticity_token", &code_token), ("code", &code)]).await;
    let session = browser.get("/-/session").await.json();
    let csrf = session["csrf_token"].as_str().expect("a token");
    let ended = browser.post("/users/sign_out", &[("authenticity_token", csrf)]).await;
    let cookies: Vec<&str> =
        [&form, &waiting, &page, &started, &ended].into_iter().flat_map(Seen::set_cookies).collect();
    for cookie in &cookies {
        assert!(cookie.contains("; HttpOnly; ") && cookie.ends_with("; Secure"), "{cookie}");
    }
    let names: BTreeSet<&str> = cookies.iter().filter_map(|cookie| cookie.split('=').next()).collect();
    let expected = ["__Host-_service_sign_in", "_service_pending_sign_in", "_service_session"];
    assert_eq!(names, BTreeSet::from(expected));
    // The session was set, and deleted by signing out.
    assert!(started.set_cookies()[0].starts_with("_service_session=") && browser.session().is_none());
    server.stop().await;
}

harness::tests![
    compat_option_adds_aliases_of_metadata_headers,
    https_server_sends_transport_security_and_secure_cookies,
];
