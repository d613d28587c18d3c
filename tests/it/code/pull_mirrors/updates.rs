//! Updates from other projects of the same server.

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, pull_mirror_refs};
use storage::jobs;

use super::{Pull, remote};
use crate::review::merge_requests::propose;
use crate::support::code::{NewCommit, Project, file};
use crate::support::git::address;
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

async fn masked_password_in_a_url_is_the_stored_one(server: TestServer) {
    let (source, target) = pair(&server).await;
    let pull = Pull::from_project(&target, &source).await;
    let url = address(&server.base, "other", "*****", &source.path).replace("%2A", "*");
    assert!(url.contains(":*****@"), "{url}");
    let shown = pull.set(json!({ "url": url })).await["url"].clone();
    assert!(shown.as_str().expect("a URL").contains("://*****:*****@"), "{shown}");
    pull.pull_all().await;
    assert_eq!(refs(&target), refs(&source));
}

fn commit(project: &Project<'_>, branch: &str, name: &str) -> String {
    project.import(&NewCommit { branch, changes: file(name, "content\n"), ..NewCommit::default() })
}

async fn empty_project_receives_branches_tags_and_default_branch(server: TestServer) {
    let (source, target) = pair(&server).await;
    source.git(&["branch", "trunk", "main"]);
    source.git(&["symbolic-ref", "HEAD", "refs/heads/trunk"]);
    source.git(&["tag", "light", "main"]);
    source.git(&["tag", "-a", "-m", "Annotated", "heavy", "main~1"]);
    source.git(&["update-ref", "refs/keep-around/x", "main"]);
    let pull = Pull::from_project(&target, &source).await;
    assert_eq!(pull.state().await["update_status"], "scheduled");
    server.finish_jobs().await;
    let state = pull.state().await;
    assert_eq!((&state["update_status"], &state["last_error"]), (&json!("finished"), &Value::Null), "{state}");
    for time in ["last_update_at", "last_update_started_at", "last_successful_update_at"] {
        assert!(state[time].is_string(), "{time}");
    }
    assert!(!state.to_string().contains(ROOT_TOKEN));
    assert_eq!(refs(&target), refs(&source));
    assert!(target.references("refs/keep-around/").is_empty());
    target.fsck();
    let root = server.root();
    let shown = root.get(&format!("/projects/{}", target.id)).await.expect(200).json();
    assert_eq!(shown["default_branch"], "trunk");
    let branch = root.get(&target.url("/branches/trunk")).await.expect(200).json();
    assert_eq!((&branch["default"], &branch["protected"]), (&json!(true), &json!(true)));
    // The update is a push of the user who saved the mirror.
    let events = root.get(&format!("/projects/{}/events?per_page=100", target.id)).await.expect(200).json();
    let events = events.as_array().expect("a list");
    let pushed = |event: &&Value| event["push_data"]["action"] == "created" && event["author_username"] == "root";
    assert!(events.iter().filter(pushed).count() > 0, "{events:?}");
    // An update without changes pushes nothing.
    let count = events.len();
    pull.pull_all().await;
    let events = root.get(&format!("/projects/{}/events?per_page=100", target.id)).await.expect(200).json();
    assert_eq!(events.as_array().map(Vec::len), Some(count));
}

async fn updates_follow_the_remote_and_keep_own_refs(server: TestServer) {
    let (source, target) = pair(&server).await;
    source.git(&["tag", "v1", "main"]);
    source.git(&["tag", "v2", "main"]);
    source.git(&["branch", "doomed", "main"]);
    source.git(&["branch", "worked-on", "main"]);
    let pull = Pull::from_project(&target, &source).await;
    pull.pull_all().await;
    assert_eq!(refs(&target), refs(&source));
    target.git(&["branch", "own", "main"]);
    target.git(&["tag", "own-tag", "main"]);
    let worked_on = commit(&target, "worked-on", "work");
    commit(&source, "main", "a");
    source.git(&["branch", "-m", "doomed", "doomed/child"]);
    source.git(&["branch", "-D", "worked-on"]);
    source.git(&["tag", "-f", "v1", "main"]);
    source.git(&["tag", "-d", "v2"]);
    pull.pull_all().await;
    assert_eq!(target.id("main"), source.id("main"));
    assert_eq!(target.id("v1"), source.id("v1"));
    assert_eq!(target.id("worked-on"), worked_on);
    let heads = ["doomed/child", "feature/x", "main", "merged", "own", "worked-on"];
    assert_eq!(target.references("refs/heads"), heads);
    assert_eq!(target.references("refs/tags"), ["own-tag", "v1"]);
    target.fsck();
    // A branch that was deleted in the project returns with the next update.
    target.git(&["branch", "-D", "merged"]);
    pull.pull_all().await;
    assert_eq!(target.id("merged"), source.id("merged"));
    // The branches of the former remote repository remain.
    let other = Project::empty(&server, "other", Visibility::Private).await;
    commit(&other, "next", "n");
    pull.set(json!({ "url": address(&server.base, "root", ROOT_TOKEN, &other.path) })).await;
    pull.pull_all().await;
    assert_eq!(target.references("refs/heads").len(), heads.len() + 1);
    // Without branches, the remote repository may have been emptied by accident.
    other.git(&["update-ref", "-d", "refs/heads/next"]);
    pull.pull_all().await;
    assert_eq!(target.id("next").len(), 40);
}

async fn diverged_refs_are_skipped_or_overwritten(server: TestServer) {
    let (source, target) = pair(&server).await;
    let pull = Pull::from_project(&target, &source).await;
    pull.pull_all().await;
    let (own, other) = (commit(&target, "feature/x", "own"), commit(&source, "feature/x", "other"));
    let ahead = commit(&target, "merged", "ahead");
    target.git(&["tag", "moved", "main"]);
    source.git(&["tag", "moved", "main~1"]);
    let added = commit(&source, "added", "added");
    commit(&source, "main", "next");
    let names = "Some refs have diverged and have not been updated:\nrefs/tags/moved\nrefs/heads/feature/x";
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let expected = format!("{names}\nrefs/heads/merged");
    for _ in 0..2 {
        assert_eq!(sorted(&pull.error().await), sorted(&expected));
        assert_eq!((target.id("feature/x"), target.id("merged")), (own.clone(), ahead.clone()));
        assert_eq!((target.id("added"), target.id("main")), (added.clone(), source.id("main")));
        // This is no failure of the remote repository.
        assert_eq!(pull.row().await.failures, 0);
    }
    target.fsck();
    pull.set(json!({ "mirror_overwrites_diverged_branches": true })).await;
    pull.pull_all().await;
    assert_eq!((target.id("feature/x"), target.id("merged")), (other, source.id("merged")));
    assert_eq!(target.id("moved"), source.id("moved"));
    // A protection that forbids force pushes applies, also if the commits are already known.
    let kept = commit(&target, "main", "kept");
    commit(&source, "main", "more");
    for _ in 0..2 {
        let error = pull.error().await;
        assert_eq!(error, "Some refs have diverged and have not been updated:\nrefs/heads/main");
        assert_eq!(target.id("main"), kept);
    }
}

async fn only_protected_branches_are_updated_on_request(server: TestServer) {
    let (source, target) = pair(&server).await;
    for name in ["stable-1", "stable-2"] {
        source.git(&["branch", name, "main"]);
    }
    source.git(&["tag", "v1", "main"]);
    target.protect("stable-*", 40, 40).await;
    let pull = Pull::from_project(&target, &source).await;
    pull.set(json!({ "only_mirror_protected_branches": true })).await;
    pull.pull_all().await;
    assert_eq!(target.references("refs/heads"), ["stable-1", "stable-2"]);
    assert_eq!(target.references("refs/tags"), ["v1"]);
    source.git(&["branch", "-D", "stable-2"]);
    pull.set(json!({ "only_mirror_protected_branches": false })).await;
    target.set_default_branch("stable-1").await;
    target.protect("merged", 0, 40).await;
    let error = pull.error().await;
    let text = "refs/heads/merged: You are not allowed to push code to the protected branch merged.";
    assert!(error.contains(text), "{error}");
    assert!(error.contains("refs/heads/stable-2: You are not allowed to delete the protected branch"), "{error}");
    assert_eq!(target.references("refs/heads"), ["feature/x", "main", "stable-1", "stable-2"]);
}

async fn update_needs_the_permissions_of_its_user(server: TestServer) {
    let (source, target) = pair(&server).await;
    let pull = Pull::from_project(&target, &source).await;
    pull.pull_all().await;
    let maintainer = target.member("max", AccessLevel::Maintainer).await;
    maintainer.put(&pull.path, json!({ "enabled": true })).await.expect(200);
    let user = maintainer.get("/user").await.expect(200).json()["id"].as_i64().expect("an ID");
    let shown = server.root().get(&format!("/projects/{}", target.id)).await.expect(200).json();
    assert_eq!(shown["mirror_user_id"], user);
    commit(&source, "main", "a");
    let root = server.root();
    let member = format!("/projects/{}/members/{user}", target.id);
    root.put(&member, json!({ "access_level": 20 })).await.expect(200);
    let text = "the user of the mirror cannot push to the project";
    assert_eq!(pull.error().await, text);
    root.put(&member, json!({ "access_level": 30 })).await.expect(200);
    // The default branch is protected from Developers.
    let error = pull.error().await;
    assert!(error.contains("refs/heads/main: You are not allowed to push code"), "{error}");
    root.put(&member, json!({ "access_level": 40 })).await.expect(200);
    root.post(&format!("/users/{user}/block"), json!({})).await.expect(201);
    assert_eq!(pull.error().await, text);
    root.post(&format!("/users/{user}/unblock"), json!({})).await.expect(201);
    pull.pull_all().await;
    assert_eq!(target.id("main"), source.id("main"));
    root.delete(&format!("/users/{user}")).await.expect(204);
    server.finish_jobs().await;
    assert!(pull.error().await.starts_with("the user of the mirror does not exist"));
}

async fn updates_have_the_effects_of_pushes(server: TestServer) {
    let (source, target) = pair(&server).await;
    let pull = Pull::from_project(&target, &source).await;
    pull.pull_all().await;
    let root = server.root();
    let iid = propose(&root, target.id, "feature/x", "main", json!({})).await;
    server.finish_jobs().await;
    let head = commit(&source, "feature/x", "y");
    pull.pull_all().await;
    let merge_request = format!("/projects/{}/merge_requests/{iid}", target.id);
    assert_eq!(root.get(&merge_request).await.expect(200).json()["sha"], head);
    assert_eq!(root.get(&target.url("/branches/feature%2Fx")).await.expect(200).json()["commit"]["id"], head);
}

async fn server_without_version_2_is_mirrored(server: TestServer) {
    let (source, target) = pair(&server).await;
    source.git(&["tag", "-a", "-m", "Annotated", "heavy", "main"]);
    let base = remote::proxy(&server.base).await;
    let pull = Pull::from_url(&target, &address(&base, "root", ROOT_TOKEN, &source.path)).await;
    pull.pull_all().await;
    assert_eq!(refs(&target), refs(&source));
    commit(&source, "main", "a");
    pull.pull_all().await;
    assert_eq!(refs(&target), refs(&source));
    target.fsck();
    let shown = server.root().get(&format!("/projects/{}", target.id)).await.expect(200).json();
    assert_eq!(shown["default_branch"], "main");
}

async fn mirrors_of_each_other_and_of_themselves_end(server: TestServer) {
    let (source, target) = pair(&server).await;
    let there = Pull::from_project(&target, &source).await;
    let back = Pull::from_project(&source, &target).await;
    let own = Project::with_commits(&server, "own", Visibility::Private).await;
    let itself = Pull::from_project(&own, &own).await;
    let before = refs(&own);
    for pull in [&there, &back, &itself, &there] {
        pull.pull_all().await;
    }
    assert_eq!((refs(&target), refs(&own)), (refs(&source), before));
    let backlog = jobs::backlog(server.backend.database.read()).await.expect("a backlog");
    assert_eq!((backlog.waiting, backlog.running, backlog.dead), (0, 0, 0));
}

async fn many_refs_are_pushed_in_parts(server: TestServer) {
    let (source, target) = pair(&server).await;
    let main = source.id("main");
    let input: String = (0..1100).map(|number| format!("create refs/tags/t{number} {main}\n")).collect();
    source.git_with(&["update-ref", "--stdin"], &input);
    let pull = Pull::from_project(&target, &source).await;
    pull.pull_all().await;
    assert_eq!(refs(&target), refs(&source));
    let input: String = (0..1050).map(|number| format!("delete refs/tags/t{number}\n")).collect();
    source.git_with(&["update-ref", "--stdin"], &input);
    pull.pull_all().await;
    assert_eq!(refs(&target), refs(&source));
}

async fn url_that_changes_during_an_update_keeps_fetched_branches(server: TestServer) {
    let (source, target) = pair(&server).await;
    let other = Project::empty(&server, "other", Visibility::Private).await;
    commit(&other, "next", "n");
    let proxy = remote::pausing_proxy(&server.base).await;
    let pull = Pull::from_url(&target, &address(&proxy.base, "root", ROOT_TOKEN, &source.path)).await;
    let change = async {
        proxy.requested.notified().await;
        assert_eq!(pull.state().await["update_status"], "started");
        let changed = pull.set(json!({ "url": address(&server.base, "root", ROOT_TOKEN, &other.path) })).await;
        assert_eq!(changed["update_status"], "scheduled");
        proxy.released.notify_one();
    };
    tokio::join!(pull.run(), change);
    // The pack had been requested before the change. Its branches are those of the project.
    let fetched = ["feature/x", "main", "merged"];
    assert_eq!(target.references("refs/heads"), fetched);
    let state = pull.state().await;
    assert_eq!((&state["update_status"], &state["last_error"]), (&json!("scheduled"), &Value::Null), "{state}");
    let db = server.backend.database.read();
    let recorded = pull_mirror_refs::of_mirror(db, pull.row().await.id).await.expect("targets");
    assert!(recorded.is_empty(), "{recorded:?}");
    server.finish_jobs().await;
    let state = pull.state().await;
    assert_eq!((&state["update_status"], &state["last_error"]), (&json!("finished"), &Value::Null), "{state}");
    assert_eq!(target.references("refs/heads"), ["feature/x", "main", "merged", "next"]);
}

async fn update_ends_before_the_next_push_if_the_url_changes(server: TestServer) {
    let (source, target) = pair(&server).await;
    let main = source.id("main");
    let input: String = (0..1100).map(|number| format!("create refs/tags/t{number:04} {main}\n")).collect();
    source.git_with(&["update-ref", "--stdin"], &input);
    let other = Project::empty(&server, "other", Visibility::Private).await;
    commit(&other, "next", "n");
    let proxy = remote::pausing_proxy(&server.base).await;
    let pull = Pull::from_url(&target, &address(&proxy.base, "root", ROOT_TOKEN, &source.path)).await;
    let change = async {
        proxy.requested.notified().await;
        pull.set(json!({ "url": address(&server.base, "root", ROOT_TOKEN, &other.path) })).await;
        proxy.released.notify_one();
    };
    tokio::join!(pull.run(), change);
    let count = target.references("refs/heads").len() + target.references("refs/tags").len();
    assert_eq!(count, 1000);
}

on_every_database![
    empty_project_receives_branches_tags_and_default_branch,
    masked_password_in_a_url_is_the_stored_one,
    updates_follow_the_remote_and_keep_own_refs,
    diverged_refs_are_skipped_or_overwritten,
    only_protected_branches_are_updated_on_request,
    update_needs_the_permissions_of_its_user,
    updates_have_the_effects_of_pushes,
    server_without_version_2_is_mirrored,
    mirrors_of_each_other_and_of_themselves_end,
    many_refs_are_pushed_in_parts,
    url_that_changes_during_an_update_keeps_fetched_branches,
    update_ends_before_the_next_push_if_the_url_changes,
];
