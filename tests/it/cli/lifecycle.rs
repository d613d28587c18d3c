//! Server startup, the worker and shutdown.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast::config::ConfigOptions;
use holdfast::server;
use rand::RngExt;
use storage::database::{Database, DatabaseOptions};
use storage::entities::instances;
use storage::jobs;

use crate::support::git::Work;
use crate::support::process::{Process, Site, TOKEN, on_every_site};
use crate::support::raw_http::RawConnection;

async fn worker_runs_jobs_of_server_without_worker(site: Site) {
    let server = site.serve(&["--no-worker"]).await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let database = Database::connect(&site.database_url(), &DatabaseOptions::default()).await.unwrap();
    let waiting = jobs::backlog(database.read()).await.unwrap();
    assert_eq!((waiting.waiting, waiting.running, waiting.dead), (1, 0, 0));
    let mut worker = site.command(&["worker"]).spawn().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(15);
    loop {
        let left = jobs::backlog(database.read()).await.unwrap();
        assert_eq!(left.dead, 0);
        if left.waiting + left.running == 0 {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{left:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(worker.id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(worker.wait().await.unwrap().code(), Some(0));
    database.close().await.unwrap();
    server.stop().await;
}

async fn shutdown_waits_for_running_push(site: Site) {
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let tip = work.commit("a", "1").await;
    // The hook of the client sends the stop signal to the server during the push.
    let hooks = work.path.join(".git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    let pid = server.id();
    let hook = format!("#!/bin/sh\nkill -TERM {pid}\n");
    std::fs::write(hooks.join("pre-push"), hook).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(hooks.join("pre-push"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = work.run(&["push", &server.address("p"), "main"]).await;
    let status = server.wait().await;
    assert_eq!(status.code(), Some(0), "{status}");
    let server = site.serve(&[]).await;
    let listed = work.git(&["ls-remote", &server.address("p"), "refs/heads/main"]).await;
    // The server may close the client's idle connection; the push then fails on the client.
    assert_eq!(listed.starts_with(&tip), output.status.success(), "{listed}");
    server.stop().await;
    site.succeeds(&["doctor"]).await;
}

/// Starts a server with a directory for temporary files.
async fn serve_with_temporary(site: &Site, temporary: &Path) -> Process {
    let mut command = site.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("TMPDIR", temporary);
    Site::ready(command).await
}

/// Sends a push of which a part is missing, and waits until its program has started.
async fn begin_push(server: &Process, temporary: &Path, running: usize) -> RawConnection {
    let work = Work::new().await;
    let mut noise = vec![0_u8; 6 << 20];
    rand::rng().fill(&mut noise[..]);
    std::fs::write(work.path.join("noise"), noise).unwrap();
    let tip = work.commit("note", "x").await;
    let output = work.command(&["pack-objects", "--all", "--stdout", "--quiet"]).output().await.unwrap();
    assert!(output.status.success());
    let line = format!("{} {tip} refs/heads/pushed\0report-status", "0".repeat(40));
    let mut body = format!("{:04x}{line}0000", line.len() + 4).into_bytes();
    body.extend(output.stdout);
    let head = format!(
        "POST /root/p.git/git-receive-pack HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {}\r\n\
         Content-Type: application/x-git-receive-pack-request\r\nContent-Length: {}\r\n\r\n",
        STANDARD.encode(format!("root:{TOKEN}")),
        body.len()
    );
    let mut connection = RawConnection::connect(&server.base).await;
    connection.send([head.as_bytes(), &body[..body.len() - 100]].concat()).await;
    until(|| pushes(temporary).len() == running).await;
    connection
}

/// Returns the names of the directories of pushes.
fn pushes(temporary: &Path) -> Vec<String> {
    let names = std::fs::read_dir(temporary).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("holdfast-push-")).collect()
}

async fn until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await.unwrap();
}

async fn start_removes_push_directories_of_killed_server_only(site: Site) {
    let temporary = site.sibling_path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let other = site.another().await;
    let mut servers = Vec::new();
    let work = Work::new().await;
    for site in [&site, &other] {
        let server = serve_with_temporary(site, &temporary).await;
        site.import("p", &work.path).await;
        servers.push(server);
    }
    let [killed, living]: [Process; 2] = servers.try_into().ok().unwrap();
    let _lost = begin_push(&killed, &temporary, 1).await;
    let left = pushes(&temporary);
    let _running = begin_push(&living, &temporary, 2).await;
    killed.kill().await;
    assert_eq!(pushes(&temporary).len(), 2);
    let server = serve_with_temporary(&site, &temporary).await;
    until(|| pushes(&temporary).len() == 1).await;
    // The push of the other server still runs.
    assert_ne!(pushes(&temporary), left);
    server.stop().await;
    assert_eq!(pushes(&temporary).len(), 1);
    living.kill().await;
    other.remove().await;
}

/// The task of a ref update outlives its job, because it must record its result.
async fn worker_waits_for_ref_updates_when_it_stops(site: Site) {
    site.serve(&[]).await.stop().await;
    let options = ConfigOptions {
        data_dir: Some(site.data.clone()),
        database_url: Some(site.database_url()),
        ..ConfigOptions::default()
    };
    let worker = server::Worker::open(options.settings().expect("settings"), None, None).await.expect("a worker");
    let (backend, is_recorded) = (worker.backend.clone(), Arc::new(AtomicBool::new(false)));
    let state = Arc::clone(&is_recorded);
    let tasks = backend.ref_update_tasks.clone();
    tasks.spawn(async move {
        // The worker waits from the moment in which it closes the tracker.
        while !backend.ref_update_tasks.is_closed() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let found = instances::get(backend.database.read()).await;
        state.store(found.is_ok(), Ordering::SeqCst);
    });
    worker.run(std::future::ready(())).await.expect("an end");
    assert!(is_recorded.load(Ordering::SeqCst));
}

on_every_site![
    worker_runs_jobs_of_server_without_worker,
    worker_waits_for_ref_updates_when_it_stops,
    shutdown_waits_for_running_push,
    start_removes_push_directories_of_killed_server_only,
];
