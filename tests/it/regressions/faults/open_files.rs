//! A server that cannot open more files.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::net::TcpStream;
use tokio::process::Command;

use super::load::{self, Load};
use crate::support::Client;
use crate::support::process::{Process, Site, TOKEN, on_every_site};

/// Limit on the open files of the server.
const FILES: &str = "128";
/// Maximum time of a request.
const LIMIT: Duration = Duration::from_secs(45);

/// Starts a server with a limit on its open files.
async fn serve(site: &Site, arguments: &[&str]) -> Process {
    let plain = site.command(&[&["serve", "--listen", "127.0.0.1:0"], arguments].concat());
    let plain = plain.as_std();
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -n "$0" && exec "$@""#, FILES]).arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.kill_on_drop(true);
    Site::ready(command).await
}

/// Returns the number of open files of a process.
fn open_files(server: &Process) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.id())).expect("a process").count()
}

/// Opens idle connections until the server has no more files, or has as many connections as it accepts.
async fn occupy(server: &Process) -> Vec<TcpStream> {
    let address = server.base.trim_start_matches("http://").to_owned();
    let mut connections = Vec::new();
    let limit: usize = FILES.parse().expect("a number");
    let began = Instant::now();
    while open_files(server) < limit && connections.len() < limit && began.elapsed() < LIMIT {
        connections.push(TcpStream::connect(&address).await.expect("a connection"));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    connections
}

async fn exhausted_files_fail_requests_until_some_are_closed(site: Site) {
    let server = serve(&site, &["--max-connections", "1000"]).await;
    let work = load::create_project(&site).await;
    let load = Load::start(&server, &work, "w");
    load.progress(5).await;
    let connections = occupy(&server).await;
    assert!(connections.len() > 20, "{}", connections.len());
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(connections);
    load.progress(5).await;
    let written = load.stop().await;
    written.check_failures(&[503], LIMIT);
    written.check(&server).await;
    let client = Client::new(&server.base, Some(TOKEN));
    client.get("//-/readiness").await.expect(200);
    server.stop().await;
    site.assert_sound(1).await;
}

async fn default_number_of_connections_leaves_files_for_requests(site: Site) {
    let server = serve(&site, &[]).await;
    load::create_project(&site).await;
    let client = Client::new(&server.base, Some(TOKEN));
    // The connection of this client stays open.
    client.get("/user").await.expect(200);
    let connections = occupy(&server).await;
    for number in 0..3 {
        let actions = json!([{ "action": "create", "file_path": format!("f{number}"), "content": "x" }]);
        let body = json!({ "branch": "main", "commit_message": "Add", "actions": actions });
        client.post("/projects/root%2Fp/repository/commits", body).await.expect(201);
    }
    client.get("/projects/root%2Fp/repository/archive.tar.gz").await.expect(200);
    drop(connections);
    server.stop().await;
}

on_every_site![
    exhausted_files_fail_requests_until_some_are_closed,
    default_number_of_connections_leaves_files_for_requests,
];
