//! Clients that send or read slowly do not stop Git for other clients.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast::config::ConfigOptions;
use rand::RngExt;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, PaginatorTrait};
use storage::entities::{AccessLevel, Visibility, projects, ref_updates};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::git::{self, Work};
use crate::support::users::TestUser;
use crate::support::{TestServer, on_every_database};

/// More clients than slots for transfers.
const CLIENTS: usize = 80;
/// Number of slots that one client gets.
const SHARE: usize = 32;
/// Number of clones whose memory is the share of one client.
const MEMORY_CLIENTS: usize = 12;
/// Time limit. A request that waits for a slot in vain is rejected later.
const TIME_LIMIT: Duration = Duration::from_secs(25);

/// A public project at `g/p`.
struct Sample {
    project: i64,
    /// A Maintainer.
    ann: TestUser,
    work: Work,
    /// The head of `main`.
    tip: String,
}

/// Creates a project with a file of random bytes.
async fn with_commit(server: &TestServer, noise: usize) -> Sample {
    let project = server.insert_project_at("g/p", Visibility::Public).await;
    let ann = server.create_user("ann").await;
    server.insert_member(project.id, ann.id, AccessLevel::Maintainer).await;
    let work = Work::new().await;
    let mut bytes = vec![0_u8; noise];
    rand::rng().fill(&mut bytes[..]);
    std::fs::write(work.path.join("noise"), bytes).expect("a file");
    let tip = work.commit("a", "1").await;
    work.git(&["push", "--quiet", &git::address(&server.base, "ann", &ann.token, "g/p"), "main"]).await;
    Sample { project: project.id, ann, work, tip }
}

fn host(server: &TestServer) -> &str {
    server.base.strip_prefix("http://").expect("an address")
}

fn authorization(user: &TestUser) -> String {
    let encoded = STANDARD.encode(format!("{}:{}", user.row.username, user.token));
    format!("Authorization: Basic {encoded}\r\n")
}

/// Sends a head and the start of the body once the server reads it. The rest of the body is never sent.
async fn begin_request(server: &TestServer, service: &str, credentials: Option<&TestUser>, start: &[u8]) -> TcpStream {
    let host = host(server);
    let mut stream = TcpStream::connect(host).await.expect("a connection");
    let head = format!(
        "POST /g/p.git/git-{service} HTTP/1.1\r\nHost: {host}\r\n{}\
         Content-Type: application/x-git-{service}-request\r\nContent-Length: 1000000\r\n\
         Expect: 100-continue\r\n\r\n",
        credentials.map(authorization).unwrap_or_default()
    );
    stream.write_all(head.as_bytes()).await.expect("sending");
    let mut answer = [0; 25];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(start).await.expect("sending");
    stream
}

/// Returns the request of a clone.
fn clone_request(server: &TestServer, authorization: &str, tip: &str) -> String {
    let want = format!("want {tip} side-band-64k ofs-delta\n");
    let body = format!("{:04x}{want}00000009done\n", want.len() + 4);
    format!(
        "POST /g/p.git/git-upload-pack HTTP/1.1\r\nHost: {}\r\n{authorization}\
         Content-Type: application/x-git-upload-pack-request\r\nContent-Length: {}\r\n\r\n{body}",
        host(server),
        body.len()
    )
}

/// Sends a request and never reads the response.
async fn send_and_do_not_read(server: &TestServer, request: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a size");
    let mut stream = socket.connect(host(server).parse().expect("an address")).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("sending");
    stream
}

/// Returns the number of Git programs of a service that run in the repositories of the server.
fn programs(server: &TestServer, service: &str) -> usize {
    let repositories = server.data().canonicalize().expect("a path");
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let is_program = |process: &std::fs::DirEntry| {
        let directory = std::fs::read_link(process.path().join("cwd"));
        let command = std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
        directory.is_ok_and(|path| path.starts_with(&repositories)) && command.split('\0').any(|word| word == service)
    };
    processes.filter(is_program).count()
}

async fn wait_for_programs(server: &TestServer, service: &str, count: usize) {
    let waiting = async {
        while programs(server, service) < count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIME_LIMIT, waiting).await.expect("the programs run");
}

/// Clones without credentials.
async fn clone(server: &TestServer) {
    let clones = Work::empty();
    let address = format!("{}/g/p.git", server.base);
    let cloning = ["clone", "--quiet", "--bare", &address, "c"];
    tokio::time::timeout(TIME_LIMIT, clones.git(&cloning)).await.expect("a clone in time");
}

async fn incomplete_fetch_requests_do_not_block_git(server: TestServer) {
    let Sample { ann, work, .. } = with_commit(&server, 1).await;
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(begin_request(&server, "upload-pack", None, b"0").await);
    }
    clone(&server).await;
    let address = git::address(&server.base, "ann", &ann.token, "g/p");
    let push = ["push", "--quiet", &address, "main:other"];
    tokio::time::timeout(TIME_LIMIT, work.git(&push)).await.expect("a push in time");
    assert_eq!(programs(&server, "upload-pack"), 0);
}

async fn slow_readers_leave_slots_for_other_clients(server: TestServer) {
    let Sample { project, ann, tip, .. } = with_commit(&server, 12 << 20).await;
    // The Git client sends its credentials only to private projects.
    let row = projects::ActiveModel { id: Set(project), visibility: Set(Visibility::Private), ..Default::default() };
    row.update(server.backend.database.write()).await.expect("a row");
    let bob = server.create_user("bob").await;
    server.insert_member(project, bob.id, AccessLevel::Maintainer).await;
    let request = clone_request(&server, &authorization(&ann), &tip);
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(send_and_do_not_read(&server, &request).await);
    }
    wait_for_programs(&server, "upload-pack", SHARE).await;
    let address = git::address(&server.base, "bob", &bob.token, "g/p");
    let list = Work::empty();
    let listed = tokio::time::timeout(TIME_LIMIT, list.git(&["ls-remote", &address, "main"])).await;
    assert!(listed.expect("a list in time").starts_with(&tip));
    assert_eq!(programs(&server, "upload-pack"), SHARE);
}

async fn anonymous_downloads_and_clones_use_the_share_of_their_address(server: TestServer) {
    let Sample { project, ann, work, tip } = with_commit(&server, 12 << 20).await;
    let blob = work.git(&["rev-parse", "HEAD:noise"]).await;
    let path = format!("/api/v4/projects/{project}/repository/blobs/{blob}/raw");
    let download = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
    let clone = clone_request(&server, "", &tip);
    let mut connections = Vec::new();
    for _ in 0..SHARE {
        connections.push(send_and_do_not_read(&server, &download).await);
        connections.push(send_and_do_not_read(&server, &clone).await);
    }
    let running = || programs(&server, "cat-file") + programs(&server, "upload-pack");
    let waiting = async {
        while running() < SHARE {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIME_LIMIT, waiting).await.expect("the programs run");
    let path = path.strip_prefix("/api/v4").expect("a path");
    let download = tokio::time::timeout(TIME_LIMIT, ann.client.get(path)).await;
    assert_eq!(download.expect("a download in time").expect(200).body.len(), 12 << 20);
    assert_eq!(running(), SHARE);
}

async fn archive_without_free_slot_returns_503(server: TestServer) {
    let Sample { project, tip, .. } = with_commit(&server, 12 << 20).await;
    let clone = clone_request(&server, "", &tip);
    let mut connections = Vec::new();
    for _ in 0..SHARE {
        connections.push(send_and_do_not_read(&server, &clone).await);
    }
    wait_for_programs(&server, "upload-pack", SHARE).await;
    let anonymous = server.anonymous();
    let [archive, zip] = ["archive", "archive.zip"].map(|name| format!("/projects/{project}/repository/{name}"));
    let (archive, zip) = tokio::join!(anonymous.get(&archive), anonymous.get(&zip));
    for rejected in [archive.expect(503), zip.expect(503)] {
        assert_eq!(rejected.header("retry-after"), "10");
        assert!(rejected.message().contains("Too many Git operations are in progress"), "{}", rejected.message());
    }
}

async fn silent_pushes_do_not_block_git(server: TestServer) {
    let Sample { project, ann, work, tip } = with_commit(&server, 1).await;
    let bob = server.create_user("bob").await;
    server.insert_member(project, bob.id, AccessLevel::Maintainer).await;
    let mut connections = Vec::new();
    for number in 0..CLIENTS {
        let line = format!("{} {tip} refs/heads/silent-{number}\0report-status", "0".repeat(40));
        let start = format!("{:04x}{line}0000PACK\0\0\0\u{2}\0\0\0\u{9}", line.len() + 4);
        connections.push(begin_request(&server, "receive-pack", Some(&ann), start.as_bytes()).await);
    }
    // Each push records its intent first.
    let waiting = async {
        let recorded = || ref_updates::Entity::find().count(server.backend.database.read());
        while recorded().await.expect("a count") < CLIENTS as u64 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIME_LIMIT, waiting).await.expect("the intents");
    clone(&server).await;
    let address = git::address(&server.base, "bob", &bob.token, "g/p");
    let push = ["push", "--quiet", &address, "main:other"];
    tokio::time::timeout(TIME_LIMIT, work.git(&push)).await.expect("a push in time");
    assert_eq!(server.repository(project).branch("other").await.expect("a branch").commit.to_string(), tip);
    assert_eq!(programs(&server, "receive-pack"), 0);
}

async fn slow_readers_leave_memory_for_other_clients(server: TestServer) {
    let Sample { project, ann, tip, .. } = with_commit(&server, 12 << 20).await;
    let row = projects::ActiveModel { id: Set(project), visibility: Set(Visibility::Private), ..Default::default() };
    row.update(server.backend.database.write()).await.expect("a row");
    let mut users = vec![ann];
    for name in ["bob", "cat"] {
        let user = server.create_user(name).await;
        server.insert_member(project, user.id, AccessLevel::Maintainer).await;
        users.push(user);
    }
    // Together, the clones of the first two users need more memory than there is.
    let mut connections = Vec::new();
    for user in &users[..2] {
        let request = clone_request(&server, &authorization(user), &tip);
        for _ in 0..MEMORY_CLIENTS {
            connections.push(send_and_do_not_read(&server, &request).await);
        }
    }
    wait_for_programs(&server, "upload-pack", MEMORY_CLIENTS).await;
    let address = git::address(&server.base, "cat", &users[2].token, "g/p");
    for number in 0..3 {
        let clones = Work::empty();
        let name = format!("c{number}");
        let cloning = ["clone", "--quiet", "--bare", &address, &name];
        tokio::time::timeout(TIME_LIMIT, clones.git(&cloning)).await.expect("a clone in time");
    }
}

/// Options of a server with enough memory for the programs of all slots.
fn with_memory() -> ConfigOptions {
    ConfigOptions { git_memory_bytes: Some(4 << 30), ..ConfigOptions::default() }
}

/// Options of a server with memory for few programs.
fn with_little_memory() -> ConfigOptions {
    ConfigOptions { git_memory_bytes: Some(512 << 20), ..ConfigOptions::default() }
}

on_every_database![incomplete_fetch_requests_do_not_block_git, silent_pushes_do_not_block_git];
on_every_database![
    slow_readers_leave_slots_for_other_clients with with_memory(),
    anonymous_downloads_and_clones_use_the_share_of_their_address with with_memory(),
    archive_without_free_slot_returns_503 with with_memory(),
    slow_readers_leave_memory_for_other_clients with with_little_memory(),
];
