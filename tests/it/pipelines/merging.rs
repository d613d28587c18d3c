//! Merge requests and the pipelines of their heads.

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use super::pipeline;
use crate::commit_statuses::report;
use crate::merge_requests::propose;
use crate::support::code::Project;
use crate::support::{Client, TestServer, on_every_database};

/// A project with a merge request from `feature/x` into `main`, which merges only what has a pipeline that succeeded.
struct Scene<'a> {
    project: Project<'a>,
    root: Client,
    /// Of the merge request.
    path: String,
    /// Its head.
    head: String,
}

impl<'a> Scene<'a> {
    async fn new(server: &'a TestServer, name: &str, asked: bool) -> Self {
        let project = Project::filled(server, name, Visibility::Public).await;
        let root = server.root();
        let iid = propose(&root, project.id, "feature/x", "main", json!({})).await;
        let setting = json!({ "only_allow_merge_if_pipeline_succeeds": asked });
        root.put(&format!("/projects/{}", project.id), setting).await.expect(200);
        // What follows from the merge request itself is done.
        server.finish_jobs().await;
        Self {
            path: format!("/projects/{}/merge_requests/{iid}", project.id),
            head: project.id("feature/x"),
            project,
            root,
        }
    }

    async fn read(&self) -> Value {
        self.root.get(&self.path).await.expect(200).json()
    }

    async fn merge(&self, body: Value) -> crate::support::Answer {
        self.root.put(&format!("{}/merge", self.path), body).await
    }

    async fn report(&self, state: &str) -> Value {
        let body = json!({ "state": state, "ref": "feature/x" });
        report(&self.root, self.project.id, &self.head, body).await
    }

    async fn notes(&self) -> Vec<Value> {
        self.root.get(&format!("{}/notes?sort=asc", self.path)).await.expect(200).pluck("body")
    }
}

async fn a_merge_request_tells_the_pipeline_of_its_head(server: TestServer) {
    let scene = Scene::new(&server, "heads", false).await;
    let told = scene.read().await;
    assert_eq!((&told["pipeline"], &told["head_pipeline"]), (&Value::Null, &Value::Null));
    // Neither one of another branch nor one of an older commit is that of the head.
    pipeline(&scene.root, scene.project.id, "main").await;
    assert_eq!(scene.read().await["pipeline"], Value::Null);
    let number = pipeline(&scene.root, scene.project.id, "feature/x").await;
    scene.report("running").await;
    let told = scene.read().await;
    let one = scene.root.get(&format!("/projects/{}/pipelines/{number}", scene.project.id)).await.expect(200).json();
    assert_eq!(told["head_pipeline"], one);
    assert_eq!((&told["pipeline"]["id"], &told["pipeline"]["status"]), (&json!(number), &json!("running")));
    assert_eq!(
        (&told["latest_build_started_at"], &told["latest_build_finished_at"]),
        (&one["started_at"], &Value::Null)
    );
    scene.report("success").await;
    assert!(scene.read().await["latest_build_finished_at"].is_string());
    let body = json!({ "branch": "feature/x", "content": "1", "commit_message": "More" });
    scene.root.post(&scene.project.url("/files/more"), body).await.expect(201);
    assert_eq!(scene.read().await["head_pipeline"], Value::Null);
    scene.root.put(&format!("/projects/{}", scene.project.id), json!({ "public_jobs": false })).await.expect(200);
    pipeline(&scene.root, scene.project.id, "feature/x").await;
    assert!(scene.read().await["pipeline"].is_object());
    assert_eq!(server.anonymous().get(&scene.path).await.expect(200).json()["pipeline"], Value::Null);
}

async fn only_what_has_a_pipeline_that_succeeded_is_merged_where_that_is_asked_for(server: TestServer) {
    let scene = Scene::new(&server, "gate", true).await;
    scene.merge(json!({})).await.expect(405);
    for state in ["pending", "running", "failed", "canceled", "skipped"] {
        scene.report(state).await;
        scene.merge(json!({})).await.expect(405);
    }
    // The newest one counts.
    scene.report("success").await;
    let newer = pipeline(&scene.root, scene.project.id, "feature/x").await;
    scene.merge(json!({})).await.expect(405);
    scene.root.delete(&format!("/projects/{}/pipelines/{newer}", scene.project.id)).await.expect(204);
    assert_eq!(scene.merge(json!({})).await.expect(200).json()["state"], "merged");
}

async fn a_skipped_pipeline_counts_where_the_project_says_so(server: TestServer) {
    let scene = Scene::new(&server, "skipped", true).await;
    scene.report("skipped").await;
    scene.merge(json!({})).await.expect(405);
    scene.project.update(|row| row.allow_merge_on_skipped_pipeline = sea_orm::ActiveValue::Set(true)).await;
    assert_eq!(scene.merge(json!({})).await.expect(200).json()["state"], "merged");
}

async fn what_waits_is_merged_when_its_pipeline_succeeds(server: TestServer) {
    let scene = Scene::new(&server, "waits", true).await;
    let wish = json!({ "merge_when_pipeline_succeeds": true, "should_remove_source_branch": true, "sha": scene.head });
    assert_eq!(scene.merge(wish).await.expect(200).json()["merge_when_pipeline_succeeds"], true);
    for state in ["pending", "running", "failed"] {
        scene.report(state).await;
        server.finish_jobs().await;
        let told = scene.read().await;
        assert_eq!(
            (&told["state"], &told["merge_when_pipeline_succeeds"]),
            (&json!("opened"), &json!(true)),
            "{state}"
        );
    }
    // Nor does one of another branch at the same commit do.
    scene.project.git(&["branch", "twin", "feature/x"]);
    report(&scene.root, scene.project.id, &scene.head, json!({ "state": "success", "ref": "twin" })).await;
    server.finish_jobs().await;
    assert_eq!(scene.read().await["state"], "opened");
    scene.report("success").await;
    server.finish_jobs().await;
    let told = scene.read().await;
    assert_eq!((&told["state"], &told["merged_by"]["username"]), (&json!("merged"), &json!("root")));
    assert_eq!(scene.project.references("refs/heads/").iter().filter(|name| name.contains("feature/x")).count(), 0);
}

async fn what_succeeded_already_is_merged_at_once_and_what_runs_is_waited_for(server: TestServer) {
    let wish = json!({ "merge_when_pipeline_succeeds": true });
    let scene = Scene::new(&server, "done", true).await;
    scene.report("success").await;
    assert_eq!(scene.merge(wish.clone()).await.expect(200).json()["state"], "merged");
    // Also where none is asked for.
    let scene = Scene::new(&server, "free", false).await;
    scene.report("running").await;
    assert_eq!(scene.merge(wish.clone()).await.expect(200).json()["state"], "opened");
    scene.report("success").await;
    server.finish_jobs().await;
    assert_eq!(scene.read().await["state"], "merged");
}

async fn what_cannot_be_merged_any_more_waits_no_longer_and_says_why(server: TestServer) {
    let scene = Scene::new(&server, "aborted", true).await;
    let maintainer = server.person("maintainer").await;
    server.enrol(scene.project.id, maintainer.id, AccessLevel::Maintainer).await;
    let wish = json!({ "merge_when_pipeline_succeeds": true });
    maintainer.client.put(&format!("{}/merge", scene.path), wish).await.expect(200);
    let members = format!("/projects/{}/members/{}", scene.project.id, maintainer.id);
    scene.root.put(&members, json!({ "access_level": 20 })).await.expect(200);
    scene.report("success").await;
    server.finish_jobs().await;
    let told = scene.read().await;
    assert_eq!((&told["state"], &told["merge_when_pipeline_succeeds"]), (&json!("opened"), &json!(false)));
    assert_eq!(told["merge_error"], "401 Unauthorized");
    let notes = scene.notes().await;
    assert_eq!(notes.last().expect("a note"), "aborted the automatic merge because it was refused: 401 Unauthorized");
}

async fn whoever_begins_to_wait_while_the_pipeline_succeeds_is_merged(server: TestServer) {
    for round in 0..6 {
        let scene = Scene::new(&server, &format!("race-{round}"), true).await;
        scene.report("running").await;
        let wish = json!({ "merge_when_pipeline_succeeds": true });
        let (waiting, _) = tokio::join!(scene.merge(wish), scene.report("success"));
        waiting.expect(200);
        server.finish_jobs().await;
        assert_eq!(scene.read().await["state"], "merged", "round {round}");
    }
}

async fn a_fork_brings_its_own_pipelines(server: TestServer) {
    let scene = Scene::new(&server, "origin", true).await;
    let ann = server.person("ann").await;
    let fork = ann.client.post(&format!("/projects/{}/fork", scene.project.id), json!({})).await.expect(201).json();
    server.finish_jobs().await;
    let fork = fork["id"].as_i64().expect("an id");
    let body = json!({ "source_branch": "feature/x", "target_branch": "main", "title": "x", "target_project_id": scene.project.id });
    let made = ann.client.post(&format!("/projects/{fork}/merge_requests"), body).await.expect(201).json();
    let path = format!("/projects/{}/merge_requests/{}", scene.project.id, made["iid"]);
    scene.report("success").await;
    assert_eq!(scene.root.get(&path).await.expect(200).json()["pipeline"], Value::Null);
    scene.root.put(&format!("{path}/merge"), json!({})).await.expect(405);
    report(&ann.client, fork, &scene.head, json!({ "state": "success", "ref": "feature/x" })).await;
    let told = scene.root.get(&path).await.expect(200).json();
    assert_eq!(
        told["pipeline"]["web_url"],
        format!("{}/ann/origin/-/pipelines/{}", server.base, told["pipeline"]["id"])
    );
    assert_eq!(scene.root.put(&format!("{path}/merge"), json!({})).await.expect(200).json()["state"], "merged");
}

on_every_database![
    a_merge_request_tells_the_pipeline_of_its_head,
    only_what_has_a_pipeline_that_succeeded_is_merged_where_that_is_asked_for,
    a_skipped_pipeline_counts_where_the_project_says_so,
    what_waits_is_merged_when_its_pipeline_succeeds,
    what_succeeded_already_is_merged_at_once_and_what_runs_is_waited_for,
    what_cannot_be_merged_any_more_waits_no_longer_and_says_why,
    whoever_begins_to_wait_while_the_pipeline_succeeds_is_merged,
    a_fork_brings_its_own_pipelines,
];
