//! Atomicity of merges when the server is killed: each merge request is merged with its record or not at all.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::Client;
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN, on_every_site};

/// Number of times the server is killed.
const ROUNDS: u64 = 4;
/// Number of open merge requests in each round.
const WAITING: usize = 6;

/// Returns all merge requests, page by page.
async fn all(client: &Client) -> Vec<Value> {
    let mut found = Vec::new();
    for page in 1.. {
        let url = format!("/projects/root%2Fp/merge_requests?state=all&per_page=100&page={page}");
        let listed = client.get(&url).await.expect(200).json();
        let listed = listed.as_array().expect("a list").clone();
        if listed.is_empty() {
            break;
        }
        found.extend(listed);
    }
    found
}

async fn merge_is_atomic_when_server_is_killed(site: Site) {
    site.serve(&[]).await.stop().await;
    let work = Work::new().await;
    for number in 0..ROUNDS as usize * WAITING {
        work.git(&["checkout", "--quiet", "-b", &format!("b{number}"), "main"]).await;
        work.commit(&format!("f{number}"), "x").await;
    }
    site.import("p", &work.path).await;
    let mut acknowledged = HashSet::new();
    for round in 0..ROUNDS {
        let server = site.serve(&[]).await;
        let client = Client::new(&server.base, Some(TOKEN));
        let mut iids = Vec::new();
        for number in 0..WAITING {
            let branch = format!("b{}", round as usize * WAITING + number);
            let body = json!({"source_branch": branch, "target_branch": "main", "title": branch});
            let created = client.post("/projects/root%2Fp/merge_requests", body).await.expect(201).json();
            iids.push(created["iid"].as_i64().expect("a number"));
        }
        let first = Arc::new(Notify::new());
        let merging = {
            let (first, base) = (Arc::clone(&first), server.base.clone());
            tokio::spawn(async move {
                let http = crate::support::client::http().build().expect("a client");
                let mut merged = Vec::new();
                for iid in iids {
                    let url = format!("{base}/api/v4/projects/root%2Fp/merge_requests/{iid}/merge");
                    let squash = iid % 2 == 0;
                    let body = json!({"squash": squash, "squash_commit_message": "All of it"});
                    let request = http.put(url).header("Private-Token", TOKEN).json(&body);
                    match request.send().await {
                        Ok(response) if response.status() == 200 => {
                            merged.push(iid);
                            first.notify_one();
                        }
                        _ => break,
                    }
                }
                merged
            })
        };
        let started = tokio::time::timeout(Duration::from_secs(30), first.notified());
        started.await.expect("a merge that is acknowledged");
        tokio::time::sleep(Duration::from_millis(7 + 31 * round)).await;
        server.kill().await;
        acknowledged.extend(merging.await.expect("merging"));

        let server = site.serve(&[]).await;
        let client = Client::new(&server.base, Some(TOKEN));
        let clones = Work::empty();
        clones.git(&["clone", "--quiet", "--bare", &server.address("p"), "c"]).await;
        let clone = clones.below("c");
        clone.git(&["fsck", "--full"]).await;
        let mut recorded = 0;
        for found in all(&client).await {
            let (iid, branch) =
                (found["iid"].as_i64().expect("a number"), found["source_branch"].as_str().expect("a name"));
            let file = format!("main:f{}", &branch[1..]);
            let arrived = clone.run(&["cat-file", "-e", &file]).await.status.success();
            let merged = found["state"] == "merged";
            assert_eq!(arrived, merged, "{found}");
            assert!(merged || !acknowledged.contains(&iid), "{found}");
            if merged {
                recorded += 1;
                let commit = found["merge_commit_sha"].as_str().expect("a commit");
                clone.git(&["merge-base", "--is-ancestor", commit, "main"]).await;
                assert_eq!(found["squash_commit_sha"].is_string(), iid % 2 == 0, "{found}");
                assert_eq!(found["merged_by"]["username"], "root");
            }
        }
        let merges = clone.git(&["rev-list", "--count", "--merges", "main"]).await;
        assert_eq!(merges, recorded.to_string());
        server.stop().await;
        site.assert_sound(1).await;
    }
    assert!(acknowledged.len() >= ROUNDS as usize);
}

on_every_site![merge_is_atomic_when_server_is_killed,];
