//! Comments on commits.

use sea_orm::ActiveValue::Set;
use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use crate::support::repository::Sample;
use crate::support::{TestServer, on_every_database};

async fn commit_comments_are_created_and_listed_oldest_first(server: TestServer) {
    let sample = Sample::new(&server).await;
    let reporter = sample.member(Some(AccessLevel::Reporter)).await;
    let url = format!("{}/comments", sample.commit("main"));
    let created = reporter.post(&url, json!({ "note": "Why \u{1f600}?" })).await.expect(201).json();
    assert_eq!(
        (&created["note"], &created["path"], &created["line"], &created["line_type"]),
        (&json!("Why \u{1f600}?"), &json!(null), &json!(null), &json!(null),)
    );
    let author = &created["author"];
    let username = author["username"].as_str().expect("a name");
    assert_eq!(author["email"], format!("{username}@example.com"));
    assert_eq!(author["state"], "active");
    assert_eq!(author["web_url"], format!("{}/{username}", server.backend.instance.base_url));
    assert!(author["created_at"].is_string());
    server.root().post(&url, json!({ "note": "Second" })).await.expect(201);
    let by_id = format!("{}/comments", sample.commit(&sample.id_of("main")));
    let listed = server.root().get(&by_id).await.expect(200);
    assert_eq!(listed.pluck("note"), ["Why \u{1f600}?", "Second"]);
    assert_eq!(listed.json()[0], created);
    let other = server.root().get(&format!("{}/comments", sample.commit("topic"))).await.expect(200);
    assert_eq!(other.json(), json!([]));
}

async fn commit_comment_stores_only_lines_of_the_diff(server: TestServer) {
    let sample = Sample::new(&server).await;
    let url = format!("{}/comments", sample.commit("ends-with.json"));
    for (sent, expected) in [
        (json!({ "path": "README.md", "line": 3 }), json!(["README.md", 3, "new"])),
        (json!({ "path": "README.md", "line": 4, "line_type": "new" }), json!(["README.md", 4, "new"])),
        (json!({ "path": "README.md", "line": 3, "line_type": "old" }), json!(["README.md", 3, "old"])),
        (json!({ "path": "README.md", "line": 1 }), json!([null, null, null])),
        (json!({ "path": "README.md", "line": 99 }), json!([null, null, null])),
        (json!({ "path": "README.md", "line": -1 }), json!([null, null, null])),
        (json!({ "path": "README.md", "line": i64::MAX }), json!([null, null, null])),
        (json!({ "path": "missing", "line": 1 }), json!([null, null, null])),
        (json!({ "path": "README.md" }), json!([null, null, null])),
        (json!({ "line": 3 }), json!([null, null, null])),
    ] {
        let mut body = sent.clone();
        body["note"] = json!("x");
        let created = server.root().post(&url, body).await.expect(201).json();
        assert_eq!(json!([created["path"], created["line"], created["line_type"]]), expected, "{sent}");
    }
}

async fn commit_comments_require_code_access(server: TestServer) {
    let sample = Sample::new(&server).await;
    let url = format!("{}/comments", sample.commit("main"));
    let note = || json!({ "note": "x" });
    let guest = sample.member(Some(AccessLevel::Guest)).await;
    let stranger = sample.member(None).await;
    guest.post(&url, note()).await.expect(403);
    stranger.post(&url, note()).await.expect(404);
    assert_eq!(server.anonymous().post(&url, note()).await.expect(401).message(), "401 Unauthorized");
    sample.update(|row| row.visibility = Set(Visibility::Public)).await;
    guest.post(&url, note()).await.expect(201);
    stranger.post(&url, note()).await.expect(201);
    server.anonymous().post(&url, note()).await.expect(401);
    sample.update(|row| row.archived = Set(true)).await;
    stranger.post(&url, note()).await.expect(403);
}

async fn create_commit_comment_rejects_invalid_notes(server: TestServer) {
    let sample = Sample::new(&server).await;
    let url = format!("{}/comments", sample.commit("main"));
    let root = server.root();
    assert_eq!(root.post(&url, json!({})).await.expect(400).message(), "note is missing");
    let blank = root.post(&url, json!({ "note": " " })).await.expect(400);
    assert_eq!(blank.json()["message"]["note"], json!(["can't be blank"]));
    for body in [
        json!({ "note": "x".repeat(1_000_001) }),
        json!({ "note": "a\0b" }),
        json!({ "note": "x", "line": "three" }),
        json!({ "note": "x", "line_type": "middle" }),
        json!({ "note": ["x"] }),
    ] {
        root.post(&url, body).await.expect(400);
    }
    root.post(&url, json!({ "note": "x".repeat(1_000_000) })).await.expect(201);
    root.post(&url, json!({ "note": "x".repeat(5_000_000) })).await.expect(413);
}

async fn list_commit_comments_statement_count_is_constant(server: TestServer) {
    let sample = Sample::new(&server).await;
    let url = format!("{}/comments", sample.commit("main"));
    let root = server.root();
    root.post(&url, json!({ "note": "0" })).await.expect(201);
    root.get(&url).await.expect(200);
    let before = server.statements();
    root.get(&url).await.expect(200);
    let one = server.statements() - before;
    for number in 1..20 {
        root.post(&url, json!({ "note": number.to_string() })).await.expect(201);
    }
    let before = server.statements();
    let listed = root.get(&url).await.expect(200);
    let twenty = server.statements() - before;
    assert_eq!(listed.pluck("note").len(), 20);
    assert!(twenty == one && one <= 7, "{one} and {twenty}: {:?}", server.statement_texts(before));
    let commits = server.statements();
    root.get(&sample.commits()).await.expect(200);
    let used = server.statements() - commits;
    assert!(used <= 5, "{used}: {:?}", server.statement_texts(commits));
}

on_every_database![
    commit_comments_are_created_and_listed_oldest_first,
    commit_comment_stores_only_lines_of_the_diff,
    commit_comments_require_code_access,
    create_commit_comment_rejects_invalid_notes,
    list_commit_comments_statement_count_is_constant,
];
