//! Slots of fetches: clients that send nothing occupy none.

use std::time::Duration;

use super::*;
use crate::testing::Fixture;
use crate::{Oid, SlotHolder};

/// More clients than slots of transfers.
const CLIENTS: i64 = 80;
/// A request for the list of references.
const LIST_REFERENCES: &[u8] = b"0014command=ls-refs\n0001001bref-prefix refs/heads/m0000";

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
