//! Clone, fetch and push.

use sea_orm::EntityTrait;
use storage::entities::{AccessLevel, Visibility, ref_updates};

use crate::support::git::{self, Work};
use crate::support::{TestServer, on_every_database};

async fn first_push_sets_and_protects_default_branch(server: TestServer) {
    let ann = server.create_user("ann").await;
    let project = server.insert_project_at("g/sub/p", Visibility::Private).await;
    server.insert_member(project.id, ann.id, AccessLevel::Maintainer).await;
    let url = git::address(&server.base, "ann", &ann.token, "g/sub/p");
    let work = Work::new().await;
    work.git(&["checkout", "--quiet", "-b", "trunk"]).await;
    work.git(&["push", "--quiet", &url, "trunk"]).await;

    // All effects are visible when the client returns.
    let now = server.reload(&project).await;
    assert_eq!(now.default_branch.as_deref(), Some("trunk"));
    assert!(now.last_activity_at > project.last_activity_at);
    let protected = format!("/projects/{}/protected_branches", project.id);
    assert_eq!(ann.client.get(&protected).await.expect(200).pluck("name"), ["trunk"]);
    let updates = ref_updates::Entity::find().all(server.backend.database.read()).await.unwrap();
    assert_eq!(updates.len(), 1);
    assert_eq!(updates[0].state, ref_updates::RefUpdateState::Applied);
    assert_eq!(updates[0].user_id, Some(ann.id));
    assert!(updates[0].changes.contains("refs/heads/trunk"), "{}", updates[0].changes);

    let clone = Work::empty();
    clone.git(&["clone", "--quiet", &url, "c"]).await;
    assert_eq!(clone.below("c").git(&["symbolic-ref", "HEAD"]).await, "refs/heads/trunk");
}

async fn fetch_transfers_pushed_commits_and_tags(server: TestServer) {
    let ann = server.create_user("ann").await;
    let project = server.insert_project_at("g/p", Visibility::Public).await;
    server.insert_member(project.id, ann.id, AccessLevel::Maintainer).await;
    let url = git::address(&server.base, "ann", &ann.token, "g/p");
    let open = format!("{}/G/P", server.base);
    let work = Work::new().await;
    work.git(&["push", "--quiet", &url, "main"]).await;
    let clones = Work::empty();
    clones.git(&["clone", "--quiet", &open, "c"]).await;
    let tip = work.commit("a", "1").await;
    work.git(&["tag", "-a", "-m", "One", "v1"]).await;
    work.git(&["push", "--quiet", &url, "main", "v1"]).await;
    let repository = server.repository(project.id);
    assert_eq!(repository.branch("main").await.unwrap().commit.to_string(), tip);
    let clone = clones.below("c");
    clone.git(&["fetch", "--quiet"]).await;
    assert_eq!(clone.git(&["rev-parse", "origin/main"]).await, tip);
    assert_eq!(clone.git(&["rev-parse", "v1^{commit}"]).await, tip);
    clone.git(&["fsck", "--full"]).await;
}

async fn shallow_and_partial_clones_are_supported(server: TestServer) {
    let ann = server.create_user("ann").await;
    let project = server.insert_project_at("g/p", Visibility::Public).await;
    server.insert_member(project.id, ann.id, AccessLevel::Maintainer).await;
    let url = git::address(&server.base, "ann", &ann.token, "g/p");
    let work = Work::new().await;
    for n in 0..5 {
        work.commit("a", &n.to_string()).await;
    }
    work.git(&["push", "--quiet", &url, "main"]).await;
    let clones = Work::empty();
    clones.git(&["clone", "--quiet", "--depth=2", &url, "s"]).await;
    let shallow = clones.below("s");
    assert_eq!(shallow.git(&["rev-list", "--count", "HEAD"]).await, "2");
    shallow.git(&["fetch", "--quiet", "--unshallow"]).await;
    assert_eq!(shallow.git(&["rev-list", "--count", "HEAD"]).await, "6");
    clones.git(&["clone", "--quiet", "--filter=blob:none", "--no-checkout", &url, "b"]).await;
    let missing = clones.below("b").git(&["rev-list", "--objects", "--missing=print", "HEAD"]).await;
    assert!(missing.contains('?'), "the clone has all blobs: {missing}");
}

async fn empty_repository_can_be_cloned(server: TestServer) {
    server.insert_project_at("g/p", Visibility::Public).await;
    let clones = Work::empty();
    clones.git(&["clone", "--quiet", &format!("{}/g/p.git", server.base), "c"]).await;
    assert_eq!(clones.below("c").git(&["symbolic-ref", "HEAD"]).await, "refs/heads/main");
}

async fn rejected_push_leaves_no_pending_ref_update(server: TestServer) {
    let ann = server.create_user("ann").await;
    let project = server.insert_project_at("g/p", Visibility::Public).await;
    server.insert_member(project.id, ann.id, AccessLevel::Developer).await;
    let url = git::address(&server.base, "ann", &ann.token, "g/p");
    let work = Work::new().await;
    let output = work.fails(&["push", &url, "main:refs/heads/ok", "main:refs/tags/refs/x"]).await;
    assert!(output.contains("The tag name refs/x is not allowed."), "{output}");
    assert!(server.repository(project.id).is_empty().await.unwrap());
    assert_eq!(server.reload(&project).await.default_branch, None);
    let pending = ref_updates::pending(server.backend.database.read(), None).await;
    assert_eq!(pending.unwrap(), []);
}

on_every_database![
    first_push_sets_and_protects_default_branch,
    fetch_transfers_pushed_commits_and_tags,
    shallow_and_partial_clones_are_supported,
    empty_repository_can_be_cloned,
    rejected_push_leaves_no_pending_ref_update,
];
