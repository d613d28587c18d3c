//! Concurrent commits.

use futures_util::future::join_all;
use serde_json::json;

use crate::support::repository::Sample;
use crate::support::{TestServer, on_every_database};

async fn concurrent_commits_to_one_branch_all_succeed(server: TestServer) {
    let sample = Sample::new(&server).await;
    let before: usize = sample.git_raw(&["rev-list", "--count", "main"]).trim().parse().expect("a number");
    let root = server.root();
    let answers = join_all((0..300).map(|number| {
        let (root, url) = (root.clone(), sample.commits());
        let body = json!({
            "branch": "main", "commit_message": format!("Commit {number}"), "stats": false,
            "actions": [{ "action": "create", "file_path": format!("f{number}"), "content": "x" }],
        });
        async move { root.post(&url, body).await.status }
    }))
    .await;
    assert!(answers.iter().all(|status| *status == 201), "{answers:?}");
    let after: usize = sample.git_raw(&["rev-list", "--count", "main"]).trim().parse().expect("a number");
    assert_eq!(after, before + 300);
    let files = sample.git_raw(&["ls-tree", "--name-only", "main"]);
    assert_eq!(files.lines().filter(|name| name.starts_with('f')).count(), 300);
    sample.fsck();
}

async fn concurrent_updates_of_one_file_version_apply_once(server: TestServer) {
    let sample = Sample::new(&server).await;
    let last = sample.id_of("ends-with.json");
    let root = server.root();
    let answers = join_all((0..8).map(|number| {
        let (root, url) = (root.clone(), sample.file("README.md"));
        let body = json!({
            "branch": "main", "commit_message": "x", "content": number.to_string(), "last_commit_id": last,
        });
        async move { root.put(&url, body).await }
    }))
    .await;
    let created = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(created, 1);
    for rejected in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!(rejected.status, 400);
        assert!(rejected.message().contains("has changed since you started editing it"));
    }
}

on_every_database![concurrent_commits_to_one_branch_all_succeed, concurrent_updates_of_one_file_version_apply_once,];
