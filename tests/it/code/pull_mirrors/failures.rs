//! Remote repositories that are not available, wrong or hostile, and the schedule after failures.

use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::TimeDelta;
use domain::mirrors::pull_mirrors::schedule::{MAX_FAILURES, enqueue_due};
use holdfast::config::ConfigOptions;
use sea_orm::ActiveValue::Set;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::{Value, json};
use storage::clock::scheduling_time;
use storage::entities::remote_mirrors::MirrorStatus;
use storage::entities::{AccessLevel, Visibility, pull_mirror_refs, pull_mirrors};

use super::Pull;
use super::remote::{Responses, cutting_proxy, list, packet, result, serve};
use crate::support::code::Project;
use crate::support::git::address;
use crate::support::http_request::stalling_server;
use crate::support::server::ROOT_TOKEN;
use crate::support::webhook_receiver::{Receiver, Reply, unused_address};
use crate::support::{TestServer, on_every_database};

/// A pack without objects.
const EMPTY_PACK: &[u8] =
    b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";

/// Changes the row of a mirror.
async fn change(pull: &Pull<'_>, row: pull_mirrors::ActiveModel) {
    let update = pull_mirrors::Entity::update_many().set(row);
    update.exec(pull.server.backend.database.write()).await.expect("a change");
}

/// Updates a project with commits from a server, and returns the error. The refs of the project must not change.
async fn error_with(target: &Project<'_>, responses: Responses) -> String {
    let before = target.git(&["for-each-ref"]);
    let pull = Pull::from_url(target, &serve(responses).await).await;
    let error = pull.error().await;
    assert_eq!(target.git(&["for-each-ref"]), before);
    target.fsck();
    error
}

fn responses(list: Vec<u8>, result: Vec<u8>) -> Responses {
    Responses { list, result, missing: 0 }
}

async fn wrong_credentials_and_missing_repositories_are_recorded(server: TestServer) {
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let target = Project::empty(&server, "target", Visibility::Private).await;
    let pull = Pull::from_url(&target, &address(&server.base, "root", "wrong-password", &source.path)).await;
    assert_eq!(pull.error().await, "the remote repository requires other credentials");
    let state = pull.state().await;
    assert!(!state.to_string().contains("wrong-password"));
    assert!(state["last_successful_update_at"].is_null() && state["last_update_at"].is_string());
    for (reply, text) in [
        (Reply::Status(404), "the remote repository was not found"),
        (Reply::Status(403), "the remote repository does not allow the fetch"),
        (Reply::Status(503), "the remote repository responded with the status 503"),
        (Reply::Status(200), "the URL is not that of a Git repository"),
        (Reply::Close, "the remote repository closed the connection"),
    ] {
        let receiver = Receiver::with(move |_| reply.clone()).await;
        pull.set(json!({ "url": receiver.url })).await;
        assert_eq!(pull.error().await, text);
    }
    pull.set(json!({ "url": unused_address().await })).await;
    assert_eq!(pull.error().await, "the connection failed");
    let mut other = Receiver::start().await;
    let to = other.url.clone();
    let receiver = Receiver::with(move |_| Reply::Redirect(302, to.clone())).await;
    pull.set(json!({ "url": receiver.url })).await;
    assert_eq!(pull.error().await, "the remote repository redirects to another URL, which is not followed");
    assert_eq!(other.rest().len(), 0);
}

async fn invalid_lists_of_references_are_refused(server: TestServer) {
    let target = Project::with_commits(&server, "target", Visibility::Private).await;
    let id = target.id("main");
    let many: Vec<String> = (0..100_001).map(|number| format!("{id} refs/heads/b{number}")).collect();
    let malformed = "the response is not valid in the Git protocol";
    for (body, text) in [
        (b"<html></html>".to_vec(), malformed),
        (list(&[format!("{id} refs/heads/a b")]), malformed),
        (list(&[format!("{id} refs/heads/a\x1b")]), malformed),
        (list(&["x".to_owned()]), malformed),
        (list(&[format!("{id} refs/heads/a")])[..90].to_vec(), "the response is incomplete"),
        (list(&many), "the remote repository has too many references"),
        (vec![b'0'; (16 << 20) + 1], "the response of the remote repository is too large"),
        (packet(b"ERR ada with pass-word\x1b[31m"), "the remote repository reported: ***** with ***** [31m"),
    ] {
        assert_eq!(error_with(&target, responses(body, Vec::new())).await, text);
    }
    for name in ["../x", "-x", "HEAD", "a..b", "a.lock", &id, "refs/heads/x"] {
        let error = error_with(&target, responses(list(&[format!("{id} refs/heads/{name}")]), Vec::new())).await;
        assert!(error.starts_with("Some refs have not been updated:\nrefs/heads/"), "{name}: {error}");
        assert!(error.ends_with("is not allowed."), "{name}: {error}");
    }
    // Refs of the server are no branches.
    let hidden = ["refs/keep-around/x", "refs/merge-requests/1/head", "refs/replace/x", "HEAD"];
    let lines: Vec<String> = hidden.iter().map(|name| format!("{id} {name}")).collect();
    let before = target.git(&["for-each-ref"]);
    let url = serve(responses(list(&lines), Vec::new())).await;
    Pull::from_url(&target, &url).await.pull_all().await;
    assert_eq!(target.git(&["for-each-ref"]), before);
}

async fn invalid_packs_change_nothing(server: TestServer) {
    let target = Project::with_commits(&server, "target", Visibility::Private).await;
    let unknown = "1".repeat(40);
    let refs = || list(&[format!("{unknown} refs/heads/new"), format!("{unknown} refs/heads/main")]);
    let with = |result: Vec<u8>| responses(refs(), result);
    // The objects that the list names are not in the pack.
    let error = error_with(&target, with(result(EMPTY_PACK))).await;
    assert!(error.contains("refs/heads/new: missing necessary objects"), "{error}");
    let mut wrong = EMPTY_PACK.to_vec();
    wrong[11] = 1;
    let mut truncated = result(EMPTY_PACK);
    truncated.truncate(truncated.len() - 4);
    for (body, text) in [
        (result(b"not a pack"), "the objects are not valid: "),
        (result(&wrong), "the objects are not valid: "),
        (result(b""), "the objects are not valid: "),
        (truncated, "the response is incomplete"),
        (b"<html>".to_vec(), "the response is not valid in the Git protocol"),
        (packet(b"NAK\n"), "the response is incomplete"),
        (packet(b"\x03no pass-word"), "the remote repository reported: no *****"),
        (packet(b"ERR upload-pack: not our ref"), "the remote repository reported: upload-pack: not our ref"),
    ] {
        let error = error_with(&target, with(body)).await;
        assert!(error.starts_with(text), "{error}");
    }
    let broken = Responses { missing: 1 << 20, ..with(result(EMPTY_PACK)[..30].to_vec()) };
    assert_eq!(error_with(&target, broken).await, "the remote repository closed the connection");
}

async fn silent_remote_ends_the_update(server: TestServer) {
    let target = Project::with_commits(&server, "target", Visibility::Private).await;
    let before = target.git(&["for-each-ref"]);
    let receiver = Receiver::with(|_| Reply::Hang).await;
    let pull = Pull::from_url(&target, &receiver.url).await;
    assert_eq!(pull.error().await, "the remote repository did not respond in time");
    assert_eq!(target.git(&["for-each-ref"]), before);
}

async fn pack_that_stops_in_the_middle_changes_nothing(server: TestServer) {
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let target = Project::empty(&server, "target", Visibility::Private).await;
    let (base, is_complete) = cutting_proxy(&server.base).await;
    let before = (target.git(&["for-each-ref"]), target.git(&["count-objects", "-v"]));
    let pull = Pull::from_url(&target, &address(&base, "root", ROOT_TOKEN, &source.path)).await;
    assert_eq!(pull.error().await, "the remote repository closed the connection");
    assert_eq!((target.git(&["for-each-ref"]), target.git(&["count-objects", "-v"])), before);
    target.fsck();
    // The next update succeeds.
    is_complete.store(true, Ordering::Relaxed);
    pull.pull_all().await;
    assert_eq!(target.references("refs/heads"), source.references("refs/heads"));
    target.fsck();
}

async fn large_pack_is_refused(server: TestServer) {
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let target = Project::empty(&server, "target", Visibility::Private).await;
    let pull = Pull::from_project(&target, &source).await;
    assert_eq!(pull.error().await, "the pack of the remote repository is too large (setting: max_push_bytes)");
    assert!(target.references("refs/heads").is_empty());
}

async fn local_addresses_are_not_connected(server: TestServer) {
    let local = "the address is not allowed (setting: allow_local_requests_from_hooks_and_services)";
    let target = Project::empty(&server, "target", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let port = receiver.url.rsplit_once(':').expect("a port").1.to_owned();
    let pull = Pull::from_url(&target, "http://git.example.com/a.git").await;
    // The URLs are stored directly, as if they had been allowed earlier or resolved differently.
    for (url, text) in [
        (format!("http://127.0.0.1:{port}/"), local),
        (format!("http://localhost:{port}/"), local),
        ("http://169.254.169.254/".to_owned(), "the address is not allowed"),
        ("http://unused_address.invalid/".to_owned(), "the host does not resolve to an allowed address"),
    ] {
        change(&pull, pull_mirrors::ActiveModel { url: Set(url.clone()), ..Default::default() }).await;
        pull.run().await;
        assert_eq!(pull.state().await["last_error"], text, "{url}");
    }
    assert_eq!(receiver.rest().len(), 0);
}

async fn updates_stop_after_many_failures_until_one_is_started(server: TestServer) {
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let target = Project::empty(&server, "target", Visibility::Private).await;
    let pull = Pull::from_url(&target, &unused_address().await).await;
    server.finish_jobs().await;
    let row = pull.row().await;
    assert_eq!((row.failures, row.update_status), (1, MirrorStatus::Failed));
    let delay = row.next_update_at.expect("a time") - scheduling_time();
    assert!(delay > TimeDelta::minutes(4) && delay <= TimeDelta::minutes(5), "{delay}");
    let almost = pull_mirrors::ActiveModel { failures: Set(MAX_FAILURES - 1), ..Default::default() };
    change(&pull, almost).await;
    pull.run().await;
    let row = pull.row().await;
    assert_eq!((row.failures, row.next_update_at), (MAX_FAILURES, None));
    assert_eq!(enqueue_due(&server.backend).await.expect("a number"), 0);
    // A request starts an update again, also one that enables the mirror or changes the URL.
    assert_eq!(pull.set(json!({ "enabled": true })).await["update_status"], "scheduled");
    server.finish_jobs().await;
    assert_eq!(pull.row().await.failures, 1);
    assert_eq!(pull.error().await, "the connection failed");
    assert_eq!(pull.row().await.failures, 1);
    pull.set(json!({ "url": address(&server.base, "root", ROOT_TOKEN, &source.path) })).await;
    server.finish_jobs().await;
    let row = pull.row().await;
    assert_eq!((row.failures, row.update_status), (0, MirrorStatus::Finished));
    assert!(row.next_update_at.expect("a time") - scheduling_time() > TimeDelta::minutes(29));
}

async fn due_updates_are_enqueued_once(server: TestServer) {
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let target = Project::empty(&server, "target", Visibility::Private).await;
    let pull = Pull::from_project(&target, &source).await;
    server.finish_jobs().await;
    let backend = &server.backend;
    assert_eq!(enqueue_due(backend).await.expect("a number"), 0);
    // A time far in the future was set before the clock was set back.
    for offset in [TimeDelta::seconds(-1), TimeDelta::days(1)] {
        let time = Some(scheduling_time() + offset);
        change(&pull, pull_mirrors::ActiveModel { next_update_at: Set(time), ..Default::default() }).await;
        let (one, two) = tokio::join!(enqueue_due(backend), enqueue_due(backend));
        assert_eq!(one.expect("a number") + two.expect("a number"), 1);
        assert_eq!(pull.state().await["update_status"], "scheduled");
        source.git(&["branch", &format!("b{}", offset.num_seconds()), "main"]);
        server.finish_jobs().await;
        assert_eq!(pull.state().await["update_status"], "finished");
        assert_eq!(target.references("refs/heads"), source.references("refs/heads"));
    }
    // Neither a disabled mirror nor an archived project is updated.
    let past = || pull_mirrors::ActiveModel {
        next_update_at: Set(Some(scheduling_time() - TimeDelta::hours(1))),
        update_status: Set(MirrorStatus::Scheduled),
        ..Default::default()
    };
    for disable in [true, false] {
        match disable {
            true => drop(pull.set(json!({ "enabled": false })).await),
            false => {
                pull.set(json!({ "enabled": true })).await;
                server.finish_jobs().await;
                target.archive().await;
            }
        }
        change(&pull, past()).await;
        assert_eq!(enqueue_due(backend).await.expect("a number"), 0);
        pull.run().await;
        assert_eq!(pull.state().await["update_status"], "none");
    }
}

async fn interrupted_update_runs_again(server: TestServer) {
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let target = Project::empty(&server, "target", Visibility::Private).await;
    let pull = Pull::from_project(&target, &source).await;
    server.finish_jobs().await;
    // The server was killed after the refs moved, and before the targets and the result were recorded.
    let started = pull_mirrors::ActiveModel { update_status: Set(MirrorStatus::Started), ..Default::default() };
    change(&pull, started).await;
    let deleted = pull_mirror_refs::Entity::delete_many();
    deleted.exec(server.backend.database.write()).await.expect("a deletion");
    assert_eq!(pull.state().await["update_status"], "started");
    pull.run().await;
    let state = pull.state().await;
    assert_eq!((&state["update_status"], &state["last_error"]), (&json!("finished"), &Value::Null));
    source.git(&["branch", "-D", "merged"]);
    pull.pull_all().await;
    assert_eq!(target.references("refs/heads"), ["feature/x", "main"]);
}

async fn slow_mirrors_of_a_user_do_not_delay_other_users(server: TestServer) {
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let target = Project::empty(&server, "target", Visibility::Private).await;
    let user = server.create_user("max").await;
    let url = stalling_server("application/x-git-upload-pack-advertisement").await;
    for number in 0..6 {
        let slow = Project::empty(&server, &format!("slow-{number}"), Visibility::Private).await;
        server.insert_member(slow.id, user.id, AccessLevel::Maintainer).await;
        let path = format!("/projects/{}/mirror/pull", slow.id);
        user.client.put(&path, json!({ "url": url, "enabled": true })).await.expect(200);
    }
    let pull = Pull::from_project(&target, &source).await;
    let started = async || {
        let started = pull_mirrors::Entity::find()
            .filter(pull_mirrors::Column::UpdateStatus.eq(MirrorStatus::Started))
            .count(server.backend.database.read());
        started.await.expect("a number")
    };
    let finished = async {
        while pull.state().await["update_status"] != "finished" || started().await != 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // The list of references of a slow mirror may take two minutes.
    let finished = tokio::time::timeout(Duration::from_secs(60), finished);
    server.run_jobs_in_slots(4, finished).await.expect("an update in time");
    assert_eq!(target.references("refs/heads"), source.references("refs/heads"));
}

fn large_pack_is_refused_options() -> ConfigOptions {
    ConfigOptions { max_push_bytes: Some(100), ..ConfigOptions::default() }
}

fn local_addresses_are_not_connected_options() -> ConfigOptions {
    ConfigOptions { allow_local_webhooks: Some(false), ..ConfigOptions::default() }
}

on_every_database![
    wrong_credentials_and_missing_repositories_are_recorded,
    invalid_lists_of_references_are_refused,
    invalid_packs_change_nothing,
    silent_remote_ends_the_update,
    pack_that_stops_in_the_middle_changes_nothing,
    large_pack_is_refused with large_pack_is_refused_options(),
    local_addresses_are_not_connected with local_addresses_are_not_connected_options(),
    updates_stop_after_many_failures_until_one_is_started,
    due_updates_are_enqueued_once,
    interrupted_update_runs_again,
    slow_mirrors_of_a_user_do_not_delay_other_users,
];
