//! Repositories of a few objects that have very many or very long paths.

use serde_json::json;

use crate::support::attacks::Attack;
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN};
use crate::support::{Client, DatabaseKind};

/// Writes a tree, given in the format of `git ls-tree`, and returns its ID.
async fn write_tree(work: &Work, entries: &str) -> String {
    let input = work.path.join(".git/entries");
    std::fs::write(&input, entries).expect("a file");
    let mut command = work.command(&["mktree"]);
    let output = command.stdin(std::fs::File::open(input).expect("the file")).output().await.expect("git");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("an ID").trim().to_owned()
}

/// Commits a tree to a new branch that starts at `main`.
async fn commit_tree(work: &Work, branch: &str, tree: &str) {
    let commit = work.git(&["commit-tree", "-p", "main", "-m", branch, tree]).await;
    work.git(&["branch", branch, &commit]).await;
}

/// Creates the branch `files` with 100 to the power of 5 files, and the branch `paths` whose paths have 37 GiB.
async fn create_branches(work: &Work) {
    let blob = work.git(&["rev-parse", "main:README"]).await;
    let mut tree = write_tree(work, &format!("100644 blob {blob}\tREADME\n")).await;
    for _ in 0..5 {
        let entries = (0..100).map(|number| format!("040000 tree {tree}\td{number}\n"));
        tree = write_tree(work, &entries.collect::<String>()).await;
    }
    commit_tree(work, "files", &tree).await;
    let entries = (0..100_000).map(|number| format!("100644 blob {blob}\tf{number}\n"));
    let mut tree = write_tree(work, &entries.collect::<String>()).await;
    for _ in 0..100 {
        tree = write_tree(work, &format!("040000 tree {tree}\t{}\n", "d".repeat(4_000))).await;
    }
    commit_tree(work, "paths", &tree).await;
}

async fn few_objects_with_many_or_long_paths_use_bounded_memory() {
    let site = Site::migrated(&DatabaseKind::Sqlite).await;
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    create_branches(&work).await;
    site.import("p", &work.path).await;
    let owner = Client::new(&server.base, Some(TOKEN));
    owner.put("/projects/root%2Fp", json!({"visibility": "public"})).await.expect(200);
    let settings = json!({"allow_local_requests_from_hooks_and_services": true});
    owner.put("/application/settings", settings).await.expect(200);
    let hook = json!({"url": "http://127.0.0.1:9/", "push_events": true});
    let hook = owner.post("/projects/root%2Fp/hooks", hook).await.expect(201);
    let hook = format!("/projects/root%2Fp/hooks/{}", hook.json()["id"]);
    let mut attack = Attack::start("few objects with many paths", &server);
    let client = Client::new(&server.base, None);
    attack
        .probed(async {
            for branch in ["files", "paths"] {
                let listing = format!("/projects/root%2Fp/repository/tree?ref={branch}&recursive=true&per_page=1");
                client.get(&listing).await.expect(400);
                let diff = format!("/projects/root%2Fp/repository/compare?from=main&to={branch}");
                client.get(&diff).await;
                // The payload of a push lists the changed files, and the languages are counted for each default branch.
                let settings = json!({"default_branch": branch});
                owner.put("/projects/root%2Fp", settings).await.expect(200);
                let languages = client.get("/projects/root%2Fp/languages").await.expect(200);
                assert_eq!(languages.json(), json!({}));
                owner.post(&format!("{hook}/test/push_events"), json!({})).await.expect(201);
                let deliveries = owner.get(&format!("{hook}/events")).await.expect(200);
                let delivery = format!("{hook}/events/{}", deliveries.json()[0]["id"]);
                let delivery = owner.get(&delivery).await.expect(200);
                let delivery = delivery.json();
                let commits = delivery["request_data"]["commits"].as_array().expect("commits");
                let added = commits.last().expect("a commit")["added"].as_array().expect("paths").len();
                // One of the 1,000 files is the removed one.
                let expected = if branch == "files" { 999 } else { 0 };
                assert_eq!(added, expected, "{branch}");
            }
        })
        .await;
    attack.check();
    server.stop().await;
}

harness::tests![few_objects_with_many_or_long_paths_use_bounded_memory];
