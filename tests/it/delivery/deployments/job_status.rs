//! Deployments of jobs, which have the status of the job.

use sea_orm::EntityTrait;
use sea_orm::sea_query::Expr;
use serde_json::{Value, json};
use storage::entities::{Visibility, pipelines};

use super::{deploy, deployment, deployment_body};
use crate::delivery::commit_statuses::report;
use crate::support::code::Project;
use crate::support::{Client, TestServer, on_every_database};

/// A project with a job that deploys `main`.
struct Fixture<'a> {
    root: Client,
    work: Project<'a>,
    sha: String,
    job: Value,
    /// Path of the deployment.
    one: String,
}

impl<'a> Fixture<'a> {
    async fn new(server: &'a TestServer, state: &str) -> Self {
        let work = Project::with_commits(server, "work", Visibility::Private).await;
        let (root, sha) = (server.root(), work.id("main"));
        let job = report(&root, work.id, &sha, json!({ "state": state, "ref": "main", "name": "deploy" })).await;
        let created =
            deploy(&root, work.id, deployment_body(&sha, json!({ "job_id": job["id"], "status": "failed" }))).await;
        Self { one: format!("/projects/{}/deployments/{}", work.id, created["id"]), root, work, sha, job }
    }

    async fn report(&self, state: &str) -> Value {
        let body = json!({ "state": state, "ref": "main", "name": "deploy" });
        report(&self.root, self.work.id, &self.sha, body).await
    }

    async fn read(&self) -> Value {
        self.root.get(&self.one).await.expect(200).json()
    }

    fn pipeline(&self) -> String {
        format!("/projects/{}/pipelines/{}", self.work.id, self.job["pipeline_id"])
    }
}

async fn get_deployment_returns_all_fields_of_job(server: TestServer) {
    let fixture = Fixture::new(&server, "running").await;
    let (root, work) = (&fixture.root, &fixture.work);
    let shown = fixture.read().await;
    let mut commit = root.get(&work.url(&format!("/commits/{}", fixture.sha))).await.expect(200).json();
    for extra in ["stats", "status", "project_id", "last_pipeline"] {
        commit.as_object_mut().expect("an object").remove(extra);
    }
    let pipeline = root.get(&format!("/projects/{}/pipelines", work.id)).await.expect(200).json()[0].clone();
    // The status is that of the job; the sent status is ignored.
    assert_eq!(shown["status"], "running");
    assert_eq!(
        shown["deployable"],
        json!({
            "id": fixture.job["id"], "status": "running", "stage": "external", "name": "deploy", "ref": "main", "tag": false,
            "coverage": null, "created_at": fixture.job["created_at"], "started_at": fixture.job["started_at"], "finished_at": null,
            "user": fixture.job["author"], "commit": commit, "pipeline": pipeline, "runner": null,
        })
    );
    let all = format!("/projects/{}/deployments", work.id);
    assert_eq!(root.get(&all).await.expect(200).json(), json!([shown]));
    for number in 0..5 {
        let job = report(
            root,
            work.id,
            &fixture.sha,
            json!({ "state": "success", "ref": "main", "name": format!("d{number}") }),
        )
        .await;
        deploy(root, work.id, deployment_body(&fixture.sha, json!({ "job_id": job["id"] }))).await;
        deployment(root, work, "staging", "success").await;
    }
    let before = server.statements();
    root.get(&format!("{all}?per_page=2")).await.expect(200);
    let many = server.statements() - before;
    let before = server.statements();
    root.get(&format!("{all}?per_page=1")).await.expect(200);
    assert_eq!(server.statements() - before, many);
    // A missing commit is null.
    pipelines::Entity::update_many()
        .col_expr(pipelines::Column::Sha, Expr::value("1".repeat(40)))
        .exec(server.backend.database.write())
        .await
        .expect("a change");
    assert_eq!(fixture.read().await["deployable"]["commit"], json!(null));
}

async fn deployment_status_follows_job(server: TestServer) {
    let fixture = Fixture::new(&server, "pending").await;
    assert_eq!(fixture.read().await["status"], "created");
    fixture.report("running").await;
    let running = fixture.read().await;
    assert_eq!((&running["status"], &running["deployable"]["status"]), (&json!("running"), &json!("running")));
    fixture.root.post(&format!("{}/cancel", fixture.pipeline()), json!({})).await.expect(200);
    assert_eq!(fixture.read().await["status"], "canceled");
    // The retried job takes over the deployment.
    fixture.root.post(&format!("{}/retry", fixture.pipeline()), json!({})).await.expect(201);
    let again = fixture.read().await;
    assert_eq!((&again["status"], &again["deployable"]["status"]), (&json!("created"), &json!("pending")));
    assert_ne!(again["deployable"]["id"], fixture.job["id"]);
    fixture.report("failed").await;
    assert_eq!(fixture.read().await["status"], "failed");
    let third = fixture.report("skipped").await;
    let skipped = fixture.read().await;
    assert_eq!((&skipped["status"], &skipped["deployable"]["id"]), (&json!("canceled"), &third["id"]));
    let fourth = fixture.report("success").await;
    let done = fixture.read().await;
    assert_eq!((&done["status"], &done["deployable"]["id"]), (&json!("success"), &fourth["id"]));
    // A successful deployment keeps its status.
    fixture.report("failed").await;
    let shown = fixture.read().await;
    assert_eq!(
        (&shown["status"], &shown["deployable"]["id"], &shown["updated_at"]),
        (&json!("success"), &fourth["id"], &done["updated_at"])
    );
}

async fn update_deployment_of_job_is_forbidden(server: TestServer) {
    let fixture = Fixture::new(&server, "running").await;
    let rejected = fixture.root.put(&fixture.one, json!({ "status": "success" })).await.expect(403);
    assert_eq!(rejected.message(), "403 Forbidden - Deployments of jobs cannot be changed through the API");
    assert_eq!(fixture.read().await["status"], "running");
    // After its job is deleted, the deployment can be changed.
    fixture.root.delete(&fixture.pipeline()).await.expect(204);
    let left = fixture.read().await;
    assert_eq!((&left["status"], &left["deployable"]), (&json!("running"), &json!(null)));
    assert_eq!(
        fixture.root.put(&fixture.one, json!({ "status": "success" })).await.expect(200).json()["status"],
        "success"
    );
}

async fn create_deployment_rejects_invalid_job(server: TestServer) {
    let fixture = Fixture::new(&server, "running").await;
    let (root, work) = (&fixture.root, &fixture.work);
    let other = Project::with_commits(&server, "other", Visibility::Private).await;
    let sha = other.id("main");
    let elsewhere = report(root, other.id, &sha, json!({ "state": "success", "ref": "main" })).await;
    let older = report(root, work.id, &work.id("main~1"), json!({ "state": "success", "ref": "main" })).await;
    let all = format!("/projects/{}/deployments", work.id);
    for job in [&elsewhere["id"], &older["id"], &json!(4711), &json!(-1)] {
        let rejected = root
            .post(&all, deployment_body(&fixture.sha, json!({ "job_id": job, "environment": "fresh" })))
            .await
            .expect(400);
        assert_eq!(
            rejected.json()["message"],
            json!({ "job_id": ["must be a job of this project for the given commit"] }),
            "{job}"
        );
    }
    let twice =
        root.post(&all, deployment_body(&fixture.sha, json!({ "job_id": fixture.job["id"] }))).await.expect(400);
    assert_eq!(twice.json()["message"], json!({ "job_id": ["has already been taken"] }));
    // The rejected requests created nothing.
    assert_eq!(root.get(&all).await.expect(200).pluck("iid"), [json!(1)]);
    assert_eq!(
        root.get(&format!("/projects/{}/environments", work.id)).await.expect(200).pluck("name"),
        [json!("production")]
    );
}

on_every_database![
    get_deployment_returns_all_fields_of_job,
    deployment_status_follows_job,
    update_deployment_of_job_is_forbidden,
    create_deployment_rejects_invalid_job,
];
