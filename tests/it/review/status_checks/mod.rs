//! External status checks of projects, and their statuses for merge requests.

mod deliveries;
mod enforcement;
mod races;
mod responses;
mod settings;

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::support::code::Project;
use crate::support::spaces::id;
use crate::support::{ApiResponse, Client, TestServer};

/// Creates a status check of the project `/projects/:id` and returns its ID.
pub async fn status_check(client: &Client, base_path: &str, name: &str) -> i64 {
    let url = format!("https://checks.example.com/{name}");
    let body = json!({ "name": name, "external_url": url, "shared_secret": "shared secret" });
    id(&client.post(&format!("{base_path}/external_status_checks"), body).await.expect(201).json())
}

/// A project with the merge request 1 of the administrator from `feature/x` into `main`. The member `ann` is a Developer, who
/// can approve the merge request.
struct Fixture<'a> {
    project: Project<'a>,
    root: Client,
    ann: Client,
}

impl<'a> Fixture<'a> {
    async fn new(server: &'a TestServer) -> Self {
        let fixture = Self::without_merge_request(server).await;
        fixture.propose("feature/x").await;
        fixture
    }

    async fn without_merge_request(server: &'a TestServer) -> Self {
        let project = Project::with_commits(server, "checked", Visibility::Public).await;
        let ann = project.member("ann", AccessLevel::Developer).await;
        Self { project, root: server.root(), ann }
    }

    async fn propose(&self, branch: &str) -> Value {
        let body = json!({ "source_branch": branch, "target_branch": "main", "title": format!("Add {branch}") });
        self.root.post(&self.url("/merge_requests"), body).await.expect(201).json()
    }

    fn url(&self, rest: &str) -> String {
        format!("/projects/{}{rest}", self.project.id)
    }

    /// Creates a status check and returns it.
    async fn check(&self, body: Value) -> Value {
        self.root.post(&self.url("/external_status_checks"), body).await.expect(201).json()
    }

    /// Creates a status check at a URL and returns its ID.
    async fn check_at(&self, name: &str, url: &str) -> i64 {
        id(&self.check(json!({ "name": name, "external_url": url })).await)
    }

    /// Requires that all checks have passed.
    async fn require(&self) {
        let change = json!({ "only_allow_merge_if_all_status_checks_passed": true });
        self.root.put(&self.url(""), change).await.expect(200);
    }

    /// Returns the names and statuses of the checks of the merge request.
    async fn statuses(&self) -> Vec<(String, String)> {
        let listed = self.ann.get(&self.url("/merge_requests/1/status_checks")).await.expect(200).json();
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let all = listed.as_array().expect("a list").iter();
        all.map(|check| (text(&check["name"]), text(&check["status"]))).collect()
    }

    /// Returns the status of the only check of the merge request.
    async fn status(&self) -> String {
        let [(_, status)] = self.statuses().await.try_into().expect("one check");
        status
    }

    async fn report_with(&self, client: &Client, check: i64, sha: &str, status: &str) -> ApiResponse {
        let body = json!({ "external_status_check_id": check, "sha": sha, "status": status });
        client.post(&self.url("/merge_requests/1/status_check_responses"), body).await
    }

    /// Reports a status for the head of the merge request.
    async fn report(&self, check: i64, status: &str) -> Value {
        let head = self.project.id("feature/x");
        self.report_with(&self.ann, check, &head, status).await.expect(201).json()
    }

    async fn retry(&self, client: &Client, check: i64) -> ApiResponse {
        client.post(&self.url(&format!("/merge_requests/1/status_checks/{check}/retry")), json!({})).await
    }

    async fn merge(&self, body: Value) -> ApiResponse {
        self.root.put(&self.url("/merge_requests/1/merge"), body).await
    }

    async fn read(&self) -> Value {
        self.root.get(&self.url("/merge_requests/1")).await.expect(200).json()
    }

    async fn detailed_status(&self) -> Value {
        self.read().await["detailed_merge_status"].clone()
    }

    /// Commits a file to the source branch.
    async fn push(&self, name: &str) {
        let body = json!({ "branch": "feature/x", "content": name, "commit_message": name });
        self.root.post(&self.project.url(&format!("/files/{name}")), body).await.expect(201);
    }
}
