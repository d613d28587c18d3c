//! Merge requests are merged only after their status checks have passed, if the project requires this.

use serde_json::{Value, json};

use super::Fixture;
use crate::delivery::commit_statuses::report;
use crate::delivery::pipelines::pipeline;
use crate::support::webhook_receiver::Receiver;
use crate::support::{TestServer, on_every_database};

/// Returns the state of the merge request, and whether its merge waits.
fn waiting(read: &Value) -> (&Value, &Value) {
    (&read["state"], &read["merge_when_pipeline_succeeds"])
}

async fn merge_returns_405_until_all_checks_passed(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let first = fixture.check_at("First", "https://checks.example.com/1").await;
    let second = fixture.check_at("Second", "https://checks.example.com/2").await;
    assert_eq!(fixture.detailed_status().await, "mergeable");
    fixture.require().await;
    for (check, status) in [(first, "passed"), (second, "failed"), (second, "pending")] {
        assert_eq!(fixture.detailed_status().await, "status_checks_must_pass");
        assert_eq!(fixture.merge(json!({})).await.expect(405).message(), "405 Method Not Allowed");
        fixture.report(check, status).await;
    }
    fixture.report(second, "passed").await;
    assert_eq!(fixture.detailed_status().await, "mergeable");
    // The statuses are those of the former head.
    fixture.push("more.txt").await;
    fixture.merge(json!({})).await.expect(405);
    fixture.report(first, "passed").await;
    fixture.report(second, "passed").await;
    fixture.merge(json!({})).await.expect(200);
}

async fn only_checks_of_the_target_branch_are_required(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    fixture.require().await;
    assert_eq!(fixture.detailed_status().await, "mergeable");
    let protected = fixture.url("/protected_branches");
    let release = fixture.root.post(&protected, json!({ "name": "release/*" })).await.expect(201).json();
    let stable = fixture.root.post(&protected, json!({ "name": "*/1" })).await.expect(201).json();
    let body = json!({
        "name": "Release", "external_url": "https://checks.example.com/",
        "protected_branch_ids": [release["id"], stable["id"]],
    });
    fixture.check(body).await;
    assert_eq!(fixture.detailed_status().await, "mergeable");
    let branch = json!({ "branch": "release/1", "ref": "main" });
    fixture.root.post(&fixture.project.url("/branches"), branch).await.expect(201);
    let one = fixture.url("/merge_requests/1");
    fixture.root.put(&one, json!({ "target_branch": "release/1" })).await.expect(200);
    assert_eq!(fixture.detailed_status().await, "status_checks_must_pass");
    fixture.merge(json!({})).await.expect(405);
    fixture.root.put(&one, json!({ "target_branch": "main" })).await.expect(200);
    fixture.merge(json!({})).await.expect(200);
}

async fn status_names_missing_approvals_first_and_discussions_after_checks(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let check = fixture.check_at("Check", "https://checks.example.com/").await;
    fixture.require().await;
    fixture.root.post(&fixture.url("/approvals"), json!({ "approvals_before_merge": 1 })).await.expect(201);
    let change = json!({ "only_allow_merge_if_pipeline_succeeds": true });
    fixture.root.put(&fixture.url(""), change).await.expect(200);
    assert_eq!(fixture.detailed_status().await, "not_approved");
    fixture.ann.post(&fixture.url("/merge_requests/1/approve"), json!({})).await.expect(201);
    assert_eq!(fixture.detailed_status().await, "status_checks_must_pass");
    fixture.report(check, "passed").await;
    assert_eq!(fixture.detailed_status().await, "ci_must_pass");
    let one = fixture.url("/merge_requests/1");
    fixture.root.put(&one, json!({ "state_event": "close" })).await.expect(200);
    assert_eq!(fixture.detailed_status().await, "not_open");
}

async fn automatic_merge_waits_for_the_last_check(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let first = fixture.check_at("First", "https://checks.example.com/1").await;
    let second = fixture.check_at("Second", "https://checks.example.com/2").await;
    fixture.require().await;
    let set = fixture.merge(json!({ "merge_when_pipeline_succeeds": true })).await.expect(200).json();
    assert_eq!(waiting(&set), (&json!("opened"), &json!(true)));
    let notes = fixture.root.get(&fixture.url("/merge_requests/1/notes")).await.expect(200).json();
    let head = fixture.project.id("feature/x");
    assert_eq!(notes[0]["body"], format!("enabled an automatic merge when the status checks for {head} pass"));
    fixture.report(first, "passed").await;
    fixture.report(second, "failed").await;
    server.finish_jobs().await;
    assert_eq!(waiting(&fixture.read().await), (&json!("opened"), &json!(true)));
    fixture.report(second, "passed").await;
    server.finish_jobs().await;
    assert_eq!(fixture.read().await["state"], "merged");
}

async fn automatic_merge_continues_after_checks_are_not_required_any_more(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    fixture.check_at("Check", "https://checks.example.com/").await;
    fixture.require().await;
    let set = fixture.merge(json!({ "merge_when_pipeline_succeeds": true })).await.expect(200).json();
    assert_eq!(waiting(&set), (&json!("opened"), &json!(true)));
    let change = json!({ "only_allow_merge_if_all_status_checks_passed": false });
    fixture.root.put(&fixture.url(""), change).await.expect(200);
    server.finish_jobs().await;
    assert_eq!(fixture.read().await["state"], "merged");
}

/// Lets the check pass and the pipeline succeed in one of both orders, and expects the merge after the second.
async fn merges_after_pipeline_and_check(server: &TestServer, order: [&str; 2]) {
    let fixture = Fixture::new(server).await;
    let check = fixture.check_at("Check", "https://checks.example.com/").await;
    fixture.require().await;
    pipeline(&fixture.root, fixture.project.id, "feature/x").await;
    fixture.merge(json!({ "merge_when_pipeline_succeeds": true })).await.expect(200);
    let sha = fixture.project.id("feature/x");
    for event in order {
        server.finish_jobs().await;
        assert_eq!(waiting(&fixture.read().await), (&json!("opened"), &json!(true)), "{event}");
        if event == "check" {
            fixture.report(check, "passed").await;
        } else {
            let success = json!({ "state": "success", "ref": "feature/x" });
            report(&fixture.root, fixture.project.id, &sha, success).await;
        }
    }
    server.finish_jobs().await;
    assert_eq!(fixture.read().await["state"], "merged");
}

async fn automatic_merge_waits_for_a_check_after_the_pipeline(server: TestServer) {
    merges_after_pipeline_and_check(&server, ["pipeline", "check"]).await;
}

async fn automatic_merge_waits_for_the_pipeline_after_a_check(server: TestServer) {
    merges_after_pipeline_and_check(&server, ["check", "pipeline"]).await;
}

async fn automatic_merge_continues_after_its_last_check_is_removed(server: TestServer) {
    let fixture = Fixture::without_merge_request(&server).await;
    let receiver = Receiver::start().await;
    fixture.require().await;
    let release = json!({ "name": "release/*" });
    let release = fixture.root.post(&fixture.url("/protected_branches"), release).await.expect(201).json();
    for is_deleted in [true, false] {
        let branch = format!("topic-{is_deleted}");
        let body = json!({ "branch": branch, "ref": "feature/x" });
        fixture.root.post(&fixture.project.url("/branches"), body).await.expect(201);
        let body = json!({ "branch": branch, "content": "1", "commit_message": "1" });
        fixture.root.post(&fixture.project.url(&format!("/files/{branch}")), body).await.expect(201);
        let check = fixture.check_at("Check", &receiver.url).await;
        let iid = fixture.propose(&branch).await["iid"].clone();
        let one = fixture.url(&format!("/merge_requests/{iid}"));
        let waits = json!({ "merge_when_pipeline_succeeds": true });
        fixture.root.put(&format!("{one}/merge"), waits).await.expect(200);
        server.finish_jobs().await;
        assert_eq!(waiting(&fixture.root.get(&one).await.json()), (&json!("opened"), &json!(true)));
        let url = fixture.url(&format!("/external_status_checks/{check}"));
        match is_deleted {
            true => drop(fixture.root.delete(&url).await.expect(204)),
            false => {
                let limit = json!({ "protected_branch_ids": [release["id"]] });
                drop(fixture.root.put(&url, limit).await.expect(200));
            }
        }
        server.finish_jobs().await;
        assert_eq!(fixture.root.get(&one).await.json()["state"], "merged", "{is_deleted}");
    }
}

async fn failed_pipeline_is_not_ignored_while_checks_are_pending(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let check = fixture.check_at("Check", "https://checks.example.com/").await;
    fixture.require().await;
    pipeline(&fixture.root, fixture.project.id, "feature/x").await;
    let sha = fixture.project.id("feature/x");
    report(&fixture.root, fixture.project.id, &sha, json!({ "state": "failed", "ref": "feature/x" })).await;
    let waits = json!({ "merge_when_pipeline_succeeds": true });
    fixture.merge(waits.clone()).await.expect(405);
    fixture.report(check, "passed").await;
    // Without the checks, a failed pipeline that is not required does not delay a merge.
    fixture.merge(waits).await.expect(200);
    assert_eq!(fixture.read().await["state"], "merged");
}

on_every_database![
    merge_returns_405_until_all_checks_passed,
    only_checks_of_the_target_branch_are_required,
    status_names_missing_approvals_first_and_discussions_after_checks,
    automatic_merge_waits_for_the_last_check,
    automatic_merge_continues_after_checks_are_not_required_any_more,
    automatic_merge_waits_for_a_check_after_the_pipeline,
    automatic_merge_waits_for_the_pipeline_after_a_check,
    automatic_merge_continues_after_its_last_check_is_removed,
    failed_pipeline_is_not_ignored_while_checks_are_pending,
];
