//! Random texts sent as keys of projects and users.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use super::{KEY, RSA};
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

const SEED: u64 = 0x5eed_c208;

/// Returns a key with characters inserted, cut off or duplicated.
fn garbage(random: &mut StdRng) -> String {
    let letters: Vec<char> = "AZ09+/= \t\r\n\0-@'\"\\<\u{e4}\u{202e}\u{1f4a5}".chars().collect();
    let commented = format!("{KEY} ada@laptop");
    let models = [KEY, RSA, &commented, "ssh-rsa AAAA"];
    let mut text: Vec<char> = models[random.random_range(0..models.len())].chars().collect();
    for _ in 0..random.random_range(0..3) {
        let letter = letters[random.random_range(0..letters.len())];
        let at = random.random_range(0..=text.len());
        match random.random_range(0..4) {
            0 => text.truncate(at),
            1 => text.extend_from_within(..at),
            _ => text.insert(at, letter),
        }
    }
    text.into_iter().collect()
}

async fn random_key_text_is_rejected_or_stored_as_key(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}/deploy_keys", project(&root, "garbage", json!({})).await);
    let mut random = StdRng::seed_from_u64(SEED);
    let (mut valid, mut rejected) = (0, 0);
    for round in 0..120 {
        let (all, prefix) = [(path.as_str(), "deploy_key."), ("/user/keys", "")][round % 2];
        let text = garbage(&mut random);
        let answer = root.post(all, json!({ "title": "x", "key": text })).await;
        if answer.status == 201 {
            let created = answer.json();
            let one = format!("{all}/{}", created["id"]);
            assert_eq!(root.get(&one).await.expect(200).json()["key"], created["key"], "{text:?}");
            root.delete(&one).await.expect(204);
            // The stored form of a key is accepted again unchanged.
            let again = root.post(all, json!({ "title": "x", "key": created["key"] })).await.expect(201).json();
            assert_eq!(again["key"], created["key"], "{text:?}");
            root.delete(&format!("{all}/{}", again["id"])).await.expect(204);
            valid += 1;
        } else {
            let message = answer.expect(400).json()["message"].clone();
            let named = message.as_str().is_some_and(|fault| fault.starts_with("key"));
            assert!(named || message[format!("{prefix}key")].is_array(), "{text:?}: {message}");
            rejected += 1;
        }
        assert_eq!(root.get(all).await.expect(200).json(), json!([]));
    }
    assert!(valid > 20 && rejected > 40, "{valid} and {rejected}");
}

on_every_database![random_key_text_is_rejected_or_stored_as_key,];
