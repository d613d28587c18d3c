//! Reads and writes on several nodes at the same time: no read that starts after an acknowledged write returns older data.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde_json::json;
use tokio::task::JoinSet;

use crate::support::process::{Process, Site, TOKEN};
use crate::support::spaces::{id, project};
use crate::support::{Client, DatabaseKind};

/// Number of operations, and the environment variable with a larger one.
const OPERATIONS: usize = 1_000;
const OPERATIONS_VARIABLE: &str = "HOLDFAST_TEST_CONSISTENCY_OPERATIONS";
/// Number of values. Each has one writer.
const VALUES: usize = 4;
const READERS: usize = 12;
/// Number of tokens that are created and revoked.
const TOKENS: usize = 20;

/// A number that is stored as the description of a project, or in a file of its repository.
struct StoredValue {
    project: i64,
    is_file: bool,
    /// The last number whose write was acknowledged.
    acknowledged: AtomicU64,
}

impl StoredValue {
    async fn create(client: &Client, number: usize) -> Self {
        let attributes = json!({"description": "0", "initialize_with_readme": true, "visibility": "public"});
        let project = project(client, &format!("value-{number}"), attributes).await;
        let value = Self { project, is_file: number == 0, acknowledged: AtomicU64::new(0) };
        if value.is_file {
            let file = json!({"branch": "main", "commit_message": "0", "content": "0"});
            client.post(&value.file(), file).await.expect(201);
        }
        value
    }

    fn file(&self) -> String {
        format!("/projects/{}/repository/files/value", self.project)
    }

    /// Stores the next number.
    async fn write(&self, client: &Client) {
        let number = self.acknowledged.load(Ordering::SeqCst) + 1;
        let text = number.to_string();
        let (path, body) = match self.is_file {
            true => (self.file(), json!({"branch": "main", "commit_message": text, "content": text})),
            false => (format!("/projects/{}", self.project), json!({"description": text})),
        };
        client.put(&path, body).await.expect(200);
        self.acknowledged.store(number, Ordering::SeqCst);
    }

    /// Reads the number, which must not be older than the last acknowledged one.
    async fn check(&self, client: &Client) {
        let least = self.acknowledged.load(Ordering::SeqCst);
        let text = match self.is_file {
            true => client.get(&format!("{}/raw?ref=main", self.file())).await.expect(200).text(),
            false => {
                let project = client.get(&format!("/projects/{}", self.project)).await.expect(200);
                project.json()["description"].as_str().expect("a description").to_owned()
            }
        };
        assert_not_older(&text, least);
    }
}

fn assert_not_older(text: &str, least: u64) {
    let number: u64 = text.parse().expect("a number");
    assert!(number >= least, "read {number} after the write of {least} was acknowledged");
}

/// Reads all descriptions from a list.
async fn check_list(values: &[StoredValue], client: &Client) {
    let described: Vec<_> = values.iter().filter(|value| !value.is_file).collect();
    let least: Vec<u64> = described.iter().map(|value| value.acknowledged.load(Ordering::SeqCst)).collect();
    let list = client.get("/projects?per_page=100&order_by=id").await.expect(200).json();
    for (value, least) in described.iter().zip(least) {
        let listed = list.as_array().expect("a list").iter().find(|listed| id(listed) == value.project);
        assert_not_older(listed.expect("the project")["description"].as_str().expect("a description"), least);
    }
}

/// Creates and revokes tokens, which must be valid and invalid on all nodes at once.
async fn create_and_revoke_tokens(nodes: Vec<Client>, bases: Vec<String>) {
    for number in 0..TOKENS {
        let (one, other) = (&nodes[number % nodes.len()], &nodes[(number + 1) % nodes.len()]);
        let attributes = json!({"name": "short-lived", "scopes": ["api"]});
        let token = one.post("/users/1/personal_access_tokens", attributes).await.expect(201).json();
        let text = token["token"].as_str().expect("a token").to_owned();
        let holders: Vec<_> = bases.iter().map(|base| Client::new(base, Some(&text))).collect();
        for holder in holders.iter().chain(&holders) {
            holder.get("/user").await.expect(200);
        }
        other.delete(&format!("/personal_access_tokens/{}", id(&token))).await.expect(204);
        for holder in holders.iter().rev() {
            holder.get("/user").await.expect(401);
        }
    }
}

async fn contend(nodes: &[Process], operations: usize) {
    let bases: Vec<_> = nodes.iter().map(|node| node.base.clone()).collect();
    let clients: Vec<_> = bases.iter().map(|base| Client::new(base, Some(TOKEN))).collect();
    let mut values = Vec::new();
    for number in 0..VALUES {
        values.push(StoredValue::create(&clients[0], number).await);
    }
    let (values, started) = (Arc::new(values), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    tasks.spawn(create_and_revoke_tokens(clients.clone(), bases.clone()));
    for value in 0..VALUES {
        let (values, started, clients) = (Arc::clone(&values), Arc::clone(&started), clients.clone());
        tasks.spawn(async move {
            let mut turn = value;
            while started.fetch_add(1, Ordering::SeqCst) < operations {
                values[value].write(&clients[turn % clients.len()]).await;
                turn += 1;
            }
        });
    }
    for reader in 0..READERS {
        let (values, started) = (Arc::clone(&values), Arc::clone(&started));
        // Some readers are anonymous.
        let base = &bases[reader % bases.len()];
        let client = Client::new(base, (reader % 3 > 0).then_some(TOKEN));
        tasks.spawn(async move {
            let mut turn = reader;
            while started.fetch_add(1, Ordering::SeqCst) < operations {
                match turn % (VALUES + 1) {
                    VALUES => check_list(&values, &client).await,
                    value => values[value].check(&client).await,
                }
                turn += 1;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no older data");
    }
    for value in &*values {
        assert!(value.acknowledged.load(Ordering::SeqCst) > 0, "no write of {}", value.project);
    }
}

fn operations() -> usize {
    std::env::var(OPERATIONS_VARIABLE).map_or(OPERATIONS, |number| number.parse().expect("a number"))
}

async fn reads_on_two_nodes_return_every_acknowledged_write() {
    let site = Site::migrated(&DatabaseKind::postgresql()).await;
    let nodes = [site.serve(&[]).await, site.serve(&[]).await];
    contend(&nodes, operations()).await;
    for node in nodes {
        node.stop().await;
    }
    site.remove().await;
}

async fn reads_on_sqlite_return_every_acknowledged_write() {
    let site = Site::migrated(&DatabaseKind::Sqlite).await;
    let nodes = [site.serve(&[]).await];
    contend(&nodes, operations()).await;
    for node in nodes {
        node.stop().await;
    }
}

harness::tests![reads_on_sqlite_return_every_acknowledged_write];
harness::tests![requires harness::postgresql::missing; reads_on_two_nodes_return_every_acknowledged_write];
