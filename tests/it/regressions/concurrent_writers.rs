//! Concurrent writers to a repository through the API and with the git client.

use serde_json::json;

use crate::support::git::Work;
use crate::support::process::{Process, TOKEN};

/// Commits a new file and returns the ID of the commit if it was acknowledged.
pub async fn commit(http: &reqwest::Client, base: &str, branch: &str, file: &str) -> Option<String> {
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
    let created: serde_json::Value = response.json().await.ok()?;
    created["id"].as_str().map(str::to_owned)
}

/// Returns an HTTP client without a proxy.
pub fn http() -> reqwest::Client {
    crate::support::client::http().build().expect("a client")
}

/// Clones the repository and checks the clone with `git fsck`.
pub async fn sound_copy(server: &Process) -> (Work, Work) {
    let clones = Work::empty();
    clones.git(&["clone", "--quiet", "--bare", &server.address("p"), "c"]).await;
    let clone = clones.below("c");
    clone.git(&["fsck", "--full"]).await;
    (clones, clone)
}

/// Commits to `main` through the API, retrying until each commit is accepted.
pub async fn commit_all(base: String, name: String, count: usize) {
    let http = http();
    for number in 0..count {
        let mut rejected = 0;
        while commit(&http, &base, "main", &format!("{name}-{number}")).await.is_none() {
            rejected += 1;
            assert!(rejected < 50, "no commit gets through");
        }
    }
}

/// Pushes commits to `main`, rebasing and retrying when another writer was faster.
pub async fn push_all(address: String, name: String, count: usize) {
    let clones = Work::empty();
    clones.git(&["clone", "--quiet", &address, "c"]).await;
    let clone = clones.below("c");
    for number in 0..count {
        clone.commit(&format!("{name}-{number}"), "x").await;
        let mut rejected = 0;
        while !clone.run(&["push", "--quiet", "origin", "main"]).await.status.success() {
            rejected += 1;
            assert!(rejected < 200, "no push gets through");
            clone.git(&["pull", "--quiet", "--rebase", "origin", "main"]).await;
        }
    }
}
