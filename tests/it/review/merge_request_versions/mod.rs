//! Versions and diffs of merge requests.

mod diffs;
mod refusals;
mod versions;

use serde_json::{Value, json};
use storage::entities::Visibility;

use crate::review::merge_requests;
use crate::support::code::{NewCommit, Project, file};
use crate::support::git::{Work, address};
use crate::support::server::ROOT_TOKEN;
use crate::support::{Client, TestServer};

/// A project with a merge request from `feature/x` into `main`, and a clone of it.
struct Fixture<'a> {
    project: Project<'a>,
    root: Client,
    /// Directory of the clone.
    _work: Work,
    /// The clone, with `feature/x` checked out.
    copy: Work,
}

impl<'a> Fixture<'a> {
    async fn new(server: &'a TestServer, name: &str) -> Self {
        let project = Project::with_commits(server, name, Visibility::Public).await;
        let root = server.root();
        merge_requests::propose(&root, project.id, "feature/x", "main", json!({})).await;
        let work = Work::empty();
        let url = address(&server.base, "root", ROOT_TOKEN, &project.path);
        work.git(&["clone", "--quiet", &url, "c"]).await;
        let copy = work.below("c");
        copy.git(&["checkout", "--quiet", "feature/x"]).await;
        Self { project, root, _work: work, copy }
    }

    /// Returns an API path below the merge request.
    fn url(&self, rest: &str) -> String {
        format!("/projects/{}/merge_requests/1{rest}", self.project.id)
    }

    async fn get(&self, rest: &str) -> Value {
        self.root.get(&self.url(rest)).await.expect(200).json()
    }

    /// Checks that `diff_refs` has the commits of the newest version.
    async fn check_diff_refs(&self) {
        let versions = self.get("/versions").await;
        let newest = &versions[0];
        let expected = json!({
            "base_sha": newest["base_commit_sha"],
            "head_sha": newest["head_commit_sha"],
            "start_sha": newest["start_commit_sha"],
        });
        assert_eq!(self.get("").await["diff_refs"], expected);
    }

    /// Pushes the checked out branch to `feature/x` with `--force`, and returns its head.
    async fn push(&self) -> String {
        self.copy.git(&["push", "--quiet", "--force", "origin", "HEAD:feature/x"]).await;
        self.copy.git(&["rev-parse", "HEAD"]).await
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
}

/// Returns the values of an attribute of a list.
fn values(list: &Value, name: &str) -> Vec<Value> {
    list.as_array().expect("a list").iter().map(|item| item[name].clone()).collect()
}
