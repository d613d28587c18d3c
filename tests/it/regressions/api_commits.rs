//! Durability of acknowledged commits through the API and pushes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify};

use super::concurrent_writers::{commit, http, sound_copy};
use crate::support::git::Work;
use crate::support::process::{Site, on_every_site};

/// Number of times the server is killed.
const ROUNDS: u64 = 3;
/// Number of concurrent writers through the API.
const WRITERS: usize = 2;

async fn acknowledged_commits_and_pushes_survive_server_kill(site: Site) {
    site.serve(&[]).await.stop().await;
    let work = Arc::new(Work::new().await);
    site.import("p", &work.path).await;
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    for round in 0..ROUNDS {
        let server = site.serve(&[]).await;
        let (base, address) = (server.base.clone(), server.address("p"));
        let mut writers = tokio::task::JoinSet::new();
        let (committing, pushing) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        for writer in 0..WRITERS {
            let (base, acknowledged) = (base.clone(), Arc::clone(&acknowledged));
            let committing = Arc::clone(&committing);
            writers.spawn(async move {
                let http = http();
                for count in 0.. {
                    let file = format!("api-{round}-{writer}-{count}");
                    match commit(&http, &base, "main", &file).await {
                        Some(id) => {
                            acknowledged.lock().await.push(("main", id));
                            committing.notify_one();
                        }
                        None => return,
                    }
                }
            });
        }
        let (pushed, notes) = (Arc::clone(&work), Arc::clone(&acknowledged));
        let first_push = Arc::clone(&pushing);
        writers.spawn(async move {
            for count in 0.. {
                let tip = pushed.commit("file", &format!("{round} {count}")).await;
                if !pushed.run(&["push", "--quiet", &address, "main:pushed"]).await.status.success() {
                    return;
                }
                notes.lock().await.push(("pushed", tip));
                first_push.notify_one();
            }
        });
        // Kill the server some time after the first commit and the first push. If a writer failed before its first
        // commit, the timeout ends the wait.
        let first = async { tokio::join!(committing.notified(), pushing.notified()) };
        let _ = tokio::time::timeout(Duration::from_secs(5), first).await;
        tokio::time::sleep(Duration::from_millis(50 + 213 * round)).await;
        server.kill().await;
        while let Some(done) = writers.join_next().await {
            done.expect("a writer");
        }
        let server = site.serve(&[]).await;
        let (_guard, clone) = sound_copy(&server).await;
        for (branch, id) in acknowledged.lock().await.iter() {
            clone.git(&["merge-base", "--is-ancestor", id, branch]).await;
        }
        server.stop().await;
        site.assert_sound(1).await;
    }
    let acknowledged = acknowledged.lock().await;
    for expected in ["main", "pushed"] {
        assert!(acknowledged.iter().any(|(branch, _)| *branch == expected), "no commit on {expected} was acknowledged");
    }
}

on_every_site![acknowledged_commits_and_pushes_survive_server_kill,];
