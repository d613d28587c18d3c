//! A real Git client clones from and pushes to a repository, through a minimal HTTP server.

mod decision;
mod slots;
mod slow_readers;
mod spool;

use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::Pin;
use std::process::Output;

use futures_util::{FutureExt, StreamExt};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;
use crate::test_repository::TestRepository;

/// Results of pushes in order.
type Outcomes = mpsc::UnboundedReceiver<Result<Vec<RefCommand>>>;

fn with_rules(rules: PushRules) -> ReceivePolicy {
    ReceivePolicy {
        rules,
        ..ReceivePolicy::default()
    }
}

/// Returns a decider that repeats the rules of the start.
fn same_rules(rules: PushRules) -> PushDecider {
    Box::new(move |_| std::future::ready(Ok(rules.clone())).boxed())
}

fn accept() -> PushDecider {
    same_rules(PushRules::default())
}

/// Serves the repository until the test ends and returns its address.
async fn serve(repository: &Repository, policy: ReceivePolicy) -> (String, Outcomes) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/sample.git", listener.local_addr().unwrap());
    let (sender, outcomes) = mpsc::unbounded_channel();
    let repository = repository.clone();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let (repository, policy, sender) = (repository.clone(), policy.clone(), sender.clone());
            tokio::spawn(async move { answer(connection, &repository, policy, &sender).await });
        }
    });
    (address, outcomes)
}

async fn answer(
    connection: TcpStream,
    repository: &Repository,
    policy: ReceivePolicy,
    outcomes: &mpsc::UnboundedSender<Result<Vec<RefCommand>>>,
) {
    let (reader, mut writer) = connection.into_split();
    let mut reader = BufReader::new(reader);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        tokio::io::AsyncBufReadExt::read_line(&mut reader, &mut head)
            .await
            .unwrap();
    }
    let headers: HashMap<_, _> = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value))
        .collect();
    let length = headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let body = reader.take(length);
    let gzip = headers.get("content-encoding") == Some(&"gzip");
    let protocol = headers.get("git-protocol").copied();
    let target = head.split(' ').nth(1).unwrap();
    let (kind, mut response) = match target.strip_prefix("/sample.git/").unwrap() {
        "git-upload-pack" => (
            "result",
            repository.upload_pack(body, gzip, protocol).await.unwrap(),
        ),
        "git-receive-pack" => {
            let push = repository.open_push(body, gzip).await.unwrap();
            let received = push
                .receive(policy.clone(), protocol, same_rules(policy.rules))
                .await
                .unwrap();
            let outcomes = outcomes.clone();
            tokio::spawn(async move { outcomes.send(received.outcome.applied().await) });
            ("result", received.response)
        }
        query => {
            let service = TransportService::named(query.strip_prefix("info/refs?service=").unwrap()).unwrap();
            (
                "advertisement",
                repository.advertise(service, protocol).await.unwrap(),
            )
        }
    };
    let service = if target.contains("upload-pack") {
        "git-upload-pack"
    } else {
        "git-receive-pack"
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/x-{service}-{kind}\r\n\r\n"
    );
    writer.write_all(head.as_bytes()).await.unwrap();
    while let Some(Ok(chunk)) = response.next().await {
        writer.write_all(&chunk).await.unwrap();
    }
}

/// Runs the client without blocking the server.
async fn client(directory: &Path, arguments: &[&str]) -> Output {
    tokio::process::Command::new("git")
        .args([
            "-c",
            "http.postBuffer=100000000",
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@example.com",
        ])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .output()
        .await
        .unwrap()
}

async fn succeeds(directory: &Path, arguments: &[&str]) {
    let output = client(directory, arguments).await;
    assert!(output.status.success(), "git {arguments:?}: {}", stderr(&output));
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Creates a clone of a sample with one commit more than the server.
async fn clone_with_commit(sample: &TestRepository, address: &str) -> std::path::PathBuf {
    let clone = sample.scratch().join("clone");
    succeeds(&sample.scratch(), &["clone", "--quiet", address, "clone"]).await;
    fs::write(clone.join("new"), "new\n").unwrap();
    succeeds(&clone, &["add", "new"]).await;
    succeeds(&clone, &["commit", "--quiet", "-m", "New"]).await;
    clone
}

#[tokio::test]
async fn clone_and_fetch_work_with_all_protocol_versions() {
    let sample = TestRepository::with_history();
    let (address, _) = serve(&sample.repository, ReceivePolicy::default()).await;
    for version in ["0", "1", "2"] {
        let name = format!("clone-{version}");
        let protocol = format!("protocol.version={version}");
        succeeds(
            &sample.scratch(),
            &["-c", &protocol, "clone", "--quiet", "--mirror", &address, &name],
        )
        .await;
        let clone = sample.scratch().join(&name);
        succeeds(&clone, &["fsck", "--strict"]).await;
        let references = client(&clone, &["for-each-ref", "--format=%(refname) %(objectname)"]).await;
        let references = String::from_utf8(references.stdout).unwrap();
        assert_eq!(
            references,
            sample.git(&["for-each-ref", "--format=%(refname) %(objectname)"])
        );
        sample.git(&["update-ref", "refs/heads/later", &sample.id("main~1").to_string()]);
        succeeds(&clone, &["-c", &protocol, "fetch", "--quiet"]).await;
        succeeds(&clone, &["rev-parse", "--verify", "--quiet", "refs/heads/later"]).await;
        sample.git(&["update-ref", "-d", "refs/heads/later"]);
    }
}

#[tokio::test]
async fn push_updates_refs_and_returns_applied_commands() {
    let sample = TestRepository::with_history();
    let (address, mut outcomes) = serve(&sample.repository, ReceivePolicy::default()).await;
    let before = sample.id("main");
    let clone = clone_with_commit(&sample, &address).await;
    succeeds(
        &clone,
        &[
            "push",
            "--quiet",
            "origin",
            "main",
            "main:refs/heads/group/new",
            ":refs/tags/v3",
        ],
    )
    .await;
    let after = sample.id("main");
    let mut applied = outcomes.recv().await.unwrap().unwrap();
    applied.sort_by(|a, b| a.reference.cmp(&b.reference));
    let names: Vec<_> = applied.iter().map(|command| command.reference.as_str()).collect();
    assert_eq!(names, ["refs/heads/group/new", "refs/heads/main", "refs/tags/v3"]);
    assert_eq!((applied[0].old, applied[0].new), (None, Some(after)));
    assert_eq!((applied[1].old, applied[1].new), (Some(before), Some(after)));
    assert_eq!(applied[2].new, None);
    assert!(sample.git(&["tag", "--list", "v3"]).is_empty());
}

#[tokio::test]
async fn push_to_rejected_ref_changes_nothing_and_returns_reason() {
    let sample = TestRepository::with_history();
    let reason = "You are not allowed to push code to protected branches on this project.";
    let rejected = vec![("refs/heads/main".to_owned(), reason.to_owned())];
    let policy = with_rules(PushRules {
        rejected,
        ..PushRules::default()
    });
    let (address, mut outcomes) = serve(&sample.repository, policy).await;
    let clone = clone_with_commit(&sample, &address).await;
    let before = sample.git(&["for-each-ref"]);
    for push in [["push", "origin", "main"], ["push", "origin", ":main"]] {
        let output = client(&clone, &push).await;
        assert!(!output.status.success());
        assert!(
            stderr(&output).contains(&format!("remote: {reason}")),
            "{}",
            stderr(&output)
        );
        assert_eq!(outcomes.recv().await.unwrap().unwrap(), []);
        assert_eq!(sample.git(&["for-each-ref"]), before);
    }
    succeeds(&clone, &["push", "--quiet", "origin", "main:other"]).await;
}

#[tokio::test]
async fn push_rules_apply_after_hook_scripts_are_modified() {
    let sample = TestRepository::with_history();
    let rejected = vec![("refs/heads/main".to_owned(), "No.".to_owned())];
    let policy = with_rules(PushRules {
        rejected,
        ..PushRules::default()
    });
    let (address, mut outcomes) = serve(&sample.repository, policy).await;
    let clone = clone_with_commit(&sample, &address).await;
    let push = ["push", "origin", "main"];
    assert!(stderr(&client(&clone, &push).await).contains("remote: No."));
    outcomes.recv().await.unwrap().unwrap();
    let hooks = sample.repository.shared().root().join(".hooks");
    let version = fs::read_dir(hooks).unwrap().next().unwrap().unwrap().path();
    let script = version.join("pre-receive");
    let permissive = |script: &Path| fs::write(script, "#!/bin/sh\nexit 0\n");
    let lame = |script: &Path| fs::set_permissions(script, Permissions::from_mode(0o644));
    let removed = |script: &Path| fs::remove_file(script);
    for change in [permissive, lame, removed] as [fn(&Path) -> std::io::Result<()>; 3] {
        change(&script).unwrap();
        assert!(stderr(&client(&clone, &push).await).contains("remote: No."));
        assert_eq!(outcomes.recv().await.unwrap().unwrap(), []);
    }
}

#[tokio::test]
async fn protected_ref_accepts_only_fast_forward() {
    let sample = TestRepository::with_history();
    let reason = "You are not allowed to force push code to a protected branch on this project.";
    let fast_forward_only = vec![("refs/heads/main".to_owned(), reason.to_owned())];
    let policy = with_rules(PushRules {
        fast_forward_only,
        ..PushRules::default()
    });
    let (address, mut outcomes) = serve(&sample.repository, policy).await;
    let clone = clone_with_commit(&sample, &address).await;
    succeeds(&clone, &["push", "--quiet", "origin", "main"]).await;
    assert_eq!(outcomes.recv().await.unwrap().unwrap().len(), 1);
    let before = sample.id("main");
    succeeds(&clone, &["commit", "--quiet", "--amend", "-m", "Other"]).await;
    let output = client(&clone, &["push", "--force", "origin", "main"]).await;
    assert!(stderr(&output).contains(reason), "{}", stderr(&output));
    assert_eq!(outcomes.recv().await.unwrap().unwrap(), []);
    assert_eq!(sample.id("main"), before);
    succeeds(&clone, &["push", "--quiet", "--force", "origin", "main:side-33"]).await;
    assert_eq!(outcomes.recv().await.unwrap().unwrap().len(), 1);
}

#[tokio::test]
async fn diverged_ref_is_skipped_and_other_refs_move() {
    let sample = TestRepository::with_history();
    let name = "refs/heads/main".to_owned();
    let rules = PushRules {
        fast_forward_only: vec![(name.clone(), name)],
        ..PushRules::default()
    };
    let policy = ReceivePolicy {
        skips_diverged: true,
        ..with_rules(rules)
    };
    let (address, mut outcomes) = serve(&sample.repository, policy).await;
    let clone = clone_with_commit(&sample, &address).await;
    succeeds(&clone, &["push", "--quiet", "origin", "main"]).await;
    assert_eq!(outcomes.recv().await.unwrap().unwrap().len(), 1);
    let before = sample.id("main");
    succeeds(&clone, &["commit", "--quiet", "--amend", "-m", "Other"]).await;
    let output = client(&clone, &["push", "--force", "origin", "main", "main:mainly"]).await;
    assert!(stderr(&output).contains("hook declined"), "{}", stderr(&output));
    let applied = outcomes.recv().await.unwrap().unwrap();
    let names: Vec<&str> = applied.iter().map(|command| command.reference.as_str()).collect();
    assert_eq!(names, ["refs/heads/mainly"]);
    assert_eq!(sample.id("main"), before);
}

#[tokio::test]
async fn reserved_references_are_rejected_one_by_one() {
    let sample = TestRepository::with_history();
    let kept = sample.id("main").to_string();
    sample.git(&["update-ref", "refs/keep-around/old", &kept]);
    sample.git(&["update-ref", "refs/merge-requests/1/head", &kept]);
    let (address, mut outcomes) = serve(&sample.repository, ReceivePolicy::default()).await;
    let clone = clone_with_commit(&sample, &address).await;
    for (number, reference) in [
        "refs/keep-around/x",
        "refs/merge-requests/1/head",
        "refs/merge-requests/2/head",
        "refs/replace/x",
        "refs/holdfast/x",
    ]
    .into_iter()
    .enumerate()
    {
        let other = format!("refs/notes/{number}");
        let refs = [format!("main:{reference}"), format!("main:{other}")];
        let output = client(&clone, &["push", "--force", "origin", &refs[0], &refs[1]]).await;
        let text = stderr(&output);
        assert!(
            !output.status.success() && text.contains("(deny updating a hidden ref)"),
            "{text}"
        );
        let applied = outcomes.recv().await.unwrap().unwrap();
        assert_eq!(applied.len(), 1, "{reference}");
        assert_eq!(
            (applied[0].reference.as_str(), applied[0].old),
            (other.as_str(), None)
        );
    }
    assert_eq!(
        sample.git(&["rev-parse", "refs/merge-requests/1/head"]).trim(),
        kept
    );
    assert_eq!(sample.repository.count_custom_references(10).await.unwrap(), 5);
    assert_eq!(sample.repository.count_custom_references(2).await.unwrap(), 2);
    // Heads of merge requests can be fetched, and other reserved references are hidden.
    let listed = client(&clone, &["ls-remote", "origin"]).await;
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(
        listed.contains("refs/merge-requests/1/head") && listed.contains("refs/notes/0"),
        "{listed}"
    );
    assert!(!listed.contains("keep-around"), "{listed}");
}

#[tokio::test]
async fn push_over_size_limit_is_rejected() {
    let sample = TestRepository::with_history();
    let policy = ReceivePolicy {
        max_bytes: Some(50_000),
        ..ReceivePolicy::default()
    };
    let (address, mut outcomes) = serve(&sample.repository, policy).await;
    let clone = clone_with_commit(&sample, &address).await;
    let noise: String = (0..200_000_u64)
        .map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    fs::write(clone.join("noise"), noise).unwrap();
    succeeds(&clone, &["add", "noise"]).await;
    succeeds(&clone, &["commit", "--quiet", "-m", "Noise"]).await;
    let output = client(&clone, &["push", "origin", "main"]).await;
    assert!(
        stderr(&output).contains("exceeds maximum allowed size")
            && stderr(&output).contains("The setting max_push_bytes of the server limits"),
        "{}",
        stderr(&output)
    );
    assert_eq!(outcomes.recv().await.unwrap().unwrap(), []);
}

#[tokio::test]
async fn compressed_requests_are_accepted() {
    let sample = TestRepository::with_history();
    let request = b"0014command=ls-refs\n0001001bref-prefix refs/heads/m0000";
    let plain = sample
        .repository
        .upload_pack(&request[..], false, Some("version=2"))
        .await
        .unwrap();
    let plain = plain.collect(1 << 20).await.unwrap();
    assert!(String::from_utf8_lossy(&plain).contains("refs/heads/main"));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(request).unwrap();
    let body = Cursor::new(encoder.finish().unwrap());
    let packed = sample
        .repository
        .upload_pack(body, true, Some("version=2"))
        .await
        .unwrap();
    assert_eq!(packed.collect(1 << 20).await.unwrap(), plain);
}

/// A body that never ends and sends a signal when it is dropped.
struct Endless(#[expect(dead_code, reason = "held only to be dropped")] mpsc::Sender<()>);

impl AsyncRead for Endless {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Pending
    }
}

/// Returns a body that fails after `bytes`.
fn interrupted(bytes: Vec<u8>) -> impl AsyncRead + Send + 'static {
    let broken = futures_util::stream::iter([
        Ok(Bytes::from(bytes)),
        Err(std::io::Error::other("connection lost")),
    ]);
    tokio_util::io::StreamReader::new(broken)
}

#[tokio::test]
async fn truncated_push_changes_nothing() {
    let sample = TestRepository::with_history();
    let before = sample.git(&["for-each-ref"]);
    let main = sample.id("main");
    let line = format!("{main} {} refs/heads/main\0report-status", "1".repeat(40));
    let body = format!("{:04x}{line}0000PACK\0\0\0\u{2}\0\0\0\u{9}", line.len() + 4).into_bytes();
    let push = sample
        .repository
        .open_push(interrupted(body), false)
        .await
        .unwrap();
    assert_eq!(push.commands()[0].old, Some(main));
    let answer = push.receive(ReceivePolicy::default(), None, accept()).await;
    assert!(matches!(answer.err(), Some(Error::Protocol(_))));
    assert_eq!(sample.git(&["for-each-ref"]), before);
}

/// Clients test their credentials with an empty push before a large one.
#[tokio::test]
async fn empty_push_returns_empty_response() {
    let sample = TestRepository::with_history();
    let push = sample.repository.open_push(&b"0000"[..], false).await.unwrap();
    assert!(push.commands().is_empty());
    let received = push
        .receive(ReceivePolicy::default(), None, accept())
        .await
        .unwrap();
    assert!(received.response.collect(1024).await.unwrap().is_empty());
    assert_eq!(received.outcome.applied().await.unwrap(), []);
}

#[tokio::test]
async fn push_completes_after_client_disconnects() {
    let sample = TestRepository::with_history();
    let (main, zero) = (sample.id("main"), "0".repeat(40));
    let line = format!("{zero} {main} refs/heads/copy\0report-status");
    let mut body = format!("{:04x}{line}0000", line.len() + 4).into_bytes();
    // A pack without objects: its header and the SHA-1 of it.
    let header = b"PACK\0\0\0\x02\0\0\0\0";
    body.extend_from_slice(header);
    body.extend(hex::decode("029d08823bd8a8eab510ad6ac75c823cfd3ed31e").unwrap());
    let push = sample
        .repository
        .open_push(Cursor::new(body), false)
        .await
        .unwrap();
    let mut received = push
        .receive(ReceivePolicy::default(), None, accept())
        .await
        .unwrap();
    let first = received.response.next().await.unwrap().unwrap();
    assert!(!first.is_empty());
    drop(received.response);
    let applied = received.outcome.applied().await.unwrap();
    assert_eq!(
        applied,
        [RefCommand {
            old: None,
            new: Some(main),
            reference: "refs/heads/copy".to_owned()
        }]
    );
    assert_eq!(sample.id("refs/heads/copy"), main);
}

#[tokio::test]
async fn fetch_ends_when_client_disconnects() {
    let sample = TestRepository::with_history();
    let (alive, mut removed) = mpsc::channel(1);
    let mut fetch = Box::pin(sample.repository.upload_pack(Endless(alive), false, None));
    assert!((&mut fetch).now_or_never().is_none());
    drop(fetch);
    assert_eq!(removed.recv().await, None);
}

#[tokio::test]
async fn invalid_git_protocol_values_are_not_forwarded() {
    assert!(is_protocol_version("version=2"));
    for version in ["version=2\nx", "a b", "$(x)", &"v".repeat(65)] {
        assert!(!is_protocol_version(version), "{version}");
    }
}

/// Commands with a pack that has only begun.
fn begun_push(main: crate::Oid) -> Vec<u8> {
    let line = format!(
        "{main} {} refs/heads/main\0report-status side-band-64k",
        "1".repeat(40)
    );
    format!("{:04x}{line}0000PACK\0\0\0\u{2}\0\0\0\u{9}", line.len() + 4).into_bytes()
}

#[tokio::test]
async fn push_with_incomplete_body_fails() {
    let sample = TestRepository::with_history();
    let body = begun_push(sample.id("main"));
    let push = sample
        .repository
        .open_push(interrupted(body.clone()), false)
        .await
        .unwrap();
    let answer = push.receive(ReceivePolicy::default(), None, accept()).await;
    assert!(matches!(answer.err(), Some(Error::Protocol(_))));

    let timed_out = std::io::Error::from(std::io::ErrorKind::TimedOut);
    let slow = futures_util::stream::iter([Ok(Bytes::from(body)), Err(timed_out)]);
    let slow = tokio_util::io::StreamReader::new(slow);
    let push = sample.repository.open_push(slow, false).await.unwrap();
    let answer = push.receive(ReceivePolicy::default(), None, accept()).await;
    assert!(matches!(answer.err(), Some(Error::Timeout)));
}

#[tokio::test]
async fn long_negotiation_is_answered() {
    let sample = TestRepository::with_history();
    let want = format!("want {} multi_ack_detailed no-done\n", sample.id("main"));
    let have = format!("have {}\n", sample.id("main~1"));
    let have = format!("{:04x}{have}", have.len() + 4);
    let mut body = format!("{:04x}{want}0000", want.len() + 4).into_bytes();
    body.extend_from_slice(have.repeat(60_000).as_bytes());
    let body = Cursor::new(body);
    let response = sample.repository.upload_pack(body, false, None).await.unwrap();
    let answer = response.collect(8 << 20).await.unwrap();
    assert!(
        answer.len() >= 60_000 * 0x38 && answer.starts_with(b"0038ACK "),
        "{}",
        answer.len()
    );
}
