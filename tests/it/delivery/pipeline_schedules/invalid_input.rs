//! Random cron expressions and time zones: each is stored unchanged or rejected with the name of the attribute.

use chrono::Utc;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use storage::entities::Visibility;

use super::{schedule, time};
use crate::delivery::freeze_periods::freeze_period;
use crate::support::code::Project;
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

const SEED: u64 = 0x5eed_c207;

/// Returns a random mutation of `model`.
fn mutate(random: &mut StdRng, model: &str) -> String {
    let letters: Vec<char> =
        "0123456789*/,- \t\n\0LW#?@%'\"\\{}<>;sunJan_\u{e4}\u{661}\u{202e}\u{1f4a5}".chars().collect();
    let mut text: Vec<char> = match random.random_range(0..6) {
        0 => Vec::new(),
        1 => model.repeat(random.random_range(1..3)).chars().collect(),
        _ => model.chars().collect(),
    };
    for _ in 0..random.random_range(0..3) {
        let letter = letters[random.random_range(0..letters.len())];
        text.insert(random.random_range(0..=text.len()), letter);
    }
    if !text.is_empty() && random.random_range(0..3) == 0 {
        text.remove(random.random_range(0..text.len()));
    }
    text.into_iter().collect()
}

/// Returns whether an attribute was stored as sent, except for surrounding whitespace.
///
/// # Panics
///
/// If it was neither stored nor rejected with its name.
async fn is_stored(client: &Client, one: &str, response: ApiResponse, name: &str, sent: &str) -> bool {
    match response.status {
        200 => {
            let read = client.get(one).await.expect(200).json();
            assert_eq!(read[name], sent.trim(), "{name} {sent:?}");
            true
        }
        400 => {
            let message = &response.json()["message"];
            let names_attribute = match message {
                Value::String(text) => text.starts_with(name),
                _ => message[name].is_array(),
            };
            assert!(names_attribute, "{name} {sent:?}: {message}");
            false
        }
        status => panic!("{name} {sent:?}: {status}"),
    }
}

async fn random_cron_and_timezone_values_are_stored_or_rejected(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "garbage", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let schedule = format!("{project_path}/pipeline_schedules/{}", schedule(&root, &project_path).await);
    let freeze = format!("{project_path}/freeze_periods/{}", freeze_period(&root, &project_path).await);
    let mut random = StdRng::seed_from_u64(SEED);
    let (mut stored, mut rejected) = (0, 0);
    for round in 0..120 {
        let (one, name, model) = [
            (&schedule, "cron", "5,10 */2 1-15 * mon-fri"),
            (&schedule, "cron_timezone", "Europe/Istanbul"),
            (&freeze, "freeze_start", "0 23 * * 5"),
            (&freeze, "freeze_end", "0 7 * jan-jun 1"),
            (&freeze, "cron_timezone", "Wellington"),
        ][round % 5];
        let text = mutate(&mut random, model);
        let before = root.get(one).await.expect(200).json();
        let response = root.put(one, json!({ name: text })).await;
        if is_stored(&root, one, response, name, &text).await {
            stored += 1;
        } else {
            assert_eq!(root.get(one).await.expect(200).json(), before);
            rejected += 1;
        }
        let next = time(&root.get(&schedule).await.expect(200).json()["next_run_at"]);
        assert!(next > Utc::now() - chrono::TimeDelta::minutes(2), "{text:?}");
    }
    assert!(stored > 15 && rejected > 60, "{stored} and {rejected}");
}

on_every_database![random_cron_and_timezone_values_are_stored_or_rejected,];
