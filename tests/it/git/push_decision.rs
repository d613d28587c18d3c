//! Pushes are authorized again when their pack is complete, and before the first ref moves.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use futures_util::StreamExt;
use git::RepositoryId;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::json;
use storage::database::{Database, DatabaseOptions};
use storage::entities::ref_updates::{self, RefUpdateState};
use storage::entities::{AccessLevel, Visibility, projects};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::registry::registry_protocol::basic;
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN};
use crate::support::users::TestUser;
use crate::support::{Client, DatabaseKind, TestServer, client, on_every_database};

/// Time limit of each wait.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A push whose client pauses in the middle of the pack.
pub struct SlowPush {
    rest: Vec<u8>,
    body: mpsc::UnboundedSender<Vec<u8>>,
    response: JoinHandle<String>,
}

impl SlowPush {
    /// Sends the commands and the first half of a pack with the commit `new`. Returns when the server has recorded the
    /// intent, so the push was authorized.
    pub async fn begin(
        (base, path): (&str, &str),
        (name, password): (&str, &str),
        db: &Database,
        work: &Work,
        (reference, old, new): (&str, Option<&str>, &str),
    ) -> Self {
        let pack = work.command(&["pack-objects", "--all", "--stdout", "--quiet"]).stdin(Stdio::null()).output();
        let mut pack = pack.await.expect("git").stdout;
        let rest = pack.split_off(pack.len() / 2);
        let old = old.map_or("0".repeat(40), str::to_owned);
        let line = format!("{old} {new} {reference}\0report-status side-band-64k");
        let (body, parts) = mpsc::unbounded_channel();
        body.send([format!("{:04x}{line}0000", line.len() + 4).into_bytes(), pack].concat()).expect("a body");
        let parts = futures_util::stream::unfold(parts, async |mut parts: mpsc::UnboundedReceiver<Vec<u8>>| {
            let part = parts.recv().await?;
            Some((Ok::<_, std::io::Error>(part), parts))
        });
        let before = intents(db).await;
        let request = client::http()
            .build()
            .expect("a client")
            .post(format!("{base}/{path}.git/git-receive-pack"))
            .header("Authorization", basic(name, password))
            .header("Content-Type", "application/x-git-receive-pack-request")
            .body(reqwest::Body::wrap_stream(parts.boxed()));
        let response = tokio::spawn(async move {
            let bytes = match request.send().await {
                Ok(response) => response.bytes().await.unwrap_or_default(),
                Err(_) => Default::default(),
            };
            unpacked(&bytes)
        });
        wait(async || intents(db).await > before).await;
        Self { rest, body, response }
    }

    /// Sends the rest of the pack.
    fn send_rest(&mut self) {
        self.body.send(std::mem::take(&mut self.rest)).expect("a body");
        (self.body, _) = mpsc::unbounded_channel();
    }

    /// Sends the rest of the pack and returns the text of the response.
    pub async fn finish(mut self) -> String {
        self.send_rest();
        self.ended().await
    }

    /// Returns the text of the response after the rest was sent.
    async fn ended(self) -> String {
        tokio::time::timeout(TIME_LIMIT, self.response).await.expect("a response in time").expect("a response")
    }
}

/// Returns the content of all packets of a response. Long messages are split into several.
fn unpacked(mut bytes: &[u8]) -> String {
    let mut text = Vec::new();
    while let Some((length, rest)) = bytes.split_at_checked(4) {
        let length = std::str::from_utf8(length).ok().and_then(|length| usize::from_str_radix(length, 16).ok());
        let length = length.expect("a length").saturating_sub(4);
        let (packet, rest) = rest.split_at_checked(length).expect("a packet");
        text.extend_from_slice(packet.get(1..).unwrap_or_default());
        bytes = rest;
    }
    String::from_utf8(text).expect("UTF-8")
}

async fn intents(db: &Database) -> u64 {
    ref_updates::Entity::find().count(db.read()).await.expect("a count")
}

async fn pending_intents(db: &Database) -> u64 {
    let pending = ref_updates::Entity::find().filter(ref_updates::Column::State.eq(RefUpdateState::Pending));
    pending.count(db.read()).await.expect("a count")
}

async fn wait(condition: impl AsyncFn() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TIME_LIMIT, waiting).await.expect("the condition becomes true");
}

/// A private project with the branches `main` and `topic`, and a Developer who pushes to `topic`.
struct Sample {
    project: projects::Model,
    dev: TestUser,
    work: Work,
    /// The head of `topic`.
    old: String,
    /// A commit on top of it, which is pushed.
    new: String,
}

async fn sample(server: &TestServer) -> Sample {
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    let dev = server.create_user("dev").await;
    server.insert_member(project.id, dev.id, AccessLevel::Maintainer).await;
    let work = Work::new().await;
    let old = work.commit("a", "1").await;
    let address = crate::support::git::address(&server.base, "dev", &dev.token, "g/p");
    work.git(&["push", "--quiet", &address, "main", "main:topic"]).await;
    let member = format!("/projects/{}/members/{}", project.id, dev.id);
    server.root().put(&member, json!({"access_level": 30})).await.expect(200);
    let new = work.commit("b", "2").await;
    Sample { project, dev, work, old, new }
}

impl Sample {
    async fn begin(&self, server: &TestServer, password: &str) -> SlowPush {
        let update = ("refs/heads/topic", Some(self.old.as_str()), self.new.as_str());
        let db = &server.backend.database;
        SlowPush::begin((&server.base, "g/p"), ("dev", password), db, &self.work, update).await
    }

    async fn topic(&self, server: &TestServer) -> String {
        let branch = server.repository(self.project.id).branch("topic").await;
        branch.expect("a branch").commit.to_string()
    }

    /// Checks that the push is refused with this text and moves no ref.
    async fn refused(&self, server: &TestServer, push: SlowPush, reason: &str) {
        let response = push.finish().await;
        assert!(response.contains(reason), "{reason}: {response}");
        assert!(response.contains("ng refs/heads/topic pre-receive hook declined"), "{response}");
        assert_eq!(self.topic(server).await, self.old);
        assert_eq!(pending_intents(&server.backend.database).await, 0);
    }
}

async fn slow_push_that_stays_allowed_succeeds(server: TestServer) {
    let sample = sample(&server).await;
    let push = sample.begin(&server, &sample.dev.token).await;
    let path = format!("/projects/{}", sample.project.id);
    server.root().put(&path, json!({"path": "renamed"})).await.expect(200);
    let response = push.finish().await;
    assert!(response.contains("unpack ok") && response.contains("ok refs/heads/topic"), "{response}");
    assert_eq!(sample.topic(&server).await, sample.new);
    assert_eq!(pending_intents(&server.backend.database).await, 0);
}

async fn slow_push_is_refused_after_branch_is_protected(server: TestServer) {
    let sample = sample(&server).await;
    let push = sample.begin(&server, &sample.dev.token).await;
    let path = format!("/projects/{}/repository/branches/topic/protect", sample.project.id);
    server.root().put(&path, json!({})).await.expect(200);
    let reason = "You are not allowed to push code to the protected branch topic.";
    sample.refused(&server, push, reason).await;
}

async fn slow_push_is_refused_after_member_is_removed(server: TestServer) {
    let sample = sample(&server).await;
    let push = sample.begin(&server, &sample.dev.token).await;
    let path = format!("/projects/{}/members/{}", sample.project.id, sample.dev.id);
    server.root().delete(&path).await.expect(204);
    sample.refused(&server, push, "The project you were looking for could not be found").await;
}

async fn slow_push_is_refused_after_role_is_lowered(server: TestServer) {
    let sample = sample(&server).await;
    let push = sample.begin(&server, &sample.dev.token).await;
    let path = format!("/projects/{}/members/{}", sample.project.id, sample.dev.id);
    server.root().put(&path, json!({"access_level": 20})).await.expect(200);
    sample.refused(&server, push, "You are not allowed to push code to this project.").await;
}

async fn slow_push_is_refused_after_user_is_blocked(server: TestServer) {
    let sample = sample(&server).await;
    let push = sample.begin(&server, &sample.dev.token).await;
    server.root().post(&format!("/users/{}/block", sample.dev.id), json!({})).await.expect(201);
    sample.refused(&server, push, "Your account has been blocked.").await;
}

async fn slow_push_is_refused_after_token_is_revoked(server: TestServer) {
    let sample = sample(&server).await;
    let push = sample.begin(&server, &sample.dev.token).await;
    let token = server.token_row(&sample.dev.token).await;
    server.root().delete(&format!("/personal_access_tokens/{}", token.id)).await.expect(204);
    sample.refused(&server, push, "Your credentials are no longer valid.").await;
}

async fn slow_push_is_refused_after_password_is_changed(server: TestServer) {
    let sample = sample(&server).await;
    server.set_password(&sample.dev).await;
    let push = sample.begin(&server, crate::support::users::PASSWORD).await;
    let path = format!("/users/{}", sample.dev.id);
    server.root().put(&path, json!({"password": "another password of dev"})).await.expect(200);
    sample.refused(&server, push, "Your credentials are no longer valid.").await;
}

async fn slow_push_is_refused_after_project_is_archived(server: TestServer) {
    let sample = sample(&server).await;
    let push = sample.begin(&server, &sample.dev.token).await;
    server.root().post(&format!("/projects/{}/archive", sample.project.id), json!({})).await.expect(201);
    sample.refused(&server, push, "You cannot push to this project: it is archived").await;
}

async fn slow_push_is_refused_after_project_is_deleted(server: TestServer) {
    let sample = sample(&server).await;
    let push = sample.begin(&server, &sample.dev.token).await;
    server.root().delete(&format!("/projects/{}", sample.project.id)).await.expect(202);
    let response = push.finish().await;
    assert!(response.contains("could not be found"), "{response}");
    assert!(!response.contains("ok refs/heads/topic"), "{response}");
    server.finish_jobs().await;
    assert_eq!(pending_intents(&server.backend.database).await, 0);
}

/// A Maintainer may replace a branch until it is protected. The hook then checks its fast-forward after the first decision.
async fn slow_force_push_is_refused_after_branch_is_protected_for_developers(server: TestServer) {
    let mut sample = sample(&server).await;
    sample.work.git(&["reset", "--quiet", "--hard", "HEAD~2"]).await;
    sample.new = sample.work.commit("c", "3").await;
    let push = sample.begin(&server, &sample.dev.token).await;
    let path = format!("/projects/{}/repository/branches/topic/protect", sample.project.id);
    server.root().put(&path, json!({"developers_can_push": true})).await.expect(200);
    sample.refused(&server, push, "You are not allowed to force push to the branch topic.").await;
    // A fast-forward passes the same check.
    sample.work.git(&["reset", "--quiet", "--hard", &sample.old]).await;
    sample.new = sample.work.commit("d", "4").await;
    let unprotect = format!("/projects/{}/repository/branches/topic/unprotect", sample.project.id);
    server.root().put(&unprotect, json!({})).await.expect(200);
    let push = sample.begin(&server, &sample.dev.token).await;
    server.root().put(&path, json!({"developers_can_push": true})).await.expect(200);
    let response = push.finish().await;
    assert!(response.contains("ok refs/heads/topic"), "{response}");
    assert_eq!(sample.topic(&server).await, sample.new);
}

/// Runs in Git after the decision, while the references are locked and before they move. Waits for a line in a pipe.
const WAITING_HOOK: &str = r#"#!/bin/sh
if [ "$1" = prepared ] && mkfifo waiting; then read -r line <waiting; fi
"#;

/// SQLite has one writer, so another write would wait for a transaction that is open while Git runs.
async fn other_writes_succeed_while_git_executes_a_push(server: TestServer) {
    let sample = sample(&server).await;
    let repositories = server.data().join("repositories");
    // The push of the sample has created the directory of the hooks.
    let hooks =
        fs::read_dir(repositories.join(".hooks")).expect("hooks").next().expect("a version").expect("a version");
    let hook = hooks.path().join("reference-transaction");
    fs::write(&hook, WAITING_HOOK).expect("a hook");
    fs::set_permissions(&hook, Permissions::from_mode(0o700)).expect("a mode");
    let pipe = repositories.join(RepositoryId::of_project(sample.project.id).relative_path()).join("waiting");

    let mut push = sample.begin(&server, &sample.dev.token).await;
    push.send_rest();
    wait(async || pipe.exists()).await;
    let label = json!({"name": "bug", "color": "#123456"});
    server.root().post(&format!("/projects/{}/labels", sample.project.id), label).await.expect(201);
    assert_eq!((sample.topic(&server).await, pending_intents(&server.backend.database).await), (sample.old.clone(), 1));
    // Opening a pipe for reading and writing never waits. It stays open until the hook has read the line.
    let mut pipe = File::options().read(true).write(true).open(pipe).expect("a pipe");
    pipe.write_all(b"\n").expect("a line");
    let response = push.ended().await;
    assert!(response.contains("ok refs/heads/topic"), "{response}");
    assert_eq!((sample.topic(&server).await, pending_intents(&server.backend.database).await), (sample.new, 0));
}

async fn opened(site: &Site) -> Database {
    Database::connect(&site.database_url(), &DatabaseOptions::default()).await.expect("a database")
}

/// Returns a commit on top of `main` of the imported project.
async fn imported(site: &Site, work: &Work) -> (String, String) {
    let old = work.commit("a", "1").await;
    site.import("p", &work.path).await;
    (old, work.commit("b", "2").await)
}

/// A change of the permission to push, and the text of the refusal.
const CHANGES: [(&str, &str); 5] = [
    ("protect", "You are not allowed to push code to the protected branch"),
    ("remove", "The project you were looking for could not be found"),
    ("block", "Your account has been blocked."),
    ("revoke", "Your credentials are no longer valid."),
    ("archive", "You cannot push to this project: it is archived"),
];

async fn changes_on_one_node_refuse_slow_pushes_to_another_node() {
    let site = Site::migrated(&DatabaseKind::postgresql()).await;
    let nodes = [site.serve(&[]).await, site.serve(&[]).await];
    let work = Work::new().await;
    let (old, new) = imported(&site, &work).await;
    let db = opened(&site).await;
    let root = Client::new(&nodes[1].base, Some(TOKEN));
    root.put("/projects/root%2Fp", json!({"visibility": "private"})).await.expect(200);
    for (change, reason) in CHANGES {
        let name = format!("dev-{change}");
        let user = json!({"username": name, "name": name, "email": format!("{name}@example.com"), "password": TOKEN});
        let user = root.post("/users", user).await.expect(201).json()["id"].clone();
        let tokens = format!("/users/{user}/personal_access_tokens");
        let token = root.post(&tokens, json!({"name": "push", "scopes": ["api"]})).await.expect(201).json();
        let member = json!({"user_id": user, "access_level": 30});
        root.post("/projects/root%2Fp/members", member).await.expect(201);
        let branch = format!("topic-{change}");
        let branches = "/projects/root%2Fp/repository/branches";
        root.post(branches, json!({"branch": branch, "ref": "main"})).await.expect(201);
        let reference = format!("refs/heads/{branch}");
        let update = (reference.as_str(), Some(old.as_str()), new.as_str());
        let password = token["token"].as_str().expect("a token");
        let push = SlowPush::begin((&nodes[0].base, "root/p"), (&name, password), &db, &work, update).await;
        let changed = match change {
            "protect" => root.put(&format!("{branches}/{branch}/protect"), json!({})).await,
            "remove" => root.delete(&format!("/projects/root%2Fp/members/{user}")).await,
            "block" => root.post(&format!("/users/{user}/block"), json!({})).await,
            "revoke" => root.delete(&format!("/personal_access_tokens/{}", token["id"])).await,
            _ => root.post("/projects/root%2Fp/archive", json!({})).await,
        };
        assert!(matches!(changed.status, 200..=204), "{change}: {}", changed.text());
        let response = push.finish().await;
        assert!(response.contains(reason), "{change}: {response}");
        let head = root.get(&format!("{branches}/{branch}")).await.expect(200);
        assert_eq!(head.json()["commit"]["id"], old, "{change}");
        assert_eq!(pending_intents(&db).await, 0);
    }
    for node in nodes {
        node.stop().await;
    }
    site.remove().await;
}

/// The lock of a table stops the decision, so that the hook waits for it.
async fn server_killed_while_hook_waits_moves_no_ref() {
    let site = Site::migrated(&DatabaseKind::postgresql()).await;
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    let (old, new) = imported(&site, &work).await;
    let db = opened(&site).await;
    let update = ("refs/heads/main", Some(old.as_str()), new.as_str());
    let mut push = SlowPush::begin((&server.base, "root/p"), ("root", TOKEN), &db, &work, update).await;
    let lock = db.begin().await.expect("a transaction");
    lock.execute_unprepared("LOCK TABLE protected_branches IN ACCESS EXCLUSIVE MODE").await.expect("a lock");
    push.send_rest();
    let hooks = || {
        let programs = server.descendants().into_iter();
        programs.filter(|(_, line)| line.contains("hooks") && line.contains("pre-receive")).map(|(id, _)| id)
    };
    wait(async || hooks().next().is_some()).await;
    // The decision waits for the lock.
    let blocked = "SELECT 1 FROM pg_locks WHERE NOT granted";
    wait(async || {
        let statement = sea_orm::Statement::from_string(sea_orm::DbBackend::Postgres, blocked);
        db.read().query_one_raw(statement).await.expect("a query").is_some()
    })
    .await;
    let hook = hooks().next().expect("a hook");
    server.kill().await;
    wait(async || !fs::exists(format!("/proc/{hook}")).expect("processes")).await;
    lock.rollback().await.expect("a rollback");
    let server = site.serve(&[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    let branch = client.get("/projects/root%2Fp/repository/branches/main").await.expect(200);
    assert_eq!(branch.json()["commit"]["id"], old);
    // The same push succeeds now.
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    server.stop().await;
    site.assert_sound(1).await;
    site.remove().await;
}

on_every_database![
    other_writes_succeed_while_git_executes_a_push,
    slow_push_that_stays_allowed_succeeds,
    slow_push_is_refused_after_branch_is_protected,
    slow_push_is_refused_after_member_is_removed,
    slow_push_is_refused_after_role_is_lowered,
    slow_push_is_refused_after_user_is_blocked,
    slow_push_is_refused_after_token_is_revoked,
    slow_push_is_refused_after_password_is_changed,
    slow_push_is_refused_after_project_is_archived,
    slow_push_is_refused_after_project_is_deleted,
    slow_force_push_is_refused_after_branch_is_protected_for_developers,
];
harness::tests![requires harness::postgresql::missing; changes_on_one_node_refuse_slow_pushes_to_another_node,
    server_killed_while_hook_waits_moves_no_ref,
];
