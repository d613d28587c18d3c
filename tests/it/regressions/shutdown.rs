//! SIGTERM in the middle of a push: Git is at work when it comes.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rand::RngExt;
use sea_orm::EntityTrait;
use storage::database::{Database, Options};
use storage::entities::ref_updates::{self, State};
use tokio::io::AsyncWriteExt;

use crate::support::git::Work;
use crate::support::process::{Process, Site, TOKEN, on_every_site};
use crate::support::wire::Wire;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The request of a push as the git client makes it.
struct Push {
    tip: String,
    bytes: Vec<u8>,
}

impl Push {
    async fn new(work: &Work) -> Self {
        let old = work.git(&["rev-parse", "HEAD"]).await;
        let mut noise = vec![0_u8; 1 << 20];
        rand::rng().fill(&mut noise[..]);
        std::fs::write(work.path.join("noise"), noise).unwrap();
        let tip = work.commit("note", "x").await;
        let mut packing = work
            .command(&["pack-objects", "--revs", "--stdout", "--quiet"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let wanted = format!("{tip}\n^{old}\n");
        packing.stdin.take().unwrap().write_all(wanted.as_bytes()).await.unwrap();
        let pack = packing.wait_with_output().await.unwrap().stdout;
        assert!(pack.len() > 1 << 20, "{}", pack.len());
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

/// Sends half of a push, and waits until Git reads the pack of it.
async fn half(server: &Process, push: &Push) -> Wire {
    let mut wire = Wire::connect(&server.base).await;
    wire.send(&push.bytes[..push.bytes.len() / 2]).await;
    let began = Instant::now();
    while !server.descendants().iter().any(|(_, command)| command.contains("index-pack")) {
        assert!(began.elapsed() < PATIENCE, "Git was never started: {:?}", server.descendants());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    wire
}

/// The branch on a server started anew, after Git and the doctor have found nothing wrong.
async fn branch_afterwards(site: &Site, work: &Work) -> String {
    let server = site.serve(&[]).await;
    let listed = work.git(&["ls-remote", &server.address("p"), "refs/heads/main"]).await;
    let clones = Work::empty();
    clones.git(&["clone", "--quiet", "--bare", &server.address("p"), "c"]).await;
    clones.below("c").git(&["fsck", "--full", "--strict"]).await;
    server.stop().await;
    assert_eq!(site.succeeds(&["doctor"]).await, "Projects: 1. Problems: 0.\n");
    listed.split_whitespace().next().unwrap().to_owned()
}

/// Every move of references that the database knows, as JSON, the last one last.
async fn recorded(site: &Site) -> Vec<String> {
    let database = Database::connect(&site.database_url(), &Options::default()).await.unwrap();
    let mut rows = ref_updates::Entity::find().all(database.read()).await.unwrap();
    database.close().await.unwrap();
    rows.sort_by_key(|row| row.id);
    assert!(rows.iter().all(|row| row.state == State::Applied), "{rows:?}");
    rows.into_iter().map(|row| row.changes).collect()
}

async fn a_push_that_git_has_begun_is_finished_before_the_end(site: Site) {
    let work = Work::new().await;
    let server = site.serve(&[]).await;
    site.import("p", &work.path).await;
    let push = Push::new(&work).await;
    let mut wire = half(&server, &push).await;
    server.terminate();
    // The listener is gone once the signal was heard.
    let address = server.base.trim_start_matches("http://").to_owned();
    while tokio::net::TcpStream::connect(&address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    wire.send(&push.bytes[push.bytes.len() / 2..]).await;
    let said = wire.rest().await;
    assert!(said.starts_with("HTTP/1.1 200 OK") && said.contains("ok refs/heads/main"), "{said}");
    assert_eq!(server.wait().await.code(), Some(0));
    assert_eq!(branch_afterwards(&site, &work).await, push.tip);
    assert!(recorded(&site).await.last().unwrap().contains(&push.tip));
}

async fn a_push_that_does_not_finish_in_time_leaves_nothing_behind(site: Site) {
    let work = Work::new().await;
    let server = site.serve(&["--drain-timeout", "1"]).await;
    site.import("p", &work.path).await;
    let old = work.git(&["rev-parse", "HEAD"]).await;
    let before = recorded(&site).await;
    let push = Push::new(&work).await;
    let wire = half(&server, &push).await;
    let children = server.descendants();
    server.terminate();
    let began = Instant::now();
    assert_eq!(server.wait().await.code(), Some(0));
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    drop(wire);
    for (id, command) in children {
        let alive = || std::fs::read_to_string(format!("/proc/{id}/cmdline")).is_ok_and(|now| now.contains("git"));
        let began = Instant::now();
        while alive() {
            assert!(began.elapsed() < PATIENCE, "{command} is still there");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    assert_eq!(branch_afterwards(&site, &work).await, old);
    assert_eq!(recorded(&site).await, before);
}

on_every_site![
    a_push_that_git_has_begun_is_finished_before_the_end,
    a_push_that_does_not_finish_in_time_leaves_nothing_behind,
];
