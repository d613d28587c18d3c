//! Cherry-pick and revert.

use serde_json::json;
use storage::entities::AccessLevel;

use crate::support::repository::Sample;
use crate::support::{TestServer, on_every_database};

fn pick_failure_message(verb: &str, done: &str) -> String {
    format!(
        "Sorry, we cannot {verb} this commit automatically. This commit may already have been {done}, or a more \
         recent commit may have updated some of its content."
    )
}

async fn cherry_pick_preserves_author(server: TestServer) {
    let sample = Sample::new(&server).await;
    let developer = sample.member(Some(AccessLevel::Developer)).await;
    let (source, before) = (sample.id_of("ends-with.json"), sample.id_of("topic"));
    let url = format!("{}/cherry_pick", sample.commit(&source));
    let created = developer.post(&url, json!({ "branch": "topic" })).await.expect(201).json();
    assert_eq!(created["id"], sample.id_of("topic").as_str());
    assert_eq!(created["parent_ids"], json!([before]));
    assert_eq!(created["message"], format!("Greet the world\n\nAt last\n\n(cherry picked from commit {source})"));
    assert_eq!(
        (&created["author_name"], &created["authored_date"]),
        (&json!("Ada Lovelace"), &json!("2020-01-03T12:00:00.000Z"))
    );
    assert_ne!(created["committer_name"], "Ada Lovelace");
    assert_eq!((created.get("stats"), created.get("status")), (None, Some(&json!(null))));
    assert_eq!(sample.git_raw(&["show", "topic:README.md"]), sample.git_raw(&["show", "main:README.md"]));
    sample.fsck();
}

async fn revert_undoes_commit(server: TestServer) {
    let sample = Sample::new(&server).await;
    let source = sample.id_of("ends-with.json");
    let url = format!("{}/revert", sample.commit(&source));
    let created = server.root().post(&url, json!({ "branch": "main" })).await.expect(201).json();
    assert_eq!(created["message"], format!("Revert \"Greet the world\"\n\nThis reverts commit {source}"));
    assert_eq!(created["author_name"], "Administrator");
    assert_eq!(created.get("status"), Some(&json!(null)));
    assert_eq!(sample.git_raw(&["show", "main:README.md"]), sample.git_raw(&["show", "v1.0:README.md"]));
    let merge = format!("{}/revert", sample.commit("main~1"));
    server.root().post(&merge, json!({ "branch": "main" })).await.expect(201);
    assert_eq!(sample.git_raw(&["ls-tree", "main", "topic.txt"]), "");
    sample.fsck();
}

async fn empty_or_conflicting_pick_returns_error_code(server: TestServer) {
    let sample = Sample::new(&server).await;
    let root = server.root();
    let body = || json!({ "branch": "main" });
    let picked = root.post(&format!("{}/cherry_pick", sample.commit("ends-with.json")), body()).await.expect(400);
    let text = pick_failure_message("cherry-pick", "cherry-picked");
    assert_eq!(picked.json(), json!({ "message": text, "error": text, "error_code": "empty" }));
    root.put(
        &sample.file("README.md"),
        json!({
            "branch": "main", "commit_message": "x", "content": "Something else\n",
        }),
    )
    .await
    .expect(200);
    let before = sample.id_of("main");
    for (verb, done) in [("revert", "reverted"), ("cherry-pick", "cherry-picked")] {
        let url = format!("{}/{}", sample.commit("ends-with.json"), verb.replace('-', "_"));
        let answer = root.post(&url, body()).await.expect(400);
        let text = pick_failure_message(verb, done);
        assert_eq!(answer.json(), json!({ "message": text, "error": text, "error_code": "conflict" }));
    }
    let topic = format!("{}/revert", sample.commit("topic"));
    root.post(&topic, json!({ "branch": "main" })).await.expect(201);
    let again = root.post(&topic, json!({ "branch": "main" })).await.expect(400);
    assert_eq!(again.json()["error_code"], "empty");
    assert_eq!(sample.id_of("main~1"), before);
}

async fn pick_and_revert_require_existing_branch_and_push_access(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.protect("main", 40, 40).await;
    let developer = sample.member(Some(AccessLevel::Developer)).await;
    let reporter = sample.member(Some(AccessLevel::Reporter)).await;
    let stranger = sample.member(None).await;
    for verb in ["cherry_pick", "revert"] {
        let url = format!("{}/{verb}", sample.commit("topic"));
        let post = async |branch: &str| developer.post(&url, json!({ "branch": branch })).await;
        let rejected = post("main").await.expect(403);
        assert_eq!(rejected.message(), "403 Forbidden - You are not allowed to push into this branch");
        assert_eq!(post("unknown").await.expect(404).message(), "404 Branch Not Found");
        assert_eq!(post("a..b").await.expect(400).message(), "The branch refname is invalid");
        assert_eq!(post("--force").await.expect(400).message(), "The branch refname is invalid");
        assert_eq!(post(" ").await.expect(400).message(), "branch is empty");
        let missing = developer.post(&url, json!({})).await.expect(400);
        assert_eq!(missing.message(), "branch is missing, branch is empty");
        let body = json!({ "branch": "topic" });
        assert_eq!(reporter.post(&url, json!({})).await.expect(403).message(), "403 Forbidden");
        stranger.post(&url, body.clone()).await.expect(404);
        server.anonymous().post(&url, body.clone()).await.expect(401);
        let large = json!({ "branch": "x".repeat(12 << 20) });
        developer.post(&url, large).await.expect(413);
    }
}

on_every_database![
    cherry_pick_preserves_author,
    revert_undoes_commit,
    empty_or_conflicting_pick_returns_error_code,
    pick_and_revert_require_existing_branch_and_push_access,
];
