//! Remote mirrors of projects.

mod failures;
mod updates;

use domain::mirrors::jobs::update_remote_mirror::UpdateRemoteMirror;
use domain::mirrors::updates as mirror_updates;
use holdfast::config::ConfigOptions;
use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, remote_mirrors};
use storage::jobs::{JobAttempt, JobFailure};

use crate::support::code::Project;
use crate::support::git::address;
use crate::support::server::ROOT_TOKEN;
use crate::support::spaces::{id, project};
use crate::support::{Client, TestServer, on_every_database};

/// Creates a remote mirror of the project `/projects/:id` and returns its ID.
pub async fn mirror(client: &Client, base_path: &str, extra: Value) -> i64 {
    let mut body = json!({ "url": "https://git.example.com/a.git" });
    body.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
    id(&client.post(&format!("{base_path}/remote_mirrors"), body).await.expect(201).json())
}

/// A mirror of a project.
struct Mirror<'a> {
    server: &'a TestServer,
    id: i64,
    /// Path of the mirror in the API.
    path: String,
}

impl<'a> Mirror<'a> {
    /// Creates an enabled mirror at a URL.
    async fn at(source: &Project<'a>, url: &str, extra: Value) -> Self {
        let mut body = json!({ "url": url, "enabled": true });
        body.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        let all = format!("/projects/{}", source.id);
        let id = mirror(&source.server.root(), &all, body).await;
        Self { server: source.server, id, path: format!("{all}/remote_mirrors/{id}") }
    }

    /// Creates an enabled mirror in another project of the server.
    async fn to(source: &Project<'a>, target: &Project<'_>, extra: Value) -> Self {
        let url = address(&source.server.base, "root", ROOT_TOKEN, &target.path);
        Self::at(source, &url, extra).await
    }

    async fn state(&self) -> Value {
        self.server.root().get(&self.path).await.expect(200).json()
    }

    /// Requests an update, runs all jobs, and returns the mirror.
    async fn sync(&self) -> Value {
        self.server.root().post(&format!("{}/sync", self.path), json!({})).await.expect(204);
        self.server.finish_jobs().await;
        self.state().await
    }

    /// Runs one attempt of an update.
    async fn attempt(&self, number: i32) -> Result<(), JobFailure> {
        let job = UpdateRemoteMirror { mirror_id: self.id };
        mirror_updates::run_job(self.server.backend.clone(), job, JobAttempt { number, of: 8 }).await
    }

    /// Runs the last attempt of an update, which fails, and returns the error of the mirror.
    async fn last_error(&self) -> String {
        self.attempt(8).await.expect("a recorded failure");
        let state = self.state().await;
        assert_eq!(state["update_status"], "failed", "{state}");
        state["last_error"].as_str().expect("an error").to_owned()
    }
}

async fn remote_mirror_lifecycle(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let all = format!("/projects/{work}/remote_mirrors");
    assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
    let url = "https://ada:p%40ss@git.example.com/a/b.git";
    let created = root.post(&all, json!({ "url": url })).await.expect(201).json();
    let expected = json!({
        "id": created["id"], "enabled": false, "url": "https://*****:*****@git.example.com/a/b.git",
        "auth_method": "password", "update_status": "none", "last_update_at": null,
        "last_update_started_at": null, "last_successful_update_at": null, "last_error": null,
        "only_protected_branches": false, "keep_divergent_refs": false,
    });
    assert_eq!(created, expected);
    let one = format!("{all}/{}", created["id"]);
    assert_eq!(root.get(&one).await.expect(200).json(), created);
    // Without credentials, the URL is returned as it was sent.
    let plain = "HTTPS://Git.example.com:443/x";
    let body = json!({
        "url": plain, "enabled": true, "only_protected_branches": true, "keep_divergent_refs": true,
        "auth_method": "password",
    });
    let second = root.post(&all, body).await.expect(201).json();
    assert_eq!(second["url"], plain);
    for setting in ["enabled", "only_protected_branches", "keep_divergent_refs"] {
        assert_eq!(second[setting], true, "{setting}");
    }
    assert_eq!(root.get(&all).await.expect(200).json(), json!([created, second]));
    assert_eq!(root.get(&format!("{all}?per_page=1&page=2")).await.expect(200).json(), json!([second]));
    let change = json!({ "enabled": true, "keep_divergent_refs": true, "url": "https://other.example.com/" });
    let changed = root.put(&one, change).await.expect(200).json();
    assert_eq!((&changed["enabled"], &changed["keep_divergent_refs"]), (&json!(true), &json!(true)));
    assert_eq!((&changed["url"], &changed["only_protected_branches"]), (&expected["url"], &json!(false)));
    assert_eq!(root.put(&one, json!({})).await.expect(200).json(), changed);
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&one).await.expect(412);
    root.delete(&one).await.expect(204);
    for gone in [root.delete(&one).await, root.get(&one).await, root.put(&one, json!({})).await] {
        gone.expect(404);
    }
    root.post(&format!("{one}/sync"), json!({})).await.expect(404);
    assert_eq!(root.get(&all).await.expect(200).json(), json!([second]));
}

async fn credentials_are_stored_encrypted(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let url = "https://mirror-user:mirror-password@git.example.com/a.git";
    mirror(&root, &format!("/projects/{work}"), json!({ "url": url })).await;
    let rows = remote_mirrors::Entity::find().all(server.backend.database.read()).await.expect("mirrors");
    assert!(rows[0].credentials_encrypted.is_some());
    let text = format!("{:?}", rows[0]);
    assert!(!text.contains("mirror-user") && !text.contains("mirror-password"), "{text}");
}

async fn create_remote_mirror_rejects_invalid_urls_and_settings(server: TestServer) {
    let root = server.root();
    let all = format!("/projects/{}/remote_mirrors", project(&root, "work", json!({})).await);
    let local = "is blocked: Requests to the local network are not allowed";
    let scheme = "is blocked: Only allowed schemes are http, https";
    let invalid = "is blocked: URI is invalid";
    for (url, text) in [
        ("ssh://git@git.example.com/a.git", scheme),
        ("git://git.example.com/a.git", scheme),
        ("git@git.example.com:a.git", scheme),
        ("file:///etc/passwd", scheme),
        ("", scheme),
        ("http://", invalid),
        ("http://git.example.com/a b", invalid),
        ("http://git.example.com/a?b", invalid),
        ("https://*****:*****@git.example.com/a.git", invalid),
        ("https://ada:*****@git.example.com/a.git", invalid),
        ("https://*****@git.example.com/a.git", invalid),
        ("http://git.example.com/\u{0}", invalid),
        ("http://127.0.0.1/a.git", local),
        ("http://ada:x@localhost:3000/a.git", local),
        ("http://[::ffff:10.0.0.1]/a.git", local),
        ("http://2130706433/a.git", local),
        ("http://169.254.169.254/a.git", local),
    ] {
        let rejected = root.post(&all, json!({ "url": url })).await.expect(400).json();
        if url.contains('\u{0}') || url.is_empty() {
            continue;
        }
        assert_eq!(rejected["message"], json!({ "url": [text] }), "{url}");
        let is_local = text == local && !url.contains("169.254");
        let setting = if is_local { json!("allow_local_requests_from_hooks_and_services") } else { json!(null) };
        assert_eq!(rejected["setting"], setting, "{url}");
    }
    let url = "https://git.example.com/a.git";
    for (body, text) in [
        (json!({}), "url is missing"),
        (json!({ "url": url, "auth_method": "ssh_public_key" }), "auth_method does not have a valid value"),
        (json!({ "url": url, "enabled": "maybe" }), "enabled is invalid"),
        (json!({ "url": format!("https://git.example.com/{}", "a".repeat(2048)) }), "url is too long"),
    ] {
        let message = root.post(&all, body).await.expect(400).message();
        assert!(message.starts_with(text), "{message}");
    }
    assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
}

async fn project_has_at_most_ten_remote_mirrors(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    for _ in 0..10 {
        mirror(&root, &work, json!({})).await;
    }
    let body = json!({ "url": "https://git.example.com/a.git" });
    let rejected = root.post(&format!("{work}/remote_mirrors"), body).await.expect(400);
    assert_eq!(rejected.message(), "Maximum number of remote mirrors (10) exceeded");
}

async fn remote_mirrors_require_maintainer(server: TestServer) {
    let source = Project::empty(&server, "work", Visibility::Private).await;
    let mirror = Mirror::at(&source, "http://127.0.0.1:1/a.git", json!({})).await;
    let all = format!("/projects/{}/remote_mirrors", source.id);
    let developer = source.member("dev", AccessLevel::Developer).await;
    let outsider = server.create_user("outsider").await.client;
    let body = json!({ "url": "https://git.example.com/a.git" });
    for (client, status) in [(&developer, 403), (&outsider, 404)] {
        client.get(&all).await.expect(status);
        client.get(&mirror.path).await.expect(status);
        client.post(&all, body.clone()).await.expect(status);
        client.put(&mirror.path, json!({ "enabled": false })).await.expect(status);
        client.post(&format!("{}/sync", mirror.path), json!({})).await.expect(status);
        client.delete(&mirror.path).await.expect(status);
    }
    let maintainer = source.member("max", AccessLevel::Maintainer).await;
    maintainer.post(&all, body).await.expect(201);
    maintainer.delete(&mirror.path).await.expect(204);
}

async fn disabled_mirror_cannot_be_synced(server: TestServer) {
    let source = Project::with_commits(&server, "work", Visibility::Private).await;
    let mirror = Mirror::at(&source, "http://127.0.0.1:1/a.git", json!({ "enabled": false })).await;
    let rejected = server.root().post(&format!("{}/sync", mirror.path), json!({})).await.expect(400);
    assert_eq!(rejected.message(), "Cannot proceed with the push mirroring. Please verify your mirror configuration.");
    assert_eq!(mirror.state().await["update_status"], "none");
    // A job that waited when the mirror was disabled changes nothing.
    mirror.attempt(1).await.expect("nothing to do");
    let state = mirror.state().await;
    assert_eq!((&state["update_status"], &state["last_update_started_at"]), (&json!("none"), &Value::Null));
}

fn create_remote_mirror_rejects_invalid_urls_and_settings_options() -> ConfigOptions {
    ConfigOptions { allow_local_webhooks: Some(false), ..ConfigOptions::default() }
}

on_every_database![
    remote_mirror_lifecycle,
    credentials_are_stored_encrypted,
    create_remote_mirror_rejects_invalid_urls_and_settings with create_remote_mirror_rejects_invalid_urls_and_settings_options(),
    project_has_at_most_ten_remote_mirrors,
    remote_mirrors_require_maintainer,
    disabled_mirror_cannot_be_synced,
];
