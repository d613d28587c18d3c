//! The ref with the result of a merge.

use serde_json::json;
use storage::entities::AccessLevel;

use super::Fixture;
use crate::support::git::{Work, address};
use crate::support::server::ROOT_TOKEN;
use crate::support::{TestServer, on_every_database};

async fn merge_ref_is_the_merge_of_both_heads(server: TestServer) {
    let fixture = Fixture::new(&server, "ref").await;
    let (main, head) = (fixture.project.id("main"), fixture.project.id("feature/x"));
    let url = fixture.url("/merge_requests/1/merge_ref");
    let answer = fixture.root.get(&url).await.expect(200).json();
    let commit = answer["commit_id"].as_str().expect("an ID").to_owned();
    assert_eq!(answer, json!({"commit_id": commit}));
    assert_eq!(fixture.project.id("refs/merge-requests/1/merge"), commit);
    assert_eq!(fixture.project.git(&["log", "-1", "--format=%P", &commit]), format!("{main} {head}"));
    let files = fixture.project.git(&["ls-tree", "--name-only", &commit]);
    assert!(files.lines().any(|name| name == "x.txt"), "{files}");
    assert_eq!(fixture.project.git(&["show", &format!("{commit}:README.md")]), "Hello, world");
    assert_eq!(fixture.project.id("main"), main, "the target branch does not change");
    // The same heads have the same commit.
    assert_eq!(fixture.root.get(&url).await.expect(200).json()["commit_id"], json!(commit));
    fixture.project.git(&["update-ref", "-d", "refs/merge-requests/1/merge"]);
    assert_eq!(server.anonymous().get(&url).await.expect(200).json()["commit_id"], json!(commit));
    let work = Work::empty();
    work.git(&["init", "--quiet", "."]).await;
    let remote = address(&server.base, "root", ROOT_TOKEN, "root/ref");
    work.git(&["fetch", "--quiet", &remote, "refs/merge-requests/1/merge"]).await;
    assert_eq!(work.git(&["rev-parse", "FETCH_HEAD"]).await, commit);
    fixture.project.fsck();
}

async fn merge_ref_follows_both_branches(server: TestServer) {
    let fixture = Fixture::new(&server, "moves").await;
    let url = fixture.url("/merge_requests/1/merge_ref");
    let mut commits = vec![fixture.root.get(&url).await.expect(200).json()["commit_id"].clone()];
    for (branch, path) in [("feature/x", "more"), ("main", "other")] {
        let body = json!({"branch": branch, "content": "x", "commit_message": "m"});
        fixture.root.post(&fixture.project.url(&format!("/files/{path}")), body).await.expect(201);
        let commit = fixture.root.get(&url).await.expect(200).json()["commit_id"].clone();
        assert!(!commits.contains(&commit));
        commits.push(commit);
    }
    let last = commits[2].as_str().expect("an ID");
    assert_eq!(
        fixture.project.git(&["log", "-1", "--format=%P", last]),
        format!("{} {}", fixture.project.id("main"), fixture.project.id("feature/x"))
    );
}

async fn merge_ref_is_refused_without_a_possible_merge(server: TestServer) {
    let fixture = Fixture::new(&server, "refused").await;
    let refused = async |iid: i64, text: &str| {
        let answer = fixture.root.get(&fixture.url(&format!("/merge_requests/{iid}/merge_ref"))).await.expect(400);
        assert_eq!(answer.message(), text);
    };
    fixture.branch("clash", "main~1", "README.md", "Different\n");
    let conflict = fixture.propose("clash", json!({})).await;
    refused(conflict, "Merge request has conflicts with the target branch").await;
    let empty = fixture.propose("merged", json!({})).await;
    refused(empty, "Merge request is not mergeable").await;
    let closed = fixture.url(&format!("/merge_requests/{conflict}"));
    fixture.root.put(&closed, json!({"state_event": "close"})).await.expect(200);
    refused(conflict, "Merge request is not mergeable").await;
    fixture.merge(1, json!({})).await.expect(200);
    refused(1, "Merge request is not mergeable").await;
    fixture.branch("old", "main", "old", "x");
    fixture.branch("target", "main", "t", "x");
    let lost = json!({"source_branch": "old", "target_branch": "target", "title": "t"});
    let lost = fixture.root.post(&fixture.url("/merge_requests"), lost).await.expect(201).json();
    fixture.project.git(&["branch", "-D", "target"]);
    refused(lost["iid"].as_i64().expect("an IID"), "Merge request is not mergeable").await;
}

async fn merge_ref_requires_access_to_the_code(server: TestServer) {
    let fixture = Fixture::new(&server, "rights").await;
    let url = fixture.url("/merge_requests/1/merge_ref");
    let guest = fixture.project.member("guest", AccessLevel::Guest).await;
    let reporter = fixture.project.member("reporter", AccessLevel::Reporter).await;
    let outsider = server.create_user("outsider").await;
    let narrow = server.with_token(&server.create_token(outsider.id, &["read_user"]).await);
    outsider.client.get(&url).await.expect(200);
    narrow.get(&url).await.expect(403);
    server.with_token("nonsense").get(&url).await.expect(401);
    fixture.set(json!({"visibility": "private"})).await;
    guest.get(&url).await.expect(403);
    reporter.get(&url).await.expect(200);
    outsider.client.get(&url).await.expect(404);
    server.anonymous().get(&url).await.expect(404);
    fixture.root.get(&fixture.url("/merge_requests/99/merge_ref")).await.expect(404);
    fixture.root.get(&fixture.url("/merge_requests/x/merge_ref")).await.expect(400);
}

on_every_database![
    merge_ref_is_the_merge_of_both_heads,
    merge_ref_follows_both_branches,
    merge_ref_is_refused_without_a_possible_merge,
    merge_ref_requires_access_to_the_code,
];
