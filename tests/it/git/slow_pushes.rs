//! Pushes that send their pack slowly, but steadily, keep no memory that other Git programs need.

use std::process::Stdio;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rand::RngExt;
use sea_orm::{EntityTrait, PaginatorTrait};
use storage::entities::{AccessLevel, Visibility, ref_updates};
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::git::{self, Work};
use crate::support::raw_http::RawConnection;
use crate::support::users::TestUser;
use crate::support::{TestServer, on_every_database};

/// Size of the pack of a slow push.
const PACK: usize = 8 << 20;
/// Bytes that a slow push sends at once, and the time between two of them.
const PIECE: (usize, Duration) = (16 << 10, Duration::from_millis(100));
/// Time limit. A program that waits for memory in vain fails later.
const TIME_LIMIT: Duration = Duration::from_secs(25);

/// A push that sends pieces of its pack until it may send the rest.
struct SlowPush {
    finish: oneshot::Sender<()>,
    response: JoinHandle<String>,
}

impl SlowPush {
    /// Begins a push that creates a branch. It sends `at_once` bytes of the pack first.
    async fn begin(server: &TestServer, user: &TestUser, branch: &str, pushed: &Pushed, at_once: usize) -> Self {
        let credentials = STANDARD.encode(format!("{}:{}", user.row.username, user.token));
        let line = format!("{} {} refs/heads/{branch}\0report-status side-band-64k", "0".repeat(40), pushed.tip);
        let commands = format!("{:04x}{line}0000", line.len() + 4);
        let head = format!(
            "POST /g/p.git/git-receive-pack HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
             Authorization: Basic {credentials}\r\nContent-Type: application/x-git-receive-pack-request\r\n\
             Content-Length: {}\r\n\r\n",
            commands.len() + pushed.pack.len()
        );
        let mut connection = RawConnection::connect(&server.base).await;
        connection.send(&[head, commands].concat()).await;
        let (first, rest) = pushed.pack.split_at(at_once);
        connection.stream.write_all(first).await.expect("sending");
        let rest = rest.to_vec();
        let (finish, mut finished) = oneshot::channel();
        let response = tokio::spawn(async move {
            let mut pieces = rest.chunks(PIECE.0);
            while finished.try_recv().is_err() {
                let piece = pieces.next().expect("the rest of the pack");
                connection.stream.write_all(piece).await.expect("sending");
                tokio::time::sleep(PIECE.1).await;
            }
            for piece in pieces {
                connection.stream.write_all(piece).await.expect("sending");
            }
            connection.read_to_end().await
        });
        Self { finish, response }
    }

    /// Sends the rest of the pack and returns the response.
    async fn finish(self) -> String {
        self.finish.send(()).expect("a push that is sent");
        tokio::time::timeout(TIME_LIMIT, self.response).await.expect("a response in time").expect("a response")
    }
}

/// A commit with a file that does not compress, and its pack.
struct Pushed {
    tip: String,
    pack: Vec<u8>,
}

impl Pushed {
    async fn new() -> Self {
        let work = Work::new().await;
        let mut noise = vec![0_u8; PACK];
        rand::rng().fill(&mut noise[..]);
        std::fs::write(work.path.join("noise"), noise).expect("a file");
        let tip = work.commit("note", "x").await;
        let mut command = work.command(&["pack-objects", "--all", "--stdout", "--quiet"]);
        let output = command.stdin(Stdio::null()).output().await.expect("git");
        assert!(output.status.success() && output.stdout.len() > PACK);
        Self { tip, pack: output.stdout }
    }
}

/// Returns the memory that all Git programs have reserved, in bytes.
async fn reserved_memory(server: &TestServer) -> u64 {
    let text = server.anonymous().get("//-/metrics").await.expect(200).text();
    let line = text.lines().find_map(|line| line.strip_prefix("holdfast_budget_used{budget=\"git_memory_bytes\"} "));
    line.expect("a metric").parse().expect("a number")
}

/// Starts two slow pushes of each of two users. Another user pushes and clones meanwhile.
async fn push_and_clone_between_slow_pushes(server: TestServer, at_once: usize) {
    let project = server.insert_project_at("g/p", Visibility::Public).await;
    let mut users = Vec::new();
    for name in ["ann", "bob", "cat"] {
        let user = server.create_user(name).await;
        server.insert_member(project.id, user.id, AccessLevel::Maintainer).await;
        users.push(user);
    }
    let pushed = Pushed::new().await;
    let mut slow = Vec::new();
    for (number, user) in users[..2].iter().chain(&users[..2]).enumerate() {
        slow.push(SlowPush::begin(&server, user, &format!("slow-{number}"), &pushed, at_once).await);
    }
    // Each push records its intent when its commands were read.
    let waiting = async {
        let recorded = || ref_updates::Entity::find().count(server.backend.database.read());
        while recorded().await.expect("a count") < slow.len() as u64 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIME_LIMIT, waiting).await.expect("the intents");
    if at_once == 0 {
        assert_eq!(reserved_memory(&server).await, 0);
    }
    let work = Work::new().await;
    let address = git::address(&server.base, "cat", &users[2].token, "g/p");
    for branch in ["one", "two"] {
        let tip = work.commit(branch, "x").await;
        let refspec = format!("main:{branch}");
        let push = ["push", "--quiet", &address, &refspec];
        tokio::time::timeout(TIME_LIMIT, work.git(&push)).await.expect("a push in time");
        assert_eq!(server.repository(project.id).branch(branch).await.expect("a branch").commit.to_string(), tip);
    }
    let clone = ["clone", "--quiet", "--bare", &address, "c"];
    tokio::time::timeout(TIME_LIMIT, Work::empty().git(&clone)).await.expect("a clone in time");
    for (number, push) in slow.into_iter().enumerate() {
        let response = push.finish().await;
        assert!(response.contains("unpack ok"), "{response}");
        assert!(response.contains(&format!("ok refs/heads/slow-{number}")), "{response}");
    }
}

async fn processor_time_of_git_programs_is_reported(server: TestServer) {
    let project = server.insert_project_at("g/p", Visibility::Public).await;
    let user = server.create_user("ann").await;
    server.insert_member(project.id, user.id, AccessLevel::Maintainer).await;
    let work = Work::new().await;
    work.git(&["push", "--quiet", &git::address(&server.base, "ann", &user.token, "g/p"), "main"]).await;
    let text = server.anonymous().get("//-/metrics").await.expect(200).text();
    let prefix = "holdfast_git_cpu_seconds_sum{program=\"receive-pack\"} ";
    let sum = text.lines().find_map(|line| line.strip_prefix(prefix)).expect("a metric");
    assert!(sum.parse::<f64>().expect("a number") > 0.0, "{sum}");
}

async fn slow_pushes_leave_memory_for_other_clients(server: TestServer) {
    push_and_clone_between_slow_pushes(server, 0).await;
}

async fn pushes_that_become_slow_leave_memory_for_other_clients(server: TestServer) {
    push_and_clone_between_slow_pushes(server, 6 << 20).await;
}

on_every_database![
    processor_time_of_git_programs_is_reported,
    slow_pushes_leave_memory_for_other_clients,
    pushes_that_become_slow_leave_memory_for_other_clients,
];
