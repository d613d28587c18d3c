//! Repeated `kill -9` of the server under load.

use std::time::Duration;

use git::RepositoryId;
use rand::RngExt;
use serde_json::json;

use super::load::{self, Load, Written};
use crate::support::Client;
use crate::support::process::{Site, TOKEN, on_every_site};

/// Number of times the server is killed unless `HOLDFAST_KILL_ROUNDS` is set.
const ROUNDS: usize = 20;
/// Number of rounds after which all acknowledged writes are checked.
const CHECK_ROUNDS: usize = 10;
/// Longest time from the first acknowledged write of a round until the server is killed, in milliseconds.
const LONGEST: u64 = 150;

async fn killed_server_loses_nothing_acknowledged(site: Site) {
    let rounds = std::env::var("HOLDFAST_KILL_ROUNDS").ok();
    let rounds = rounds.map_or(ROUNDS, |text| text.parse().expect("a number"));
    site.serve(&[]).await.stop().await;
    let work = load::create_project(&site).await;
    let mut written = Written::default();
    for round in 1..=rounds {
        let server = site.serve(&[]).await;
        let load = Load::start(&server, &work, &format!("r{round}"));
        load.progress(1).await;
        tokio::time::sleep(Duration::from_millis(rand::rng().random_range(0..LONGEST))).await;
        server.kill().await;
        written.extend(load.stop().await);
        if round % CHECK_ROUNDS == 0 || round == rounds {
            let server = site.serve(&[]).await;
            written.check(&server).await;
            server.kill().await;
        }
    }
    assert!(written.issues.len() + written.files.len() >= rounds, "{written:?}");
    // The writes of a killed server either have a response of the server or none.
    assert!(written.failures.iter().all(|failure| failure.status == 0), "{:?}", written.failures);
    site.serve(&[]).await.stop().await;
    site.assert_sound(1).await;
}

/// Git and libgit2 lock a reference with a file. A killed process leaves it.
async fn locks_of_killed_server_do_not_block_its_successor(site: Site) {
    site.serve(&[]).await.stop().await;
    let work = load::create_project(&site).await;
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let id = root.get("/projects/root%2Fp").await.expect(200).json()["id"].as_i64().expect("an ID");
    work.git(&["push", "--quiet", &server.address("p"), "HEAD:refs/heads/pushed"]).await;
    server.kill().await;
    let repository = site.data.join("repositories").join(RepositoryId::of_project(id).relative_path());
    for name in ["main", "pushed"] {
        std::fs::File::create(repository.join(format!("refs/heads/{name}.lock"))).expect("a lock file");
    }

    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let actions = json!([{ "action": "create", "file_path": "later", "content": "x" }]);
    let commit = json!({ "branch": "main", "commit_message": "Add", "actions": actions });
    root.post("/projects/root%2Fp/repository/commits", commit).await.expect(201);
    let tip = work.commit("later", "1").await;
    work.git(&["push", "--quiet", &server.address("p"), "HEAD:refs/heads/pushed"]).await;
    let pushed = root.get("/projects/root%2Fp/repository/branches/pushed").await.expect(200).json();
    assert_eq!(pushed["commit"]["id"], json!(tip));
    server.stop().await;
    site.assert_sound(1).await;
}

on_every_site![killed_server_loses_nothing_acknowledged, locks_of_killed_server_do_not_block_its_successor];
