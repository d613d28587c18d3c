//! Merge requests and the pipelines of their heads.

use domain::kernel::error::Error;
use domain::review::merge_requests::run_auto_merge;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, merge_requests};

use super::pipeline;
use crate::delivery::commit_statuses::report;
use crate::review::merge_requests::propose;
use crate::support::code::{NewCommit, Project, file};
use crate::support::server::with_more_connections;
use crate::support::spaces::id;
use crate::support::{Client, TestServer, on_every_database};

/// A project with a merge request from `feature/x` into `main`, optionally with required pipelines.
struct Fixture<'a> {
    project: Project<'a>,
    root: Client,
    /// Path of the merge request.
    path: String,
    /// Commit ID of its head.
    head: String,
}

impl<'a> Fixture<'a> {
    async fn new(server: &'a TestServer, name: &str, pipeline_required: bool) -> Self {
        let project = Project::with_commits(server, name, Visibility::Public).await;
        let root = server.root();
        let iid = propose(&root, project.id, "feature/x", "main", json!({})).await;
        let setting = json!({ "only_allow_merge_if_pipeline_succeeds": pipeline_required });
        root.put(&format!("/projects/{}", project.id), setting).await.expect(200);
        // Runs the jobs of the merge request.
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

    async fn merge(&self, body: Value) -> crate::support::ApiResponse {
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

/// A merge request of another user from a fork, with a running pipeline. The administrator enabled its automatic merge.
struct Proposal<'a> {
    fixture: Fixture<'a>,
    /// The author, who has no role in the target project.
    author: Client,
    /// ID of the fork.
    fork: i64,
    /// Path of the merge request.
    path: String,
    /// Commit ID of `main`.
    main: String,
}

impl<'a> Proposal<'a> {
    async fn new(server: &'a TestServer, name: &str, target: &str) -> Self {
        let fixture = Fixture::new(server, name, false).await;
        let project = fixture.project.id;
        fixture.project.git(&["branch", "sandbox", "main"]);
        let author = server.create_user("ann").await.client;
        let fork = id(&author.post(&format!("/projects/{project}/fork"), json!({})).await.expect(201).json());
        server.finish_jobs().await;
        let body = json!({
            "source_branch": "feature/x", "target_branch": target, "title": "x", "target_project_id": project,
        });
        let created = author.post(&format!("/projects/{fork}/merge_requests"), body).await.expect(201).json();
        server.finish_jobs().await;
        let path = format!("/projects/{project}/merge_requests/{}", created["iid"]);
        let main = fixture.project.id("main");
        let proposal = Self { fixture, author, fork, path, main };
        proposal.report("running").await;
        let body = json!({ "merge_when_pipeline_succeeds": true, "sha": proposal.fixture.head });
        proposal.fixture.root.put(&format!("{}/merge", proposal.path), body).await.expect(200);
        assert_eq!(proposal.state().await, (json!("opened"), json!(true)));
        proposal
    }

    /// Updates the merge request as its author.
    async fn update(&self, change: Value) {
        self.author.put(&self.path, change).await.expect(200);
    }

    /// Creates a commit on the source branch.
    async fn commit(&self, start: &str) {
        let mut body = json!({
            "branch": "feature/x", "commit_message": "More",
            "actions": [{ "action": "create", "file_path": "more.txt", "content": "1" }],
        });
        if !start.is_empty() {
            body["start_branch"] = json!(start);
        }
        self.author.post(&format!("/projects/{}/repository/commits", self.fork), body).await.expect(201);
    }

    /// Reports a status of the source branch.
    async fn report(&self, state: &str) {
        let branch = format!("/projects/{}/repository/branches/feature%2Fx", self.fork);
        let branch = self.author.get(&branch).await.expect(200).json();
        let head = branch["commit"]["id"].as_str().expect("an id");
        report(&self.author, self.fork, head, json!({ "state": state, "ref": "feature/x" })).await;
    }

    /// Returns the state, and whether the merge request waits.
    async fn state(&self) -> (Value, Value) {
        let read = self.fixture.root.get(&self.path).await.expect(200).json();
        (read["state"].clone(), read["merge_when_pipeline_succeeds"].clone())
    }

    /// Runs all jobs after the pipeline succeeded, and checks that the merge request is open and `main` unchanged.
    async fn expect_no_merge(&self, server: &TestServer) {
        server.finish_jobs().await;
        self.report("success").await;
        server.finish_jobs().await;
        assert_eq!(self.state().await, (json!("opened"), json!(false)));
        assert_eq!(self.fixture.project.id("main"), self.main);
    }

    /// Checks that a system note states why the automatic merge was canceled.
    async fn expect_note(&self, reason: &str) {
        let notes = self.fixture.root.get(&format!("{}/notes", self.path)).await.expect(200).pluck("body");
        let note = json!(format!("canceled the automatic merge because {reason}"));
        assert!(notes.contains(&note), "{notes:?}");
    }
}

/// Updates the row of the merge request that waits.
async fn update_waiting(server: &TestServer, change: impl FnOnce(&mut merge_requests::ActiveModel)) {
    let rows = merge_requests::Entity::find().all(server.backend.database.read()).await.expect("merge requests");
    let waiting = rows.into_iter().find(|row| row.merge_when_pipeline_succeeds).expect("a merge request");
    let mut row = merge_requests::ActiveModel { id: Set(waiting.id), ..Default::default() };
    change(&mut row);
    row.update(server.backend.database.write()).await.expect("a change");
}

async fn merge_request_returns_the_pipeline_of_its_head(server: TestServer) {
    let fixture = Fixture::new(&server, "heads", false).await;
    let merge_request = fixture.read().await;
    assert_eq!((&merge_request["pipeline"], &merge_request["head_pipeline"]), (&Value::Null, &Value::Null));
    // A pipeline of another branch is not the pipeline of the head.
    pipeline(&fixture.root, fixture.project.id, "main").await;
    assert_eq!(fixture.read().await["pipeline"], Value::Null);
    let number = pipeline(&fixture.root, fixture.project.id, "feature/x").await;
    fixture.report("running").await;
    let merge_request = fixture.read().await;
    let one =
        fixture.root.get(&format!("/projects/{}/pipelines/{number}", fixture.project.id)).await.expect(200).json();
    assert_eq!(merge_request["head_pipeline"], one);
    assert_eq!(
        (&merge_request["pipeline"]["id"], &merge_request["pipeline"]["status"]),
        (&json!(number), &json!("running"))
    );
    assert_eq!(
        (&merge_request["latest_build_started_at"], &merge_request["latest_build_finished_at"]),
        (&one["started_at"], &Value::Null)
    );
    fixture.report("success").await;
    assert!(fixture.read().await["latest_build_finished_at"].is_string());
    let body = json!({ "branch": "feature/x", "content": "1", "commit_message": "More" });
    fixture.root.post(&fixture.project.url("/files/more"), body).await.expect(201);
    assert_eq!(fixture.read().await["head_pipeline"], Value::Null);
    fixture.root.put(&format!("/projects/{}", fixture.project.id), json!({ "public_jobs": false })).await.expect(200);
    pipeline(&fixture.root, fixture.project.id, "feature/x").await;
    assert!(fixture.read().await["pipeline"].is_object());
    assert_eq!(server.anonymous().get(&fixture.path).await.expect(200).json()["pipeline"], Value::Null);
}

async fn merge_requires_successful_pipeline_if_the_project_requires_it(server: TestServer) {
    let fixture = Fixture::new(&server, "gate", true).await;
    fixture.merge(json!({})).await.expect(405);
    for state in ["pending", "running", "failed", "canceled", "skipped"] {
        fixture.report(state).await;
        fixture.merge(json!({})).await.expect(405);
    }
    // The newest pipeline decides.
    fixture.report("success").await;
    let newer = pipeline(&fixture.root, fixture.project.id, "feature/x").await;
    fixture.merge(json!({})).await.expect(405);
    fixture.root.delete(&format!("/projects/{}/pipelines/{newer}", fixture.project.id)).await.expect(204);
    assert_eq!(fixture.merge(json!({})).await.expect(200).json()["state"], "merged");
}

async fn skipped_pipeline_allows_merge_if_the_project_allows_it(server: TestServer) {
    let fixture = Fixture::new(&server, "skipped", true).await;
    fixture.report("skipped").await;
    fixture.merge(json!({})).await.expect(405);
    fixture.project.update(|row| row.allow_merge_on_skipped_pipeline = Set(true)).await;
    assert_eq!(fixture.merge(json!({})).await.expect(200).json()["state"], "merged");
}

async fn auto_merge_merges_when_the_pipeline_succeeds(server: TestServer) {
    let fixture = Fixture::new(&server, "waits", true).await;
    let body =
        json!({ "merge_when_pipeline_succeeds": true, "should_remove_source_branch": true, "sha": fixture.head });
    assert_eq!(fixture.merge(body).await.expect(200).json()["merge_when_pipeline_succeeds"], true);
    for state in ["pending", "running", "failed"] {
        fixture.report(state).await;
        server.finish_jobs().await;
        let merge_request = fixture.read().await;
        assert_eq!(
            (&merge_request["state"], &merge_request["merge_when_pipeline_succeeds"]),
            (&json!("opened"), &json!(true)),
            "{state}"
        );
    }
    // A pipeline of another branch at the same commit does not count.
    fixture.project.git(&["branch", "twin", "feature/x"]);
    report(&fixture.root, fixture.project.id, &fixture.head, json!({ "state": "success", "ref": "twin" })).await;
    server.finish_jobs().await;
    assert_eq!(fixture.read().await["state"], "opened");
    fixture.report("success").await;
    server.finish_jobs().await;
    let merge_request = fixture.read().await;
    assert_eq!((&merge_request["state"], &merge_request["merged_by"]["username"]), (&json!("merged"), &json!("root")));
    assert_eq!(fixture.project.references("refs/heads/").iter().filter(|name| name.contains("feature/x")).count(), 0);
}

async fn status_of_tag_does_not_count_for_branch_of_same_name(server: TestServer) {
    let fixture = Fixture::new(&server, "twins", true).await;
    let project = fixture.project.id;
    let developer = fixture.project.member("developer", AccessLevel::Developer).await;
    fixture.project.protect("feature/x", 40, 40).await;
    let main = fixture.project.id("main");
    let of_branch = fixture.report("failed").await["pipeline_id"].clone();
    fixture.merge(json!({ "merge_when_pipeline_succeeds": true })).await.expect(200);
    let tag = json!({ "tag_name": "feature/x", "ref": fixture.head });
    developer.post(&format!("/projects/{project}/repository/tags"), tag).await.expect(201);
    let statuses = format!("/projects/{project}/statuses/{}", fixture.head);
    let body = json!({ "state": "success", "ref": "refs/tags/feature/x", "pipeline_id": of_branch });
    assert_eq!(developer.post(&statuses, body).await.expect(404).message(), "404 Pipeline Not Found");
    developer.post(&statuses, json!({ "state": "success", "ref": "refs/heads/feature/x" })).await.expect(403);
    let body = json!({ "state": "success", "ref": "refs/tags/feature/x" });
    let of_tag = report(&developer, project, &fixture.head, body).await["pipeline_id"].clone();
    assert_ne!(of_tag, of_branch);
    server.finish_jobs().await;
    // The pipeline of the tag is newer, but not the pipeline of the merge request.
    let read = fixture.read().await;
    assert_eq!(
        (&read["state"], &read["head_pipeline"]["id"], &read["head_pipeline"]["status"]),
        (&json!("opened"), &of_branch, &json!("failed"))
    );
    let updated = fixture.root.put(&fixture.path, json!({ "title": "Twins" })).await.expect(200).json();
    assert_eq!(updated["head_pipeline"]["id"], of_branch);
    fixture.merge(json!({})).await.expect(405);
    assert_eq!(fixture.project.id("main"), main);
    let latest = format!("/projects/{project}/pipelines/latest");
    for (name, found) in
        [("feature/x", &of_branch), ("refs/heads/feature/x", &of_branch), ("refs/tags/feature/x", &of_tag)]
    {
        assert_eq!(fixture.root.get(&format!("{latest}?ref={name}")).await.expect(200).json()["id"], *found, "{name}");
    }
}

async fn auto_merge_uses_messages_of_the_request(server: TestServer) {
    let fixture = Fixture::new(&server, "messages", true).await;
    let body = |text: &str| {
        json!({
            "merge_when_pipeline_succeeds": true, "squash": true, "merge_commit_message": format!("{text} merge"),
            "squash_commit_message": format!("{text} squash"),
        })
    };
    fixture.merge(body("First")).await.expect(200);
    // The same request changes nothing, and another one replaces the messages.
    let (waiting, notes) = (fixture.read().await, fixture.notes().await);
    fixture.merge(body("First")).await.expect(200);
    assert_eq!((fixture.read().await, fixture.notes().await), (waiting, notes));
    fixture.merge(body("Second")).await.expect(200);
    fixture.report("success").await;
    server.finish_jobs().await;
    assert_eq!(fixture.read().await["state"], "merged");
    for (revision, subject) in [("main", "Second merge"), ("main^2", "Second squash")] {
        assert_eq!(fixture.project.git(&["log", "--format=%s", "-1", revision]), subject);
    }
}

async fn canceled_auto_merge_leaves_no_messages(server: TestServer) {
    let fixture = Fixture::new(&server, "forgotten", true).await;
    let message = json!({ "merge_when_pipeline_succeeds": true, "merge_commit_message": "Forgotten" });
    fixture.merge(message).await.expect(200);
    let cancel = format!("{}/cancel_merge_when_pipeline_succeeds", fixture.path);
    fixture.root.post(&cancel, json!({})).await.expect(201);
    let stored = merge_requests::Entity::find().one(server.backend.database.read()).await;
    let stored = stored.expect("a query").expect("a merge request");
    assert_eq!((stored.merge_when_pipeline_succeeds, stored.merge_commit_message), (false, None));
    fixture.merge(json!({ "merge_when_pipeline_succeeds": true })).await.expect(200);
    fixture.report("success").await;
    server.finish_jobs().await;
    assert!(fixture.project.git(&["log", "--format=%s", "-1", "main"]).starts_with("Merge branch"));
}

async fn canceled_auto_merge_does_not_determine_deletion_of_source_branch(server: TestServer) {
    let waiting = json!({ "merge_when_pipeline_succeeds": true });
    let removing = json!({ "merge_when_pipeline_succeeds": true, "should_remove_source_branch": true });
    // `remove_source_branch` of the merge request remains.
    for (name, remove) in [("kept", Value::Null), ("removed", json!(true))] {
        let fixture = Fixture::new(&server, name, true).await;
        fixture.merge(removing.clone()).await.expect(200);
        if !remove.is_null() {
            fixture.root.put(&fixture.path, json!({ "remove_source_branch": remove })).await.expect(200);
        }
        fixture
            .root
            .post(&format!("{}/cancel_merge_when_pipeline_succeeds", fixture.path), json!({}))
            .await
            .expect(201);
        fixture.merge(removing.clone()).await.expect(200);
        let replaced = fixture.merge(waiting.clone()).await.expect(200).json();
        assert_eq!(
            (&replaced["should_remove_source_branch"], &replaced["force_remove_source_branch"]),
            (&Value::Null, &remove),
            "{name}"
        );
        fixture.report("success").await;
        server.finish_jobs().await;
        assert_eq!(fixture.read().await["state"], "merged", "{name}");
        let branches = fixture.project.references("refs/heads/feature");
        assert_eq!(branches.is_empty(), !remove.is_null(), "{name}: {branches:?}");
    }
}

async fn auto_merge_remains_if_the_target_branch_is_locked(server: TestServer) {
    let fixture = Fixture::new(&server, "locked", true).await;
    fixture.merge(json!({ "merge_when_pipeline_succeeds": true })).await.expect(200);
    fixture.report("success").await;
    let stored = merge_requests::Entity::find().one(server.backend.database.read()).await;
    let id = stored.expect("a query").expect("a merge request").id;
    let lock = fixture.project.directory.join("refs/heads/main.lock");
    std::fs::create_dir_all(lock.parent().expect("a directory")).expect("a directory");
    std::fs::write(&lock, "").expect("a lock file");
    let error = run_auto_merge(&server.backend, id).await.expect_err("a locked branch");
    assert!(matches!(error, Error::ResourceLocked), "{error:?}");
    // A merge that fails does not store its parameters.
    fixture.merge(json!({ "should_remove_source_branch": true })).await.expect(409);
    let read = fixture.read().await;
    assert_eq!(
        [&read["state"], &read["merge_when_pipeline_succeeds"], &read["merge_error"]],
        [&json!("opened"), &json!(true), &Value::Null]
    );
    assert_eq!(read["should_remove_source_branch"], Value::Null);
    std::fs::remove_file(&lock).expect("a lock file");
    server.finish_jobs().await;
    assert_eq!(fixture.read().await["state"], "merged");
}

async fn auto_merge_merges_at_once_after_success_and_waits_while_running(server: TestServer) {
    let body = json!({ "merge_when_pipeline_succeeds": true });
    let fixture = Fixture::new(&server, "done", true).await;
    fixture.report("success").await;
    assert_eq!(fixture.merge(body.clone()).await.expect(200).json()["state"], "merged");
    // This also applies without required pipelines.
    let fixture = Fixture::new(&server, "free", false).await;
    fixture.report("running").await;
    assert_eq!(fixture.merge(body.clone()).await.expect(200).json()["state"], "opened");
    fixture.report("success").await;
    server.finish_jobs().await;
    assert_eq!(fixture.read().await["state"], "merged");
}

async fn auto_merge_is_aborted_with_error_if_the_merge_is_refused(server: TestServer) {
    let fixture = Fixture::new(&server, "aborted", true).await;
    let maintainer = server.create_user("maintainer").await;
    server.insert_member(fixture.project.id, maintainer.id, AccessLevel::Maintainer).await;
    let body = json!({ "merge_when_pipeline_succeeds": true });
    maintainer.client.put(&format!("{}/merge", fixture.path), body).await.expect(200);
    let members = format!("/projects/{}/members/{}", fixture.project.id, maintainer.id);
    fixture.root.put(&members, json!({ "access_level": 20 })).await.expect(200);
    fixture.report("success").await;
    server.finish_jobs().await;
    let merge_request = fixture.read().await;
    assert_eq!(
        (&merge_request["state"], &merge_request["merge_when_pipeline_succeeds"]),
        (&json!("opened"), &json!(false))
    );
    assert_eq!(merge_request["merge_error"], "401 Unauthorized");
    let notes = fixture.notes().await;
    assert_eq!(notes.last().expect("a note"), "aborted the automatic merge because it was refused: 401 Unauthorized");
}

async fn auto_merge_set_during_pipeline_success_is_not_lost(server: TestServer) {
    for round in 0..6 {
        let fixture = Fixture::new(&server, &format!("race-{round}"), true).await;
        fixture.report("running").await;
        let body = json!({ "merge_when_pipeline_succeeds": true });
        let (waiting, _) = tokio::join!(fixture.merge(body), fixture.report("success"));
        waiting.expect(200);
        server.finish_jobs().await;
        assert_eq!(fixture.read().await["state"], "merged", "round {round}");
    }
}

async fn merge_request_from_fork_uses_pipelines_of_the_fork(server: TestServer) {
    let fixture = Fixture::new(&server, "origin", true).await;
    let ann = server.create_user("ann").await;
    let fork = ann.client.post(&format!("/projects/{}/fork", fixture.project.id), json!({})).await.expect(201).json();
    server.finish_jobs().await;
    let fork = fork["id"].as_i64().expect("an id");
    let body = json!({ "source_branch": "feature/x", "target_branch": "main", "title": "x", "target_project_id": fixture.project.id });
    let created = ann.client.post(&format!("/projects/{fork}/merge_requests"), body).await.expect(201).json();
    let path = format!("/projects/{}/merge_requests/{}", fixture.project.id, created["iid"]);
    fixture.report("success").await;
    assert_eq!(fixture.root.get(&path).await.expect(200).json()["pipeline"], Value::Null);
    fixture.root.put(&format!("{path}/merge"), json!({})).await.expect(405);
    report(&ann.client, fork, &fixture.head, json!({ "state": "success", "ref": "feature/x" })).await;
    let merge_request = fixture.root.get(&path).await.expect(200).json();
    assert_eq!(
        merge_request["pipeline"]["web_url"],
        format!("{}/ann/origin/-/pipelines/{}", server.base, merge_request["pipeline"]["id"])
    );
    assert_eq!(fixture.root.put(&format!("{path}/merge"), json!({})).await.expect(200).json()["state"], "merged");
}

async fn close_push_and_reopen_cancel_the_automatic_merge(server: TestServer) {
    let proposal = Proposal::new(&server, "reopened", "main").await;
    proposal.update(json!({ "state_event": "close" })).await;
    assert_eq!(proposal.state().await, (json!("closed"), json!(false)));
    proposal.expect_note("the merge request was closed").await;
    proposal.commit("").await;
    proposal.update(json!({ "state_event": "reopen" })).await;
    proposal.expect_no_merge(&server).await;
}

async fn delete_of_source_branch_and_reopen_cancel_the_automatic_merge(server: TestServer) {
    let proposal = Proposal::new(&server, "recreated", "main").await;
    let branch = format!("/projects/{}/repository/branches/feature%2Fx", proposal.fork);
    proposal.author.delete(&branch).await.expect(204);
    assert_eq!(proposal.state().await, (json!("closed"), json!(false)));
    proposal.expect_note("the source branch was deleted").await;
    proposal.commit("main").await;
    proposal.update(json!({ "state_event": "reopen" })).await;
    proposal.expect_no_merge(&server).await;
}

async fn reopen_cancels_the_automatic_merge_of_a_closed_merge_request(server: TestServer) {
    let proposal = Proposal::new(&server, "former", "main").await;
    // Earlier releases did not cancel the automatic merge of a merge request that was closed.
    update_waiting(&server, |row| row.state = Set(merge_requests::MergeRequestState::Closed)).await;
    proposal.commit("").await;
    proposal.update(json!({ "state_event": "reopen" })).await;
    proposal.expect_note("the merge request was reopened").await;
    proposal.expect_no_merge(&server).await;
}

async fn new_target_branch_cancels_the_automatic_merge(server: TestServer) {
    let proposal = Proposal::new(&server, "retargeted", "sandbox").await;
    proposal.update(json!({ "target_branch": "main" })).await;
    assert_eq!(proposal.state().await, (json!("opened"), json!(false)));
    proposal.expect_note("the target branch changed").await;
    proposal.expect_no_merge(&server).await;
}

async fn auto_merge_refuses_what_was_not_approved(server: TestServer) {
    for case in ["head", "target", "unknown"] {
        let mut fixture = Fixture::new(&server, case, true).await;
        fixture.project.git(&["branch", "sandbox", "main"]);
        let main = fixture.project.id("main");
        fixture.merge(json!({ "merge_when_pipeline_succeeds": true })).await.expect(200);
        if case == "head" {
            let changes = file("more.txt", "1\n");
            fixture.head = fixture.project.import(&NewCommit { branch: "feature/x", changes, ..NewCommit::default() });
        }
        let head = fixture.head.clone();
        update_waiting(&server, |row| match case {
            "head" => row.head_sha = Set(head),
            "target" => row.target_branch = Set("sandbox".to_owned()),
            _ => row.merge_params = Set(None),
        })
        .await;
        fixture.report("success").await;
        server.finish_jobs().await;
        let read = fixture.read().await;
        assert_eq!(
            (&read["state"], &read["merge_when_pipeline_succeeds"], read["merge_error"].is_string()),
            (&json!("opened"), &json!(false), true),
            "{case}"
        );
        assert_eq!([fixture.project.id("main"), fixture.project.id("sandbox")], [main.clone(), main], "{case}");
    }
}

async fn auto_merge_that_another_user_enabled_meanwhile_is_neither_merged_nor_canceled(server: TestServer) {
    if !server.locks_rows() {
        return;
    }
    let fixture = Fixture::new(&server, "again", true).await;
    let main = fixture.project.id("main");
    let maintainer = server.create_user("maintainer").await;
    server.insert_member(fixture.project.id, maintainer.id, AccessLevel::Maintainer).await;
    fixture.merge(json!({ "merge_when_pipeline_succeeds": true })).await.expect(200);
    fixture.report("success").await;
    let stored = merge_requests::Entity::find().one(server.backend.database.read()).await;
    let id = stored.expect("a query").expect("a merge request").id;
    // The job reads the row before this change is committed, and locks it afterwards.
    let transaction = server.backend.database.begin().await.expect("a transaction");
    let merge_user_id = Set(Some(maintainer.id));
    let row = merge_requests::ActiveModel { id: Set(id), merge_user_id, ..Default::default() };
    row.update(&transaction).await.expect("a change");
    let run = run_auto_merge(&server.backend, id);
    let (result, ()) = tokio::join!(run, server.commit_when_awaited(transaction));
    result.expect("a result");
    let read = fixture.read().await;
    assert_eq!(
        (&read["state"], &read["merge_when_pipeline_succeeds"], &read["merge_error"]),
        (&json!("opened"), &json!(true), &Value::Null)
    );
    assert_eq!(fixture.project.id("main"), main);
    server.finish_jobs().await;
    let read = fixture.read().await;
    assert_eq!((&read["state"], &read["merged_by"]["username"]), (&json!("merged"), &json!("maintainer")));
}

on_every_database![
    merge_request_returns_the_pipeline_of_its_head,
    merge_requires_successful_pipeline_if_the_project_requires_it,
    skipped_pipeline_allows_merge_if_the_project_allows_it,
    auto_merge_merges_when_the_pipeline_succeeds,
    status_of_tag_does_not_count_for_branch_of_same_name,
    auto_merge_uses_messages_of_the_request,
    canceled_auto_merge_leaves_no_messages,
    canceled_auto_merge_does_not_determine_deletion_of_source_branch,
    auto_merge_remains_if_the_target_branch_is_locked,
    auto_merge_merges_at_once_after_success_and_waits_while_running,
    auto_merge_is_aborted_with_error_if_the_merge_is_refused,
    auto_merge_set_during_pipeline_success_is_not_lost,
    merge_request_from_fork_uses_pipelines_of_the_fork,
    close_push_and_reopen_cancel_the_automatic_merge,
    delete_of_source_branch_and_reopen_cancel_the_automatic_merge,
    reopen_cancels_the_automatic_merge_of_a_closed_merge_request,
    new_target_branch_cancels_the_automatic_merge,
    auto_merge_that_another_user_enabled_meanwhile_is_neither_merged_nor_canceled with with_more_connections(),
    auto_merge_refuses_what_was_not_approved,
];
