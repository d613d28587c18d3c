//! Updates of mirrors in other projects of the same server.

use serde_json::{Value, json};
use storage::entities::Visibility;
use storage::jobs;

use super::Mirror;
use crate::support::code::{NewCommit, Project, file};
use crate::support::git::{Work, address};
use crate::support::server::ROOT_TOKEN;
use crate::support::{TestServer, on_every_database};

/// Returns the branches and tags of a project with their targets.
fn refs(project: &Project<'_>) -> String {
    project.git(&["for-each-ref", "refs/heads", "refs/tags"])
}

async fn pair(server: &TestServer) -> (Project<'_>, Project<'_>) {
    let source = Project::with_commits(server, "source", Visibility::Private).await;
    (source, Project::empty(server, "target", Visibility::Private).await)
}

async fn mirror_receives_branches_and_tags_after_pushes(server: TestServer) {
    let (source, target) = pair(&server).await;
    let root = server.root();
    let mirror = Mirror::to(&source, &target, json!({})).await;
    let work = Work::empty();
    let url = address(&server.base, "root", ROOT_TOKEN, &source.path);
    work.git(&["clone", "--quiet", &url, "."]).await;
    work.commit("b", "2").await;
    work.git(&["tag", "light"]).await;
    work.git(&["tag", "-a", "-m", "Annotated", "heavy"]).await;
    work.git(&["push", "--quiet", &url, "main", "light", "heavy"]).await;
    assert_eq!(mirror.state().await["update_status"], "scheduled");
    server.finish_jobs().await;
    let state = mirror.state().await;
    assert_eq!((&state["update_status"], &state["last_error"]), (&json!("finished"), &Value::Null), "{state}");
    for time in ["last_update_at", "last_update_started_at", "last_successful_update_at"] {
        assert!(state[time].is_string(), "{time}");
    }
    assert_eq!(refs(&target), refs(&source));
    target.fsck();
    // The mirror is a project like others: the push is an event.
    let project = root.get(&format!("/projects/{}", target.id)).await.expect(200).json();
    assert_eq!(project["default_branch"], "main");
    // The next change is mirrored later, unless an update is requested.
    let body = json!({ "branch": "main", "content": "x", "commit_message": "Add c" });
    root.post(&source.url("/files/c"), body).await.expect(201);
    root.delete(&source.url("/branches/merged")).await.expect(204);
    root.delete(&source.url("/tags/light")).await.expect(204);
    assert_eq!(mirror.state().await["update_status"], "scheduled");
    let backlog = jobs::backlog(server.backend.database.read()).await.expect("a backlog");
    assert!(backlog.waiting > 0);
    assert_ne!(refs(&target), refs(&source));
    assert_eq!(mirror.sync().await["update_status"], "finished");
    assert_eq!(refs(&target), refs(&source));
    assert!(!refs(&target).contains("refs/tags/light"));
    target.fsck();
}

async fn changed_branch_of_mirror_is_overwritten_or_kept(server: TestServer) {
    let (source, target) = pair(&server).await;
    let mirror = Mirror::to(&source, &target, json!({})).await;
    assert_eq!(mirror.sync().await["update_status"], "finished");
    let change = |branch: &'static str| {
        target.import(&NewCommit { branch, changes: file("own.txt", "own\n"), ..NewCommit::default() })
    };
    let changed = change("feature/x");
    target.git(&["tag", "moved", "main"]);
    target.git(&["branch", "extra", &changed]);
    source.git(&["tag", "moved", "main~1"]);
    source.git(&["branch", "added", "main"]);
    server.root().put(&mirror.path, json!({ "keep_divergent_refs": true })).await.expect(200);
    let state = mirror.sync().await;
    assert_eq!(state["update_status"], "failed");
    assert_eq!(
        state["last_error"],
        "Some refs have diverged and have not been updated on the remote:\nrefs/heads/extra\n\
         refs/heads/feature/x\nrefs/tags/moved"
    );
    assert_eq!(target.id("feature/x"), changed);
    assert_eq!(target.id("moved"), target.id("main"));
    // The other refs are updated, and branches that were deleted here are deleted there.
    assert_eq!(target.id("added"), source.id("main"));
    source.git(&["branch", "-D", "added"]);
    mirror.sync().await;
    assert!(!target.references("refs/heads").contains(&"added".to_owned()));
    server.root().put(&mirror.path, json!({ "keep_divergent_refs": false })).await.expect(200);
    let state = mirror.sync().await;
    assert_eq!((&state["update_status"], &state["last_error"]), (&json!("finished"), &Value::Null), "{state}");
    assert_eq!(refs(&target), refs(&source));
}

async fn mirror_of_protected_branches_leaves_other_branches(server: TestServer) {
    let (source, target) = pair(&server).await;
    source.protect("stable-*", 40, 40).await;
    source.git(&["branch", "stable-1", "main"]);
    source.git(&["tag", "v1", "main"]);
    let mirror = Mirror::to(&source, &target, json!({ "only_protected_branches": true })).await;
    assert_eq!(mirror.sync().await["update_status"], "finished");
    assert_eq!(target.references("refs/heads"), ["main", "stable-1"]);
    assert_eq!(target.references("refs/tags"), ["v1"]);
    target.git(&["branch", "own", "main"]);
    target.git(&["branch", "stable-2", "main"]);
    source.git(&["branch", "-D", "stable-1"]);
    assert_eq!(mirror.sync().await["update_status"], "finished");
    assert_eq!(target.references("refs/heads"), ["main", "own"]);
}

async fn mirrors_of_each_other_end(server: TestServer) {
    let (source, target) = pair(&server).await;
    let there = Mirror::to(&source, &target, json!({})).await;
    let back = Mirror::to(&target, &source, json!({})).await;
    there.sync().await;
    // The push to the target has started an update of the source, which changed nothing.
    for mirror in [&there, &back] {
        assert_eq!(mirror.state().await["update_status"], "finished");
    }
    let backlog = jobs::backlog(server.backend.database.read()).await.expect("a backlog");
    assert_eq!((backlog.waiting, backlog.running, backlog.dead), (0, 0, 0));
    assert_eq!(refs(&target), refs(&source));
}

async fn mirror_of_empty_project_deletes_nothing(server: TestServer) {
    let (filled, empty) = pair(&server).await;
    let before = refs(&filled);
    let mirror = Mirror::to(&empty, &filled, json!({})).await;
    assert_eq!(mirror.sync().await["update_status"], "finished");
    assert_eq!(refs(&filled), before);
}

async fn rejected_refs_are_named_in_the_error(server: TestServer) {
    let (source, target) = pair(&server).await;
    let mirror = Mirror::to(&source, &target, json!({})).await;
    mirror.sync().await;
    // The default branch of the target is protected, and does not allow force pushes.
    source.git(&["branch", "-f", "main", "feature/x"]);
    source.git(&["branch", "added", "feature/x"]);
    let state = mirror.sync().await;
    assert_eq!(state["update_status"], "failed");
    let error = state["last_error"].as_str().expect("an error");
    assert!(error.starts_with("Some refs were rejected by the remote:\n"), "{error}");
    assert!(error.contains("\nrefs/heads/main: "), "{error}");
    assert!(state["last_successful_update_at"].is_string());
    assert_eq!(mirror.state().await["update_status"], "failed");
}

async fn archived_project_is_not_mirrored(server: TestServer) {
    let (source, target) = pair(&server).await;
    let mirror = Mirror::to(&source, &target, json!({})).await;
    server.root().post(&format!("{}/sync", mirror.path), json!({})).await.expect(204);
    source.archive().await;
    server.finish_jobs().await;
    let state = mirror.state().await;
    assert_eq!((&state["update_status"], &state["last_error"]), (&json!("failed"), &json!("the project is archived")));
    assert_eq!(refs(&target), "");
    server.root().post(&format!("{}/sync", mirror.path), json!({})).await.expect(403);
}

async fn many_refs_are_mirrored_in_several_pushes(server: TestServer) {
    let (source, target) = pair(&server).await;
    let main = source.id("main");
    let lines: String = (0..1100).map(|number| format!("create refs/tags/t{number:04} {main}\n")).collect();
    source.git_with(&["update-ref", "--stdin"], &lines);
    let mirror = Mirror::to(&source, &target, json!({})).await;
    assert_eq!(mirror.sync().await["update_status"], "finished");
    assert_eq!(refs(&target), refs(&source));
}

async fn deleted_mirror_and_project_are_not_updated(server: TestServer) {
    let (source, target) = pair(&server).await;
    let mirror = Mirror::to(&source, &target, json!({})).await;
    let root = server.root();
    root.post(&format!("{}/sync", mirror.path), json!({})).await.expect(204);
    root.delete(&mirror.path).await.expect(204);
    let other = Mirror::to(&source, &target, json!({})).await;
    root.post(&format!("{}/sync", other.path), json!({})).await.expect(204);
    root.delete(&format!("/projects/{}", source.id)).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(refs(&target), "");
    other.attempt(1).await.expect("nothing to do");
}

on_every_database![
    mirror_receives_branches_and_tags_after_pushes,
    changed_branch_of_mirror_is_overwritten_or_kept,
    mirror_of_protected_branches_leaves_other_branches,
    mirrors_of_each_other_end,
    mirror_of_empty_project_deletes_nothing,
    rejected_refs_are_named_in_the_error,
    archived_project_is_not_mirrored,
    many_refs_are_mirrored_in_several_pushes,
    deleted_mirror_and_project_are_not_updated,
];
