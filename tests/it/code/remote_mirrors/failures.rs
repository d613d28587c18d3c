//! Remote repositories that are not available, wrong or hostile.

use std::time::Duration;

use holdfast::config::ConfigOptions;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use serde_json::json;
use storage::entities::{Visibility, jobs, now, remote_mirrors};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::Mirror;
use crate::support::code::Project;
use crate::support::git::address;
use crate::support::http_request::{receive, stalling_server};
use crate::support::webhook_receiver::{Receiver, Reply, unused_address};
use crate::support::{TestServer, on_every_database};

const LIST_TYPE: &str = "application/x-git-receive-pack-advertisement";

/// Starts a server that returns a list of references to each request, of this length, which may be longer than the
/// list.
async fn lister(list: &str, length: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://ada:pass-word@{}/a.git", listener.local_addr().expect("an address"));
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {LIST_TYPE}\r\nContent-Length: {length}\r\n\r\n{list}");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let head = head.clone();
            tokio::spawn(async move {
                receive(&mut stream).await?;
                stream.write_all(head.as_bytes()).await.ok()?;
                let mut left = length - head.split_once("\r\n\r\n")?.1.len();
                while left > 0 {
                    let piece = left.min(1 << 16);
                    stream.write_all(&vec![b'0'; piece]).await.ok()?;
                    left -= piece;
                }
                stream.shutdown().await.ok()
            });
        }
    });
    url
}

async fn wrong_credentials_fail_without_being_shown(server: TestServer) {
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let target = Project::empty(&server, "target", Visibility::Private).await;
    let url = address(&server.base, "root", "wrong-password", &target.path);
    let mirror = Mirror::at(&source, &url, json!({})).await;
    let state = mirror.sync().await;
    assert_eq!(
        (&state["update_status"], &state["last_error"]),
        (&json!("failed"), &json!("the remote repository requires other credentials"))
    );
    assert!(!state.to_string().contains("wrong-password"));
    assert!(state["last_successful_update_at"].is_null() && state["last_update_at"].is_string());
}

async fn credentials_in_errors_of_the_remote_are_masked(server: TestServer) {
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let line = "ERR ada with pass-word\x1b[31m was refused";
    let list = format!("{:04x}{line}", line.len() + 4);
    let mirror = Mirror::at(&source, &lister(&list, list.len()).await, json!({})).await;
    assert_eq!(mirror.last_error().await, "the remote repository reported: ***** with ***** [31m was refused");
}

async fn temporary_failure_is_retried_and_recorded(server: TestServer) {
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let receiver = Receiver::with(|_| Reply::Status(503)).await;
    let mirror = Mirror::at(&source, &receiver.url, json!({})).await;
    assert!(mirror.attempt(1).await.is_err());
    let state = mirror.state().await;
    let text = "the remote repository responded with the status 503";
    assert_eq!((&state["update_status"], &state["last_error"]), (&json!("to_retry"), &json!(text)));
    assert_eq!(mirror.last_error().await, text);
    let closed = Mirror::at(&source, &unused_address().await, json!({})).await;
    assert_eq!(closed.last_error().await, "the connection failed");
    let closing = Receiver::with(|_| Reply::Close).await;
    let closing = Mirror::at(&source, &closing.url, json!({})).await;
    assert_eq!(closing.last_error().await, "the remote repository closed the connection");
}

async fn requested_update_does_not_wait_for_delay_of_failed_update(server: TestServer) {
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let mirror = Mirror::at(&source, &unused_address().await, json!({})).await;
    let sync = format!("{}/sync", mirror.path);
    server.root().post(&sync, json!({})).await.expect(204);
    let db = server.backend.database.write();
    let waiting = async || {
        let all = jobs::Entity::find().filter(jobs::Column::Kind.eq("update_remote_mirror")).all(db);
        let mut all = all.await.expect("jobs");
        assert_eq!(all.len(), 1);
        all.remove(0)
    };
    let failed = jobs::ActiveModel {
        id: Set(waiting().await.id),
        attempts: Set(3),
        run_at: Set(now() + chrono::TimeDelta::hours(1)),
        ..Default::default()
    };
    failed.update(db).await.expect("a row");
    server.root().post(&sync, json!({})).await.expect(204);
    let job = waiting().await;
    assert!(job.attempts == 0 && job.run_at <= now(), "{job:?}");
}

async fn silent_remote_ends_the_update(server: TestServer) {
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let receiver = Receiver::with(|_| Reply::Hang).await;
    let mirror = Mirror::at(&source, &receiver.url, json!({})).await;
    assert_eq!(mirror.last_error().await, "the remote repository did not respond in time");
}

async fn redirects_are_not_followed(server: TestServer) {
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let mut other = Receiver::start().await;
    for to in [other.url.clone(), "http://169.254.169.254/latest".to_owned(), "file:///etc/passwd".to_owned()] {
        let mut receiver = Receiver::with(move |_| Reply::Redirect(301, to.clone())).await;
        let mirror = Mirror::at(&source, &receiver.url, json!({})).await;
        let text = "the remote repository redirects to another URL, which is not followed";
        assert_eq!(mirror.last_error().await, text);
        assert_eq!(receiver.rest().len(), 1);
        server.root().delete(&mirror.path).await.expect(204);
    }
    assert_eq!(other.rest().len(), 0);
}

async fn local_addresses_are_not_connected(server: TestServer) {
    let local = "the address is not allowed (setting: allow_local_requests_from_hooks_and_services)";
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let port = receiver.url.rsplit_once(':').expect("a port").1.to_owned();
    let mirror = Mirror::at(&source, "http://git.example.com/a.git", json!({})).await;
    // The URLs are stored directly, as if they had been allowed earlier or resolved differently.
    for (url, text) in [
        (format!("http://127.0.0.1:{port}/"), local),
        (format!("http://localhost:{port}/"), local),
        (format!("http://[::ffff:127.0.0.1]:{port}/"), local),
        ("http://169.254.169.254/".to_owned(), "the address is not allowed"),
        ("http://unused_address.invalid/".to_owned(), "the host does not resolve to an allowed address"),
    ] {
        let update =
            remote_mirrors::Entity::update_many().col_expr(remote_mirrors::Column::Url, Expr::value(url.clone()));
        update.exec(server.backend.database.write()).await.unwrap();
        assert_eq!(mirror.last_error().await, text, "{url}");
    }
    assert_eq!(receiver.rest().len(), 0);
}

async fn invalid_and_endless_lists_of_references_are_refused(server: TestServer) {
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let service = "001f# service=git-receive-pack\n0000";
    let id = "1".repeat(40);
    for (list, length, text) in [
        (String::new(), 1 << 30, "the response of the remote repository is too large"),
        ("<html></html>".to_owned(), 13, "the response is not valid in the Git protocol"),
        (format!("{service}0032{id} x"), 0, "the response is incomplete"),
        (format!("{service}0043{id} refs/heads/a b\0report\n0000"), 0, "the response is not valid in the Git protocol"),
    ] {
        let length = if length == 0 { list.len() } else { length };
        let mirror = Mirror::at(&source, &lister(&list, length).await, json!({})).await;
        assert_eq!(mirror.last_error().await, text);
        server.root().delete(&mirror.path).await.expect(204);
    }
    let page = Receiver::start().await;
    let mirror = Mirror::at(&source, &page.url, json!({})).await;
    assert_eq!(mirror.last_error().await, "the URL is not that of a Git repository");
}

async fn slow_mirrors_of_a_project_do_not_delay_other_projects(server: TestServer) {
    let slow = Project::with_commits(&server, "slow", Visibility::Private).await;
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let target = Project::empty(&server, "target", Visibility::Private).await;
    let url = stalling_server(LIST_TYPE).await;
    let mut mirrors = Vec::new();
    for _ in 0..6 {
        mirrors.push(Mirror::at(&slow, &url, json!({})).await);
    }
    let other = Mirror::to(&source, &target, json!({})).await;
    for mirror in mirrors.iter().chain([&other]) {
        server.root().post(&format!("{}/sync", mirror.path), json!({})).await.expect(204);
    }
    let slow_counts = async || {
        let mut statuses = Vec::new();
        for mirror in &mirrors {
            statuses.push(mirror.state().await["update_status"].clone());
        }
        let count = |status: &str| statuses.iter().filter(|found| **found == status).count();
        (count("started"), count("scheduled"))
    };
    let finished = async {
        while other.state().await["update_status"] != "finished" || slow_counts().await != (1, 5) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // The list of references of a slow mirror may take two minutes.
    let finished = tokio::time::timeout(Duration::from_secs(60), finished);
    server.run_jobs_in_slots(4, finished).await.expect("an update in time");
    assert_eq!(target.references("refs/heads"), source.references("refs/heads"));
}

fn local_addresses_are_not_connected_options() -> ConfigOptions {
    ConfigOptions { allow_local_webhooks: Some(false), ..ConfigOptions::default() }
}

on_every_database![
    wrong_credentials_fail_without_being_shown,
    credentials_in_errors_of_the_remote_are_masked,
    temporary_failure_is_retried_and_recorded,
    requested_update_does_not_wait_for_delay_of_failed_update,
    silent_remote_ends_the_update,
    redirects_are_not_followed,
    local_addresses_are_not_connected with local_addresses_are_not_connected_options(),
    invalid_and_endless_lists_of_references_are_refused,
    slow_mirrors_of_a_project_do_not_delay_other_projects,
];
