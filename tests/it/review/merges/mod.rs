//! Commits and changes of merge requests, and merging them.

mod auto_merge;
mod conditions;
mod detailed_status;
mod late_changes;
mod merge_ref;
mod methods;
mod pipelines;
mod races;
mod rebases;
mod ref_updates;

use serde_json::{Value, json};
use storage::entities::Visibility;

use crate::support::code::{NewCommit, Project, file};
use crate::support::{ApiResponse, Client, TestServer};

/// A project with a merge request from `feature/x` into `main`.
struct Fixture<'a> {
    project: Project<'a>,
    root: Client,
}

impl<'a> Fixture<'a> {
    async fn new(server: &'a TestServer, name: &str) -> Self {
        let project = Project::with_commits(server, name, Visibility::Public).await;
        let fixture = Self { project, root: server.root() };
        fixture.propose("feature/x", json!({})).await;
        fixture
    }

    fn url(&self, rest: &str) -> String {
        format!("/projects/{}{rest}", self.project.id)
    }

    /// Creates a merge request into `main` and returns its IID.
    async fn propose(&self, branch: &str, more: Value) -> i64 {
        let mut body = json!({"source_branch": branch, "target_branch": "main", "title": format!("Add {branch}")});
        let Value::Object(more) = more else { panic!("an object") };
        body.as_object_mut().expect("an object").extend(more);
        let created = self.root.post(&self.url("/merge_requests"), body).await.expect(201).json();
        created["iid"].as_i64().expect("a number")
    }

    async fn read(&self, iid: i64) -> Value {
        let url = self.url(&format!("/merge_requests/{iid}"));
        self.root.get(&url).await.expect(200).json()
    }

    async fn merge(&self, iid: i64, body: Value) -> ApiResponse {
        let url = self.url(&format!("/merge_requests/{iid}/merge"));
        self.root.put(&url, body).await
    }

    async fn set(&self, change: Value) {
        self.root.put(&self.url(""), change).await.expect(200);
    }

    /// Creates a branch with one commit of one file and returns the commit ID.
    fn branch(&self, name: &str, from: &str, path: &str, content: &str) -> String {
        self.project.import(&NewCommit {
            branch: name,
            from: Some(from),
            time: 1_600_000_400,
            changes: file(path, content),
            ..NewCommit::default()
        })
    }

    /// Returns the bodies of all notes of a merge request, oldest first.
    async fn notes(&self, iid: i64) -> Vec<String> {
        let url = self.url(&format!("/merge_requests/{iid}/notes?sort=asc&per_page=100"));
        let notes = self.root.get(&url).await.expect(200).pluck("body");
        notes.iter().map(|body| body.as_str().expect("text").to_owned()).collect()
    }
}
