//! Slots of fetches and pushes: clients that send nothing occupy none.

use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::DuplexStream;

use super::*;
use crate::slots::Slots;
use crate::testing::Fixture;
use crate::{Oid, SlotHolder};

/// More clients than slots of transfers.
const CLIENTS: i64 = 80;
/// A request for the list of references.
const LIST_REFERENCES: &[u8] = b"0014command=ls-refs\n0001001bref-prefix refs/heads/m0000";

fn transfers(sample: &TestRepository) -> &Slots {
    &sample.repository.shared().slots.transfers
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

/// Returns the states of the programs that run in the repository, as in `/proc/ID/stat`.
fn program_states(sample: &TestRepository) -> Vec<char> {
    let directory = sample.repository.path();
    let mut states = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        if fs::read_link(entry.path().join("cwd")).is_ok_and(|path| path.starts_with(&directory)) {
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            states.extend(stat.rsplit(") ").next().and_then(|rest| rest.chars().next()));
        }
    }
    states
}

/// Starts a push that creates a branch without new objects. Returns the client's side of the body, to which the last 20
/// bytes have to be written.
async fn begin_push(repository: &Repository, target: Oid, branch: &str) -> (DuplexStream, ReceivedPush) {
    let (mut client, body) = tokio::io::duplex(1024);
    let line = format!("{} {target} refs/heads/{branch}\0report-status", "0".repeat(40));
    let begun = format!("{:04x}{line}0000PACK\0\0\0\u{2}\0\0\0\0", line.len() + 4);
    client.write_all(begun.as_bytes()).await.unwrap();
    let push = repository.open_push(body, false).await.unwrap();
    let received = push
        .receive(ReceivePolicy::default(), None, accept())
        .await
        .unwrap();
    (client, received)
}

/// Ends a push of [`begin_push`].
async fn end_push(mut client: DuplexStream) {
    let checksum = hex::decode("029d08823bd8a8eab510ad6ac75c823cfd3ed31e").unwrap();
    client.write_all(&checksum).await.unwrap();
}

#[tokio::test]
async fn incomplete_fetch_requests_occupy_no_slots() {
    let sample = TestRepository::with_history();
    let mut clients = Vec::new();
    for user in 0..CLIENTS {
        let (mut client, body) = tokio::io::duplex(1024);
        client.write_all(b"0").await.unwrap();
        let repository = sample.repository.clone().on_behalf_of(SlotHolder::User(user));
        let fetch = tokio::spawn(async move { repository.upload_pack(body, false, Some("version=2")).await });
        clients.push((client, fetch));
    }
    let fetch = sample
        .repository
        .upload_pack(LIST_REFERENCES, false, Some("version=2"));
    let response = fetch.await.unwrap().collect(1 << 20).await.unwrap();
    assert!(String::from_utf8_lossy(&response).contains("refs/heads/main"));
    // The requests are answered once they are complete.
    for (mut client, fetch) in clients {
        client.write_all(&LIST_REFERENCES[1..]).await.unwrap();
        drop(client);
        let answer = fetch.await.unwrap().unwrap().collect(1 << 20).await.unwrap();
        assert_eq!(answer, response);
    }
}

#[tokio::test]
async fn silent_push_is_stopped_and_releases_its_slot() {
    let sample = TestRepository::with_history();
    let (main, all) = (sample.id("main"), transfers(&sample).available_permits());
    let (client, received) = begin_push(&sample.repository, main, "copy").await;
    assert_eq!(transfers(&sample).available_permits(), all - 1);
    until(|| transfers(&sample).available_permits() == all).await;
    until(|| {
        let states = program_states(&sample);
        !states.is_empty() && states.iter().all(|state| *state == 'T')
    })
    .await;
    // It continues only in a slot.
    let mut others = Vec::new();
    while let Some(permit) = transfers(&sample).try_acquire(None) {
        others.push(permit);
    }
    end_push(client).await;
    let mut applied = Box::pin(received.outcome.applied());
    let early = tokio::time::timeout(Duration::from_millis(200), &mut applied).await;
    assert!(early.is_err(), "{early:?}");
    others.pop();
    assert_eq!(applied.await.unwrap().len(), 1);
    assert_eq!(sample.id("refs/heads/copy"), main);
    until(|| transfers(&sample).available_permits() == 1).await;
}

#[tokio::test]
async fn disconnected_silent_push_ends() {
    let sample = TestRepository::with_history();
    let all = transfers(&sample).available_permits();
    let (client, received) = begin_push(&sample.repository, sample.id("main"), "copy").await;
    until(|| program_states(&sample).contains(&'T')).await;
    drop(received.response);
    assert!(received.outcome.applied().await.is_err());
    until(|| program_states(&sample).is_empty()).await;
    assert_eq!(transfers(&sample).available_permits(), all);
    drop(client);
}

#[tokio::test]
async fn slow_readers_of_one_client_leave_slots_for_others() {
    let fixture = Fixture::new("main").await;
    let id = fixture.git_stdin(&["hash-object", "-w", "--stdin"], &vec![7; 5 << 20]);
    let id = Oid::from_str(id.trim()).unwrap();
    let client = |address: &str| {
        let holder = SlotHolder::Address(address.into());
        fixture.repository.clone().on_behalf_of(holder)
    };
    let mut streams = Vec::new();
    for _ in 0..32 {
        streams.push(client("192.0.2.1").open_blob(id).await.unwrap());
    }
    let slow = client("192.0.2.1");
    let further = tokio::time::timeout(Duration::from_millis(200), slow.open_blob(id)).await;
    assert!(further.is_err(), "a client got more than its share");
    let fetch = client("192.0.2.2")
        .upload_pack(LIST_REFERENCES, false, Some("version=2"))
        .await;
    assert_eq!(fetch.unwrap().collect(1 << 20).await.unwrap(), b"0000");
}

#[tokio::test]
async fn large_fetch_request_is_received_unchanged() {
    let sample = TestRepository::empty();
    let sent: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    for size in [0, 1, 65_536, 65_537, sent.len()] {
        let (mut client, body) = tokio::io::duplex(10_000);
        let bytes = sent[..size].to_vec();
        let sending = tokio::spawn(async move { client.write_all(&bytes).await });
        let limit = sent.len() as u64;
        let mut body = request::receive(&sample.repository, body, limit).await.unwrap();
        let mut received = Vec::new();
        body.read_to_end(&mut received).await.unwrap();
        assert!(received == sent[..size], "{size}");
        sending.await.unwrap().unwrap();
    }
    let limit = sent.len() as u64 - 1;
    let answer = request::receive(&sample.repository, Cursor::new(sent), limit).await;
    assert!(matches!(answer.err(), Some(Error::LimitExceeded(_))));
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
    let mut response = sample.repository.upload_pack(body, true, None).await.unwrap();
    let answer = response.begun().await;
    assert!(matches!(answer, Err(Error::LimitExceeded(_))), "{answer:?}");
}
