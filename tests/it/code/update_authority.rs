//! Writes through the API are authorized again when they hold the lock of the repository.

use std::time::Duration;

use git::{RepositoryId, WriteGuard};
use holdfast::config::ConfigOptions;
use reqwest::Method;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::ref_updates::{self, RefUpdateState};
use storage::entities::{AccessLevel, Visibility, protected_branches, protected_tags};
use tokio::task::JoinHandle;

use crate::review::merge_requests::propose;
use crate::support::browser::Browser;
use crate::support::code::Project;
use crate::support::users::{PASSWORD, TestUser};
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

/// A project with a Developer, and a merge request of `feature/x` into `target`.
pub struct Sample<'a> {
    server: &'a TestServer,
    pub project: Project<'a>,
    pub dev: TestUser,
    pub merge_request: i64,
}

/// A request that waits for the lock of the repository.
pub struct WaitingRequest {
    lock: WriteGuard,
    response: JoinHandle<ApiResponse>,
}

impl WaitingRequest {
    /// Releases the lock and returns the response.
    pub async fn finish(self) -> ApiResponse {
        drop(self.lock);
        self.response.await.expect("a response")
    }
}

impl<'a> Sample<'a> {
    pub async fn new(server: &'a TestServer) -> Self {
        let project = Project::with_commits(server, "p", Visibility::Private).await;
        project.git(&["branch", "target", "main"]);
        project.git(&["tag", "old", "main"]);
        let dev = server.create_user("dev").await;
        server.insert_member(project.id, dev.id, AccessLevel::Developer).await;
        let merge_request = propose(&dev.client, project.id, "feature/x", "target", json!({})).await;
        server.finish_jobs().await;
        Self { server, project, dev, merge_request }
    }

    async fn pending(&self) -> u64 {
        let pending = ref_updates::Entity::find().filter(ref_updates::Column::State.eq(RefUpdateState::Pending));
        pending.count(self.server.backend.database.read()).await.expect("a count")
    }

    /// Sends a request while the repository is locked. Returns when the request was authorized and waits for the lock.
    pub async fn begin(&self, client: &Client, method: Method, path: &str, body: Value) -> WaitingRequest {
        let lock = self.lock().await;
        let (client, request) = (client.clone(), client.request(method, path).json(&body));
        let response = tokio::spawn(async move { client.send(request).await });
        self.wait_for_intent().await;
        WaitingRequest { lock, response }
    }

    /// Locks the repository.
    pub async fn lock(&self) -> WriteGuard {
        let repository = self.server.backend.repositories.repository(&RepositoryId::of_project(self.project.id));
        repository.write_lock().await.expect("the lock")
    }

    /// Waits until a ref update is about to lock the repository.
    pub async fn wait_for_intent(&self) {
        self.wait_for_pending(1).await;
    }

    async fn wait_for_pending(&self, count: u64) {
        let waiting = async {
            while self.pending().await != count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("the intents");
    }

    /// Returns every operation that updates refs.
    pub fn operations(&self) -> Vec<(Method, String, Value)> {
        let url = |rest: &str| self.project.url(rest);
        let merge_request = format!("/projects/{}/merge_requests/{}", self.project.id, self.merge_request);
        let pick = self.project.id("feature/x");
        let action = json!({"action": "create", "file_path": "n", "content": "n"});
        let commit = json!({"branch": "target", "commit_message": "n", "actions": [action]});
        let file = json!({"branch": "target", "commit_message": "m", "content": "m"});
        vec![
            (Method::POST, url("/commits"), commit),
            (Method::POST, url("/files/m"), file),
            (Method::POST, url(&format!("/commits/{pick}/cherry_pick")), json!({"branch": "target"})),
            (Method::POST, url(&format!("/commits/{pick}/revert")), json!({"branch": "feature/x"})),
            (Method::POST, url("/branches"), json!({"branch": "new", "ref": "main"})),
            (Method::DELETE, url("/branches/merged"), json!({})),
            (Method::POST, url("/tags"), json!({"tag_name": "new", "ref": "main"})),
            (Method::DELETE, url("/tags/old"), json!({})),
            (Method::PUT, format!("{merge_request}/rebase"), json!({})),
            (Method::PUT, format!("{merge_request}/merge"), json!({})),
        ]
    }
}

async fn waiting_writes_are_refused_after_access_is_lost(server: TestServer) {
    let sample = Sample::new(&server).await;
    let refs = sample.project.git(&["for-each-ref"]);
    let (root, user) = (server.root(), format!("/users/{}", sample.dev.id));
    let project = format!("/projects/{}", sample.project.id);
    for (method, path, body) in sample.operations() {
        let begin = || sample.begin(&sample.dev.client, method.clone(), &path, body.clone());
        let waiting = begin().await;
        root.post(&format!("{user}/block"), json!({})).await.expect(201);
        let text = waiting.finish().await.expect(403).message();
        assert!(text.contains("Your account has been blocked."), "{path}: {text}");
        root.post(&format!("{user}/unblock"), json!({})).await.expect(201);

        let waiting = begin().await;
        root.delete(&format!("{project}/members/{}", sample.dev.id)).await.expect(204);
        waiting.finish().await.expect(404);
        server.insert_member(sample.project.id, sample.dev.id, AccessLevel::Developer).await;

        let waiting = begin().await;
        root.post(&format!("{project}/archive"), json!({})).await.expect(201);
        waiting.finish().await.expect(403);
        root.post(&format!("{project}/unarchive"), json!({})).await.expect(201);
        assert_eq!(sample.project.git(&["for-each-ref"]), refs, "{path}");
        assert_eq!(sample.pending().await, 0, "{path}");
    }
    // Nothing but the lost access refused them.
    for (method, path, body) in sample.operations() {
        let response = sample.dev.client.send(sample.dev.client.request(method, &path).json(&body)).await;
        assert!((200..300).contains(&response.status), "{path}: {response:?}");
        server.finish_jobs().await;
    }
}

async fn waiting_writes_are_refused_after_refs_are_protected(server: TestServer) {
    let sample = Sample::new(&server).await;
    let refs = sample.project.git(&["for-each-ref"]);
    for (method, path, body) in sample.operations() {
        let status = match (&method, &path) {
            (_, path) if path.contains("/tags") => 403,
            (&Method::DELETE, _) => 400,
            (_, path) if path.ends_with("/merge") => 401,
            _ => 403,
        };
        let waiting = sample.begin(&sample.dev.client, method, &path, body).await;
        sample.project.protect("*", 40, 40).await;
        sample.project.protect_tags("*", 40).await;
        waiting.finish().await.expect(status);
        assert_eq!(sample.project.git(&["for-each-ref"]), refs, "{path}");
        protected_branches::Entity::delete_many()
            .filter(protected_branches::Column::Name.eq("*"))
            .exec(server.backend.database.write())
            .await
            .expect("no protection");
        protected_tags::Entity::delete_many().exec(server.backend.database.write()).await.expect("no protection");
    }
    assert_eq!(sample.pending().await, 0);
}

async fn waiting_commit_is_refused_after_its_credentials_are_revoked(server: TestServer) {
    let sample = Sample::new(&server).await;
    let target = sample.project.id("target");
    let (method, path, body) = sample.operations().remove(0);
    let revoke = async |token: &str| {
        let token = server.token_row(token).await;
        server.root().delete(&format!("/personal_access_tokens/{}", token.id)).await.expect(204);
    };

    let token = server.create_token(sample.dev.id, &["api"]).await;
    let client = server.with_token(&token);
    let waiting = sample.begin(&client, method.clone(), &path, body.clone()).await;
    revoke(&token).await;
    waiting.finish().await.expect(401);

    let root = server.root().get("/user").await.expect(200).json()["id"].as_i64().expect("an ID");
    let token = server.create_token(root, &["api", "sudo"]).await;
    let client = server.with_token(&token).header("Sudo", "dev");
    let waiting = sample.begin(&client, method.clone(), &path, body.clone()).await;
    revoke(&token).await;
    waiting.finish().await.expect(401);

    server.set_password(&sample.dev).await;
    let mut browser = Browser::new(&server);
    browser.sign_in("dev", PASSWORD, &[]).await;
    let session = browser.get("/-/session").await.json();
    let client = server
        .anonymous()
        .header("Cookie", &format!("_service_session={}", browser.session().expect("a session")))
        .header("X-CSRF-Token", session["csrf_token"].as_str().expect("a token"));
    let waiting = sample.begin(&client, method.clone(), &path, body.clone()).await;
    storage::entities::sessions::Entity::delete_many().exec(server.backend.database.write()).await.expect("sessions");
    waiting.finish().await.expect(401);
    assert_eq!((sample.project.id("target"), sample.pending().await), (target, 0));
}

async fn merged_branch_that_is_protected_while_its_deletion_waits_stays(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.project.git(&["branch", "also-merged", "main~1"]);
    server.root().delete(&sample.project.url("/merged_branches")).await.expect(202);
    let lock = sample.lock().await;
    let job = tokio::spawn({
        let server = server.clone();
        async move { server.finish_jobs().await }
    });
    sample.wait_for_intent().await;
    sample.project.protect("merged", 40, 40).await;
    drop(lock);
    job.await.expect("a job");
    let branches = sample.project.references("refs/heads/");
    assert!(branches.iter().any(|name| name == "merged"), "{branches:?}");
    assert!(!branches.iter().any(|name| name == "also-merged"), "{branches:?}");
    assert_eq!(sample.pending().await, 0);
}

async fn commit_is_stored_after_the_time_limit_of_its_request(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (method, path, body) = sample.operations().remove(0);
    let target = sample.project.id("target");
    let WaitingRequest { lock, response } = sample.begin(&sample.dev.client, method, &path, body).await;
    response.await.expect("a response").expect(503);
    assert_eq!(sample.project.id("target"), target);
    drop(lock);
    sample.wait_for_pending(0).await;
    assert_eq!(sample.project.id("target~1"), target);
}

fn short_time_limit() -> ConfigOptions {
    ConfigOptions { request_timeout: Some(2), ..ConfigOptions::default() }
}

on_every_database![
    commit_is_stored_after_the_time_limit_of_its_request with short_time_limit(),
    merged_branch_that_is_protected_while_its_deletion_waits_stays,
    waiting_writes_are_refused_after_access_is_lost,
    waiting_writes_are_refused_after_refs_are_protected,
    waiting_commit_is_refused_after_its_credentials_are_revoked,
];
