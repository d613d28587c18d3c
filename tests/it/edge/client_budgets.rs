//! Processor time of Git programs and received bytes of each client.

use std::time::Duration;

use domain::kernel::budgets::RateClient;
use holdfast::config::ConfigOptions;
use serde_json::json;
use storage::entities::Visibility;

use crate::registry::registry_protocol::basic;
use crate::support::code::Project;
use crate::support::git::{self, Work};
use crate::support::spaces::project;
use crate::support::users::TestUser;
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

/// A second of processor time and a MiB within ten minutes, so that a bucket refills slowly during a test.
fn limited() -> ConfigOptions {
    ConfigOptions {
        git_processor_seconds_per_client: Some(1),
        received_bytes_per_client: Some(1 << 20),
        ..ConfigOptions::default()
    }
}

fn retry_after(response: &ApiResponse) -> u64 {
    response.header("retry-after").parse().expect("a number of seconds")
}

/// Returns a client that authenticates as Git does.
fn git_client(server: &TestServer, user: &TestUser) -> Client {
    server.anonymous().header("Authorization", &basic(&user.row.username, &user.token))
}

async fn client_without_processor_time_starts_no_git_program(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    let sample = Project::with_commits(&server, "p", Visibility::Public).await;
    let usage = &server.backend.budgets.git_time;
    let blame = |path: &str| sample.url(&format!("/files/{path}/blame?ref=main"));
    let (client, idle) = (RateClient::User(ada.id), RateClient::User(i64::MAX));
    let charge_both = |milliseconds: u64| {
        for charged in [client, idle] {
            usage.charge_time(charged, Duration::from_millis(milliseconds));
        }
    };
    charge_both(500);
    ada.client.get(&blame("README.md")).await.expect(200);
    charge_both(1500);
    // The program of the request was charged to its user too.
    let wait_of_idle = usage.wait(idle);
    assert!(wait_of_idle < usage.wait(client), "{wait_of_idle:?}");
    let refused = ada.client.get(&blame("docs%2Fguide.md")).await.expect(429);
    assert_eq!(refused.json()["setting"], "git_processor_seconds_per_client");
    assert!((500..=700).contains(&retry_after(&refused)), "{}", refused.header("retry-after"));
    let refs = format!("//{}.git/info/refs?service=git-upload-pack", sample.path);
    let refused = git_client(&server, &ada).get(&refs).await.expect(429);
    assert!(refused.text().contains("git_processor_seconds_per_client") && retry_after(&refused) > 500);
    // Requests without a Git program, other users and anonymous clients are not affected.
    ada.client.get(&sample.url("/branches")).await.expect(200);
    bob.client.get(&blame("docs%2Fguide.md")).await.expect(200);
    git_client(&server, &bob).get(&refs).await.expect(200);
    server.anonymous().get(&refs).await.expect(200);
    let (users, addresses) = usage.refused();
    assert!(users >= 4 && addresses == 0, "{users} {addresses}");
}

async fn push_without_processor_time_changes_nothing(server: TestServer) {
    let ada = server.create_user("ada").await;
    project(&ada.client, "p", json!({})).await;
    let work = Work::new().await;
    work.commit("a.txt", "a").await;
    let address = git::address(&server.base, "ada", &ada.token, "ada/p");
    server.backend.budgets.git_time.charge_time(RateClient::User(ada.id), Duration::from_secs(2));
    let output = work.fails(&["push", &address, "HEAD:refs/heads/main"]).await;
    assert!(output.contains("429"), "{output}");
    let absent = git::address(&server.base, "ada", &ada.token, "ada/fresh");
    let output = work.fails(&["push", &absent, "HEAD:refs/heads/main"]).await;
    assert!(output.contains("429"), "{output}");
    let branches = ada.client.get("/projects/ada%2Fp/repository/branches").await.expect(200).json();
    assert_eq!(branches, json!([]));
}

async fn client_that_sent_too_many_bytes_sends_no_further_bodies(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    project(&ada.client, "p", json!({"initialize_with_readme": true})).await;
    let content = "0123456789abcdef".repeat(100_000);
    let commit = json!({
        "branch": "main", "commit_message": "Add",
        "actions": [{"action": "create", "file_path": "large.txt", "content": content}],
    });
    // The body alone exceeds the limit, but does not refuse its own request.
    ada.client.post("/projects/ada%2Fp/repository/commits", commit).await.expect(201);
    let refused = ada.client.post("/projects", json!({"name": "late"})).await.expect(429);
    assert_eq!(refused.json()["setting"], "received_bytes_per_client");
    assert!((200..=320).contains(&retry_after(&refused)), "{}", refused.header("retry-after"));
    // Requests without a body, and other clients, are not affected.
    ada.client.get("/user").await.expect(200);
    assert_eq!(ada.client.get("/projects/ada%2Flate").await.status, 404);
    bob.client.post("/projects", json!({"name": "early"})).await.expect(201);
    assert_eq!(server.backend.budgets.received_bytes.refused(), (1, 0));
}

on_every_database![
    client_without_processor_time_starts_no_git_program with limited(),
    push_without_processor_time_changes_nothing with limited(),
    client_that_sent_too_many_bytes_sends_no_further_bodies with limited(),
];
