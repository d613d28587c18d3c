//! Merge requests that are linked to deployments.

use domain::delivery::deployments::link_merge_requests;
use domain::delivery::jobs::link_merge_requests::LinkMergeRequests;
use sea_orm::EntityTrait;
use sea_orm::sea_query::Expr;
use serde_json::{Value, json};
use storage::entities::{Visibility, deployment_merge_requests, deployments};

use super::{deploy, deployment_body};
use crate::review::merge_requests::propose;
use crate::support::code::{NewCommit, Project, file};
use crate::support::spaces::id;
use crate::support::{Client, TestServer, on_every_database};

/// A project with deployed merge requests.
struct Fixture<'a> {
    server: &'a TestServer,
    root: Client,
    work: Project<'a>,
}

impl<'a> Fixture<'a> {
    async fn new(server: &'a TestServer) -> Self {
        Self { server, root: server.root(), work: Project::with_commits(server, "work", Visibility::Private).await }
    }

    /// Merges a new branch with one commit into `main` and returns the merge request.
    async fn merge(&self, branch: &str, how: Value) -> Value {
        self.work.import(&NewCommit {
            branch,
            from: Some("refs/heads/main"),
            changes: file(&format!("{branch}.txt"), branch),
            ..NewCommit::default()
        });
        let iid = propose(&self.root, self.work.id, branch, "main", json!({})).await;
        let path = format!("/projects/{}/merge_requests/{iid}/merge", self.work.id);
        let merged = self.root.put(&path, how).await.expect(200).json();
        assert_eq!(merged["state"], "merged");
        self.server.finish_jobs().await;
        merged
    }

    async fn deploy(&self, sha: &str, more: Value) -> Value {
        let created = deploy(&self.root, self.work.id, deployment_body(sha, more)).await;
        self.server.finish_jobs().await;
        created
    }

    /// Returns the titles of the merge requests linked to a deployment.
    async fn shipped(&self, deployment: &Value, query: &str) -> Vec<Value> {
        let path = format!("/projects/{}/deployments/{}/merge_requests{query}", self.work.id, deployment["id"]);
        self.root.get(&path).await.expect(200).pluck("title")
    }

    /// Deploys a commit and returns the titles of the linked merge requests.
    async fn ships(&self, sha: &str, environment: &str) -> Vec<Value> {
        let created = self.deploy(sha, json!({ "environment": environment })).await;
        self.shipped(&created, "?sort=asc").await
    }
}

fn titles(titles: &[&str]) -> Vec<Value> {
    titles.iter().map(|title| json!(title)).collect()
}

async fn deployment_links_merge_requests_since_last_deployment(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let start = fixture.work.id("main");
    fixture.merge("one", json!({})).await;
    let first = fixture.work.id("main");
    // The first deployment links all merge requests merged up to its commit.
    fixture.merge("two", json!({ "squash": true })).await;
    let second = fixture.work.id("main");
    assert_eq!(fixture.ships(&first, "production").await, titles(&["one"]));
    assert_eq!(fixture.ships(&second, "production").await, titles(&["two"]));
    assert_eq!(fixture.ships(&second, "production").await, titles(&[]));
    // A rollback links nothing, and neither does the following redeployment.
    assert_eq!(fixture.ships(&start, "production").await, titles(&[]));
    assert_eq!(fixture.ships(&second, "production").await, titles(&[]));
    assert_eq!(fixture.ships(&second, "staging").await, titles(&["one", "two"]));
    assert_eq!(fixture.ships(&start, "review").await, titles(&[]));
    // Closed and open merge requests are not linked, even if their commits are deployed.
    propose(&fixture.root, fixture.work.id, "feature/x", "merged", json!({})).await;
    assert_eq!(fixture.ships(&fixture.work.id("feature/x"), "other").await, titles(&[]));
}

async fn unsuccessful_deployment_links_no_merge_requests(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    fixture.merge("one", json!({})).await;
    let sha = fixture.work.id("main");
    let created = fixture.deploy(&sha, json!({ "status": "created" })).await;
    let one = format!("/projects/{}/deployments/{}", fixture.work.id, created["id"]);
    for status in ["running", "failed", "canceled"] {
        fixture.root.put(&one, json!({ "status": status })).await.expect(200);
        server.finish_jobs().await;
        assert_eq!(fixture.shipped(&created, "").await, titles(&[]), "{status}");
    }
    // A failed deployment does not count as the last one.
    assert_eq!(fixture.ships(&sha, "production").await, titles(&["one"]));
    fixture.merge("two", json!({})).await;
    let later = fixture.deploy(&fixture.work.id("main"), json!({ "status": "running" })).await;
    assert_eq!(fixture.shipped(&later, "").await, titles(&[]));
    let path = format!("/projects/{}/deployments/{}", fixture.work.id, later["id"]);
    fixture.root.put(&path, json!({ "status": "success" })).await.expect(200);
    server.finish_jobs().await;
    assert_eq!(fixture.shipped(&later, "").await, titles(&["two"]));
}

async fn deployment_links_cherry_picked_merge_requests(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    fixture.work.git(&["branch", "release", "main"]);
    assert_eq!(fixture.ships(&fixture.work.id("release"), "production").await, titles(&[]));
    let fix = fixture.merge("fix", json!({})).await;
    fixture.merge("more", json!({})).await;
    let pick = fixture.work.url(&format!("/commits/{}/cherry_pick", fix["sha"].as_str().expect("an id")));
    fixture.root.post(&pick, json!({ "branch": "release" })).await.expect(201);
    assert_eq!(fixture.ships(&fixture.work.id("release"), "production").await, titles(&["fix"]));
}

async fn deployment_links_unlinked_merge_requests_without_last_commit(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    fixture.merge("one", json!({})).await;
    let before = fixture.work.id("main");
    assert_eq!(fixture.ships(&before, "production").await, titles(&["one"]));
    fixture.merge("two", json!({})).await;
    deployments::Entity::update_many()
        .col_expr(deployments::Column::Sha, Expr::value("1".repeat(40)))
        .exec(server.backend.database.write())
        .await
        .expect("a change");
    assert_eq!(fixture.ships(&fixture.work.id("main"), "production").await, titles(&["two"]));
}

async fn repeated_link_job_inserts_no_duplicates(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    fixture.merge("one", json!({})).await;
    let created = fixture.deploy(&fixture.work.id("main"), json!({})).await;
    let job = |deployment_id, since: Option<&str>| LinkMergeRequests { deployment_id, since: since.map(str::to_owned) };
    let rows =
        async || deployment_merge_requests::Entity::find().all(server.backend.database.read()).await.expect("rows");
    let entered = rows().await;
    assert_eq!(entered.len(), 1);
    for since in [None, Some("1111111111111111111111111111111111111111")] {
        link_merge_requests(&server.backend, &job(id(&created), since)).await.expect("nothing to do");
    }
    // A missing deployment links nothing.
    link_merge_requests(&server.backend, &job(4711, None)).await.expect("nothing to do");
    assert_eq!(rows().await, entered);
}

async fn list_deployment_merge_requests_supports_filters(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    fixture.merge("one", json!({})).await;
    fixture.merge("two", json!({})).await;
    let created = fixture.deploy(&fixture.work.id("main"), json!({})).await;
    for (query, found) in [
        ("", &["two", "one"][..]),
        ("?sort=asc", &["one", "two"]),
        ("?state=merged", &["two", "one"]),
        ("?state=opened", &[]),
        ("?source_branch=one", &["one"]),
        ("?search=two", &["two"]),
        ("?iids[]=1", &["one"]),
        ("?per_page=1&page=2", &["one"]),
        ("?scope=assigned_to_me", &[]),
        ("?author_username=root&view=simple", &["two", "one"]),
        ("?not[iids][]=1", &["two"]),
    ] {
        assert_eq!(fixture.shipped(&created, query).await, titles(found), "{query}");
    }
    let path = format!("/projects/{}/deployments/{}/merge_requests", fixture.work.id, created["id"]);
    fixture.root.get(&format!("{path}?state=x")).await.expect(400);
    fixture.root.get(&path.replace("merge_requests", "x")).await.expect(404);
    let listed = fixture.root.get(&format!("/projects/{}/merge_requests", fixture.work.id)).await.expect(200).json();
    assert_eq!(fixture.root.get(&path).await.expect(200).json(), listed);
}

async fn merge_request_shows_first_production_deployment_time(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let one = fixture.merge("one", json!({})).await;
    let path = format!("/projects/{}/merge_requests/{}", fixture.work.id, one["iid"]);
    let first_deployed_at =
        async |client: &Client| client.get(&path).await.expect(200).json()["first_deployed_to_production_at"].clone();
    fixture.ships(&fixture.work.id("main"), "staging").await;
    assert_eq!(first_deployed_at(&fixture.root).await, json!(null));
    let created = fixture.deploy(&fixture.work.id("main"), json!({})).await;
    assert_eq!(first_deployed_at(&fixture.root).await, created["updated_at"]);
    // The time is visible only to users who can read deployments.
    fixture.root.put(&format!("/projects/{}", fixture.work.id), json!({ "visibility": "public" })).await.expect(200);
    assert_eq!(first_deployed_at(&server.anonymous()).await, json!(null));
}

on_every_database![
    deployment_links_merge_requests_since_last_deployment,
    unsuccessful_deployment_links_no_merge_requests,
    deployment_links_cherry_picked_merge_requests,
    deployment_links_unlinked_merge_requests_without_last_commit,
    repeated_link_job_inserts_no_duplicates,
    list_deployment_merge_requests_supports_filters,
    merge_request_shows_first_production_deployment_time,
];
