//! Requests whose body takes long are authorized again before they change anything.

use std::time::Duration;

use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, issues, namespaces, project_uploads};

use crate::support::browser::Browser;
use crate::support::code::Project;
use crate::support::slow_request::SlowRequest;
use crate::support::users::{PASSWORD, TestUser};
use crate::support::{ApiResponse, TestServer, on_every_database};

/// Age from which a caller is identified again after a small body.
const IDENTITY_AGE: Duration = Duration::from_millis(100);

/// A project with a Developer.
struct Sample<'a> {
    server: &'a TestServer,
    project: Project<'a>,
    dev: TestUser,
}

impl<'a> Sample<'a> {
    async fn new(server: &'a TestServer) -> Self {
        let project = Project::with_commits(server, "p", Visibility::Private).await;
        let dev = server.create_user("dev").await;
        server.insert_member(project.id, dev.id, AccessLevel::Developer).await;
        Self { server, project, dev }
    }

    async fn block(&self) {
        self.server.root().post(&format!("/users/{}/block", self.dev.id), json!({})).await.expect(201);
    }

    async fn revoke(&self, token: &str) {
        let token = self.server.token_row(token).await;
        self.server.root().delete(&format!("/personal_access_tokens/{}", token.id)).await.expect(204);
    }

    async fn remove_member(&self) {
        let path = format!("/projects/{}/members/{}", self.project.id, self.dev.id);
        self.server.root().delete(&path).await.expect(204);
    }

    async fn archive(&self) {
        self.server.root().post(&format!("/projects/{}/archive", self.project.id), json!({})).await.expect(201);
    }

    async fn begin(&self, line: &str, kind: &str, body: Vec<u8>) -> SlowRequest {
        let headers = [("PRIVATE-TOKEN", self.dev.token.as_str()), ("Content-Type", kind)];
        SlowRequest::begin(&self.server.base, line, &headers, body).await
    }

    /// Sends a form with a file.
    async fn upload(&self, line: &str, name: &str, more: &[(&str, &str)]) -> SlowRequest {
        let mut body = String::new();
        for (name, value) in more {
            body.push_str(&format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"));
        }
        body.push_str(&format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"a.png\"\r\n\r\n"));
        let body = [body.as_bytes(), IMAGE, b"\r\n--b--\r\n"].concat();
        self.begin(line, "multipart/form-data; boundary=b", body).await
    }

    async fn upload_file(&self) -> SlowRequest {
        let line = format!("POST /api/v4/projects/{}/uploads", self.project.id);
        self.upload(&line, "file", &[]).await
    }

    async fn uploads(&self) -> u64 {
        let count = project_uploads::Entity::find().count(self.server.backend.database.read()).await;
        count.expect("a count")
    }
}

/// An image of one pixel.
const IMAGE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";

fn message(response: ApiResponse, status: u16) -> String {
    response.expect(status).message()
}

async fn slow_upload_that_stays_allowed_is_stored(server: TestServer) {
    let sample = Sample::new(&server).await;
    let request = sample.upload_file().await;
    request.finish().await.expect(201);
    assert_eq!(sample.uploads().await, 1);
}

async fn slow_upload_is_refused_after_access_is_lost(server: TestServer) {
    let sample = Sample::new(&server).await;
    let request = sample.upload_file().await;
    sample.archive().await;
    request.finish().await.expect(403);
    server.root().post(&format!("/projects/{}/unarchive", sample.project.id), json!({})).await.expect(201);
    let request = sample.upload_file().await;
    sample.remove_member().await;
    assert_eq!(message(request.finish().await, 404), "404 Project Not Found");
    server.insert_member(sample.project.id, sample.dev.id, AccessLevel::Developer).await;
    let request = sample.upload_file().await;
    sample.block().await;
    let text = message(request.finish().await, 403);
    assert!(text.contains("Your account has been blocked."), "{text}");
    server.root().post(&format!("/users/{}/unblock", sample.dev.id), json!({})).await.expect(201);
    let request = sample.upload_file().await;
    sample.revoke(&sample.dev.token).await;
    request.finish().await.expect(401);
    assert_eq!(sample.uploads().await, 0);
}

async fn slow_group_import_and_avatar_are_refused_after_user_is_blocked(server: TestServer) {
    let sample = Sample::new(&server).await;
    let groups = async || namespaces::Entity::find().count(server.backend.database.read()).await.expect("a count");
    let before = groups().await;
    let import = [("path", "imported"), ("name", "Imported")];
    let import = sample.upload("POST /api/v4/groups/import", "file", &import).await;
    let project = format!("/projects/{}", sample.project.id);
    let member = format!("{project}/members/{}", sample.dev.id);
    server.root().put(&member, json!({"access_level": 40})).await.expect(200);
    let avatar = sample.upload(&format!("PUT /api/v4{project}"), "avatar", &[]).await;
    sample.block().await;
    import.finish().await.expect(403);
    avatar.finish().await.expect(403);
    assert_eq!(groups().await, before);
    assert_eq!(sample.project.project().await.avatar, None);
}

async fn slow_large_commit_is_refused_after_member_is_removed(server: TestServer) {
    let sample = Sample::new(&server).await;
    let head = sample.project.id("feature/x");
    let body = json!({
        "branch": "feature/x", "commit_message": "x",
        "actions": [{"action": "create", "file_path": "large", "content": "x".repeat(2 << 20)}],
    });
    let line = format!("POST /api/v4/projects/{}/repository/commits", sample.project.id);
    let request = sample.begin(&line, "application/json", body.to_string().into_bytes()).await;
    sample.remove_member().await;
    request.finish().await.expect(404);
    assert_eq!(sample.project.id("feature/x"), head);
}

/// Begins to create an issue with other credentials than the token of the Developer, and waits until the caller has to be
/// identified again.
async fn slow_issue(sample: &Sample<'_>, headers: &[(&str, &str)]) -> SlowRequest {
    let line = format!("POST /api/v4/projects/{}/issues", sample.project.id);
    let body = json!({"title": "slow"}).to_string().into_bytes();
    let headers = [headers, &[("Content-Type", "application/json")]].concat();
    let request = SlowRequest::begin(&sample.server.base, &line, &headers, body).await;
    tokio::time::sleep(IDENTITY_AGE).await;
    request
}

async fn slow_small_body_is_refused_after_credentials_are_revoked(server: TestServer) {
    let sample = Sample::new(&server).await;
    let token = server.create_token(sample.dev.id, &["api"]).await;
    let request = slow_issue(&sample, &[("PRIVATE-TOKEN", &token)]).await;
    sample.revoke(&token).await;
    request.finish().await.expect(401);

    let root = server.root().get("/user").await.expect(200).json()["id"].as_i64().expect("an ID");
    let token = server.create_token(root, &["api", "sudo"]).await;
    let request = slow_issue(&sample, &[("PRIVATE-TOKEN", &token), ("Sudo", "dev")]).await;
    sample.revoke(&token).await;
    request.finish().await.expect(401);

    server.set_password(&sample.dev).await;
    let mut browser = Browser::new(&server);
    browser.sign_in("dev", PASSWORD, &[]).await;
    let csrf: Value = browser.get("/-/session").await.json();
    let cookie = format!("_service_session={}", browser.session().expect("a session"));
    let csrf = csrf["csrf_token"].as_str().expect("a token").to_owned();
    let headers = [("Cookie", cookie.as_str()), ("X-CSRF-Token", csrf.as_str())];
    slow_issue(&sample, &headers).await.finish().await.expect(201);
    let request = slow_issue(&sample, &headers).await;
    sample.block().await;
    let status = request.finish().await.status;
    assert!([401, 403].contains(&status), "{status}");
    let issues = issues::Entity::find().count(server.backend.database.read()).await;
    assert_eq!(issues.expect("a count"), 1);
}

on_every_database![
    slow_upload_that_stays_allowed_is_stored,
    slow_upload_is_refused_after_access_is_lost,
    slow_group_import_and_avatar_are_refused_after_user_is_blocked,
    slow_large_commit_is_refused_after_member_is_removed,
    slow_small_body_is_refused_after_credentials_are_revoked,
];
