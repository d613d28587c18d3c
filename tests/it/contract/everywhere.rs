//! What every operation answers, whatever it does: to tokens that are no good, to queries and paths that are no text,
//! to sudo that is not allowed, and to heads and bodies that are too large.

use domain::kernel::policy::On;
use holdfast::api::contract::OPERATIONS;
use holdfast::api::operation::Operation;
use reqwest::Method;

use crate::support::client::Answer;
use crate::support::contract::check;
use crate::support::repository::Sample;
use crate::support::server::ROOT_TOKEN;
use crate::support::wire::Wire;
use crate::support::{Client, TestServer, on_every_database, places};

/// Things for the placeholders of paths.
struct Ids {
    project: i64,
    group: i64,
    user: i64,
}

impl Ids {
    async fn new(server: &TestServer) -> Self {
        Self {
            project: Sample::new(server).await.id,
            group: places::group(&server.root(), "everywhere", serde_json::json!({})).await,
            user: server.person("ann").await.id,
        }
    }

    /// A path of an operation, on something that is there.
    fn path(&self, operation: &Operation) -> String {
        let segments = operation.path.split('/').map(|part| match part.split_once('{') {
            None => part.to_owned(),
            Some((before, name)) => {
                let value = match (name.trim_end_matches('}'), operation.access.on) {
                    ("id", On::Project) => self.project,
                    ("id", On::Group) => self.group,
                    ("id" | "user_id", _) => self.user,
                    _ => 1,
                };
                format!("{before}{value}")
            }
        });
        segments.collect::<Vec<_>>().join("/")
    }
}

/// What is deleted without a condition, and why none can be set.
const UNCONDITIONAL: [(&str, &str); 12] = [
    ("delete_file", "`last_commit_id` says more"),
    ("delete_merged_branches", "it names no single thing"),
    ("unstar_dashboards", "it names no single thing"),
    ("delete_project_custom_attribute", NO_TIME),
    ("delete_group_custom_attribute", NO_TIME),
    ("delete_user_custom_attribute", NO_TIME),
    ("delete_fork_relation", NO_TIME),
    ("delete_scim_user", "the protocol has entity tags for that, and we have none"),
    ("delete_registry_repository", NO_TIME),
    ("delete_registry_tags", "it names no single thing"),
    ("remove_epic_issue", NO_TIME),
    ("stop_overriding_group_member", "it changes a member and removes none"),
];

const NO_TIME: &str = "no time of its last change is kept";

#[test]
fn every_other_delete_takes_a_condition_on_the_last_change() {
    for operation in OPERATIONS.iter().filter(|operation| operation.method == "DELETE") {
        let takes = |name: &str| operation.parameters.iter().any(|parameter| parameter.name == name);
        let conditional = !UNCONDITIONAL.iter().any(|(id, _)| *id == operation.id);
        let (sends, answers) = (takes("If-Unmodified-Since"), operation.statuses.contains(&412));
        assert_eq!((sends, answers), (conditional, conditional), "{}", operation.id);
    }
}

async fn call(client: &Client, operation: &Operation, path: &str) -> Answer {
    let method = Method::from_bytes(operation.method.as_bytes()).expect("a method");
    client.send(client.request(method, &format!("/{path}"))).await
}

/// What is wrong with the answers of all operations to one kind of request.
async fn faults(client: &Client, ids: &Ids, query: &str, status: u16) -> Vec<String> {
    let mut faults = Vec::new();
    for operation in OPERATIONS {
        let answer = call(client, operation, &format!("{}{query}", ids.path(operation))).await;
        // By SCIM, who calls is asked before all else that is not refused without that question, and users are nobody.
        let expected = match operation.access.on {
            On::Scim if status < 414 => 401,
            _ => status,
        };
        if answer.status != expected {
            faults.push(format!("{}: {}", operation.id, answer.status));
        }
    }
    faults
}

async fn every_operation_refuses_what_is_refused_everywhere(server: TestServer) {
    let ids = Ids::new(&server).await;
    let ann = server.with_token(&server.token_of(ids.user, &["api"]).await);
    let none: Vec<String> = Vec::new();
    assert_eq!(faults(&server.with_token("unknown"), &ids, "", 401).await, none);
    assert_eq!(faults(&server.root(), &ids, "?x=%FF", 400).await, none);
    assert_eq!(faults(&server.root(), &ids, "?sudo=nobody-at-all", 404).await, none);
    assert_eq!(faults(&ann, &ids, "?sudo=root", 403).await, none);
    assert_eq!(faults(&server.root(), &ids, &format!("?x={}", "y".repeat(9_000)), 414).await, none);
    let loaded = server.root().header("X-A", &"y".repeat(40_000));
    assert_eq!(faults(&loaded, &ids, "", 431).await, none);
}

async fn every_operation_that_takes_a_body_refuses_one_that_is_too_large(server: TestServer) {
    let ids = Ids::new(&server).await;
    // Those of SCIM take another token, and are tried by tests of their own.
    let ours = OPERATIONS.iter().filter(|operation| operation.access.on != On::Scim);
    for operation in ours.filter(|operation| operation.body.is_some() || operation.raw_body) {
        // Announced is as good as sent; the connection ends, because nobody can tell what would come next.
        let path = ids.path(operation);
        let head = format!(
            "{} {path} HTTP/1.1\r\nHost: h\r\nPrivate-Token: {ROOT_TOKEN}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            operation.method,
            operation.body_limit + 1,
        );
        let mut wire = Wire::connect(&server.base).await;
        wire.send(head).await;
        let raw = wire.answer().await;
        assert_eq!(raw.status, 413, "{}", operation.id);
        check(operation.method, &path, &raw.into());
    }
}

on_every_database![
    every_operation_refuses_what_is_refused_everywhere,
    every_operation_that_takes_a_body_refuses_one_that_is_too_large,
];
