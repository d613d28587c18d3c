//! The three merge methods and the commits that they create.

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::Fixture;
use crate::support::{TestServer, on_every_database};

async fn merge_creates_merge_commit_note_and_event(server: TestServer) {
    let fixture = Fixture::new(&server, "plain").await;
    let project = &fixture.project;
    let (main, head) = (project.id("main"), project.id("feature/x"));
    let before = fixture.read(1).await;
    assert_eq!((&before["merge_status"], &before["has_conflicts"]), (&json!("can_be_merged"), &json!(false)));
    let merged = fixture.merge(1, json!({"sha": head})).await.expect(200).json();
    assert_eq!((&merged["state"], &merged["merged_by"]["username"]), (&json!("merged"), &json!("root")));
    assert!(merged["merged_at"].is_string() && merged["closed_at"].is_null());
    let tip = project.id("main");
    assert_eq!((&merged["merge_commit_sha"], &merged["squash_commit_sha"]), (&json!(tip), &Value::Null));
    assert_eq!((&merged["sha"], &merged["merge_status"]), (&json!(head), &json!("can_be_merged")));
    assert_eq!(project.git(&["log", "-1", "--format=%P", "main"]), format!("{main} {head}"));
    let message = "Merge branch 'feature/x' into 'main'\n\nAdd feature/x\n\nSee merge request root/plain!1";
    assert_eq!(project.git(&["log", "-1", "--format=%B", "main"]), message);
    assert_eq!(
        project.git(&["log", "-1", "--format=%an <%ae>|%cn", "main"]),
        "Administrator <root@localhost>|Administrator"
    );
    assert_eq!(project.git(&["show", "main:x.txt"]), "x");
    project.fsck();
    assert_eq!(fixture.read(1).await, merged);
    assert_eq!(fixture.notes(1).await, ["merged"]);
    let events = fixture.root.get(&fixture.url("/events?action=merged")).await.expect(200).json();
    assert_eq!((&events[0]["target_type"], &events[0]["target_iid"]), (&json!("MergeRequest"), &json!(1)));
    assert_eq!((&events[0]["action_name"], &events[0]["author"]["username"]), (&json!("accepted"), &json!("root")));
    // The source branch remains by default.
    server.finish_jobs().await;
    assert_eq!(project.id("feature/x"), head);
    fixture.merge(1, json!({})).await.expect(405);
}

async fn merge_uses_given_commit_message(server: TestServer) {
    let fixture = Fixture::new(&server, "said").await;
    fixture.merge(1, json!({"merge_commit_message": "Mine\n\nBody"})).await.expect(200);
    assert_eq!(fixture.project.git(&["log", "-1", "--format=%B", "main"]), "Mine\n\nBody");
}

async fn merge_with_squash_creates_one_commit(server: TestServer) {
    let fixture = Fixture::new(&server, "squash").await;
    let project = &fixture.project;
    let ann = server.create_user("ann").await;
    server.insert_member(project.id, ann.id, AccessLevel::Developer).await;
    let base = project.id("main~1");
    fixture.branch("two", &base, "y.txt", "1\n");
    let last = fixture.branch("two", "two", "y.txt", "2\n");
    let body = json!({"source_branch": "two", "target_branch": "main", "title": "All of it", "squash": true});
    ann.client.post(&fixture.url("/merge_requests"), body).await.expect(201);
    let merged = fixture.merge(2, json!({})).await.expect(200).json();
    let squashed = merged["squash_commit_sha"].as_str().expect("a commit").to_owned();
    assert_eq!((&merged["merge_commit_sha"], &merged["squash"]), (&json!(project.id("main")), &json!(true)));
    assert_eq!((project.id("main^2"), project.id(&format!("{squashed}^"))), (squashed.clone(), base));
    assert_eq!(project.git(&["log", "-1", "--format=%an|%cn|%B", &squashed]), "Name of ann|Administrator|All of it");
    assert_eq!(project.id(&format!("{squashed}^{{tree}}")), project.id(&format!("{last}^{{tree}}")));
    project.fsck();
}

async fn merge_with_squash_uses_given_commit_message(server: TestServer) {
    let fixture = Fixture::new(&server, "saying").await;
    let body = json!({"squash": true, "squash_commit_message": "Other words"});
    let merged = fixture.merge(1, body).await.expect(200).json();
    let squashed = merged["squash_commit_sha"].as_str().expect("a commit");
    assert_eq!(fixture.project.git(&["log", "-1", "--format=%B", squashed]), "Other words");
}

async fn merge_with_squash_of_one_commit_creates_no_squash_commit(server: TestServer) {
    let fixture = Fixture::new(&server, "single").await;
    let merged = fixture.merge(1, json!({"squash": true})).await.expect(200).json();
    assert_eq!(merged["squash_commit_sha"], Value::Null);
    assert_eq!(fixture.project.id("main^2"), merged["sha"].as_str().expect("a head"));
}

async fn rebase_merge_method_requires_fast_forward_and_creates_merge_commit(server: TestServer) {
    let fixture = Fixture::new(&server, "semi").await;
    fixture.set(json!({"merge_method": "rebase_merge"})).await;
    let rejected = fixture.merge(1, json!({})).await.expect(406);
    assert_eq!(rejected.message(), "Branch cannot be merged");
    let main = fixture.project.id("main");
    let ahead = fixture.branch("ahead", "main", "ahead.txt", "a\n");
    let iid = fixture.propose("ahead", json!({})).await;
    let merged = fixture.merge(iid, json!({})).await.expect(200).json();
    assert_eq!(merged["merge_commit_sha"], fixture.project.id("main"));
    assert_eq!(fixture.project.git(&["log", "-1", "--format=%P", "main"]), format!("{main} {ahead}"));
}

async fn fast_forward_method_creates_no_merge_commit(server: TestServer) {
    let fixture = Fixture::new(&server, "fast").await;
    fixture.set(json!({"merge_method": "ff"})).await;
    fixture.merge(1, json!({})).await.expect(406);
    let ahead = fixture.branch("ahead", "main", "ahead.txt", "a\n");
    let iid = fixture.propose("ahead", json!({})).await;
    let merged = fixture.merge(iid, json!({})).await.expect(200).json();
    assert_eq!((&merged["state"], &merged["merge_commit_sha"]), (&json!("merged"), &Value::Null));
    assert_eq!(fixture.project.id("main"), ahead);
    // With squash, the target receives one new commit.
    fixture.branch("more", "main", "more.txt", "1\n");
    let last = fixture.branch("more", "more", "more.txt", "2\n");
    let iid = fixture.propose("more", json!({})).await;
    let merged = fixture.merge(iid, json!({"squash": true})).await.expect(200).json();
    let tip = fixture.project.id("main");
    assert_eq!((&merged["merge_commit_sha"], &merged["squash_commit_sha"]), (&Value::Null, &json!(tip)));
    assert_eq!(fixture.project.git(&["log", "-1", "--format=%P|%B", "main"]), format!("{ahead}|Add more"));
    assert_eq!(fixture.project.id("main^{tree}"), fixture.project.id(&format!("{last}^{{tree}}")));
}

async fn merge_deletes_source_branch_on_request_unless_it_was_updated(server: TestServer) {
    let fixture = Fixture::new(&server, "gone").await;
    let merged = fixture.merge(1, json!({"should_remove_source_branch": true})).await.expect(200).json();
    assert_eq!(merged["should_remove_source_branch"], true);
    fixture.branch("kept", "main", "kept.txt", "1\n");
    let updated = fixture.propose("kept", json!({"remove_source_branch": true})).await;
    let merged = fixture.merge(updated, json!({})).await.expect(200).json();
    assert_eq!(
        (&merged["force_remove_source_branch"], &merged["should_remove_source_branch"]),
        (&json!(true), &Value::Null)
    );
    fixture.branch("kept", "kept", "kept.txt", "2\n");
    server.finish_jobs().await;
    assert_eq!(fixture.project.references("refs/heads/"), ["kept", "main", "merged"]);
    // Merged commits can still be fetched.
    assert_eq!(fixture.project.git(&["show", "refs/merge-requests/1/head:x.txt"]), "x");
    assert_eq!(fixture.read(1).await["state"], "merged");
}

async fn commits_and_changes_are_equal_before_and_after_merge(server: TestServer) {
    let fixture = Fixture::new(&server, "brings").await;
    fixture.branch("feature/x", "feature/x", "README.md", "Hello!\n");
    let iid = fixture.propose("feature/x", json!({"target_branch": "merged"})).await;
    for round in 0..2 {
        let url = fixture.url(&format!("/merge_requests/{iid}"));
        let commits = fixture.root.get(&format!("{url}/commits")).await.expect(200);
        assert_eq!(commits.header("x-total"), "2");
        assert_eq!(
            commits.pluck("id"),
            [json!(fixture.project.id("feature/x")), json!(fixture.project.id("feature/x~1"))]
        );
        let first = server.anonymous().get(&format!("{url}/commits?per_page=1&page=2")).await.expect(200);
        assert_eq!(first.pluck("id"), [json!(fixture.project.id("feature/x~1"))]);
        let changes = fixture.root.get(&format!("{url}/changes")).await.expect(200).json();
        let files = changes["changes"].as_array().expect("changes");
        let names: Vec<&Value> = files.iter().map(|file| &file["new_path"]).collect();
        assert_eq!((names, &changes["overflow"]), (vec![&json!("README.md"), &json!("x.txt")], &json!(false)));
        assert_eq!(changes["changes_count"], "2");
        if round == 0 {
            fixture.merge(iid, json!({})).await.expect(200);
        }
    }
}

on_every_database![
    merge_creates_merge_commit_note_and_event,
    merge_uses_given_commit_message,
    merge_with_squash_creates_one_commit,
    merge_with_squash_uses_given_commit_message,
    merge_with_squash_of_one_commit_creates_no_squash_commit,
    rebase_merge_method_requires_fast_forward_and_creates_merge_commit,
    fast_forward_method_creates_no_merge_commit,
    merge_deletes_source_branch_on_request_unless_it_was_updated,
    commits_and_changes_are_equal_before_and_after_merge,
];
