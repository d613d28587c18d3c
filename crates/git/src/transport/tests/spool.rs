//! Bodies that are stored while they arrive, and the programs of pushes.

use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::memory_budget::MemoryNeed;
use crate::slots::Slots;
use crate::spool::{CHUNK, MAX_DROPPED};
use crate::testing::until;

/// Size of a file of which a large pack consists. The pack is slightly shorter than a whole number of chunks.
const LARGE: usize = 24 * CHUNK - (32 << 10);

fn transfers(sample: &TestRepository) -> &Slots {
    &sample.repository.shared().slots.transfers
}

/// Returns the number of bytes that programs have reserved.
pub(super) fn reserved_memory(sample: &TestRepository) -> usize {
    sample.repository.shared().memory.usage().used
}

/// Returns the number of programs that run in the repository.
pub(super) fn programs(sample: &TestRepository) -> usize {
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
pub(super) fn large_push(sample: &TestRepository, branch: &str) -> (Vec<u8>, String) {
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
    let mut body = (packet(&line) + FLUSH).into_bytes();
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
pub(super) struct BegunPush {
    client: mpsc::UnboundedSender<std::io::Result<Bytes>>,
    rest: Bytes,
    received: tokio::task::JoinHandle<Result<ReceivedPush>>,
}

impl BegunPush {
    pub(super) fn new(sample: &TestRepository, body: &[u8], sent: usize) -> Self {
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
    pub(super) async fn finish(self) -> (String, usize) {
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
            pause: IDLE,
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
            let read = receive(body, size - 1, Excess::Dropped(1)).await.unwrap();
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

#[tokio::test]
async fn endless_body_is_dropped_up_to_a_maximum() {
    let sample = TestRepository::empty();
    let receive = |sent: usize| {
        let limit = SpoolLimit {
            bytes: 1000,
            excess: Excess::Dropped(5000),
            pause: IDLE,
        };
        let body = Box::pin(tokio::io::repeat(7).take(sent as u64));
        let mut spool = Spool::receive(&sample.repository, body, limit, sample.repository.request_space());
        async move { spool.complete().await.map(drop) }
    };
    receive(6000).await.unwrap();
    assert!(matches!(receive(6001).await.err(), Some(Error::LimitExceeded(_))));
    // The body of an attacker has no end.
    assert!(matches!(
        receive(usize::MAX).await.err(),
        Some(Error::LimitExceeded(_))
    ));
    assert_eq!(MAX_DROPPED, 1 << 30);
}

#[tokio::test]
async fn rest_of_a_body_is_dropped_on_request() {
    let sample = TestRepository::empty();
    let (mut client, body) = tokio::io::duplex(64);
    let limit = SpoolLimit {
        bytes: u64::MAX,
        excess: Excess::Dropped(4000),
        pause: IDLE,
    };
    let mut spool = Spool::receive(
        &sample.repository,
        Box::pin(body),
        limit,
        sample.repository.request_space(),
    );
    client.write_all(&[1; 2000]).await.unwrap();
    spool.stop_storing();
    client.write_all(&[2; 3000]).await.unwrap();
    drop(client);
    spool.complete().await.unwrap();
    let mut reader = spool.reader();
    let stored = reader.next().await.unwrap().to_vec();
    // The buffer of the connection may have contained some bytes.
    assert!((1900..=2100).contains(&stored.len()), "{}", stored.len());
    assert!(reader.next().await.unwrap().is_empty());
}

/// A body of which the client sends one byte each minute.
fn dripping(first: &'static [u8]) -> impl AsyncRead + Send + 'static {
    let bytes = futures_util::stream::unfold(first, |bytes| async move {
        if bytes.is_empty() {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        let sent = if bytes.is_empty() { &b"0"[..] } else { bytes };
        Some((Ok::<_, std::io::Error>(Bytes::from_static(sent)), &b""[..]))
    });
    tokio_util::io::StreamReader::new(Box::pin(bytes))
}

#[tokio::test(start_paused = true)]
async fn fetch_request_that_arrives_slowly_fails_after_five_minutes() {
    let sample = TestRepository::empty();
    let started = tokio::time::Instant::now();
    let answer = sample
        .repository
        .upload_pack(dripping(b"0014"), false, Some("version=2"))
        .await;
    assert!(matches!(answer.err(), Some(Error::Timeout)));
    assert_eq!(started.elapsed().as_secs(), 5 * 60);
}

#[tokio::test(start_paused = true)]
async fn push_that_arrives_slowly_fails_after_three_hours() {
    let sample = TestRepository::empty();
    let commands = b"00860000000000000000000000000000000000000000 1111111111111111111111111111111111111111 \
                     refs/heads/new\0report-status side-band-64k agent0000";
    let push = sample
        .repository
        .open_push(dripping(commands), false)
        .await
        .unwrap();
    let started = tokio::time::Instant::now();
    let answer = push.receive(ReceivePolicy::default(), None, accept()).await;
    assert!(matches!(answer.err(), Some(Error::Timeout)));
    assert_eq!(started.elapsed().as_secs(), 3 * 60 * 60);
}

#[tokio::test]
async fn push_that_git_rejects_early_stores_no_more_bytes() {
    let sample = TestRepository::with_history();
    let all = transfers(&sample).available_permits();
    let space = || sample.repository.shared().slots.usage().push_bytes.used;
    let (mut body, _) = large_push(&sample, "new");
    let first = 5 << 20;
    // Damages more than one block of the compressed file.
    body[first..first + CHUNK].fill(0xff);
    body.resize(body.len() + (40 << 20), 0);
    let BegunPush {
        client,
        mut rest,
        received,
    } = BegunPush::new(&sample, &body, first);
    until(|| quarantines(&sample).len() == 1).await;
    // The server detects the end of the program when it forwards the next bytes.
    while reserved_memory(&sample) > 0 {
        client.send(Ok(rest.split_to(CHUNK))).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(programs(&sample), 0);
    assert_eq!(transfers(&sample).available_permits(), all);
    let stored = space();
    assert!(rest.len() > 16 << 20, "{}", rest.len());
    client.send(Ok(rest)).unwrap();
    drop(client);
    let receiving = async {
        let mut highest = 0;
        while !received.is_finished() {
            highest = highest.max(space());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        highest
    };
    let highest = tokio::time::timeout(Duration::from_secs(20), receiving)
        .await
        .unwrap();
    assert!(highest <= stored, "{highest} bytes, and {stored} before");
    let received = received.await.unwrap().unwrap();
    let report = received.response.collect(1 << 20).await.unwrap();
    let report = String::from_utf8_lossy(&report).into_owned();
    assert!(report.contains("ng refs/heads/new"), "{report}");
    assert_eq!(received.outcome.applied().await.unwrap().len(), 0);
    until(|| reserved_memory(&sample) == 0 && space() == 0).await;
}
