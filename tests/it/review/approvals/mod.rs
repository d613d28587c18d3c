//! Approvals of merge requests, and the rules that require them.

mod code_owners;
mod counted;
mod enforcement;
mod own_rules;
mod permissions;
mod races;
mod resets;
mod reviews;
mod rules;
mod settings;

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::support::code::Project;
use crate::support::{ApiResponse, Client, TestServer};

/// Creates an approval rule of a project and returns it.
pub async fn rule(client: &Client, project: i64, body: Value) -> Value {
    client.post(&format!("/projects/{project}/approval_rules"), body).await.expect(201).json()
}

/// Creates an approval rule of a merge request and returns it.
pub async fn own_rule(client: &Client, project: i64, iid: i64, body: Value) -> Value {
    client.post(&format!("/projects/{project}/merge_requests/{iid}/approval_rules"), body).await.expect(201).json()
}

/// A member of the project.
struct Member {
    id: i64,
    client: Client,
}

/// A project with the merge request 1 of the administrator from `feature/x` into `main`.
struct Fixture<'a> {
    server: &'a TestServer,
    project: Project<'a>,
    root: Client,
}

impl<'a> Fixture<'a> {
    async fn new(server: &'a TestServer, name: &str) -> Self {
        let project = Project::with_commits(server, name, Visibility::Public).await;
        let fixture = Self { server, project, root: server.root() };
        fixture.propose(&fixture.root, "feature/x").await;
        fixture
    }

    async fn propose(&self, client: &Client, branch: &str) -> i64 {
        let body = json!({"source_branch": branch, "target_branch": "main", "title": format!("Add {branch}")});
        let created = client.post(&self.url("/merge_requests"), body).await.expect(201).json();
        created["iid"].as_i64().expect("a number")
    }

    fn url(&self, rest: &str) -> String {
        format!("/projects/{}{rest}", self.project.id)
    }

    async fn member(&self, name: &str, role: AccessLevel) -> Member {
        let user = self.server.create_user(name).await;
        self.server.insert_member(self.project.id, user.id, role).await;
        Member { id: user.id, client: user.client }
    }

    async fn set(&self, change: Value) -> Value {
        self.root.post(&self.url("/approvals"), change).await.expect(201).json()
    }

    async fn rule(&self, body: Value) -> Value {
        rule(&self.root, self.project.id, body).await
    }

    async fn approvals(&self) -> Value {
        self.root.get(&self.url("/merge_requests/1/approvals")).await.expect(200).json()
    }

    async fn approve(&self, client: &Client) -> ApiResponse {
        client.post(&self.url("/merge_requests/1/approve"), json!({})).await
    }

    async fn unapprove(&self, client: &Client) -> ApiResponse {
        client.post(&self.url("/merge_requests/1/unapprove"), json!({})).await
    }

    async fn merge(&self) -> ApiResponse {
        self.root.put(&self.url("/merge_requests/1/merge"), json!({})).await
    }

    async fn detailed_status(&self) -> Value {
        let read = self.root.get(&self.url("/merge_requests/1")).await.expect(200).json();
        read["detailed_merge_status"].clone()
    }

    /// Commits a file to the source branch.
    async fn push(&self, name: &str) {
        let body = json!({"branch": "feature/x", "content": name, "commit_message": name});
        self.root.post(&self.project.url(&format!("/files/{name}")), body).await.expect(201);
    }

    /// Returns the bodies of all notes of the merge request, oldest first.
    async fn notes(&self) -> Vec<Value> {
        let url = self.url("/merge_requests/1/notes?sort=asc&per_page=100");
        self.root.get(&url).await.expect(200).pluck("body")
    }
}

/// Returns the usernames of the users who approved.
fn approved_by(approvals: &Value) -> Vec<&str> {
    let all = approvals["approved_by"].as_array().expect("a list").iter();
    all.map(|approval| approval["user"]["username"].as_str().expect("a name")).collect()
}
