//! Approvals at the same time as other approvals, pushes and merges.

use serde_json::json;
use storage::entities::AccessLevel;

use super::{Fixture, approved_by};
use crate::support::{TestServer, on_every_database};

async fn concurrent_approvals_of_one_user_count_once(server: TestServer) {
    let fixture = Fixture::new(&server, "twice").await;
    let (ann, bob) =
        (fixture.member("ann", AccessLevel::Developer).await, fixture.member("bob", AccessLevel::Developer).await);
    let clients = [&ann, &ann, &ann, &bob, &bob, &bob];
    let all = clients.map(|member| fixture.approve(&member.client));
    let mut statuses: Vec<u16> = futures_util::future::join_all(all).await.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 201, 401, 401, 401, 401]);
    let approvals = fixture.approvals().await;
    let mut names = approved_by(&approvals);
    names.sort_unstable();
    assert_eq!(names, ["ann", "bob"]);
    assert_eq!(fixture.notes().await.len(), 2);
}

async fn approval_never_outlives_a_concurrent_push(server: TestServer) {
    let fixture = Fixture::new(&server, "pushed").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    for number in 0..8 {
        let head = fixture.project.id("feature/x");
        let name = format!("f{number}.txt");
        let url = fixture.url("/merge_requests/1/approve");
        let approve = ann.client.post(&url, json!({"sha": head}));
        let ((), approved) = tokio::join!(fixture.push(&name), approve);
        // The approval was for the former head: it was refused, or the push deleted it.
        assert!([201, 409].contains(&approved.status), "{}", approved.status);
        assert_eq!(approved_by(&fixture.approvals().await), [""; 0], "{number}");
    }
}

async fn merge_never_uses_a_revoked_approval(server: TestServer) {
    let fixture = Fixture::new(&server, "revoked").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    fixture.set(json!({"approvals_before_merge": 1})).await;
    for _ in 0..6 {
        fixture.approve(&ann.client).await.expect(201);
        let (merged, revoked) = tokio::join!(fixture.merge(), fixture.unapprove(&ann.client));
        match (merged.status, revoked.status) {
            // The approval was revoked before the decision.
            (405, 201) => {}
            // The merge was decided before; the approval was revoked before or after the merge was recorded.
            (200, 201 | 401) => return,
            statuses => panic!("{statuses:?}"),
        }
    }
}

on_every_database![
    concurrent_approvals_of_one_user_count_once,
    approval_never_outlives_a_concurrent_push,
    merge_never_uses_a_revoked_approval,
];
