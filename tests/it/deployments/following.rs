//! Deployments of jobs, which are what these are.

use sea_orm::EntityTrait;
use sea_orm::sea_query::Expr;
use serde_json::{Value, json};
use storage::entities::{Visibility, pipelines};

use super::{deploy, deployment, of};
use crate::commit_statuses::report;
use crate::support::code::Project;
use crate::support::{Client, TestServer, on_every_database};

/// A project with a job that deploys its `main`.
struct Scene<'a> {
    root: Client,
    work: Project<'a>,
    sha: String,
    job: Value,
    /// Of the deployment.
    one: String,
}

impl<'a> Scene<'a> {
    async fn new(server: &'a TestServer, state: &str) -> Self {
        let work = Project::filled(server, "work", Visibility::Private).await;
        let (root, sha) = (server.root(), work.id("main"));
        let job = report(&root, work.id, &sha, json!({ "state": state, "ref": "main", "name": "deploy" })).await;
        let made = deploy(&root, work.id, of(&sha, json!({ "job_id": job["id"], "status": "failed" }))).await;
        Self { one: format!("/projects/{}/deployments/{}", work.id, made["id"]), root, work, sha, job }
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

async fn a_deployment_tells_its_job_with_every_field(server: TestServer) {
    let scene = Scene::new(&server, "running").await;
    let (root, work) = (&scene.root, &scene.work);
    let told = scene.read().await;
    let mut commit = root.get(&work.url(&format!("/commits/{}", scene.sha))).await.expect(200).json();
    for beside in ["stats", "status", "project_id", "last_pipeline"] {
        commit.as_object_mut().expect("an object").remove(beside);
    }
    let pipeline = root.get(&format!("/projects/{}/pipelines", work.id)).await.expect(200).json()[0].clone();
    // The status is that of the job, whatever was said.
    assert_eq!(told["status"], "running");
    assert_eq!(
        told["deployable"],
        json!({
            "id": scene.job["id"], "status": "running", "stage": "external", "name": "deploy", "ref": "main", "tag": false,
            "coverage": null, "created_at": scene.job["created_at"], "started_at": scene.job["started_at"], "finished_at": null,
            "user": scene.job["author"], "commit": commit, "pipeline": pipeline, "runner": null,
        })
    );
    let all = format!("/projects/{}/deployments", work.id);
    assert_eq!(root.get(&all).await.expect(200).json(), json!([told]));
    for number in 0..5 {
        let job = report(
            root,
            work.id,
            &scene.sha,
            json!({ "state": "success", "ref": "main", "name": format!("d{number}") }),
        )
        .await;
        deploy(root, work.id, of(&scene.sha, json!({ "job_id": job["id"] }))).await;
        deployment(root, work, "staging", "success").await;
    }
    let before = server.statements();
    root.get(&all).await.expect(200);
    let many = server.statements() - before;
    let before = server.statements();
    root.get(&format!("{all}?per_page=1")).await.expect(200);
    assert_eq!(server.statements() - before, many);
    // A commit that is gone is null.
    pipelines::Entity::update_many()
        .col_expr(pipelines::Column::Sha, Expr::value("1".repeat(40)))
        .exec(server.backend.database.write())
        .await
        .expect("a change");
    assert_eq!(scene.read().await["deployable"]["commit"], json!(null));
}

async fn a_deployment_is_what_its_job_is(server: TestServer) {
    let scene = Scene::new(&server, "pending").await;
    assert_eq!(scene.read().await["status"], "created");
    scene.report("running").await;
    let running = scene.read().await;
    assert_eq!((&running["status"], &running["deployable"]["status"]), (&json!("running"), &json!("running")));
    scene.root.post(&format!("{}/cancel", scene.pipeline()), json!({})).await.expect(200);
    assert_eq!(scene.read().await["status"], "canceled");
    // The job that takes the place of the old one takes the deployment over.
    scene.root.post(&format!("{}/retry", scene.pipeline()), json!({})).await.expect(201);
    let again = scene.read().await;
    assert_eq!((&again["status"], &again["deployable"]["status"]), (&json!("created"), &json!("pending")));
    assert_ne!(again["deployable"]["id"], scene.job["id"]);
    scene.report("failed").await;
    assert_eq!(scene.read().await["status"], "failed");
    let third = scene.report("skipped").await;
    let skipped = scene.read().await;
    assert_eq!((&skipped["status"], &skipped["deployable"]["id"]), (&json!("canceled"), &third["id"]));
    let fourth = scene.report("success").await;
    let done = scene.read().await;
    assert_eq!((&done["status"], &done["deployable"]["id"]), (&json!("success"), &fourth["id"]));
    // What is deployed stays so.
    scene.report("failed").await;
    let told = scene.read().await;
    assert_eq!(
        (&told["status"], &told["deployable"]["id"], &told["updated_at"]),
        (&json!("success"), &fourth["id"], &done["updated_at"])
    );
}

async fn nobody_else_changes_the_status(server: TestServer) {
    let scene = Scene::new(&server, "running").await;
    let refused = scene.root.put(&scene.one, json!({ "status": "success" })).await.expect(403);
    assert_eq!(refused.message(), "403 Forbidden - Deployments of jobs cannot be changed through the API");
    assert_eq!(scene.read().await["status"], "running");
    // Without its job it is one like any other.
    scene.root.delete(&scene.pipeline()).await.expect(204);
    let left = scene.read().await;
    assert_eq!((&left["status"], &left["deployable"]), (&json!("running"), &json!(null)));
    assert_eq!(
        scene.root.put(&scene.one, json!({ "status": "success" })).await.expect(200).json()["status"],
        "success"
    );
}

async fn other_jobs_are_refused(server: TestServer) {
    let scene = Scene::new(&server, "running").await;
    let (root, work) = (&scene.root, &scene.work);
    let other = Project::filled(&server, "other", Visibility::Private).await;
    let sha = other.id("main");
    let elsewhere = report(root, other.id, &sha, json!({ "state": "success", "ref": "main" })).await;
    let older = report(root, work.id, &work.id("main~1"), json!({ "state": "success", "ref": "main" })).await;
    let all = format!("/projects/{}/deployments", work.id);
    for job in [&elsewhere["id"], &older["id"], &json!(4711), &json!(-1)] {
        let refused =
            root.post(&all, of(&scene.sha, json!({ "job_id": job, "environment": "fresh" }))).await.expect(400);
        assert_eq!(
            refused.json()["message"],
            json!({ "job_id": ["must be a job of this project for the given commit"] }),
            "{job}"
        );
    }
    let twice = root.post(&all, of(&scene.sha, json!({ "job_id": scene.job["id"] }))).await.expect(400);
    assert_eq!(twice.json()["message"], json!({ "job_id": ["has already been taken"] }));
    // Nothing was made on the way.
    assert_eq!(root.get(&all).await.expect(200).pluck("iid"), [json!(1)]);
    assert_eq!(
        root.get(&format!("/projects/{}/environments", work.id)).await.expect(200).pluck("name"),
        [json!("production")]
    );
}

on_every_database![
    a_deployment_tells_its_job_with_every_field,
    a_deployment_is_what_its_job_is,
    nobody_else_changes_the_status,
    other_jobs_are_refused,
];
