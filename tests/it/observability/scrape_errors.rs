//! Metrics of a server whose database does not respond.

use super::exposition::Exposition;
use crate::support::{TestServer, on_every_database};

async fn metrics_are_reported_while_the_database_does_not_respond(server: TestServer) {
    let database = &server.backend.database;
    // All connections for reads are in use.
    let limit = database.pool_usage()[0].limit;
    let mut blocked = Vec::new();
    for _ in 0..limit {
        blocked.push(database.snapshot().await.expect("a transaction"));
    }
    let usage = database.pool_usage()[0];
    assert_eq!((usage.open, usage.idle), (limit, 0), "{usage:?}");
    let found = Exposition::parse(&server.anonymous().get("//-/metrics").await.expect(200).text());
    assert_eq!(found.sum("holdfast_scrape_errors", &[("part", "database")]), Some(1.0));
    assert_eq!(found.sum("holdfast_ready", &[("check", "database")]), Some(0.0));
    assert_eq!(found.sum("holdfast_ready", &[("check", "disk")]), Some(1.0));
    for missing in ["holdfast_jobs", "holdfast_repositories"] {
        assert!(!found.0.contains_key(missing), "{missing}");
    }
    for present in ["holdfast_requests_total", "holdfast_disk_free_bytes", "process_open_fds", "holdfast_budget_used"] {
        assert!(found.0.contains_key(present), "{present}");
    }
    assert!(found.sum("holdfast_database_connections_idle", &[("pool", usage.name)]) == Some(0.0));
    drop(blocked);
    let found = Exposition::parse(&server.anonymous().get("//-/metrics").await.expect(200).text());
    assert_eq!(found.sum("holdfast_scrape_errors", &[("part", "database")]), Some(0.0));
    assert_eq!(found.sum("holdfast_repositories", &[]), Some(0.0));
}

on_every_database![metrics_are_reported_while_the_database_does_not_respond];
