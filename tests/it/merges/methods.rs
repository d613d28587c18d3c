//! The three ways to merge, and what commits they make (specification 2.0, `merge_method`).

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::Scene;
use crate::support::{TestServer, on_every_database};

async fn merging_makes_a_merge_commit_and_tells_of_it(server: TestServer) {
    let scene = Scene::new(&server, "plain").await;
    let project = &scene.project;
    let (main, head) = (project.id("main"), project.id("feature/x"));
    let before = scene.read(1).await;
    assert_eq!((&before["merge_status"], &before["has_conflicts"]), (&json!("can_be_merged"), &json!(false)));
    let merged = scene.merge(1, json!({"sha": head})).await.expect(200).json();
    assert_eq!((&merged["state"], &merged["merged_by"]["username"]), (&json!("merged"), &json!("root")));
    assert!(merged["merged_at"].is_string() && merged["closed_at"].is_null());
    let tip = project.id("main");
    assert_eq!((&merged["merge_commit_sha"], &merged["squash_commit_sha"]), (&json!(tip), &Value::Null));
    assert_eq!((&merged["sha"], &merged["merge_status"]), (&json!(head), &json!("can_be_merged")));
    assert_eq!(project.git(&["log", "-1", "--format=%P", "main"]), format!("{main} {head}"));
    let said = "Merge branch 'feature/x' into 'main'\n\nAdd feature/x\n\nSee merge request root/plain!1";
    assert_eq!(project.git(&["log", "-1", "--format=%B", "main"]), said);
    assert_eq!(
        project.git(&["log", "-1", "--format=%an <%ae>|%cn", "main"]),
        "Administrator <root@localhost>|Administrator"
    );
    assert_eq!(project.git(&["show", "main:x.txt"]), "x");
    project.fsck();
    assert_eq!(scene.read(1).await, merged);
    assert_eq!(scene.notes(1).await, ["merged"]);
    let events = scene.root.get(&scene.url("/events?action=merged")).await.expect(200).json();
    assert_eq!((&events[0]["target_type"], &events[0]["target_iid"]), (&json!("MergeRequest"), &json!(1)));
    assert_eq!((&events[0]["action_name"], &events[0]["author"]["username"]), (&json!("accepted"), &json!("root")));
    // The branch is kept, since nobody said otherwise.
    server.finish_jobs().await;
    assert_eq!(project.id("feature/x"), head);
    scene.merge(1, json!({})).await.expect(405);
}

async fn messages_may_be_said(server: TestServer) {
    let scene = Scene::new(&server, "said").await;
    scene.merge(1, json!({"merge_commit_message": "Mine\n\nBody"})).await.expect(200);
    assert_eq!(scene.project.git(&["log", "-1", "--format=%B", "main"]), "Mine\n\nBody");
}

async fn many_commits_become_one_where_that_is_wanted(server: TestServer) {
    let scene = Scene::new(&server, "squash").await;
    let project = &scene.project;
    let ann = server.person("ann").await;
    server.enrol(project.id, ann.id, AccessLevel::Developer).await;
    let base = project.id("main~1");
    scene.branch("two", &base, "y.txt", "1\n");
    let last = scene.branch("two", "two", "y.txt", "2\n");
    let body = json!({"source_branch": "two", "target_branch": "main", "title": "All of it", "squash": true});
    ann.client.post(&scene.url("/merge_requests"), body).await.expect(201);
    let merged = scene.merge(2, json!({})).await.expect(200).json();
    let squashed = merged["squash_commit_sha"].as_str().expect("a commit").to_owned();
    assert_eq!((&merged["merge_commit_sha"], &merged["squash"]), (&json!(project.id("main")), &json!(true)));
    assert_eq!((project.id("main^2"), project.id(&format!("{squashed}^"))), (squashed.clone(), base));
    assert_eq!(project.git(&["log", "-1", "--format=%an|%cn|%B", &squashed]), "Name of ann|Administrator|All of it");
    assert_eq!(project.id(&format!("{squashed}^{{tree}}")), project.id(&format!("{last}^{{tree}}")));
    project.fsck();
}

async fn what_the_one_commit_says_may_be_said(server: TestServer) {
    let scene = Scene::new(&server, "saying").await;
    let body = json!({"squash": true, "squash_commit_message": "Other words"});
    let merged = scene.merge(1, body).await.expect(200).json();
    let squashed = merged["squash_commit_sha"].as_str().expect("a commit");
    assert_eq!(scene.project.git(&["log", "-1", "--format=%B", squashed]), "Other words");
}

async fn one_commit_is_not_squashed_into_one(server: TestServer) {
    let scene = Scene::new(&server, "single").await;
    let merged = scene.merge(1, json!({"squash": true})).await.expect(200).json();
    assert_eq!(merged["squash_commit_sha"], Value::Null);
    assert_eq!(scene.project.id("main^2"), merged["sha"].as_str().expect("a head"));
}

async fn a_merge_commit_may_be_made_only_where_a_fast_forward_could(server: TestServer) {
    let scene = Scene::new(&server, "semi").await;
    scene.set(json!({"merge_method": "rebase_merge"})).await;
    let refused = scene.merge(1, json!({})).await.expect(406);
    assert_eq!(refused.message(), "Branch cannot be merged");
    let main = scene.project.id("main");
    let ahead = scene.branch("ahead", "main", "ahead.txt", "a\n");
    let iid = scene.propose("ahead", json!({})).await;
    let merged = scene.merge(iid, json!({})).await.expect(200).json();
    assert_eq!(merged["merge_commit_sha"], scene.project.id("main"));
    assert_eq!(scene.project.git(&["log", "-1", "--format=%P", "main"]), format!("{main} {ahead}"));
}

async fn a_fast_forward_makes_no_merge_commit(server: TestServer) {
    let scene = Scene::new(&server, "fast").await;
    scene.set(json!({"merge_method": "ff"})).await;
    scene.merge(1, json!({})).await.expect(406);
    let ahead = scene.branch("ahead", "main", "ahead.txt", "a\n");
    let iid = scene.propose("ahead", json!({})).await;
    let merged = scene.merge(iid, json!({})).await.expect(200).json();
    assert_eq!((&merged["state"], &merged["merge_commit_sha"]), (&json!("merged"), &Value::Null));
    assert_eq!(scene.project.id("main"), ahead);
    // With squash, one new commit stands on the target.
    scene.branch("more", "main", "more.txt", "1\n");
    let last = scene.branch("more", "more", "more.txt", "2\n");
    let iid = scene.propose("more", json!({})).await;
    let merged = scene.merge(iid, json!({"squash": true})).await.expect(200).json();
    let tip = scene.project.id("main");
    assert_eq!((&merged["merge_commit_sha"], &merged["squash_commit_sha"]), (&Value::Null, &json!(tip)));
    assert_eq!(scene.project.git(&["log", "-1", "--format=%P|%B", "main"]), format!("{ahead}|Add more"));
    assert_eq!(scene.project.id("main^{tree}"), scene.project.id(&format!("{last}^{{tree}}")));
}

async fn the_source_branch_goes_where_that_is_wanted_and_it_has_not_moved(server: TestServer) {
    let scene = Scene::new(&server, "gone").await;
    let merged = scene.merge(1, json!({"should_remove_source_branch": true})).await.expect(200).json();
    assert_eq!(merged["should_remove_source_branch"], true);
    scene.branch("kept", "main", "kept.txt", "1\n");
    let kept = scene.propose("kept", json!({"remove_source_branch": true})).await;
    let merged = scene.merge(kept, json!({})).await.expect(200).json();
    assert_eq!(
        (&merged["force_remove_source_branch"], &merged["should_remove_source_branch"]),
        (&json!(true), &Value::Null)
    );
    scene.branch("kept", "kept", "kept.txt", "2\n");
    server.finish_jobs().await;
    assert_eq!(scene.project.references("refs/heads/"), ["kept", "main", "merged"]);
    // What was merged can still be fetched.
    assert_eq!(scene.project.git(&["show", "refs/merge-requests/1/head:x.txt"]), "x");
    assert_eq!(scene.read(1).await["state"], "merged");
}

async fn what_it_brings_is_told_before_and_after(server: TestServer) {
    let scene = Scene::new(&server, "brings").await;
    scene.branch("feature/x", "feature/x", "README.md", "Hello!\n");
    let iid = scene.propose("feature/x", json!({"target_branch": "merged"})).await;
    for round in 0..2 {
        let url = scene.url(&format!("/merge_requests/{iid}"));
        let commits = scene.root.get(&format!("{url}/commits")).await.expect(200);
        assert_eq!(commits.header("x-total"), "2");
        assert_eq!(commits.pluck("id"), [json!(scene.project.id("feature/x")), json!(scene.project.id("feature/x~1"))]);
        let first = server.anonymous().get(&format!("{url}/commits?per_page=1&page=2")).await.expect(200);
        assert_eq!(first.pluck("id"), [json!(scene.project.id("feature/x~1"))]);
        let changes = scene.root.get(&format!("{url}/changes")).await.expect(200).json();
        let files = changes["changes"].as_array().expect("changes");
        let names: Vec<&Value> = files.iter().map(|file| &file["new_path"]).collect();
        assert_eq!((names, &changes["overflow"]), (vec![&json!("README.md"), &json!("x.txt")], &json!(false)));
        assert_eq!(changes["changes_count"], "2");
        if round == 0 {
            scene.merge(iid, json!({})).await.expect(200);
        }
    }
}

on_every_database![
    merging_makes_a_merge_commit_and_tells_of_it,
    messages_may_be_said,
    many_commits_become_one_where_that_is_wanted,
    what_the_one_commit_says_may_be_said,
    one_commit_is_not_squashed_into_one,
    a_merge_commit_may_be_made_only_where_a_fast_forward_could,
    a_fast_forward_makes_no_merge_commit,
    the_source_branch_goes_where_that_is_wanted_and_it_has_not_moved,
    what_it_brings_is_told_before_and_after,
];
