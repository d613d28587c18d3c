//! Expressions and zones that are no such things, in all places that take them: each is refused by name or kept as it is.

use chrono::Utc;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use storage::entities::Visibility;

use super::{schedule, time};
use crate::freeze_periods::freeze_period;
use crate::support::code::Project;
use crate::support::{Answer, Client, TestServer, on_every_database};

const SEED: u64 = 0x5eed_c207;

/// Texts that look a little like `model`.
fn garbage(random: &mut StdRng, model: &str) -> String {
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

/// What became of an attribute: kept as it was sent, without the blanks around it, or refused by name. Anything else fails.
async fn kept(client: &Client, one: &str, answer: Answer, name: &str, sent: &str) -> bool {
    match answer.status {
        200 => {
            let read = client.get(one).await.expect(200).json();
            assert_eq!(read[name], sent.trim(), "{name} {sent:?}");
            true
        }
        400 => {
            let message = &answer.json()["message"];
            let named = match message {
                Value::String(text) => text.starts_with(name),
                _ => message[name].is_array(),
            };
            assert!(named, "{name} {sent:?}: {message}");
            false
        }
        status => panic!("{name} {sent:?}: {status}"),
    }
}

async fn garbage_is_refused_by_name_and_changes_nothing(server: TestServer) {
    let root = server.root();
    let project = Project::filled(&server, "garbage", Visibility::Private).await;
    let place = format!("/projects/{}", project.id);
    let schedule = format!("{place}/pipeline_schedules/{}", schedule(&root, &place).await);
    let freeze = format!("{place}/freeze_periods/{}", freeze_period(&root, &place).await);
    let mut random = StdRng::seed_from_u64(SEED);
    let (mut sound, mut refused) = (0, 0);
    for round in 0..120 {
        let (one, name, model) = [
            (&schedule, "cron", "5,10 */2 1-15 * mon-fri"),
            (&schedule, "cron_timezone", "Europe/Istanbul"),
            (&freeze, "freeze_start", "0 23 * * 5"),
            (&freeze, "freeze_end", "0 7 * jan-jun 1"),
            (&freeze, "cron_timezone", "Wellington"),
        ][round % 5];
        let text = garbage(&mut random, model);
        let before = root.get(one).await.expect(200).json();
        let answer = root.put(one, json!({ name: text })).await;
        if kept(&root, one, answer, name, &text).await {
            sound += 1;
        } else {
            assert_eq!(root.get(one).await.expect(200).json(), before);
            refused += 1;
        }
        let next = time(&root.get(&schedule).await.expect(200).json()["next_run_at"]);
        assert!(next > Utc::now() - chrono::TimeDelta::minutes(2), "{text:?}");
    }
    assert!(sound > 15 && refused > 60, "{sound} and {refused}");
}

on_every_database![garbage_is_refused_by_name_and_changes_nothing,];
