//! `/-/health`, `/-/liveness`, `/-/readiness`, `/-/metrics` (design 8).

use crate::support::{TestServer, on_every_database};

async fn health_is_told_to_everybody(server: TestServer) {
    let anyone = server.anonymous();
    assert_eq!(anyone.get("//-/liveness").await.expect(200).json()["status"], "ok");
    for path in ["//-/health", "//-/readiness"] {
        let health = anyone.get(path).await.expect(200).json();
        assert_eq!(health["status"], "ok");
        assert_eq!(health["checks"]["database"], "ok");
        assert_eq!(health["checks"]["repositories"], "ok");
    }
}

async fn a_server_without_its_repositories_is_not_ready_but_alive(server: TestServer) {
    let repositories = server.data().join("repositories");
    std::fs::rename(&repositories, server.data().join("elsewhere")).expect("a rename");
    let anyone = server.anonymous();
    let health = anyone.get("//-/readiness").await.expect(503).json();
    assert_eq!((&health["status"], &health["checks"]["repositories"]), (&"failed".into(), &"failed".into()));
    anyone.get("//-/liveness").await.expect(200);
    std::fs::rename(server.data().join("elsewhere"), &repositories).expect("a rename");
    anyone.get("//-/readiness").await.expect(200);
}

async fn figures_count_requests(server: TestServer) {
    let anyone = server.anonymous();
    anyone.get("//-/liveness").await.expect(200);
    let figures = anyone.get("//-/metrics").await.expect(200);
    assert!(figures.header("content-type").starts_with("text/plain"));
    let text = figures.text();
    let counted = text.lines().find(|line| line.starts_with("holdfast_requests_total") && line.contains("\"200\""));
    assert!(counted.is_some(), "{text}");
}

on_every_database![
    health_is_told_to_everybody,
    a_server_without_its_repositories_is_not_ready_but_alive,
    figures_count_requests,
];
