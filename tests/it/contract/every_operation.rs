//! Responses that are the same for every operation: to invalid tokens, to queries and paths that are not UTF-8,
//! to forbidden `sudo`, and to oversized headers and bodies.

use contract::operation::{Operation, Paging, ResourceKind};
use contract::table::operations;
use reqwest::Method;

use crate::support::client::ApiResponse;
use crate::support::contract::check;
use crate::support::raw_http::RawConnection;
use crate::support::repository::Sample;
use crate::support::server::ROOT_TOKEN;
use crate::support::{Client, TestServer, on_every_database, spaces};

/// IDs for path placeholders.
struct Ids {
    project: i64,
    group: i64,
    user: i64,
}

impl Ids {
    async fn new(server: &TestServer) -> Self {
        Self {
            project: Sample::new(server).await.id,
            group: spaces::group(&server.root(), "everywhere", serde_json::json!({})).await,
            user: server.create_user("ann").await.id,
        }
    }

    /// Returns a path of an operation on existing resources.
    fn path(&self, operation: &Operation) -> String {
        let segments = operation.path.split('/').map(|part| match part.split_once('{') {
            None => part.to_owned(),
            Some((before, name)) => {
                let value = match (name.trim_end_matches('}'), operation.access.on) {
                    ("id", ResourceKind::Project) => self.project,
                    ("id", ResourceKind::Group) => self.group,
                    ("id" | "user_id", _) => self.user,
                    _ => 1,
                };
                format!("{before}{value}")
            }
        });
        segments.collect::<Vec<_>>().join("/")
    }
}

/// Delete operations without a precondition, and the reason.
const UNCONDITIONAL: [(&str, &str); 18] = [
    ("delete_file", "`last_commit_id` is more precise"),
    ("delete_merged_branches", "it deletes more than one resource"),
    ("unstar_dashboards", "it deletes more than one resource"),
    ("delete_project_custom_attribute", NO_TIME),
    ("delete_group_custom_attribute", NO_TIME),
    ("delete_user_custom_attribute", NO_TIME),
    ("delete_fork_relation", NO_TIME),
    ("delete_project_hook_custom_header", NO_TIME),
    ("delete_project_hook_url_variable", NO_TIME),
    ("delete_user_identity", NO_TIME),
    ("disable_two_factor", "it requires a code, which is valid once"),
    ("delete_scim_user", "SCIM uses entity tags for this, which are not supported"),
    ("delete_registry_repository", NO_TIME),
    ("delete_npm_package_tag", "npm sends no conditions"),
    ("yank_crate", "it changes a version and deletes nothing"),
    ("delete_registry_tags", "it deletes more than one resource"),
    ("remove_epic_issue", NO_TIME),
    ("stop_overriding_group_member", "it changes a member and deletes nothing"),
];

const NO_TIME: &str = "the time of its last change is not stored";

fn other_delete_operations_support_if_unmodified_since() {
    for operation in operations().iter().filter(|operation| operation.method == "DELETE") {
        let has_parameter = |name: &str| operation.parameters.iter().any(|parameter| parameter.name == name);
        let conditional = !UNCONDITIONAL.iter().any(|(id, _)| *id == operation.id);
        let (has_header, documents_412) = (has_parameter("If-Unmodified-Since"), operation.statuses.contains(&412));
        assert_eq!((has_header, documents_412), (conditional, conditional), "{}", operation.id);
    }
}

async fn call(client: &Client, operation: &Operation, path: &str) -> ApiResponse {
    let method = Method::from_bytes(operation.method.as_bytes()).expect("a method");
    client.send(client.request(method, &format!("/{path}"))).await
}

/// Returns the operations whose status differs from the expected one.
async fn errors(client: &Client, ids: &Ids, query: &str, status: u16) -> Vec<String> {
    let mut errors = Vec::new();
    for operation in operations() {
        let response = call(client, operation, &format!("{}{query}", ids.path(operation))).await;
        // SCIM authenticates first, except for errors of the HTTP layer, and tokens of users are not valid.
        let expected = match operation.access.on {
            ResourceKind::Scim if status < 414 => 401,
            // The credential of the operation is missing, and `sudo` is ignored.
            _ if operation.no_credentials && matches!(status, 403 | 404) => 401,
            _ => status,
        };
        if response.status != expected {
            errors.push(format!("{}: {}", operation.id, response.status));
        }
    }
    errors
}

async fn every_operation_rejects_invalid_token_query_sudo_and_headers(server: TestServer) {
    let ids = Ids::new(&server).await;
    let ann = server.with_token(&server.create_token(ids.user, &["api"]).await);
    let none: Vec<String> = Vec::new();
    assert_eq!(errors(&server.with_token("unknown"), &ids, "", 401).await, none);
    assert_eq!(errors(&server.root(), &ids, "?x=%FF", 400).await, none);
    assert_eq!(errors(&server.root(), &ids, "?sudo=missing-user", 404).await, none);
    assert_eq!(errors(&ann, &ids, "?sudo=root", 403).await, none);
    assert_eq!(errors(&server.root(), &ids, &format!("?x={}", "y".repeat(9_000)), 414).await, none);
    let loaded = server.root().header("X-A", &"y".repeat(40_000));
    assert_eq!(errors(&loaded, &ids, "", 431).await, none);
}

async fn every_list_documents_status_of_page_far_beyond_its_end(server: TestServer) {
    let ids = Ids::new(&server).await;
    for operation in operations().iter().filter(|operation| operation.paging != Paging::None) {
        let path = format!("{}?page=50001&per_page=100", ids.path(operation));
        // The client checks that the status is documented.
        call(&server.root(), operation, &path).await;
    }
}

async fn every_operation_with_body_rejects_oversized_body(server: TestServer) {
    let ids = Ids::new(&server).await;
    // SCIM operations require another token and have their own tests.
    let ours = operations().iter().filter(|operation| operation.access.on != ResourceKind::Scim);
    for operation in ours.filter(|operation| operation.body.is_some() || operation.raw_body) {
        // The announced length is enough for a rejection. The connection is closed because the body was not read.
        let path = ids.path(operation);
        let head = format!(
            "{} {path} HTTP/1.1\r\nHost: h\r\nPrivate-Token: {ROOT_TOKEN}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            operation.method,
            operation.body_limit + 1,
        );
        let mut wire = RawConnection::connect(&server.base).await;
        wire.send(head).await;
        let raw = wire.response().await;
        assert_eq!(raw.status, 413, "{}", operation.id);
        check(operation.method, &path, &raw.into());
    }
}

on_every_database![
    every_operation_rejects_invalid_token_query_sudo_and_headers,
    every_list_documents_status_of_page_far_beyond_its_end,
    every_operation_with_body_rejects_oversized_body,
];

harness::tests![other_delete_operations_support_if_unmodified_since];
