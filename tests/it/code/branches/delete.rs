//! Deleting one branch and all merged branches.

use domain::code::jobs::delete_merged_branches::{self, DeleteMergedBranches};
use git::RepositoryId;
use serde_json::json;
use storage::entities::{AccessLevel, Visibility};
use storage::jobs;

use crate::review::merge_requests::propose;
use crate::support::code::{NewCommit, Project, file};
use crate::support::{TestServer, on_every_database};

async fn delete_branch_removes_ref(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    developer.delete(&project.url("/branches/feature%2Fx")).await.expect(204);
    assert_eq!(project.references("refs/heads"), ["main", "merged"]);
    let answer = developer.delete(&project.url("/branches/feature%2Fx")).await.expect(404);
    assert_eq!(answer.message(), "404 Branch Not Found");
    let answer = developer.delete(&project.url("/branches/a..b")).await.expect(400);
    assert_eq!(answer.message(), "The branch refname is invalid");
}

async fn delete_branch_rejects_default_and_protected_branches(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    project.protect("feature/*", 30, 30).await;
    let answer = server.root().delete(&project.url("/branches/main")).await.expect(400);
    assert_eq!(answer.message(), "The default branch cannot be deleted");
    let answer = server.root().delete(&project.url("/branches/feature%2Fx")).await.expect(400);
    assert_eq!(answer.message(), "A protected branch cannot be deleted");
    assert_eq!(project.references("refs/heads"), ["feature/x", "main", "merged"]);
}

async fn delete_branch_honors_if_unmodified_since(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let url = project.url("/branches/feature%2Fx");
    // The head commit is dated 12:30:00.
    for date in ["Sun, 13 Sep 2020 12:29:59 GMT", "2020-09-13T12:29:59Z"] {
        let answer = server.root().header("If-Unmodified-Since", date).delete(&url).await.expect(412);
        assert_eq!(answer.message(), "412 Precondition Failed");
    }
    server.root().header("If-Unmodified-Since", "Sun, 13 Sep 2020 12:30:00 GMT").delete(&url).await.expect(204);
    let merged = project.url("/branches/merged");
    server.root().header("If-Unmodified-Since", "some day").delete(&merged).await.expect(204);
}

async fn delete_branch_requires_developer(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    let stranger = server.create_user("stranger").await.client;
    let private = Project::with_commits(&server, "secret", Visibility::Private).await;
    for path in ["/branches/merged", "/merged_branches"] {
        reporter.delete(&project.url(path)).await.expect(403);
        stranger.delete(&project.url(path)).await.expect(403);
        server.anonymous().delete(&project.url(path)).await.expect(401);
        stranger.delete(&private.url(path)).await.expect(404);
    }
    project.archive().await;
    server.root().delete(&project.url("/branches/merged")).await.expect(403);
    server.root().delete(&project.url("/merged_branches")).await.expect(403);
}

async fn locked_ref_returns_409(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let directory = project.git(&["rev-parse", "--absolute-git-dir"]);
    std::fs::write(format!("{directory}/refs/heads/merged.lock"), "").expect("a lock");
    let answer = server.root().delete(&project.url("/branches/merged")).await.expect(409);
    assert_eq!(answer.message(), "409 Conflict: Resource lock");
    assert_eq!(project.references("refs/heads/merged"), ["merged"]);
    std::fs::write(format!("{directory}/refs/heads/new.lock"), "").expect("a lock");
    let body = json!({ "branch": "new", "ref": "main" });
    server.root().post(&project.url("/branches"), body).await.expect(409);
}

async fn delete_merged_branches_runs_as_background_job(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    project.git(&["branch", "keep/merged", "main~1"]);
    project.git(&["branch", "also/merged", "main"]);
    project.protect("keep/*", 40, 40).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    let answer = developer.delete(&project.url("/merged_branches")).await.expect(202);
    assert_eq!(answer.json(), json!({ "message": "202 Accepted" }));
    let waiting = jobs::backlog(server.backend.database.read()).await.expect("a backlog");
    assert_eq!(waiting.waiting, 1);
    developer.delete(&project.url("/merged_branches")).await.expect(202);
    let waiting = jobs::backlog(server.backend.database.read()).await.expect("a backlog");
    assert_eq!(waiting.waiting, 1, "a repeated request enqueues no second job");
    let job = || DeleteMergedBranches { project_id: project.id, user_id: None };
    delete_merged_branches::run(server.backend.clone(), job()).await.expect("the job");
    assert_eq!(project.references("refs/heads"), ["feature/x", "keep/merged", "main"]);
    delete_merged_branches::run(server.backend.clone(), job()).await.expect("the job again");
    assert_eq!(project.references("refs/heads"), ["feature/x", "keep/merged", "main"]);
}

async fn delete_merged_branches_preserves_branches_of_open_merge_requests(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    for name in ["source", "target", "closed", "lone"] {
        project.git(&["branch", name, "main"]);
    }
    let root = server.root();
    propose(&root, project.id, "source", "merged", json!({})).await;
    propose(&root, project.id, "feature/x", "target", json!({})).await;
    let closed = propose(&root, project.id, "closed", "merged", json!({})).await;
    let closed = format!("/projects/{}/merge_requests/{closed}", project.id);
    root.put(&closed, json!({ "state_event": "close" })).await.expect(200);
    // Branches of a fork with the same name do not count.
    let developer = project.member("dev", AccessLevel::Developer).await;
    let fork = developer.post(&format!("/projects/{}/fork", project.id), json!({})).await.expect(201).json();
    server.finish_jobs().await;
    let fork = fork["id"].as_i64().expect("an id");
    let body = json!({
        "source_branch": "lone", "target_branch": "merged", "target_project_id": project.id, "title": "Fork",
    });
    developer.post(&format!("/projects/{fork}/merge_requests"), body).await.expect(201);
    root.delete(&project.url("/merged_branches")).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(project.references("refs/heads"), ["feature/x", "main", "merged", "source", "target"]);
    let open = root.get(&format!("/projects/{}/merge_requests?state=opened", project.id)).await.expect(200);
    assert_eq!(open.pluck("iid").len(), 3);
}

async fn delete_merged_branches_job_skips_archived_and_missing_projects(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let empty = Project::empty(&server, "empty", Visibility::Private).await;
    project.archive().await;
    for project_id in [project.id, empty.id, 9_999] {
        let job = DeleteMergedBranches { project_id, user_id: None };
        delete_merged_branches::run(server.backend.clone(), job).await.expect("the job");
    }
    assert_eq!(project.references("refs/heads"), ["feature/x", "main", "merged"]);
}

async fn new_commit_on_merged_branch_makes_it_unmerged(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let before = server.root().get(&project.url("/branches/merged")).await.json();
    project.import(&NewCommit { branch: "merged", changes: file("new.txt", "new\n"), ..NewCommit::default() });
    let after = server.root().get(&project.url("/branches/merged")).await.json();
    assert_eq!((&before["merged"], &after["merged"]), (&json!(true), &json!(false)));
    let repository = server.backend.repositories.repository(&RepositoryId::of_project(project.id));
    let stale = repository.delete_branch("merged", Some(before_id(&before))).await;
    assert!(matches!(stale, Err(git::Error::StaleReference)));
}

on_every_database![
    delete_branch_removes_ref,
    delete_branch_rejects_default_and_protected_branches,
    delete_branch_honors_if_unmodified_since,
    delete_branch_requires_developer,
    locked_ref_returns_409,
    delete_merged_branches_runs_as_background_job,
    delete_merged_branches_preserves_branches_of_open_merge_requests,
    delete_merged_branches_job_skips_archived_and_missing_projects,
    new_commit_on_merged_branch_makes_it_unmerged,
];

fn before_id(branch: &serde_json::Value) -> git::Oid {
    let id = branch["commit"]["id"].as_str().expect("an id");
    git::Oid::from_str(id).expect("an id")
}
