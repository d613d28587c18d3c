//! Shares of the database connections, time in the database, and metrics of the budgets.

use domain::kernel::budgets::RateClient;
use futures_util::FutureExt;
use sea_orm::DatabaseBackend;
use storage::entities::Visibility;
use tokio::sync::OwnedSemaphorePermit;

use crate::registry::registry_protocol::basic;
use crate::support::{Client, TestServer, on_every_database};

/// Takes all connections of a client.
pub async fn take_share(server: &TestServer, client: RateClient) -> OwnedSemaphorePermit {
    let shares = &server.backend.budgets.database;
    let count = u32::try_from(shares.share()).expect("a number");
    shares.of_holder(&client).acquire_many_owned(count).await.expect("permits")
}

/// Returns the status of a request that waits until `blocked` is dropped. The responses of other clients show that the
/// server would have responded long before.
async fn status_after(
    server: &TestServer,
    client: &Client,
    path: &str,
    others: &[&Client],
    blocked: OwnedSemaphorePermit,
) -> u16 {
    // A cached result would need no statement.
    server.backend.database.invalidate();
    let mut waiting = Box::pin(client.get(path));
    for other in others {
        let done = tokio::select! {
            response = &mut waiting => panic!("{path} was answered with {}", response.status),
            response = other.get("/projects") => response,
        };
        done.expect(200);
    }
    assert!((&mut waiting).now_or_never().is_none(), "{path}");
    drop(blocked);
    waiting.await.status
}

async fn requests_of_one_client_use_only_its_share_of_the_database(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    server.insert_project_at("g/p", Visibility::Public).await;
    let anonymous = server.anonymous();
    let git = server.anonymous().header("Authorization", &basic("ada", &ada.token));
    let refs = "//g/p.git/info/refs?service=git-upload-pack";
    let others = [&bob.client, &anonymous, &bob.client];
    for (client, path) in [(&ada.client, "/projects"), (&git, refs)] {
        let blocked = take_share(&server, RateClient::User(ada.id)).await;
        assert_eq!(status_after(&server, client, path, &others, blocked).await, 200, "{path}");
    }
    let address = RateClient::Address(Some([127, 0, 0, 1].into()));
    for path in ["/projects/g%2Fp", refs, "//ada.keys", "//ada.gpg"] {
        let blocked = take_share(&server, address).await;
        assert_eq!(status_after(&server, &anonymous, path, &[&bob.client, &ada.client], blocked).await, 200, "{path}");
    }
    assert_eq!(server.backend.budgets.database.used(), 0);
}

async fn cached_response_needs_no_share(server: TestServer) {
    let root = server.root();
    root.get("/version").await.expect(200);
    // On PostgreSQL, a write of another test to the same server also invalidates the response.
    if server.backend.database.backend() == DatabaseBackend::Sqlite {
        let _blocked = take_share(&server, RateClient::User(1)).await;
        root.get("/version").await.expect(200);
    }
}

on_every_database![requests_of_one_client_use_only_its_share_of_the_database, cached_response_needs_no_share];

async fn metrics_report_every_budget_that_the_page_lists(server: TestServer) {
    server.root().get("/projects").await.expect(200);
    let text = server.anonymous().get("//-/metrics").await.expect(200).text();
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/LIMITS.md")).expect("the page");
    let (_, table) = page.split_once("| Budget | Unit | Scopes |").expect("the table of budgets");
    let mut listed = Vec::new();
    for row in table.lines().skip(2).take_while(|row| row.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let name = cells[0].trim_matches('`');
        for scope in cells[2].split(", ") {
            for metric in ["holdfast_budget_limit", "holdfast_budget_rejections_total"] {
                let line = format!("{metric}{{budget=\"{name}\",scope=\"{scope}\"}} ");
                assert!(text.contains(&line), "{line}\n{text}");
            }
        }
        listed.push(name.to_owned());
    }
    let reported = domain::kernel::budget_report::report(&server.backend);
    let mut reported: Vec<&str> = reported.iter().map(|budget| budget.name).collect();
    reported.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, reported);
    for metric in ["holdfast_budget_limit", "holdfast_budget_used", "holdfast_budget_rejections_total"] {
        assert!(text.contains(&format!("# HELP {metric} ")), "{metric}");
    }
    for metric in
        ["holdfast_request_database_seconds", "holdfast_git_cpu_seconds{program}", "holdfast_received_bytes_total"]
    {
        assert!(page.contains(&format!("`{metric}`")), "{metric}");
    }
    assert!(text.contains("holdfast_request_database_seconds_count "), "{text}");
}

on_every_database![metrics_report_every_budget_that_the_page_lists];
