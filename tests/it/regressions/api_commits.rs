//! Commits through the API beside pushes: none that was acknowledged is ever lost.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Mutex;

use crate::support::git::Work;
use crate::support::process::{Process, Site, TOKEN, site_scenario};
use crate::support::{Client, Kind};

/// How often the server is killed.
const ROUNDS: u64 = 3;
/// How many commits each writer brings.
const COMMITS: usize = 8;
/// How many writers through the API each node has.
const WRITERS: usize = 2;

/// Commits a new file; the new commit when it was acknowledged.
async fn commit(http: &reqwest::Client, base: &str, branch: &str, file: &str) -> Option<String> {
    let body = json!({
        "branch": branch, "commit_message": file, "stats": false,
        "actions": [{ "action": "create", "file_path": file, "content": "x" }],
    });
    let url = format!("{base}/api/v4/projects/root%2Fp/repository/commits");
    let request = http.post(url).header("Private-Token", TOKEN).json(&body);
    let response = request.send().await.ok()?;
    if response.status() != 201 {
        return None;
    }
    let made: serde_json::Value = response.json().await.ok()?;
    made["id"].as_str().map(str::to_owned)
}

fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

/// A whole copy that Git finds nothing wrong with.
async fn sound_copy(server: &Process) -> (Work, Work) {
    let clones = Work::empty();
    clones
        .git(&["clone", "--quiet", "--bare", &server.address("p"), "c"])
        .await;
    let clone = clones.below("c");
    clone.git(&["fsck", "--full"]).await;
    (clones, clone)
}

site_scenario! {
    async fn acknowledged_commits_and_pushes_survive_a_killed_server(site, _kind) {
        site.serve(&[]).await.stop().await;
        let work = Arc::new(Work::new().await);
        site.import("p", &work.path).await;
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        for round in 0..ROUNDS {
            let server = site.serve(&[]).await;
            let (base, address) = (server.base.clone(), server.address("p"));
            let mut writers = tokio::task::JoinSet::new();
            for writer in 0..WRITERS {
                let (base, acknowledged) = (base.clone(), Arc::clone(&acknowledged));
                writers.spawn(async move {
                    let http = http();
                    for count in 0.. {
                        let file = format!("api-{round}-{writer}-{count}");
                        match commit(&http, &base, "main", &file).await {
                            Some(id) => acknowledged.lock().await.push(("main", id)),
                            None => return,
                        }
                    }
                });
            }
            let (pushed, notes) = (Arc::clone(&work), Arc::clone(&acknowledged));
            writers.spawn(async move {
                for count in 0.. {
                    let tip = pushed.commit("file", &format!("{round} {count}")).await;
                    if !pushed.run(&["push", "--quiet", &address, "main:pushed"]).await.status.success() {
                        return;
                    }
                    notes.lock().await.push(("pushed", tip));
                }
            });
            tokio::time::sleep(Duration::from_millis(900 + 213 * round)).await;
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
            let said = site.succeeds(&["doctor"]).await;
            assert_eq!(said, "Projects: 1. Problems: 0.\n");
        }
        let acknowledged = acknowledged.lock().await;
        for wanted in ["main", "pushed"] {
            assert!(acknowledged.iter().any(|(branch, _)| *branch == wanted), "nothing came to {wanted}");
        }
    }
}

#[tokio::test]
async fn no_update_is_lost_between_two_nodes_and_both_ways_to_write() {
    let Some(kind) = Kind::postgresql() else { return };
    let site = Site::new(&kind).await;
    let nodes = [site.serve(&[]).await, site.serve(&[]).await];
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let mut writers = tokio::task::JoinSet::new();
    for (number, node) in nodes.iter().enumerate() {
        for writer in 0..WRITERS {
            let base = node.base.clone();
            writers.spawn(async move {
                let http = http();
                for count in 0..COMMITS {
                    let file = format!("api-{number}-{writer}-{count}");
                    let mut refused = 0;
                    while commit(&http, &base, "main", &file).await.is_none() {
                        refused += 1;
                        assert!(refused < 50, "no commit gets through");
                    }
                }
            });
        }
        let address = node.address("p");
        writers.spawn(async move {
            let clones = Work::empty();
            clones.git(&["clone", "--quiet", &address, "c"]).await;
            let clone = clones.below("c");
            for count in 0..COMMITS {
                clone.commit(&format!("push-{number}-{count}"), "x").await;
                let mut refused = 0;
                while !clone
                    .run(&["push", "--quiet", "origin", "main"])
                    .await
                    .status
                    .success()
                {
                    refused += 1;
                    assert!(refused < 200, "no push gets through");
                    clone
                        .git(&["pull", "--quiet", "--rebase", "origin", "main"])
                        .await;
                }
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.expect("a writer");
    }
    let written = nodes.len() * (WRITERS + 1) * COMMITS;
    for node in &nodes {
        let client = Client::new(&node.base, Some(TOKEN));
        let (_guard, clone) = sound_copy(node).await;
        let head = clone.git(&["rev-parse", "main"]).await;
        let branch = client
            .get("/projects/root%2Fp/repository/branches/main")
            .await
            .expect(200);
        assert_eq!(branch.json()["commit"]["id"], head);
        let files = clone.git(&["ls-tree", "--name-only", "main"]).await;
        assert_eq!(files.lines().count(), 1 + written, "{files}");
        assert_eq!(
            clone.git(&["rev-list", "--count", "main"]).await,
            (1 + written).to_string()
        );
    }
    for node in nodes {
        node.stop().await;
    }
    assert_eq!(site.succeeds(&["doctor"]).await, "Projects: 1. Problems: 0.\n");
    site.remove().await;
}
