//! SIGTERM during a push, while Git is running.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rand::RngExt;
use sea_orm::EntityTrait;
use storage::database::{Database, DatabaseOptions};
use storage::entities::ref_updates::{self, RefUpdateState};
use tokio::io::AsyncWriteExt;

use crate::support::git::Work;
use crate::support::process::{Process, Site, TOKEN, on_every_site};
use crate::support::raw_http::RawConnection;

/// Time limit of each step.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// The request of a push, as sent by the git client.
struct Push {
    tip: String,
    bytes: Vec<u8>,
}

impl Push {
    async fn new(work: &Work) -> Self {
        let old = work.git(&["rev-parse", "HEAD"]).await;
        // Git starts before a large pack is complete.
        let mut noise = vec![0_u8; 12 << 20];
        rand::rng().fill(&mut noise[..]);
        std::fs::write(work.path.join("noise"), noise).unwrap();
        let tip = work.commit("note", "x").await;
        let mut packing = work
            .command(&["pack-objects", "--revs", "--stdout", "--quiet"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let expected = format!("{tip}\n^{old}\n");
        packing.stdin.take().unwrap().write_all(expected.as_bytes()).await.unwrap();
        let pack = packing.wait_with_output().await.unwrap().stdout;
        assert!(pack.len() > 12 << 20, "{}", pack.len());
        let command = format!("{old} {tip} refs/heads/main\0report-status");
        let mut body = format!("{:04x}{command}0000", command.len() + 4).into_bytes();
        body.extend(pack);
        let basic = STANDARD.encode(format!("root:{TOKEN}"));
        let head = format!(
            "POST /root/p.git/git-receive-pack HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {basic}\r\n\
             Content-Type: application/x-git-receive-pack-request\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut bytes = head.into_bytes();
        bytes.extend(body);
        Self { tip, bytes }
    }
}

/// Sends half of a push and waits until Git reads its pack.
async fn send_half(server: &Process, push: &Push) -> RawConnection {
    let mut connection = RawConnection::connect(&server.base).await;
    connection.send(&push.bytes[..push.bytes.len() / 2]).await;
    let began = Instant::now();
    while !server.descendants().iter().any(|(_, command)| command.contains("index-pack")) {
        assert!(began.elapsed() < TIME_LIMIT, "Git was never started: {:?}", server.descendants());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    connection
}

/// Restarts the server, checks the repository with Git and `doctor`, and returns the head of the branch.
async fn branch_afterwards(site: &Site, work: &Work) -> String {
    let server = site.serve(&[]).await;
    let listed = work.git(&["ls-remote", &server.address("p"), "refs/heads/main"]).await;
    let clones = Work::empty();
    clones.git(&["clone", "--quiet", "--bare", &server.address("p"), "c"]).await;
    clones.below("c").git(&["fsck", "--full", "--strict"]).await;
    server.stop().await;
    site.assert_sound(1).await;
    listed.split_whitespace().next().unwrap().to_owned()
}

/// Returns the recorded ref updates as JSON, in order.
async fn recorded_updates(site: &Site) -> Vec<String> {
    let database = Database::connect(&site.database_url(), &DatabaseOptions::default()).await.unwrap();
    let mut rows = ref_updates::Entity::find().all(database.read()).await.unwrap();
    database.close().await.unwrap();
    rows.sort_by_key(|row| row.id);
    assert!(rows.iter().all(|row| row.state == RefUpdateState::Applied), "{rows:?}");
    rows.into_iter().map(|row| row.changes).collect()
}

async fn sigterm_waits_for_push_in_progress(site: Site) {
    let work = Work::new().await;
    let server = site.serve(&[]).await;
    site.import("p", &work.path).await;
    let push = Push::new(&work).await;
    let mut connection = send_half(&server, &push).await;
    server.terminate();
    // The listener is closed after the server has received the signal.
    let address = server.base.trim_start_matches("http://").to_owned();
    while tokio::net::TcpStream::connect(&address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    connection.send(&push.bytes[push.bytes.len() / 2..]).await;
    let output = connection.read_to_end().await;
    assert!(output.starts_with("HTTP/1.1 200 OK") && output.contains("ok refs/heads/main"), "{output}");
    assert_eq!(server.wait().await.code(), Some(0));
    assert_eq!(branch_afterwards(&site, &work).await, push.tip);
    assert!(recorded_updates(&site).await.last().unwrap().contains(&push.tip));
}

async fn push_unfinished_at_drain_timeout_is_discarded(site: Site) {
    let work = Work::new().await;
    let server = site.serve(&["--drain-timeout", "1"]).await;
    site.import("p", &work.path).await;
    let old = work.git(&["rev-parse", "HEAD"]).await;
    let before = recorded_updates(&site).await;
    let push = Push::new(&work).await;
    let connection = send_half(&server, &push).await;
    let children = server.descendants();
    server.terminate();
    let began = Instant::now();
    assert_eq!(server.wait().await.code(), Some(0));
    assert!(began.elapsed() < TIME_LIMIT, "{:?}", began.elapsed());
    drop(connection);
    for (id, command) in children {
        let alive = || std::fs::read_to_string(format!("/proc/{id}/cmdline")).is_ok_and(|now| now.contains("git"));
        let began = Instant::now();
        while alive() {
            assert!(began.elapsed() < TIME_LIMIT, "{command} is still running");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    assert_eq!(branch_afterwards(&site, &work).await, old);
    assert_eq!(recorded_updates(&site).await, before);
}

on_every_site![sigterm_waits_for_push_in_progress, push_unfinished_at_drain_timeout_is_discarded,];
