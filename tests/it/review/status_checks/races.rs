//! Statuses of checks at the same time as pushes, merges, retries and changes of the checks.

use serde_json::json;

use super::Fixture;
use crate::support::webhook_receiver::Receiver;
use crate::support::{TestServer, on_every_database};

async fn status_never_outlives_a_concurrent_push(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let check = fixture.check_at("Check", "https://checks.example.com/").await;
    for number in 0..8 {
        let head = fixture.project.id("feature/x");
        let name = format!("f{number}.txt");
        let reported = fixture.report_with(&fixture.ann, check, &head, "passed");
        let ((), reported) = tokio::join!(fixture.push(&name), reported);
        assert!([201, 409].contains(&reported.status), "{}", reported.status);
        assert_eq!(fixture.status().await, "pending", "{number}");
    }
}

async fn merge_never_uses_a_status_that_was_replaced(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let check = fixture.check_at("Check", "https://checks.example.com/").await;
    fixture.require().await;
    let head = fixture.project.id("feature/x");
    for _ in 0..6 {
        fixture.report(check, "passed").await;
        let failed = fixture.report_with(&fixture.ann, check, &head, "failed");
        let (merged, failed) = tokio::join!(fixture.merge(json!({})), failed);
        match (merged.status, failed.status) {
            // The status was replaced before the decision.
            (405, 201) => assert_eq!(fixture.read().await["state"], "opened"),
            // The merge was decided before; the status was replaced before or after the merge was recorded.
            (200, 201 | 422) => return,
            statuses => panic!("{statuses:?}"),
        }
    }
}

async fn concurrent_retries_send_one_request(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let mut receiver = Receiver::start().await;
    let check = fixture.check_at("Check", &receiver.url).await;
    fixture.report(check, "failed").await;
    let all = [(); 6].map(|()| fixture.retry(&fixture.ann, check));
    let mut statuses: Vec<u16> = futures_util::future::join_all(all).await.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [202, 422, 422, 422, 422, 422]);
    server.finish_jobs().await;
    assert_eq!(receiver.rest().len(), 1);
}

async fn concurrent_checks_with_one_name_are_created_once(server: TestServer) {
    let fixture = Fixture::without_merge_request(&server).await;
    let all = fixture.url("/external_status_checks");
    let create = |number: usize| {
        let body = json!({ "name": "Check", "external_url": format!("https://checks.example.com/{number}") });
        fixture.root.post(&all, body)
    };
    let created = futures_util::future::join_all((0..6).map(create)).await;
    let mut statuses: Vec<u16> = created.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 422, 422, 422, 422, 422]);
}

async fn status_of_a_check_that_is_deleted_meanwhile_is_not_found(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let head = fixture.project.id("feature/x");
    for number in 0..6 {
        let check = fixture.check_at(&format!("c{number}"), &format!("https://checks.example.com/{number}")).await;
        let url = fixture.url(&format!("/external_status_checks/{check}"));
        let reported = fixture.report_with(&fixture.ann, check, &head, "passed");
        let (deleted, reported) = tokio::join!(fixture.root.delete(&url), reported);
        assert!([201, 404].contains(&reported.status), "{}", reported.status);
        deleted.expect(204);
        assert!(fixture.statuses().await.is_empty());
    }
}

on_every_database![
    status_never_outlives_a_concurrent_push,
    merge_never_uses_a_status_that_was_replaced,
    concurrent_retries_send_one_request,
    concurrent_checks_with_one_name_are_created_once,
    status_of_a_check_that_is_deleted_meanwhile_is_not_found,
];
