//! Clients that read the response of a fetch slowly, or not at all.

use std::time::Duration;

use tokio::time::Instant;

use super::spool::{BegunPush, large_push, programs, reserved_memory};
use super::*;
use crate::SlotHolder;
use crate::archive::{ArchiveFormat, ArchiveRequest};
use crate::memory_budget::MemoryNeed;
use crate::testing::until;

/// Returns a repository with a branch that has a file of 6 MiB, and the request that fetches it.
async fn sample() -> (TestRepository, Vec<u8>) {
    let sample = TestRepository::with_history();
    let (body, tip) = large_push(&sample, "new");
    let (report, applied) = BegunPush::new(&sample, &body, body.len()).finish().await;
    assert_eq!(applied, 1, "{report}");
    until(|| reserved_memory(&sample) == 0).await;
    let want = packet(&format!("want {tip} side-band-64k ofs-delta\n"));
    let request = [want.as_str(), FLUSH, &packet("done\n")].concat();
    (sample, request.into_bytes())
}

fn of_user(sample: &TestRepository, id: i64) -> Repository {
    sample.repository.clone().on_behalf_of(SlotHolder::User(id))
}

/// Starts a response, and waits until its program waits for the client.
async fn unread(sample: &TestRepository, request: &[u8], user: i64) -> ByteStream {
    let body = Cursor::new(request.to_vec());
    let mut response = of_user(sample, user)
        .upload_pack(body, false, None)
        .await
        .unwrap();
    response.next().await.unwrap().unwrap();
    assert!(reserved_memory(sample) > 0);
    response
}

/// Reserves the whole memory of all programs, as two other clients do.
async fn reserve_everything(sample: &TestRepository) {
    let path = sample.repository.path();
    let [one, two] = [of_user(sample, 100), of_user(sample, 101)];
    let import = |repository: Repository| {
        let path = path.clone();
        async move { repository.reserve_memory_for(MemoryNeed::Import, &path).await }
    };
    let started = Instant::now();
    let reserved = tokio::try_join!(import(one), import(two)).unwrap();
    assert!(started.elapsed() < Duration::from_secs(20));
    drop(reserved);
}

/// Returns the disk space of stored responses, and their number.
fn stored(sample: &TestRepository) -> (usize, usize) {
    let usage = sample.repository.shared().slots.usage();
    (usage.response_bytes.used, usage.responses.used)
}

#[tokio::test]
async fn unread_fetch_releases_memory_that_another_program_needs() {
    let (sample, request) = sample().await;
    let response = unread(&sample, &request, 1).await;
    assert_eq!(stored(&sample), (0, 0));
    reserve_everything(&sample).await;
    until(|| programs(&sample) == 0).await;
    let (bytes, responses) = stored(&sample);
    assert!(bytes >= 4 << 20 && responses == 1, "{bytes} {responses}");
    // The client still receives everything.
    let rest = response.collect(1 << 24).await.unwrap();
    assert!(rest.len() > 5 << 20 && rest.ends_with(b"0000"), "{}", rest.len());
    until(|| stored(&sample) == (0, 0)).await;
}

#[tokio::test]
async fn unread_archive_releases_memory_that_another_program_needs() {
    let (sample, _) = sample().await;
    let request = ArchiveRequest {
        commit: sample.id("new"),
        format: ArchiveFormat::Tar,
        prefix: "p".to_owned(),
        path: None,
        excluded_paths: Vec::new(),
    };
    let mut response = of_user(&sample, 1).archive(request).await.unwrap();
    let first = response.next().await.unwrap().unwrap();
    reserve_everything(&sample).await;
    let rest = response.collect(1 << 24).await.unwrap();
    let tar = [&first[..], &rest].concat();
    let mut files = tar::Archive::new(&tar[..]);
    let sizes = files.entries().unwrap().map(|entry| entry.unwrap().size());
    assert!(sizes.max().unwrap() > 5 << 20);
}

/// Each stream would occupy a thread for blocking work if it waited for its client there.
#[test]
fn unread_bzip2_archives_occupy_no_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(4)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (sample, _) = sample().await;
        let mut unread = Vec::new();
        let all = async {
            for user in 1..=6 {
                let request = ArchiveRequest {
                    commit: sample.id("new"),
                    format: ArchiveFormat::TarBz2,
                    prefix: "p".to_owned(),
                    path: None,
                    excluded_paths: Vec::new(),
                };
                let mut response = of_user(&sample, user).archive(request).await.unwrap();
                response.next().await.unwrap().unwrap();
                unread.push(response);
            }
        };
        let all = tokio::time::timeout(Duration::from_secs(60), all).await;
        assert!(all.is_ok(), "the streams occupy all threads");
        let response = unread.pop().unwrap().collect(1 << 24).await.unwrap();
        assert!(response.len() > 5 << 20, "{}", response.len());
    });
}

#[tokio::test]
async fn unread_fetch_is_not_stored_while_memory_is_available() {
    let (sample, request) = sample().await;
    let response = unread(&sample, &request, 1).await;
    let path = sample.repository.path();
    let other = of_user(&sample, 2);
    drop(other.reserve_memory_for(MemoryNeed::Import, &path).await.unwrap());
    assert_eq!(stored(&sample), (0, 0));
    let rest = response.collect(1 << 24).await.unwrap();
    assert!(rest.ends_with(b"0000"));
}

#[tokio::test]
async fn client_that_leaves_ends_a_stored_fetch() {
    let (sample, request) = sample().await;
    let response = unread(&sample, &request, 1).await;
    reserve_everything(&sample).await;
    assert_eq!(stored(&sample).1, 1);
    drop(response);
    until(|| stored(&sample) == (0, 0)).await;
}

#[tokio::test]
async fn unread_fetch_that_cannot_be_stored_ends() {
    let (sample, request) = sample().await;
    let client = of_user(&sample, 1);
    let mut slots = Vec::new();
    while let Some(slot) = client.try_response_space() {
        slots.push(slot);
    }
    assert_eq!(slots.len(), 16);
    let response = unread(&sample, &request, 1).await;
    reserve_everything(&sample).await;
    until(|| programs(&sample) == 0).await;
    // The client learns that the response is not complete.
    assert!(response.collect(1 << 24).await.is_err());
}
