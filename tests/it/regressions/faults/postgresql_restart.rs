//! PostgreSQL that stops, crashes and starts again while clients write.

use std::time::Duration;

use harness::postgresql::PrivateServer;

use super::load::{self, Load};
use crate::support::process::{Process, Site, TOKEN};
use crate::support::{Client, DatabaseKind};

/// Maximum time of a request: a request waits up to 30 seconds for a connection.
const LIMIT: Duration = Duration::from_secs(60);

/// Stops the server of the database in one mode.
async fn end(mut database: PrivateServer, mode: fn(&mut PrivateServer) -> std::io::Result<()>) -> PrivateServer {
    // The writers continue meanwhile.
    let ended = tokio::task::spawn_blocking(move || mode(&mut database).map(|()| database));
    ended.await.unwrap().unwrap()
}

async fn start(mut database: PrivateServer) -> PrivateServer {
    let started = tokio::task::spawn_blocking(move || database.start_again().map(|()| database));
    started.await.unwrap().unwrap()
}

/// Waits until the readiness has this status.
async fn readiness(server: &Process, status: u16) {
    let client = Client::new(&server.base, Some(TOKEN));
    let changed = async {
        while client.get("//-/readiness").await.status != status {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, changed).await.expect("a change of the readiness");
}

async fn restarts_of_postgresql_lose_nothing_acknowledged() {
    let mut database = PrivateServer::start("restart").unwrap();
    let site = Site::on_database(&database.url());
    assert!(matches!(site.kind, DatabaseKind::Postgresql(_)));
    let server = site.serve(&[]).await;
    let work = load::create_project(&site).await;
    let load = Load::start(&server, &work, "w");
    load.progress(5).await;
    // A fast shutdown, as by systemd, and an immediate one, as by a crash.
    for mode in [PrivateServer::stop, PrivateServer::crash, PrivateServer::stop, PrivateServer::crash] {
        database = end(database, mode).await;
        readiness(&server, 503).await;
        let client = Client::new(&server.base, None);
        client.get("//-/liveness").await.expect(200);
        database = start(database).await;
        readiness(&server, 200).await;
        load.progress(5).await;
    }
    let written = load.stop().await;
    written.check_failures(&[503], LIMIT);
    written.check(&server).await;
    server.stop().await;
    // Without another start: the server has recorded interrupted ref updates by itself.
    site.assert_sound(1).await;
    drop(database);
}

harness::tests![requires harness::postgresql::missing; restarts_of_postgresql_lose_nothing_acknowledged];
