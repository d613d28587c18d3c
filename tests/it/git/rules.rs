//! Rules for pushes to branches and tags.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::{AccessLevel, Visibility, projects, protected_branches};

use crate::support::git::{self, Work};
use crate::support::users::TestUser;
use crate::support::{TestServer, on_every_database};

/// Creates a project with two commits on `main`, a Maintainer, a Developer, and a working copy.
async fn with_commits(server: &TestServer) -> (projects::Model, TestUser, TestUser, Work) {
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    let (max, dev) = (server.create_user("max").await, server.create_user("dev").await);
    server.insert_member(project.id, max.id, AccessLevel::Maintainer).await;
    server.insert_member(project.id, dev.id, AccessLevel::Developer).await;
    let work = Work::new().await;
    work.commit("a", "1").await;
    let url = git::address(&server.base, "max", &max.token, "g/p");
    work.git(&["push", "--quiet", &url, "main"]).await;
    let project = server.reload(&project).await;
    assert_eq!(project.default_branch.as_deref(), Some("main"));
    (project, max, dev, work)
}

async fn tip(server: &TestServer, project: &projects::Model, branch: &str) -> Option<String> {
    let found = server.repository(project.id).branch(branch).await.ok();
    found.map(|branch| branch.commit.to_string())
}

async fn push_to_protected_branch_rejects_developers(server: TestServer) {
    let (project, _, dev, work) = with_commits(&server).await;
    let url = git::address(&server.base, "dev", &dev.token, "g/p");
    let before = tip(&server, &project, "main").await;
    work.commit("b", "2").await;
    let output = work.fails(&["push", &url, "main"]).await;
    assert!(output.contains("remote: You are not allowed to push code to the protected branch main."), "{output}");
    assert_eq!(tip(&server, &project, "main").await, before);
    work.git(&["push", "--quiet", &url, "main:topic"]).await;
    let pushed = work.git(&["rev-parse", "HEAD"]).await;
    assert_eq!(tip(&server, &project, "topic").await, Some(pushed));
}

async fn force_push_and_deletion_of_protected_branch_are_rejected(server: TestServer) {
    let (project, max, _, work) = with_commits(&server).await;
    let url = git::address(&server.base, "max", &max.token, "g/p");
    let before = tip(&server, &project, "main").await;
    work.git(&["commit", "--quiet", "--amend", "-m", "Other"]).await;
    let output = work.fails(&["push", "--force", &url, "main"]).await;
    assert!(output.contains("remote: You are not allowed to force push to the branch main."), "{output}");
    let output = work.fails(&["push", &url, ":main"]).await;
    assert!(output.contains("remote: The default branch main cannot be deleted."), "{output}");
    assert_eq!(tip(&server, &project, "main").await, before);
}

async fn unprotected_default_branch_rejects_force_push_of_developers(server: TestServer) {
    let (project, max, dev, work) = with_commits(&server).await;
    protected_branches::Entity::delete_many()
        .filter(protected_branches::Column::ProjectId.eq(project.id))
        .exec(server.backend.database.write())
        .await
        .unwrap();
    let by_dev = git::address(&server.base, "dev", &dev.token, "g/p");
    let by_max = git::address(&server.base, "max", &max.token, "g/p");
    work.git(&["commit", "--quiet", "--amend", "-m", "Other"]).await;
    let output = work.fails(&["push", "--force", &by_dev, "main"]).await;
    assert!(output.contains("not allowed to force push"), "{output}");
    for url in [&by_dev, &by_max] {
        let output = work.fails(&["push", url, ":main"]).await;
        assert!(output.contains("cannot be deleted"), "{output}");
    }
    work.git(&["push", "--quiet", "--force", &by_max, "main"]).await;
    let moved = work.git(&["rev-parse", "main"]).await;
    assert_eq!(tip(&server, &project, "main").await, Some(moved));
}

async fn unprotected_branches_can_be_forced_and_deleted(server: TestServer) {
    let (project, _, dev, work) = with_commits(&server).await;
    let url = git::address(&server.base, "dev", &dev.token, "g/p");
    work.git(&["push", "--quiet", &url, "main:topic", "main:refs/tags/v1"]).await;
    work.git(&["commit", "--quiet", "--amend", "-m", "Other"]).await;
    work.git(&["push", "--quiet", "--force", &url, "main:topic"]).await;
    let moved = work.git(&["rev-parse", "main"]).await;
    assert_eq!(tip(&server, &project, "topic").await, Some(moved));
    work.git(&["push", "--quiet", &url, ":topic", ":refs/tags/v1"]).await;
    assert_eq!(tip(&server, &project, "topic").await, None);
    assert!(server.repository(project.id).tag("v1").await.is_err());
}

async fn push_rejects_ref_names_with_leading_dash(server: TestServer) {
    let (project, max, _, work) = with_commits(&server).await;
    let url = git::address(&server.base, "max", &max.token, "g/p");
    for name in ["refs/heads/-x", "refs/tags/-x"] {
        let output = work.fails(&["push", &url, &format!("main:{name}")]).await;
        assert!(output.contains("is not allowed") || output.contains("invalid"), "{output}");
    }
    assert_eq!(tip(&server, &project, "-x").await, None);
}

async fn archived_project_rejects_push_but_allows_fetch(server: TestServer) {
    let (project, max, _, work) = with_commits(&server).await;
    let row = projects::ActiveModel { id: Set(project.id), archived: Set(true), ..Default::default() };
    row.update(server.backend.database.write()).await.unwrap();
    let url = git::address(&server.base, "max", &max.token, "g/p");
    work.commit("b", "2").await;
    let output = work.fails(&["push", &url, "main"]).await;
    assert!(output.contains("remote: You cannot push to this project: it is archived"), "{output}");
    work.git(&["fetch", "--quiet", &url, "main"]).await;
}

async fn atomic_push_with_stale_ref_is_rejected_entirely(server: TestServer) {
    let (project, max, _, work) = with_commits(&server).await;
    let url = git::address(&server.base, "max", &max.token, "g/p");
    work.git(&["branch", "side"]).await;
    work.git(&["reset", "--quiet", "--hard", "HEAD~1"]).await;
    work.commit("c", "3").await;
    let output = work.fails(&["push", "--atomic", &url, "main", "side"]).await;
    assert!(output.contains("rejected"), "{output}");
    assert_eq!(tip(&server, &project, "side").await, None);
}

on_every_database![
    push_to_protected_branch_rejects_developers,
    force_push_and_deletion_of_protected_branch_are_rejected,
    unprotected_default_branch_rejects_force_push_of_developers,
    unprotected_branches_can_be_forced_and_deleted,
    push_rejects_ref_names_with_leading_dash,
    archived_project_rejects_push_but_allows_fetch,
    atomic_push_with_stale_ref_is_rejected_entirely,
];
