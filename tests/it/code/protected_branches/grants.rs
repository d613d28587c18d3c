//! Grants to users, groups and deploy keys.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::protection;
use crate::code::deploy_keys::deploy_key;
use crate::support::code::Project;
use crate::support::git::{Work, address};
use crate::support::spaces::{group, join};
use crate::support::users::TestUser;
use crate::support::{Client, TestServer, on_every_database};

/// Creates a user with the Developer role.
async fn developer(server: &TestServer, project: &Project<'_>, name: &str) -> TestUser {
    let user = server.create_user(name).await;
    server.insert_member(project.id, user.id, AccessLevel::Developer).await;
    user
}

/// Commits to a branch and returns the status.
async fn commit(client: &Client, project: &Project<'_>, branch: &str, path: &str) -> u16 {
    let body = json!({"branch": branch, "commit_message": "m", "content": path});
    client.post(&project.url(&format!("/files/{path}")), body).await.status
}

async fn user_grant_allows_only_this_user(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let (ann, bob) = (developer(&server, &project, "ann").await, developer(&server, &project, "bob").await);
    let path = format!("/projects/{}", project.id);
    let maintainer = project.member("max", AccessLevel::Maintainer).await;
    let body = json!({"name": "feature/x", "allowed_to_push": [{"user_id": ann.id}], "allowed_to_merge": [{"user_id": bob.id}]});
    let created = protection(&server.root(), &path, body).await;
    let entry = &created["push_access_levels"][0];
    assert_eq!((&entry["user_id"], &entry["access_level"]), (&json!(ann.id), &json!(40)));
    assert_eq!(entry["access_level_description"], "Name of ann");
    for (client, expected) in [(&ann.client, 201), (&bob.client, 400), (&maintainer, 400), (&server.root(), 400)] {
        assert_eq!(commit(client, &project, "feature/x", &format!("f-{expected}")).await, expected);
    }
    let branch = project.url("/branches/feature%2Fx");
    assert_eq!(ann.client.get(&branch).await.json()["can_push"], true);
    assert_eq!(bob.client.get(&branch).await.json()["can_push"], false);
    // By Git too.
    let work = Work::empty();
    let clone = |user: &TestUser| address(&server.base, &user.row.username, &user.token, "root/engine");
    work.git(&["clone", "--quiet", "--branch", "feature/x", &clone(&ann), "c"]).await;
    let copy = work.below("c");
    copy.commit("by-git", "1").await;
    let output = copy.fails(&["push", &clone(&bob), "feature/x"]).await;
    assert!(output.contains("not allowed to push code to the protected branch feature/x"), "{output}");
    copy.git(&["push", "--quiet", &clone(&ann), "feature/x"]).await;
    // The grant ends with the role.
    let member = format!("{path}/members/{}", ann.id);
    server.root().put(&member, json!({"access_level": 20})).await.expect(200);
    assert_eq!(commit(&ann.client, &project, "feature/x", "late").await, 403);
    assert_eq!(ann.client.get(&branch).await.json()["can_push"], false);
}

async fn merge_grant_allows_merge_but_no_push(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let (ann, bob) = (developer(&server, &project, "ann").await, developer(&server, &project, "bob").await);
    let one = format!("/projects/{}/protected_branches/main", project.id);
    let body = json!({"allowed_to_merge": [{"user_id": ann.id}]});
    server.root().patch(&one, body).await.expect(200);
    let iid = crate::review::merge_requests::propose(&bob.client, project.id, "feature/x", "main", json!({})).await;
    let merge_request = format!("/projects/{}/merge_requests/{iid}", project.id);
    for (user, can_merge) in [(&ann, true), (&bob, false)] {
        let seen = user.client.get(&merge_request).await.expect(200).json();
        assert_eq!(seen["user"]["can_merge"], can_merge, "{}", user.row.username);
    }
    assert_eq!(commit(&ann.client, &project, "main", "pushed").await, 400);
    bob.client.put(&format!("{merge_request}/merge"), json!({})).await.expect(401);
    ann.client.put(&format!("{merge_request}/merge"), json!({})).await.expect(200);
}

async fn group_grant_allows_members_of_group(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let (ann, bob) = (developer(&server, &project, "ann").await, developer(&server, &project, "bob").await);
    let path = format!("/projects/{}", project.id);
    let team = group(&root, "team", json!({"visibility": "private"})).await;
    let body = json!({"name": "feature/*", "allowed_to_push": [{"group_id": team}]});
    let refused = root.post(&format!("{path}/protected_branches"), body.clone()).await.expect(422);
    assert_eq!(refused.message(), "Push access levels group does not have access to the project");
    root.post(&format!("{path}/share"), json!({"group_id": team, "group_access": 30})).await.expect(201);
    let created = protection(&root, &path, body).await;
    let entry = &created["push_access_levels"][0];
    assert_eq!((&entry["group_id"], &entry["access_level_description"]), (&json!(team), &json!("team")));
    // Callers who cannot see the group do not see its name.
    let seen = ann.client.get(&format!("{path}/protected_branches/feature%2F*")).await.expect(200).json();
    assert_eq!(seen["push_access_levels"][0]["access_level_description"], "Group");
    join(&root, &format!("/groups/{team}"), ann.id, 10).await;
    for (user, status) in [(&ann, 201), (&bob, 400)] {
        assert_eq!(commit(&user.client, &project, "feature/x", &user.row.username).await, status);
        let seen = user.client.get(&project.url("/branches/feature%2Fx")).await.expect(200).json();
        assert_eq!(seen["can_push"], status == 201);
    }
    let iid = crate::review::merge_requests::propose(&bob.client, project.id, "main", "feature/x", json!({})).await;
    let merge_request = format!("{path}/merge_requests/{iid}");
    assert_eq!(ann.client.get(&merge_request).await.expect(200).json()["user"]["can_merge"], true);
    assert_eq!(bob.client.get(&merge_request).await.expect(200).json()["user"]["can_merge"], false);
    // The statements of a list do not depend on the number of branches.
    let list = project.url("/branches?per_page=100");
    let count = async || {
        ann.client.get(&list).await.expect(200);
        let before = server.statements();
        let listed = ann.client.get(&format!("{list}&search=feature")).await.expect(200).pluck("name").len();
        (server.statements() - before, listed)
    };
    let (short, _) = count().await;
    for number in 0..20 {
        project.git(&["branch", &format!("feature/{number}"), "main"]);
    }
    let (long, listed) = count().await;
    assert_eq!((long, listed), (short, 21));
    // Without the share, the group grants nothing, and the rule still names the group.
    root.delete(&format!("{path}/share/{team}")).await.expect(204);
    assert_eq!(commit(&ann.client, &project, "feature/x", "unshared").await, 400);
    let seen = root.get(&format!("{path}/protected_branches/feature%2F*")).await.expect(200).json();
    assert_eq!(seen["push_access_levels"][0]["group_id"], team);
    root.post(&format!("{path}/share"), json!({"group_id": team, "group_access": 10})).await.expect(201);
    assert_eq!(commit(&ann.client, &project, "feature/x", "shared").await, 201);
    // A deleted group grants nothing.
    root.put("/application/settings", json!({"deletion_adjourned_period": 0})).await.expect(200);
    root.delete(&format!("/groups/{team}")).await.expect(202);
    server.finish_jobs().await;
    let seen = root.get(&format!("{path}/protected_branches/feature%2F*")).await.expect(200).json();
    assert_eq!(super::levels(&seen, "push_access_levels"), [0]);
}

async fn deploy_key_grant_requires_key_that_can_push(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let (root, path) = (server.root(), format!("/projects/{}", project.id));
    let key = deploy_key(&root, &path, 1).await;
    let body = json!({"name": "feature/*", "allowed_to_push": [{"deploy_key_id": key}]});
    let all = format!("{path}/protected_branches");
    let refused = root.post(&all, body.clone()).await.expect(422);
    assert_eq!(refused.message(), "Push access levels deploy key cannot push to the project");
    root.put(&format!("{path}/deploy_keys/{key}"), json!({"can_push": true})).await.expect(200);
    let created = protection(&root, &path, body).await;
    let entry = &created["push_access_levels"][0];
    assert_eq!((&entry["deploy_key_id"], &entry["access_level_description"]), (&json!(key), &json!("key-1")));
    let merge = json!({"allowed_to_merge": [{"deploy_key_id": key}]});
    let refused = root.patch(&format!("{all}/feature%2F*"), merge).await.expect(400);
    assert_eq!(refused.message(), "allowed_to_merge[0][deploy_key_id] is not allowed for this action");
    assert_eq!(commit(&root, &project, "feature/x", "n").await, 400);
    root.delete(&format!("{path}/deploy_keys/{key}")).await.expect(204);
    let seen = root.get(&format!("{all}/feature%2F*")).await.expect(200).json();
    assert_eq!(super::levels(&seen, "push_access_levels"), [0]);
}

async fn force_push_is_allowed_only_by_protection(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let max = server.create_user("max").await;
    server.insert_member(project.id, max.id, AccessLevel::Maintainer).await;
    let dev = developer(&server, &project, "dev").await;
    let one = format!("/projects/{}/protected_branches/main", project.id);
    let work = Work::empty();
    let url = |user: &TestUser| address(&server.base, &user.row.username, &user.token, "root/engine");
    work.git(&["clone", "--quiet", &url(&max), "c"]).await;
    let copy = work.below("c");
    copy.git(&["commit", "--quiet", "--amend", "-m", "Other"]).await;
    let output = copy.fails(&["push", "--force", &url(&max), "main"]).await;
    assert!(output.contains("You are not allowed to force push to the branch main."), "{output}");
    server.root().patch(&one, json!({"allow_force_push": true})).await.expect(200);
    let output = copy.fails(&["push", "--force", &url(&dev), "main"]).await;
    assert!(output.contains("not allowed to push code to the protected branch main"), "{output}");
    copy.git(&["push", "--quiet", "--force", &url(&max), "main"]).await;
    // A Developer who can push can also force-push. The branch cannot be deleted.
    server.root().patch(&one, json!({"allowed_to_push": [{"user_id": dev.id}]})).await.expect(200);
    copy.git(&["commit", "--quiet", "--amend", "-m", "Third"]).await;
    copy.git(&["push", "--quiet", "--force", &url(&dev), "main"]).await;
    let output = copy.fails(&["push", &url(&max), ":main"]).await;
    assert!(output.contains("The default branch main cannot be deleted."), "{output}");
    assert_eq!(project.id("main"), copy.git(&["rev-parse", "HEAD"]).await);
}

on_every_database![
    user_grant_allows_only_this_user,
    merge_grant_allows_merge_but_no_push,
    group_grant_allows_members_of_group,
    deploy_key_grant_requires_key_that_can_push,
    force_push_is_allowed_only_by_protection,
];
