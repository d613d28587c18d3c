//! Clients that send the password of a user with a second factor.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::user;
use crate::registry::registry_protocol::{Tool, request_token};
use crate::support::git::{self, Work};
use crate::support::users::PASSWORD;
use crate::support::{TestServer, on_every_database};

/// Text for users with a second factor.
const USE_TOKEN: &str = "Your account uses two-factor authentication. Use a personal access token";

async fn fetch(server: &TestServer, path: &str, password: &str) -> (u16, String) {
    let client = server.anonymous();
    let request = client.request(reqwest::Method::GET, &format!("//{path}/info/refs?service=git-upload-pack"));
    let response = client.send(request.basic_auth("ada", Some(password))).await;
    (response.status, response.text())
}

async fn git_over_http_accepts_tokens_only(server: TestServer) {
    let ada = user(&server, "ada").await;
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    server.insert_member(project.id, ada.id, AccessLevel::Developer).await;
    assert_eq!(fetch(&server, "g/p.git", PASSWORD).await.0, 200);
    server.enable_second_factor(&ada).await;
    let (status, text) = fetch(&server, "g/p.git", PASSWORD).await;
    assert!(status == 403 && text.contains(USE_TOKEN), "{status} {text}");
    // A wrong password reveals nothing, and a project that does not exist changes nothing.
    let (status, text) = fetch(&server, "g/p.git", "wrong password").await;
    assert!(status == 401 && !text.contains("two-factor"), "{status} {text}");
    assert_eq!(fetch(&server, "g/none.git", PASSWORD).await.0, 403);
    assert_eq!(fetch(&server, "g/p.git", &ada.token).await.0, 200);
    let work = Work::new().await;
    work.commit("a", "1").await;
    let push = async |secret: &str| git::address(&server.base, "ada", secret, "g/p");
    let refused = work.fails(&["push", "--quiet", &push(PASSWORD).await, "main"]).await;
    assert!(refused.contains("Use a personal access token"), "{refused}");
    let writer = server.create_token(ada.id, &["write_repository"]).await;
    work.git(&["push", "--quiet", &push(&writer).await, "main"]).await;
    // Correct passwords are not counted as failures.
    for _ in 0..12 {
        assert_eq!(fetch(&server, "g/p.git", PASSWORD).await.0, 403);
    }
}

async fn registry_accepts_tokens_only(server: TestServer) {
    let ada = user(&server, "ada").await;
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    server.insert_member(project.id, ada.id, AccessLevel::Developer).await;
    let former = Tool::new(&server.base, Some(("ada", PASSWORD)), "g/p", "pull").await;
    let status = async |tool: &Tool| tool.client.get("//v2/").await.status;
    assert_eq!(status(&former).await, 200);
    server.enable_second_factor(&ada).await;
    let refused = request_token(&server.base, Some(("ada", PASSWORD)), &[]).await.expect(403);
    assert!(refused.text().contains(USE_TOKEN), "{}", refused.text());
    let wrong = request_token(&server.base, Some(("ada", "wrong password")), &[]).await.expect(401);
    assert!(!wrong.text().contains("two-factor"), "{}", wrong.text());
    // A registry token that was issued for the password ends, too.
    assert_eq!(status(&former).await, 401);
    let by_token = Tool::new(&server.base, Some(("ada", &ada.token)), "g/p", "pull").await;
    assert_eq!(status(&by_token).await, 200);
}

async fn oauth_grants_no_tokens_for_passwords(server: TestServer) {
    server.create_user_with_second_factor("ada").await;
    let body = json!({ "name": "App", "redirect_uri": "https://app.example/cb", "scopes": "api" });
    let application = server.root().post("/applications", body).await.expect(201).json();
    let text = |name: &str| application[name].as_str().expect("text").to_owned();
    let (uid, secret) = (text("application_id"), text("secret"));
    let form = [
        ("grant_type", "password"),
        ("client_id", &uid),
        ("client_secret", &secret),
        ("username", "ada"),
        ("password", PASSWORD),
    ];
    let refused = server.anonymous().post_form("//oauth/token", &form).await.expect(400);
    assert_eq!(refused.json()["error"], "unsupported_grant_type");
}

async fn tokens_and_impersonation_work_with_second_factor(server: TestServer) {
    let (ada, _) = server.create_user_with_second_factor("ada").await;
    let root = server.root();
    ada.client.get("/user").await.expect(200);
    let path = format!("/users/{}/impersonation_tokens", ada.id);
    let created = root.post(&path, json!({ "name": "t", "scopes": ["api"] })).await.expect(201).json();
    let impersonating = server.with_token(created["token"].as_str().expect("a token"));
    assert_eq!(impersonating.get("/user").await.expect(200).json()["username"], "ada");
    assert_eq!(root.get("/user?sudo=ada").await.expect(200).json()["two_factor_enabled"], true);
}

on_every_database![
    git_over_http_accepts_tokens_only,
    registry_accepts_tokens_only,
    oauth_grants_no_tokens_for_passwords,
    tokens_and_impersonation_work_with_second_factor,
];
