//! Statuses that services report, and retries of failed checks.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::Fixture;
use crate::support::code::Project;
use crate::support::{TestServer, on_every_database};

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, status)| ((*name).to_owned(), (*status).to_owned())).collect()
}

async fn reported_status_replaces_the_former_one(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let first = fixture.check_at("First", "https://checks.example.com/1").await;
    let second = fixture.check_at("Second", "https://checks.example.com/2").await;
    let url = fixture.url("/merge_requests/1/status_checks");
    let listed = fixture.ann.get(&url).await.expect(200).json();
    assert_eq!(
        listed,
        json!([
            { "id": first, "name": "First", "external_url": "https://checks.example.com/1", "status": "pending" },
            { "id": second, "name": "Second", "external_url": "https://checks.example.com/2", "status": "pending" },
        ])
    );
    let page = fixture.ann.get(&format!("{url}?per_page=1&page=2")).await.expect(200);
    assert_eq!((page.header("x-total"), page.json()), ("2", json!([listed[1]])));
    let head = fixture.project.id("feature/x");
    let stored = fixture.report(first, "failed").await;
    assert_eq!(
        stored,
        json!({
            "id": stored["id"], "sha": head, "status": "failed", "created_at": stored["created_at"],
            "external_status_check": {
                "id": first, "name": "First", "external_url": "https://checks.example.com/1", "status": "failed",
            },
        })
    );
    assert_eq!(fixture.statuses().await, pairs(&[("First", "failed"), ("Second", "pending")]));
    // The default is `passed`, and the commit ID is compared without case.
    let body = json!({ "external_status_check_id": first, "sha": format!(" {} ", head.to_uppercase()) });
    let responses = fixture.url("/merge_requests/1/status_check_responses");
    let passed = fixture.ann.post(&responses, body).await.expect(201).json();
    assert_eq!((&passed["id"], &passed["status"]), (&stored["id"], &json!("passed")));
    fixture.report(second, "passed").await;
    fixture.report(first, "pending").await;
    assert_eq!(fixture.statuses().await, pairs(&[("First", "pending"), ("Second", "passed")]));
}

async fn status_is_refused_for_other_commits_checks_and_values(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let check = fixture.check_at("Check", "https://checks.example.com/").await;
    let head = fixture.project.id("feature/x");
    let main = fixture.project.id("main");
    let refused = fixture.report_with(&fixture.ann, check, &main, "passed").await.expect(409);
    assert_eq!(refused.message(), format!("SHA does not match HEAD of source branch: {head}"));
    fixture.report_with(&fixture.ann, check, "x", "passed").await.expect(409);
    fixture.report_with(&fixture.ann, check, &head[..8], "passed").await.expect(409);
    fixture.report_with(&fixture.ann, check, "", "passed").await.expect(400);
    fixture.report_with(&fixture.ann, check, &"a".repeat(65), "passed").await.expect(400);
    fixture.report_with(&fixture.ann, check, &head, "skipped").await.expect(400);
    fixture.report_with(&fixture.ann, 999_999, &head, "passed").await.expect(404);
    let responses = fixture.url("/merge_requests/1/status_check_responses");
    fixture.ann.post(&responses, json!({ "sha": head })).await.expect(400);
    fixture.ann.post(&responses, json!({ "external_status_check_id": check })).await.expect(400);
    let missing = fixture.url("/merge_requests/9/status_check_responses");
    let body = json!({ "external_status_check_id": check, "sha": head });
    fixture.ann.post(&missing, body).await.expect(404);
    // The check of another project does not apply.
    let other = Project::empty(&server, "other", Visibility::Public).await;
    let foreign = super::status_check(&fixture.root, &format!("/projects/{}", other.id), "foreign").await;
    fixture.report_with(&fixture.ann, foreign, &head, "passed").await.expect(404);
    fixture.retry(&fixture.ann, foreign).await.expect(404);
    assert_eq!(fixture.status().await, "pending");
}

async fn users_whose_approvals_are_excluded_report_no_status(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let check = fixture.check_at("Check", "https://checks.example.com/").await;
    let head = fixture.project.id("feature/x");
    // The administrator is the author.
    fixture.report_with(&fixture.root, check, &head, "passed").await.expect(403);
    assert_eq!(fixture.status().await, "pending");
    fixture.root.post(&fixture.url("/approvals"), json!({ "merge_requests_author_approval": true })).await.expect(201);
    fixture.report_with(&fixture.root, check, &head, "passed").await.expect(201);
    // A committer, if the project excludes committers.
    let body = json!({ "branch": "feature/x", "content": "1", "commit_message": "More" });
    fixture.ann.post(&fixture.project.url("/files/more"), body).await.expect(201);
    let head = fixture.project.id("feature/x");
    let change = json!({ "merge_requests_disable_committers_approval": true });
    fixture.root.post(&fixture.url("/approvals"), change).await.expect(201);
    fixture.report_with(&fixture.ann, check, &head, "passed").await.expect(403);
    let bob = fixture.project.member("bob", AccessLevel::Developer).await;
    fixture.report_with(&bob, check, &head, "passed").await.expect(201);
}

async fn new_commits_make_all_checks_pending(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let first = fixture.check_at("First", "https://checks.example.com/1").await;
    let second = fixture.check_at("Second", "https://checks.example.com/2").await;
    let former = fixture.project.id("feature/x");
    fixture.report(first, "passed").await;
    fixture.report(second, "failed").await;
    fixture.push("more.txt").await;
    assert_eq!(fixture.statuses().await, pairs(&[("First", "pending"), ("Second", "pending")]));
    fixture.report_with(&fixture.ann, first, &former, "passed").await.expect(409);
    // Statuses remain if the merge request is closed and reopened with the same commits.
    fixture.report(first, "passed").await;
    for event in ["close", "reopen"] {
        fixture.root.put(&fixture.url("/merge_requests/1"), json!({ "state_event": event })).await.expect(200);
        assert_eq!(fixture.statuses().await, pairs(&[("First", "passed"), ("Second", "pending")]), "{event}");
    }
}

async fn only_failed_checks_are_retried(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let check = fixture.check_at("Check", "https://checks.example.com/").await;
    for status in [None, Some("passed"), Some("pending")] {
        if let Some(status) = status {
            fixture.report(check, status).await;
        }
        let refused = fixture.retry(&fixture.ann, check).await.expect(422);
        assert_eq!(refused.message(), "External status check must be failed", "{status:?}");
    }
    fixture.report(check, "failed").await;
    let accepted = fixture.retry(&fixture.ann, check).await.expect(202).json();
    assert_eq!((accepted, fixture.status().await.as_str()), (json!({ "message": "202 Accepted" }), "pending"));
    fixture.retry(&fixture.ann, check).await.expect(422);
    fixture.retry(&fixture.ann, 999_999).await.expect(404);
    let notes = fixture.root.get(&fixture.url("/merge_requests/1/notes")).await.expect(200).json();
    assert_eq!(notes, json!([]));
}

async fn statuses_of_a_merged_merge_request_are_final(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let check = fixture.check_at("Check", "https://checks.example.com/").await;
    fixture.report(check, "failed").await;
    let head = fixture.project.id("feature/x");
    // The checks only inform, because the project does not require them.
    assert_eq!(fixture.detailed_status().await, "mergeable");
    fixture.merge(json!({})).await.expect(200);
    let refused = fixture.report_with(&fixture.ann, check, &head, "passed").await.expect(422);
    assert_eq!(refused.message(), "The merge request is merged");
    assert_eq!(fixture.retry(&fixture.ann, check).await.expect(422).message(), "The merge request is merged");
    assert_eq!(fixture.status().await, "failed");
    assert_eq!(fixture.detailed_status().await, "not_open");
}

on_every_database![
    reported_status_replaces_the_former_one,
    status_is_refused_for_other_commits_checks_and_values,
    users_whose_approvals_are_excluded_report_no_status,
    new_commits_make_all_checks_pending,
    only_failed_checks_are_retried,
    statuses_of_a_merged_merge_request_are_final,
];
