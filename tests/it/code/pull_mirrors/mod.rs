//! Pull mirrors of projects.

mod failures;
mod remote;
mod updates;

use domain::mirrors::jobs::update_pull_mirror::UpdatePullMirror;
use domain::mirrors::pull_mirrors::update;
use holdfast::config::ConfigOptions;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, projects, pull_mirrors};

use crate::support::code::Project;
use crate::support::git::address;
use crate::support::server::{ROOT_TOKEN, with_more_connections};
use crate::support::spaces::project;
use crate::support::{Client, TestServer, on_every_database};

/// Creates a pull mirror of the project `/projects/:id`.
pub async fn mirror(client: &Client, base_path: &str) {
    let body = json!({ "url": "https://git.example.com/a.git" });
    client.put(&format!("{base_path}/mirror/pull"), body).await.expect(200);
}

/// The pull mirror of a project.
struct Pull<'a> {
    server: &'a TestServer,
    project: i64,
    /// Path of the mirror in the API.
    path: String,
}

impl<'a> Pull<'a> {
    /// Creates an enabled mirror with a URL.
    async fn from_url(target: &Project<'a>, url: &str) -> Self {
        let path = format!("/projects/{}/mirror/pull", target.id);
        target.server.root().put(&path, json!({ "url": url, "enabled": true })).await.expect(200);
        Self { server: target.server, project: target.id, path }
    }

    /// Creates an enabled mirror of another project of the server.
    async fn from_project(target: &Project<'a>, source: &Project<'_>) -> Self {
        let url = address(&source.server.base, "root", ROOT_TOKEN, &source.path);
        Self::from_url(target, &url).await
    }

    async fn state(&self) -> Value {
        self.server.root().get(&self.path).await.expect(200).json()
    }

    async fn set(&self, body: Value) -> Value {
        self.server.root().put(&self.path, body).await.expect(200).json()
    }

    /// Requests an update, runs all jobs, and returns the mirror.
    async fn pull(&self) -> Value {
        self.server.root().post(&self.path, json!({})).await.expect(200);
        self.server.finish_jobs().await;
        self.state().await
    }

    /// Requests an update that must succeed completely.
    async fn pull_all(&self) {
        let state = self.pull().await;
        assert_eq!((&state["update_status"], &state["last_error"]), (&json!("finished"), &Value::Null), "{state}");
    }

    /// Requests an update that fails, and returns the error.
    async fn error(&self) -> String {
        let state = self.pull().await;
        assert_eq!(state["update_status"], "failed", "{state}");
        state["last_error"].as_str().expect("an error").to_owned()
    }

    async fn row(&self) -> pull_mirrors::Model {
        let found = pull_mirrors::of_project(self.project).one(self.server.backend.database.read()).await;
        found.expect("a query").expect("a mirror")
    }

    /// Runs one update without a schedule.
    async fn run(&self) {
        let job = UpdatePullMirror { mirror_id: self.row().await.id };
        update::run_job(self.server.backend.clone(), job).await.expect("a recorded result");
    }
}

async fn pull_mirror_lifecycle(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let (path, in_project) = (format!("/projects/{work}/mirror/pull"), format!("/projects/{work}"));
    for rejected in [root.get(&path).await, root.post(&path, json!({})).await] {
        assert_eq!(rejected.expect(400).message(), "The project is not mirrored");
    }
    let rejected = root.put(&path, json!({})).await.expect(400).message();
    assert!(rejected.ends_with("are missing, at least one parameter must be provided"), "{rejected}");
    let rejected = root.put(&path, json!({ "enabled": true })).await.expect(400).json();
    assert_eq!(rejected["message"], json!({ "url": ["can't be blank"] }));
    let url = "HTTPS://Git.example.com/x.git";
    let created = root.put(&path, json!({ "url": url })).await.expect(200).json();
    let expected = json!({
        "id": created["id"], "enabled": false, "url": url, "update_status": "none", "last_update_at": null,
        "last_update_started_at": null, "last_successful_update_at": null, "last_error": null,
        "mirror_trigger_builds": false, "only_mirror_protected_branches": false,
        "mirror_overwrites_diverged_branches": false,
    });
    assert_eq!(created, expected);
    assert_eq!(root.get(&path).await.expect(200).json(), created);
    let disabled = root.post(&path, json!({})).await.expect(400);
    assert_eq!(disabled.message(), "The project is not mirrored");
    let settings = json!({
        "mirror_trigger_builds": true, "only_mirror_protected_branches": true,
        "mirror_overwrites_diverged_branches": true,
    });
    let changed = root.put(&path, settings.clone()).await.expect(200).json();
    let shown = root.get(&in_project).await.expect(200).json();
    for (name, value) in settings.as_object().expect("an object") {
        assert_eq!((&changed[name], &shown[name]), (value, value), "{name}");
    }
    assert_eq!((&shown["mirror"], shown["mirror_user_id"].is_i64()), (&json!(false), true));
    assert_eq!(root.put(&path, settings).await.expect(200).json(), changed);
    // The attributes of the project are those of the mirror.
    let body = json!({ "mirror": true, "only_mirror_protected_branches": false });
    root.put(&in_project, body).await.expect(200);
    let read = root.get(&path).await.expect(200).json();
    assert_eq!((&read["enabled"], &read["only_mirror_protected_branches"]), (&json!(true), &json!(false)));
    let started = root.post(&path, json!({})).await.expect(200).json();
    assert_eq!(started["update_status"], "scheduled");
    // The mirror is deleted with the project.
    root.delete(&in_project).await.expect(202);
    server.finish_jobs().await;
    let rows = pull_mirrors::Entity::find().all(server.backend.database.read()).await.expect("mirrors");
    assert!(rows.is_empty());
}

async fn change_by_update_project_makes_the_caller_the_user_of_the_mirror(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let in_project = format!("/projects/{work}");
    let url = json!({ "url": "https://git.example.com/x.git" });
    root.put(&format!("{in_project}/mirror/pull"), url).await.expect(200);
    let owner = root.get(&in_project).await.expect(200).json()["mirror_user_id"].clone();
    assert!(owner.is_i64());
    let max = server.create_user("max").await;
    server.insert_member(work, max.id, AccessLevel::Maintainer).await;
    // Other attributes and equal values do not change the user.
    for body in [json!({ "description": "d" }), json!({ "mirror": false }), json!({ "mirror_trigger_builds": true })] {
        let shown = max.client.put(&in_project, body.clone()).await.expect(200).json();
        assert_eq!(shown["mirror_user_id"], owner, "{body}");
    }
    for name in ["mirror", "only_mirror_protected_branches", "mirror_overwrites_diverged_branches"] {
        root.put(&in_project, json!({ "mirror_user_id": owner })).await.expect(200);
        let shown = max.client.put(&in_project, json!({ name: true })).await.expect(200).json();
        assert_eq!((&shown[name], &shown["mirror_user_id"]), (&json!(true), &json!(max.id)), "{name}");
    }
    // An administrator can name another user in the same request.
    let body = json!({ "mirror": false, "mirror_user_id": max.id });
    let shown = root.put(&in_project, body).await.expect(200).json();
    assert_eq!((&shown["mirror"], &shown["mirror_user_id"]), (&json!(false), &json!(max.id)));
}

async fn update_project_compares_with_the_mirror_of_a_concurrent_update(server: TestServer) {
    if !server.locks_rows() {
        return;
    }
    let work = project(&server.root(), "work", json!({})).await;
    let max = server.create_user("max").await;
    server.insert_member(work, max.id, AccessLevel::Maintainer).await;
    let transaction = server.backend.database.begin().await.expect("a transaction");
    let (id, mirror, mirror_user_id) = (Set(work), Set(true), Set(Some(1)));
    let row = projects::ActiveModel { id, mirror, mirror_user_id, ..Default::default() };
    row.update(&transaction).await.expect("a change");
    let in_project = format!("/projects/{work}");
    let disable = max.client.put(&in_project, json!({ "mirror": false, "description": "d" }));
    let (response, ()) = tokio::join!(disable, server.commit_when_awaited(transaction));
    let shown = response.expect(200).json();
    assert_eq!((&shown["mirror"], &shown["mirror_user_id"]), (&json!(false), &json!(max.id)));
}

async fn credentials_are_encrypted_and_belong_to_one_server(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let path = format!("/projects/{work}/mirror/pull");
    let row = async || {
        let rows = pull_mirrors::Entity::find().all(server.backend.database.read()).await.expect("mirrors");
        rows.into_iter().next().expect("a mirror")
    };
    let body = json!({
        "url": "https://git.example.com/a.git", "auth_user": "mirror-user", "auth_password": "mirror-password",
    });
    let created = root.put(&path, body).await.expect(200).json();
    let shown = "https://*****:*****@git.example.com/a.git";
    assert_eq!(created["url"], shown);
    let first = row().await;
    assert!(first.credentials_encrypted.is_some());
    let text = format!("{first:?}");
    assert!(!text.contains("mirror-user") && !text.contains("mirror-password"), "{text}");
    // A client sends the URL that it has read.
    let same = root.put(&path, json!({ "url": shown })).await.expect(200).json();
    assert_eq!((same, row().await), (created, first.clone()));
    let moved = root.put(&path, json!({ "url": "https://git.example.com/b.git" })).await.expect(200).json();
    assert_eq!(moved["url"], "https://*****:*****@git.example.com/b.git");
    for other in ["http://git.example.com/b.git", "https://git.example.com:444/b", "https://other.example.com/b"] {
        let body = json!({ "url": "https://u:p@git.example.com/b.git" });
        root.put(&path, body).await.expect(200);
        let masked = other.replace("://", "://*****:new@");
        let rejected = root.put(&path, json!({ "url": masked })).await.expect(400).json();
        assert_eq!(rejected["message"], json!({ "url": ["is blocked: URI is invalid"] }), "{masked}");
        let elsewhere = root.put(&path, json!({ "url": other })).await.expect(200).json();
        assert_eq!((elsewhere["url"].as_str(), row().await.credentials_encrypted), (Some(other), None));
    }
    root.put(&path, json!({ "auth_user": "ada", "auth_password": "x" })).await.expect(200);
    assert!(row().await.credentials_encrypted.is_some());
    let removed = root.put(&path, json!({ "auth_user": "", "auth_password": "" })).await.expect(200).json();
    assert_eq!(removed["url"], "https://other.example.com/b");
    assert!(row().await.credentials_encrypted.is_none());
}

async fn set_pull_mirror_rejects_invalid_urls_and_settings(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}/mirror/pull", project(&root, "work", json!({})).await);
    let local = "is blocked: Requests to the local network are not allowed";
    let scheme = "is blocked: Only allowed schemes are http, https";
    let invalid = "is blocked: URI is invalid";
    for (url, text) in [
        ("ssh://git@git.example.com/a.git", scheme),
        ("git@git.example.com:a.git", scheme),
        ("file:///etc/passwd", scheme),
        ("http://", invalid),
        ("http://git.example.com/a b", invalid),
        ("http://git.example.com/a?b", invalid),
        ("https://*****:*****@git.example.com/a.git", invalid),
        ("https://ada:*****@git.example.com/a.git", invalid),
        ("http://127.0.0.1/a.git", local),
        ("http://ada:x@localhost:3000/a.git", local),
        ("http://[::ffff:10.0.0.1]/a.git", local),
        ("http://169.254.169.254/a.git", local),
    ] {
        let rejected = root.put(&path, json!({ "url": url })).await.expect(400).json();
        assert_eq!(rejected["message"], json!({ "url": [text] }), "{url}");
        let is_local = text == local && !url.contains("169.254");
        let setting = if is_local { json!("allow_local_requests_from_hooks_and_services") } else { json!(null) };
        assert_eq!(rejected["setting"], setting, "{url}");
    }
    for (body, text) in [
        (json!({ "url": format!("https://git.example.com/{}", "a".repeat(2048)) }), "url is too long"),
        (json!({ "url": "https://git.example.com/a", "enabled": "maybe" }), "enabled is invalid"),
        (json!({ "auth_password": "x".repeat(513) }), "auth_password is too long"),
    ] {
        let message = root.put(&path, body).await.expect(400).message();
        assert!(message.starts_with(text), "{message}");
    }
    root.put(&path, json!({ "url": "x".repeat(1 << 21) })).await.expect(413);
    root.get(&path).await.expect(400);
}

async fn pull_mirror_requires_maintainer(server: TestServer) {
    let target = Project::empty(&server, "work", Visibility::Private).await;
    let path = format!("/projects/{}/mirror/pull", target.id);
    let developer = target.member("dev", AccessLevel::Developer).await;
    let outsider = server.create_user("outsider").await.client;
    let body = json!({ "url": "https://git.example.com/a.git" });
    for (client, status) in [(&developer, 403), (&outsider, 404), (&server.anonymous(), 401)] {
        client.get(&path).await.expect(status);
        client.put(&path, body.clone()).await.expect(status);
        client.post(&path, json!({})).await.expect(status);
    }
    let maintainer = target.member("max", AccessLevel::Maintainer).await;
    maintainer.put(&path, body.clone()).await.expect(200);
    maintainer.get(&path).await.expect(200);
    target.archive().await;
    maintainer.get(&path).await.expect(200);
    maintainer.put(&path, body).await.expect(403);
    maintainer.post(&path, json!({})).await.expect(403);
}

async fn concurrent_changes_create_one_mirror(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}/mirror/pull", project(&root, "work", json!({})).await);
    let body = json!({ "url": "https://git.example.com/a.git" });
    let set = || async { root.put(&path, body.clone()).await.expect(200).json()["id"].clone() };
    let (one, two, three) = tokio::join!(set(), set(), set());
    assert!(one == two && two == three, "{one} {two} {three}");
}

fn set_pull_mirror_rejects_invalid_urls_and_settings_options() -> ConfigOptions {
    ConfigOptions { allow_local_webhooks: Some(false), ..ConfigOptions::default() }
}

on_every_database![
    pull_mirror_lifecycle,
    change_by_update_project_makes_the_caller_the_user_of_the_mirror,
    update_project_compares_with_the_mirror_of_a_concurrent_update with with_more_connections(),
    credentials_are_encrypted_and_belong_to_one_server,
    set_pull_mirror_rejects_invalid_urls_and_settings with set_pull_mirror_rejects_invalid_urls_and_settings_options(),
    pull_mirror_requires_maintainer,
    concurrent_changes_create_one_mirror,
];
