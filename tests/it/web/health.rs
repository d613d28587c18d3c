//! `/-/health`, `/-/liveness`, `/-/readiness` and `/-/metrics`.

use crate::support::{TestServer, on_every_database};

async fn health_endpoints_require_no_token(server: TestServer) {
    let client = server.anonymous();
    assert_eq!(client.get("//-/liveness").await.expect(200).json()["status"], "ok");
    for path in ["//-/health", "//-/readiness"] {
        let health = client.get(path).await.expect(200).json();
        assert_eq!(health["status"], "ok");
        assert_eq!(health["checks"]["database"], "ok");
        assert_eq!(health["checks"]["repositories"], "ok");
    }
}

async fn missing_repositories_make_server_unready_but_alive(server: TestServer) {
    let repositories = server.data().join("repositories");
    std::fs::rename(&repositories, server.data().join("elsewhere")).expect("a rename");
    let client = server.anonymous();
    let health = client.get("//-/readiness").await.expect(503).json();
    assert_eq!((&health["status"], &health["checks"]["repositories"]), (&"failed".into(), &"failed".into()));
    client.get("//-/liveness").await.expect(200);
    std::fs::rename(server.data().join("elsewhere"), &repositories).expect("a rename");
    client.get("//-/readiness").await.expect(200);
}

async fn metrics_count_requests(server: TestServer) {
    let client = server.anonymous();
    client.get("//-/liveness").await.expect(200);
    let metrics = client.get("//-/metrics").await.expect(200);
    assert!(metrics.header("content-type").starts_with("text/plain"));
    let text = metrics.text();
    let counted = text.lines().find(|line| line.starts_with("holdfast_requests_total") && line.contains("\"200\""));
    assert!(counted.is_some(), "{text}");
}

on_every_database![
    health_endpoints_require_no_token,
    missing_repositories_make_server_unready_but_alive,
    metrics_count_requests,
];
