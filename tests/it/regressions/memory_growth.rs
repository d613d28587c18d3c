//! Memory of the server after many requests of an ordinary load.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::support::process::{Site, TOKEN};
use crate::support::{Client, DatabaseKind, spaces};

/// Projects that are written in turn.
const PROJECTS: usize = 20;
/// Memory for caches in bytes, which the first commits fill.
const CACHE_BYTES: &str = "4194304";
/// Rounds of commits in which the caches and pools fill. The most memory after one of them is the first measurement, because
/// the memory after a single round depends on when the server returned pages to the system.
const FIRST_ROUNDS: usize = 3;
/// Rounds of commits between the two measurements.
const ROUNDS: usize = 5;
/// Commits of a round.
const COMMITS: usize = 100;
/// Maximum growth between the measurements in kilobytes. With the allocator of glibc, the growth was 20 MB.
const MAX_GROWTH: u64 = 8 * 1024;
/// Maximum time until the server has returned freed pages to the system, which it does once a second.
const RETURN_TIME: Duration = Duration::from_secs(5);

async fn memory_does_not_grow_with_the_number_of_commits() {
    let site = Site::migrated(&DatabaseKind::Sqlite).await;
    let mut command = site.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("HOLDFAST_CACHE_BYTES", CACHE_BYTES);
    let server = Site::ready(command).await;
    let client = Client::new(&server.base, Some(TOKEN));
    let mut projects = Vec::new();
    for number in 0..PROJECTS {
        projects.push(spaces::project(&client, &format!("p{number}"), json!({})).await);
    }
    let commit = async |number: usize| {
        let project = projects[number % PROJECTS];
        let action = json!({"action": "create", "file_path": format!("d/{number}.txt"), "content": "x".repeat(2_000)});
        let body = json!({"branch": "main", "commit_message": format!("Commit {number}"), "actions": [action]});
        client.post(&format!("/projects/{project}/repository/commits"), body).await.expect(201);
        client.get(&format!("/projects/{project}/repository/commits?with_stats=true&per_page=10")).await.expect(200);
    };
    let commits = async |round: usize| {
        // Four clients, each with its own projects.
        join_all((0..4).map(|client| {
            let commit = &commit;
            async move {
                let numbers = round * COMMITS..(round + 1) * COMMITS;
                for number in numbers.filter(|number| number % 4 == client) {
                    commit(number).await;
                }
            }
        }))
        .await;
    };
    let mut before = 0;
    for round in 0..FIRST_ROUNDS {
        commits(round).await;
        before = before.max(server.private_memory());
    }
    for round in FIRST_ROUNDS..FIRST_ROUNDS + ROUNDS {
        commits(round).await;
    }
    let is_returned = async {
        while server.private_memory() >= before + MAX_GROWTH {
            sleep(Duration::from_millis(50)).await;
        }
    };
    if timeout(RETURN_TIME, is_returned).await.is_err() {
        panic!("{before} kB, then {} kB", server.private_memory());
    }
    server.stop().await;
}

harness::tests![memory_does_not_grow_with_the_number_of_commits];
