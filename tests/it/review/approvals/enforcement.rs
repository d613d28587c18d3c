//! Merge requests are merged only with the approvals that their rules require.

use serde_json::json;
use storage::entities::AccessLevel;

use super::Fixture;
use crate::delivery::commit_statuses::report;
use crate::delivery::pipelines::pipeline;
use crate::support::{TestServer, on_every_database};

async fn merge_returns_405_until_it_is_approved(server: TestServer) {
    let fixture = Fixture::new(&server, "merge").await;
    let (ann, bob) =
        (fixture.member("ann", AccessLevel::Developer).await, fixture.member("bob", AccessLevel::Developer).await);
    assert_eq!(fixture.detailed_status().await, "mergeable");
    fixture.set(json!({"approvals_before_merge": 2})).await;
    for (member, left) in [(&ann, 2), (&bob, 1)] {
        let approvals = fixture.approvals().await;
        assert_eq!((&approvals["approvals_required"], &approvals["approvals_left"]), (&json!(2), &json!(left)));
        assert_eq!(approvals["approval_rules_left"][0]["name"], "All Members");
        assert_eq!(fixture.detailed_status().await, "not_approved");
        assert_eq!(fixture.merge().await.expect(405).message(), "405 Method Not Allowed");
        fixture.approve(&member.client).await.expect(201);
    }
    let approvals = fixture.approvals().await;
    assert_eq!((&approvals["approved"], &approvals["approval_rules_left"]), (&json!(true), &json!([])));
    fixture.unapprove(&bob.client).await.expect(201);
    fixture.merge().await.expect(405);
    fixture.approve(&bob.client).await.expect(201);
    assert_eq!(fixture.detailed_status().await, "mergeable");
    fixture.merge().await.expect(200);
    assert_eq!(fixture.detailed_status().await, "not_open");
}

async fn status_names_drafts_first_and_discussions_after_approvals(server: TestServer) {
    let fixture = Fixture::new(&server, "order").await;
    fixture.set(json!({"approvals_before_merge": 1})).await;
    fixture.root.put(&fixture.url(""), json!({"only_allow_merge_if_pipeline_succeeds": true})).await.expect(200);
    assert_eq!(fixture.detailed_status().await, "not_approved");
    let one = fixture.url("/merge_requests/1");
    fixture.root.put(&one, json!({"title": "Draft: x"})).await.expect(200);
    assert_eq!(fixture.detailed_status().await, "draft_status");
}

async fn automatic_merge_requires_approvals(server: TestServer) {
    let fixture = Fixture::new(&server, "auto").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    fixture.set(json!({"approvals_before_merge": 1})).await;
    fixture.root.put(&fixture.url(""), json!({"only_allow_merge_if_pipeline_succeeds": true})).await.expect(200);
    pipeline(&fixture.root, fixture.project.id, "feature/x").await;
    let url = fixture.url("/merge_requests/1/merge");
    let waits = json!({"merge_when_pipeline_succeeds": true});
    fixture.root.put(&url, waits.clone()).await.expect(405);
    fixture.approve(&ann.client).await.expect(201);
    fixture.root.put(&url, waits.clone()).await.expect(200);
    // The approval is revoked before the pipeline succeeds.
    fixture.unapprove(&ann.client).await.expect(201);
    let sha = fixture.project.id("feature/x");
    report(&fixture.root, fixture.project.id, &sha, json!({"state": "success", "ref": "feature/x"})).await;
    server.finish_jobs().await;
    let read = fixture.root.get(&fixture.url("/merge_requests/1")).await.expect(200).json();
    assert_eq!((&read["state"], &read["merge_when_pipeline_succeeds"]), (&json!("opened"), &json!(false)));
    let notes = fixture.notes().await;
    let last = notes.last().and_then(|note| note.as_str()).expect("a note");
    assert!(last.starts_with("aborted the automatic merge because it was refused"), "{last}");
    fixture.approve(&ann.client).await.expect(201);
    fixture.root.put(&url, waits).await.expect(200);
    let read = fixture.root.get(&fixture.url("/merge_requests/1")).await.expect(200).json();
    assert_eq!(read["state"], "merged");
}

async fn rules_apply_only_to_their_branches(server: TestServer) {
    let fixture = Fixture::new(&server, "branches").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    let protected = fixture.url("/protected_branches");
    let release = fixture.root.post(&protected, json!({"name": "release/*"})).await.expect(201).json();
    let rule = fixture
        .rule(json!({
            "name": "Release", "approvals_required": 1, "user_ids": [ann.id], "protected_branch_ids": [release["id"]],
        }))
        .await;
    assert_eq!(rule["protected_branches"][0]["name"], "release/*");
    assert_eq!(
        (fixture.detailed_status().await, &fixture.approvals().await["has_approval_rules"]),
        (json!("mergeable"), &json!(false))
    );
    let url = fixture.project.url("/branches");
    fixture.root.post(&url, json!({"branch": "release/1", "ref": "main"})).await.expect(201);
    let one = fixture.url("/merge_requests/1");
    fixture.root.put(&one, json!({"target_branch": "release/1"})).await.expect(200);
    assert_eq!(fixture.detailed_status().await, "not_approved");
    fixture.root.put(&one, json!({"target_branch": "main"})).await.expect(200);
    // `main` is protected, `free` is not.
    let change = json!({"applies_to_all_protected_branches": true});
    let changed = fixture.root.put(&fixture.url(&format!("/approval_rules/{}", rule["id"])), change).await;
    let names: Vec<_> = changed.expect(200).json()["protected_branches"].as_array().expect("a list").clone();
    assert_eq!(names.iter().map(|branch| branch["name"].clone()).collect::<Vec<_>>(), ["main", "release/*"]);
    assert_eq!(fixture.detailed_status().await, "not_approved");
    fixture.root.post(&url, json!({"branch": "free", "ref": "main"})).await.expect(201);
    fixture.root.put(&one, json!({"target_branch": "free"})).await.expect(200);
    assert_eq!(fixture.detailed_status().await, "mergeable");
    fixture.merge().await.expect(200);
}

async fn rule_of_a_deleted_protection_applies_to_all_branches(server: TestServer) {
    let fixture = Fixture::new(&server, "widened").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    let protected = fixture.url("/protected_branches");
    let release = fixture.root.post(&protected, json!({"name": "release"})).await.expect(201).json();
    let body = json!({
        "name": "Release", "approvals_required": 1, "user_ids": [ann.id], "protected_branch_ids": [release["id"]],
    });
    fixture.rule(body).await;
    assert_eq!(fixture.detailed_status().await, "mergeable");
    // Otherwise, Maintainers could disable a rule by the deletion and a new protection of the branch.
    fixture.root.delete(&format!("{protected}/release")).await.expect(204);
    assert_eq!(fixture.detailed_status().await, "not_approved");
    fixture.merge().await.expect(405);
    fixture.approve(&ann.client).await.expect(201);
    fixture.merge().await.expect(200);
}

on_every_database![
    merge_returns_405_until_it_is_approved,
    status_names_drafts_first_and_discussions_after_approvals,
    automatic_merge_requires_approvals,
    rules_apply_only_to_their_branches,
    rule_of_a_deleted_protection_applies_to_all_branches,
];
