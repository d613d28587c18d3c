//! Server startup, the worker and shutdown.

use storage::database::{Database, DatabaseOptions};
use storage::jobs;

use crate::support::git::Work;
use crate::support::process::{Site, on_every_site};

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

on_every_site![worker_runs_jobs_of_server_without_worker, shutdown_waits_for_running_push,];
