//! Refs other than branches and tags: those of users, and those that only the server changes.

use std::fmt::Write as _;

use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::json;
use storage::entities::ref_updates::{self, RefUpdateState};
use storage::entities::{AccessLevel, Visibility, projects};

use crate::review::merge_requests;
use crate::support::code::Project;
use crate::support::git::{self, Work};
use crate::support::users::TestUser;
use crate::support::{TestServer, on_every_database};

/// A private project with a commit on `main`, a Developer and a working copy.
async fn sample(server: &TestServer) -> (projects::Model, TestUser, Work) {
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    let dev = server.create_user("dev").await;
    server.insert_member(project.id, dev.id, AccessLevel::Developer).await;
    let work = Work::new().await;
    let url = git::address(&server.base, "dev", &dev.token, "g/p");
    work.git(&["push", "--quiet", &url, "main"]).await;
    (project, dev, work)
}

async fn developers_push_move_fetch_and_delete_custom_refs(server: TestServer) {
    let (project, dev, work) = sample(&server).await;
    let url = git::address(&server.base, "dev", &dev.token, "g/p");
    let events = format!("/projects/{}/events", project.id);
    let before = dev.client.get(&events).await.expect(200).json();
    work.git(&["notes", "add", "-m", "seen", "HEAD"]).await;
    work.git(&["push", "--quiet", &url, "refs/notes/commits", "main:refs/builds/7"]).await;
    let clones = Work::empty();
    clones.git(&["clone", "--quiet", &url, "c"]).await;
    let clone = clones.below("c");
    clone.git(&["fetch", "--quiet", "origin", "refs/notes/*:refs/notes/*", "refs/builds/7:refs/builds/7"]).await;
    assert_eq!(clone.git(&["notes", "show", "HEAD"]).await, "seen");
    // A note that replaces the history of notes.
    work.git(&["update-ref", "-d", "refs/notes/commits"]).await;
    work.git(&["notes", "add", "-m", "again", "HEAD"]).await;
    work.fails(&["push", &url, "refs/notes/commits"]).await;
    work.git(&["push", "--quiet", "--force", &url, "refs/notes/commits", ":refs/builds/7"]).await;
    let listed = work.git(&["ls-remote", &url]).await;
    assert!(listed.contains("refs/notes/commits") && !listed.contains("refs/builds"), "{listed}");
    // Custom refs cause no events, and are neither branches nor tags.
    assert_eq!(dev.client.get(&events).await.expect(200).json(), before);
    let branches = dev.client.get(&format!("/projects/{}/repository/branches", project.id)).await.expect(200);
    assert_eq!(branches.pluck("name"), ["main"]);
    // Each update was recorded.
    let applied = ref_updates::Entity::find().filter(ref_updates::Column::State.eq(RefUpdateState::Applied));
    assert_eq!(applied.count(server.backend.database.read()).await.expect("a count"), 3);
}

async fn push_of_custom_refs_requires_developer_and_active_project(server: TestServer) {
    let (project, dev, work) = sample(&server).await;
    let rep = server.create_user("rep").await;
    server.insert_member(project.id, rep.id, AccessLevel::Reporter).await;
    let by_rep = git::address(&server.base, "rep", &rep.token, "g/p");
    work.fails(&["push", &by_rep, "main:refs/notes/x"]).await;
    let by_dev = git::address(&server.base, "dev", &dev.token, "g/p");
    work.git(&["push", "--quiet", &by_dev, "main:refs/notes/x"]).await;
    assert!(work.git(&["ls-remote", &by_rep]).await.contains("refs/notes/x"));
    server.root().post(&format!("/projects/{}/archive", project.id), json!({})).await.expect(201);
    let output = work.fails(&["push", &by_dev, ":refs/notes/x"]).await;
    assert!(output.contains("archived"), "{output}");
}

async fn custom_refs_in_empty_repository_set_no_default_branch(server: TestServer) {
    let ann = server.create_user("ann").await;
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    server.insert_member(project.id, ann.id, AccessLevel::Developer).await;
    let url = git::address(&server.base, "ann", &ann.token, "g/p");
    let work = Work::new().await;
    work.git(&["push", "--quiet", &url, "main:refs/notes/x"]).await;
    assert_eq!(server.reload(&project).await.default_branch, None);
    work.git(&["push", "--quiet", &url, "main"]).await;
    assert_eq!(server.reload(&project).await.default_branch.as_deref(), Some("main"));
}

async fn invalid_names_of_custom_refs_are_rejected(server: TestServer) {
    let (_, dev, work) = sample(&server).await;
    let url = git::address(&server.base, "dev", &dev.token, "g/p");
    let long = format!("main:refs/{}/x", vec!["x".repeat(200); 6].join("/"));
    let output = work.fails(&["push", &url, &long, "main:refs/heads/other"]).await;
    assert!(output.contains("is not allowed."), "{output}");
    assert!(!work.git(&["ls-remote", &url]).await.contains("other"));
}

async fn number_of_custom_refs_is_limited(server: TestServer) {
    let project = Project::with_commits(&server, "many", Visibility::Private).await;
    let id = project.id("main");
    let mut packed = "# pack-refs with: sorted \n".to_owned();
    for number in 0..9_999 {
        writeln!(packed, "{id} refs/builds/{number:05}").expect("text");
    }
    for line in project.git(&["for-each-ref", "--format=%(objectname) %(refname)"]).lines() {
        writeln!(packed, "{line}").expect("text");
    }
    let repository = project.git(&["rev-parse", "--absolute-git-dir"]);
    std::fs::write(format!("{repository}/packed-refs"), packed).expect("refs");
    let url = git::address(&server.base, "root", crate::support::server::ROOT_TOKEN, "root/many");
    let work = Work::new().await;
    let output = work.fails(&["push", &url, "main:refs/notes/a", "main:refs/notes/b"]).await;
    assert!(output.contains("too many refs other than branches and tags (maximum is 10000)"), "{output}");
    work.git(&["push", "--quiet", &url, "main:refs/notes/a"]).await;
    work.fails(&["push", &url, "main:refs/notes/b"]).await;
    // Branches, moves and deletions are not limited.
    work.git(&["push", "--quiet", &url, "main:refs/heads/new", ":refs/notes/a"]).await;
    work.git(&["push", "--quiet", &url, "main:refs/notes/b"]).await;
}

async fn mirror_push_applies_all_but_reserved_refs(server: TestServer) {
    let root = server.root();
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    merge_requests::propose(&root, source.id, "feature/x", "main", json!({})).await;
    source.git(&["update-ref", "refs/keep-around/old", "main"]);
    source.git(&["update-ref", "refs/notes/x", "main"]);
    let address = |path: &str| git::address(&server.base, "root", crate::support::server::ROOT_TOKEN, path);
    let listed = Work::empty().git(&["ls-remote", &address("root/source")]).await;
    assert!(listed.contains("refs/merge-requests/1/head") && !listed.contains("keep-around"), "{listed}");
    let work = Work::empty();
    work.git(&["clone", "--quiet", "--mirror", &address("root/source"), "m"]).await;
    let mirror = work.below("m");
    assert!(mirror.git(&["for-each-ref"]).await.contains("refs/merge-requests/1/head"));
    let target = Project::empty(&server, "target", Visibility::Private).await;
    let output = mirror.fails(&["push", "--mirror", &address("root/target")]).await;
    assert!(output.contains("refs/merge-requests/1/head (deny updating a hidden ref)"), "{output}");
    for prefix in ["refs/heads", "refs/tags", "refs/notes"] {
        assert_eq!(target.references(prefix), source.references(prefix), "{prefix}");
    }
    assert!(target.references("refs/merge-requests").is_empty());
    assert_eq!(target.project().await.default_branch.as_deref(), Some("main"));
    // A mirror does not delete the reserved refs of its target.
    merge_requests::propose(&root, target.id, "feature/x", "main", json!({})).await;
    mirror.fails(&["push", "--mirror", &address("root/target")]).await;
    assert_eq!(target.references("refs/merge-requests"), ["1/head"]);
}

on_every_database![
    developers_push_move_fetch_and_delete_custom_refs,
    push_of_custom_refs_requires_developer_and_active_project,
    custom_refs_in_empty_repository_set_no_default_branch,
    invalid_names_of_custom_refs_are_rejected,
    number_of_custom_refs_is_limited,
    mirror_push_applies_all_but_reserved_refs,
];
