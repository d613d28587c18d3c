//! Sequence numbers of commits, compared with the output of `git rev-list --count`.

use sea_orm::ActiveValue::Set;
use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::list::long_history;
use crate::support::repository::Sample;
use crate::support::{TestServer, on_every_database};

async fn get_commit_sequence_matches_git_rev_list(server: TestServer) {
    let sample = Sample::new(&server).await;
    let id = sample.id_of("main");
    // The merge `main` follows two lines of history.
    for (revision, all, first) in [
        ("main", 4, 3),
        (id.as_str(), 4, 3),
        (&id[..8], 4, 3),
        ("v2.0", 4, 3),
        ("main^2", 2, 2),
        ("topic", 2, 2),
        ("ends-with.json", 2, 2),
        ("v1.0", 1, 1),
    ] {
        let url = format!("{}/sequence", sample.commit(revision));
        for (query, arguments, expected) in [
            ("", &["--count", revision][..], all),
            ("?first_parent=", &["--count", revision], all),
            ("?first_parent=false", &["--count", revision], all),
            ("?first_parent=true", &["--count", "--first-parent", revision], first),
        ] {
            let answer = server.root().get(&format!("{url}{query}")).await.expect(200).json();
            assert_eq!(answer, json!({ "count": expected }), "{revision}{query}");
            let counted = sample.git_raw(&[&["rev-list"], arguments].concat());
            assert_eq!(answer["count"].to_string(), counted.trim(), "{revision}{query}");
        }
    }
}

async fn get_commit_sequence_counts_long_histories_exactly(server: TestServer) {
    let sample = long_history(&server).await;
    for query in ["", "?first_parent=true"] {
        let url = format!("{}/sequence{query}", sample.commit("main"));
        assert_eq!(server.root().get(&url).await.expect(200).json(), json!({ "count": 10_002 }));
    }
}

async fn get_commit_sequence_follows_branch_after_commit(server: TestServer) {
    let sample = Sample::new(&server).await;
    let root = server.root();
    let url = format!("{}/sequence", sample.commit("main"));
    assert_eq!(root.get(&url).await.expect(200).json(), json!({ "count": 4 }));
    let action = json!({ "action": "create", "file_path": "new.txt", "content": "new" });
    let body = json!({ "branch": "main", "commit_message": "Add a file", "actions": [action] });
    root.post(&sample.commits(), body).await.expect(201);
    assert_eq!(root.get(&url).await.expect(200).json(), json!({ "count": 5 }));
}

async fn get_commit_sequence_rejects_invalid_first_parent(server: TestServer) {
    let sample = Sample::new(&server).await;
    let url = format!("{}/sequence?first_parent=perhaps", sample.commit("main"));
    assert_eq!(server.root().get(&url).await.expect(400).message(), "first_parent is invalid");
    let stranger = sample.member(None).await;
    assert_eq!(stranger.get(&url).await.expect(404).message(), "404 Project Not Found");
}

async fn get_commit_sequence_of_unknown_project_or_empty_repository_returns_404(server: TestServer) {
    let root = server.root();
    let unknown = root.get("/projects/0/repository/commits/main/sequence").await.expect(404);
    assert_eq!(unknown.message(), "404 Project Not Found");
    let empty = Sample::empty(&server, Visibility::Private).await;
    let answer = root.get(&format!("{}/sequence", empty.commit("main"))).await.expect(404);
    assert_eq!(answer.message(), "404 Commit Not Found");
}

async fn get_commit_sequence_has_access_rules_of_get_commit(server: TestServer) {
    let sample = Sample::new(&server).await;
    let commit = sample.commit("main");
    let sequence = format!("{commit}/sequence");
    let guest = sample.member(Some(AccessLevel::Guest)).await;
    let clients = [server.root(), sample.member(Some(AccessLevel::Reporter)).await, guest, sample.member(None).await];
    for visibility in [Visibility::Private, Visibility::Internal, Visibility::Public] {
        sample.update(|row| row.visibility = Set(visibility)).await;
        for client in clients.iter().chain([&server.anonymous(), &server.with_token("unknown")]) {
            let expected = client.get(&commit).await.status;
            client.get(&sequence).await.expect(expected);
        }
    }
}

on_every_database![
    get_commit_sequence_matches_git_rev_list,
    get_commit_sequence_counts_long_histories_exactly,
    get_commit_sequence_follows_branch_after_commit,
    get_commit_sequence_rejects_invalid_first_parent,
    get_commit_sequence_of_unknown_project_or_empty_repository_returns_404,
    get_commit_sequence_has_access_rules_of_get_commit,
];
