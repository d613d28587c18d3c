//! Several servers on one PostgreSQL and one data directory.

use super::concurrent_writers::{commit_all, push_all, sound_copy};
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN};
use crate::support::{Client, DatabaseKind};

/// Number of commits of each writer.
const COMMITS: usize = 8;

/// Pushes to each of two nodes while other clients commit through the API of each, and checks that no commit is lost.
async fn contend(writers: usize) {
    let site = Site::migrated(&DatabaseKind::postgresql()).await;
    let nodes = [site.serve(&[]).await, site.serve(&[]).await];
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let mut tasks = tokio::task::JoinSet::new();
    for (number, node) in nodes.iter().enumerate() {
        for writer in 0..writers {
            tasks.spawn(commit_all(node.base.clone(), format!("api-{number}-{writer}"), COMMITS));
        }
        tasks.spawn(push_all(node.address("p"), format!("push-{number}"), COMMITS));
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("a writer");
    }
    let written = nodes.len() * (writers + 1) * COMMITS;
    for node in &nodes {
        let client = Client::new(&node.base, Some(TOKEN));
        let (_guard, clone) = sound_copy(node).await;
        let head = clone.git(&["rev-parse", "main"]).await;
        let branch = client.get("/projects/root%2Fp/repository/branches/main").await.expect(200);
        assert_eq!(branch.json()["commit"]["id"], head);
        let files = clone.git(&["ls-tree", "--name-only", "main"]).await;
        assert_eq!(files.lines().count(), 1 + written, "{files}");
        assert_eq!(clone.git(&["rev-list", "--count", "main"]).await, (1 + written).to_string());
    }
    for node in nodes {
        node.stop().await;
    }
    site.assert_sound(1).await;
    site.remove().await;
}

async fn concurrent_pushes_to_two_nodes_lose_no_commit() {
    contend(0).await;
}

async fn concurrent_pushes_and_api_commits_to_two_nodes_lose_no_commit() {
    contend(2).await;
}

harness::tests![requires harness::postgresql::missing; concurrent_pushes_to_two_nodes_lose_no_commit,
    concurrent_pushes_and_api_commits_to_two_nodes_lose_no_commit,
];
