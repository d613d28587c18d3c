//! Bodies that are stored while they arrive, and the programs of pushes.

use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::super::spool::{CHUNK, Excess, SpoolLimit};
use super::*;
use crate::memory_budget::MemoryNeed;
use crate::slots::Slots;

/// Size of a file of which a large pack consists. The pack is slightly shorter than a whole number of chunks.
const LARGE: usize = 24 * CHUNK - (32 << 10);

fn transfers(sample: &TestRepository) -> &Slots {
    &sample.repository.shared().slots.transfers
}

/// Returns the number of bytes that programs have reserved.
fn reserved_memory(sample: &TestRepository) -> usize {
    sample.repository.shared().memory.usage().used
}

/// Waits until a condition becomes true, with a time limit.
async fn until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting)
        .await
        .unwrap();
}

/// Returns the number of programs that run in the repository.
fn programs(sample: &TestRepository) -> usize {
    let directory = sample.repository.path();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|process| {
            fs::read_link(process.path().join("cwd")).is_ok_and(|path| path.starts_with(&directory))
        })
        .count()
}

/// Returns the quarantines of pushes.
fn quarantines(sample: &TestRepository) -> Vec<String> {
    let entries = fs::read_dir(sample.repository.path().join("objects"))
        .unwrap()
        .flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("tmp_objdir")).collect()
}

/// Returns a body that creates a branch with a commit of a large file, and the commit.
fn large_push(sample: &TestRepository, branch: &str) -> (Vec<u8>, String) {
    let client = sample.scratch();
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git")
            .args(["-c", "user.name=A", "-c", "user.email=a@example.com"])
            .args(arguments)
            .current_dir(&client)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        output.stdout
    };
    git(&["init", "--quiet", branch]);
    let git = |arguments: &[&str]| git(&[&["-C", branch], arguments].concat());
    let mut noise = vec![0_u8; LARGE];
    rand::RngExt::fill(&mut rand::rng(), &mut noise[..]);
    fs::write(client.join(branch).join("noise"), noise).unwrap();
    git(&["add", "noise"]);
    git(&["commit", "--quiet", "-m", "Noise"]);
    let tip = String::from_utf8(git(&["rev-parse", "HEAD"])).unwrap();
    let tip = tip.trim().to_owned();
    let line = format!(
        "{} {tip} refs/heads/{branch}\0report-status side-band-64k",
        "0".repeat(40)
    );
    let mut body = format!("{:04x}{line}0000", line.len() + 4).into_bytes();
    body.extend(git(&["pack-objects", "--all", "--stdout", "--quiet"]));
    (body, tip)
}

/// Returns a body of whole chunks: adds to the capabilities of its first command.
fn padded(body: Vec<u8>) -> Vec<u8> {
    let length = usize::from_str_radix(std::str::from_utf8(&body[..4]).unwrap(), 16).unwrap();
    let agent = " agent=";
    let padding = body.len().next_multiple_of(CHUNK) - body.len() - agent.len();
    let (line, rest) = body[4..].split_at(length - 4);
    let mut padded = format!("{:04x}", length + agent.len() + padding).into_bytes();
    padded.extend_from_slice(line);
    padded.extend_from_slice(agent.as_bytes());
    padded.resize(padded.len() + padding, b'x');
    padded.extend_from_slice(rest);
    assert_eq!(padded.len() % CHUNK, 0);
    padded
}

/// A push whose client has sent a part of the body.
struct BegunPush {
    client: mpsc::UnboundedSender<std::io::Result<Bytes>>,
    rest: Bytes,
    received: tokio::task::JoinHandle<Result<ReceivedPush>>,
}

impl BegunPush {
    fn new(sample: &TestRepository, body: &[u8], sent: usize) -> Self {
        let mut body = Bytes::copy_from_slice(body);
        let rest = body.split_off(sent);
        let (client, mut parts) = mpsc::unbounded_channel();
        client.send(Ok(body)).unwrap();
        let parts = futures_util::stream::poll_fn(move |context| parts.poll_recv(context));
        let repository = sample.repository.clone();
        let received = tokio::spawn(async move {
            let push = repository
                .open_push(tokio_util::io::StreamReader::new(parts), false)
                .await?;
            push.receive(ReceivePolicy::default(), None, accept()).await
        });
        Self {
            client,
            rest,
            received,
        }
    }

    /// Sends the rest and returns the report and the number of applied commands.
    async fn finish(self) -> (String, usize) {
        self.client.send(Ok(self.rest)).unwrap();
        drop(self.client);
        let received = self.received.await.unwrap().unwrap();
        let report = received.response.collect(1 << 20).await.unwrap();
        let applied = received.outcome.applied().await.unwrap();
        (String::from_utf8_lossy(&report).into_owned(), applied.len())
    }
}

#[tokio::test]
async fn body_is_received_unchanged_up_to_its_limit() {
    let sample = TestRepository::empty();
    let sent: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let receive = |bytes: Vec<u8>, limit: usize, excess| {
        let limit = SpoolLimit {
            bytes: limit as u64,
            excess,
        };
        let body = Box::pin(Cursor::new(bytes));
        let mut spool = Spool::receive(&sample.repository, body, limit, sample.repository.request_space());
        async move {
            // Readers may start before the body is complete.
            let mut reader = spool.reader();
            let read = async {
                let mut read = Vec::new();
                loop {
                    match reader.next().await {
                        Ok([]) => return Ok(read),
                        Ok(chunk) => read.extend_from_slice(chunk),
                        Err(error) => return Err(error),
                    }
                }
            };
            let (read, complete) = tokio::join!(read, spool.complete());
            complete.map(|_| read.unwrap())
        }
    };
    for size in [0, 1, 65_536, 65_537, 1 << 18, (1 << 18) + 1, sent.len()] {
        let body = sent[..size].to_vec();
        assert!(
            receive(body.clone(), size, Excess::Fails).await.unwrap() == body,
            "{size}"
        );
        if size > 0 {
            let answer = receive(body.clone(), size - 1, Excess::Fails).await;
            assert!(matches!(answer.err(), Some(Error::LimitExceeded(_))), "{size}");
            let read = receive(body, size - 1, Excess::Dropped).await.unwrap();
            assert!(read == sent[..size - 1], "{size}");
        }
    }
}

#[tokio::test]
async fn fetch_request_limit_applies_after_decompression() {
    let sample = TestRepository::with_history();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let zeros = vec![b'0'; 1 << 20];
    for _ in 0..65 {
        encoder.write_all(&zeros).unwrap();
    }
    let body = Cursor::new(encoder.finish().unwrap());
    let answer = sample.repository.upload_pack(body, true, None).await;
    assert!(matches!(answer.err(), Some(Error::LimitExceeded(_))));
}

#[tokio::test]
async fn small_push_has_no_program_until_its_body_is_complete() {
    let sample = TestRepository::with_history();
    let all = transfers(&sample).available_permits();
    let (body, tip) = large_push(&sample, "new");
    let push = BegunPush::new(&sample, &body, 1 << 20);
    assert_eq!((programs(&sample), reserved_memory(&sample)), (0, 0));
    assert_eq!(transfers(&sample).available_permits(), all);
    let (report, applied) = push.finish().await;
    assert_eq!(applied, 1, "{report}");
    assert_eq!(sample.id("new").to_string(), tip);
    until(|| transfers(&sample).available_permits() == all && reserved_memory(&sample) == 0).await;
}

#[tokio::test]
async fn program_of_large_push_starts_early_and_ends_when_another_needs_its_memory() {
    let sample = TestRepository::with_history();
    let all = transfers(&sample).available_permits();
    let (body, tip) = large_push(&sample, "new");
    for is_wanted in [false, true] {
        let push = BegunPush::new(&sample, &body, 5 << 20);
        until(|| quarantines(&sample).len() == 1).await;
        assert!(reserved_memory(&sample) > 0);
        if is_wanted {
            // Two imports take the whole budget.
            let path = sample.repository.path();
            let import = || sample.repository.reserve_memory_for(MemoryNeed::Import, &path);
            let reserved = tokio::try_join!(import(), import()).unwrap();
            until(|| programs(&sample) == 0).await;
            assert_eq!(quarantines(&sample), [""; 0]);
            assert_eq!(transfers(&sample).available_permits(), all);
            drop(reserved);
        }
        let (report, applied) = push.finish().await;
        assert_eq!(applied, 1, "{report}");
        assert_eq!(sample.id("new").to_string(), tip);
        sample.git(&["update-ref", "-d", "refs/heads/new"]);
        until(|| quarantines(&sample).is_empty()).await;
    }
}

#[tokio::test]
async fn early_program_moves_no_ref_before_the_body_is_complete() {
    let sample = TestRepository::with_history();
    let (body, tip) = large_push(&sample, "new");
    // The program gets whole chunks until the body ends. Data after the pack would make Git fail.
    let body = padded(body);
    let push = BegunPush::new(&sample, &body, body.len());
    let hooks = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let commands =
            processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
        let root = sample.repository.shared().root().to_str().unwrap().to_owned();
        commands
            .filter(|command| command.contains(&root) && command.contains("pre-receive"))
            .count()
    };
    until(|| hooks() > 0).await;
    let decided = tokio::time::timeout(Duration::from_millis(300), async {
        while sample.git(&["branch", "--list", "new"]).is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(
        decided.await.is_err(),
        "the ref moved before the body was complete"
    );
    let (report, applied) = push.finish().await;
    assert_eq!(applied, 1, "{report}");
    assert_eq!(sample.id("new").to_string(), tip);
}

#[tokio::test]
async fn disconnected_push_ends_and_leaves_no_files() {
    let sample = TestRepository::with_history();
    let all = transfers(&sample).available_permits();
    let (body, _) = large_push(&sample, "new");
    let push = BegunPush::new(&sample, &body, 5 << 20);
    until(|| quarantines(&sample).len() == 1).await;
    let lost = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    push.client.send(Err(lost)).unwrap();
    let answer = push.received.await.unwrap();
    assert!(matches!(answer.err(), Some(Error::Protocol(_))));
    assert_eq!((programs(&sample), quarantines(&sample)), (0, Vec::new()));
    assert_eq!(transfers(&sample).available_permits(), all);
}
