//! Equal requests that wait for one computation of their response.

use domain::kernel::budgets::RateClient;
use futures_util::future::join_all;
use serde_json::json;
use tokio::task::JoinSet;

use crate::edge::database_shares::take_share;
use crate::support::spaces::project;
use crate::support::{DatabaseKind, TestServer, on_every_database};

/// Number of equal requests.
const REQUESTS: usize = 20;
/// ID of the first administrator.
const ROOT: i64 = 1;

/// On SQLite, where no other test invalidates the response.
async fn equal_requests_run_their_statements_once() {
    let server = TestServer::start_with(DatabaseKind::Sqlite, Default::default()).await;
    let root = server.root();
    project(&root, "work", json!({})).await;
    server.finish_jobs().await;
    let mut counts = Vec::new();
    for requests in [1, REQUESTS] {
        let first = server.statements();
        // The caches of tokens and settings are not coalesced.
        root.get("/user").await.expect(200);
        let before = server.statement_texts(first).len();
        // No request finishes before all permits are returned.
        let blocked = take_share(&server, RateClient::User(ROOT)).await;
        let mut sent = JoinSet::new();
        for _ in 0..requests {
            let root = root.clone();
            sent.spawn(async move { root.get("/projects").await.expect(200).body });
        }
        drop(blocked);
        let bodies = sent.join_all().await;
        assert!(bodies.iter().all(|body| *body == bodies[0]));
        counts.push(server.statement_texts(first).len() - before);
    }
    assert!(counts[0] > 0);
    assert_eq!(counts[0], counts[1], "statements of 1 and of {REQUESTS} requests");
    server.stop().await;
}

async fn equal_requests_of_different_callers_receive_their_own_responses(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({"visibility": "public"})).await;
    let ada = server.create_user("ada").await;
    let narrow = server.with_token(&server.create_token(ada.id, &["read_user"]).await);
    let path = format!("/projects/{work}");
    for _ in 0..5 {
        server.backend.database.invalidate();
        let requests = (0..REQUESTS).map(async |_| {
            let (by_root, by_ada, by_narrow, by_anonymous) =
                tokio::join!(root.get(&path), ada.client.get(&path), narrow.get(&path), async {
                    server.anonymous().get(&path).await
                });
            assert!(by_root.expect(200).json()["runners_token"].is_string());
            assert!(by_ada.expect(200).json()["runners_token"].is_null());
            by_narrow.expect(403);
            assert!(by_anonymous.expect(200).json().get("permissions").is_none());
        });
        join_all(requests).await;
    }
}

async fn canceled_request_does_not_delay_equal_requests(server: TestServer) {
    let root = server.root();
    server.backend.database.invalidate();
    let blocked = take_share(&server, RateClient::User(ROOT)).await;
    let mut sent = JoinSet::new();
    let mut handles = Vec::new();
    for _ in 0..REQUESTS {
        let root = root.clone();
        handles.push(sent.spawn(async move { root.get("/projects").await.status }));
    }
    // Other clients are served meanwhile, so the requests have had time to arrive.
    for _ in 0..REQUESTS {
        server.anonymous().get("/projects").await.expect(200);
    }
    for canceled in handles.iter().take(REQUESTS / 2) {
        canceled.abort();
    }
    drop(blocked);
    let mut finished = 0;
    while let Some(done) = sent.join_next().await {
        if let Ok(status) = done {
            assert_eq!(status, 200);
            finished += 1;
        }
    }
    assert_eq!(finished, REQUESTS - REQUESTS / 2);
}

async fn equal_requests_for_missing_resources_all_fail(server: TestServer) {
    let root = server.root();
    server.backend.database.invalidate();
    let requests = (0..REQUESTS).map(|_| root.get("/projects/nothing%2Fhere"));
    for response in join_all(requests).await {
        response.expect(404);
    }
}

on_every_database![
    equal_requests_of_different_callers_receive_their_own_responses,
    canceled_request_does_not_delay_equal_requests,
    equal_requests_for_missing_resources_all_fail,
];
harness::tests![equal_requests_run_their_statements_once];
