//! Protected branches of groups, which projects inherit.

use holdfast::config::ConfigOptions;
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::json;
use storage::entities::{AccessLevel, Visibility, projects};

use super::{levels, protection};
use crate::support::code::Project;
use crate::support::spaces::{group, join};
use crate::support::{TestServer, on_every_database};

/// Creates a project with commits in a group.
async fn project_in<'a>(server: &'a TestServer, name: &str, group: i64) -> Project<'a> {
    let project = Project::with_commits(server, name, Visibility::Private).await;
    let row = projects::ActiveModel { id: Set(project.id), namespace_id: Set(group), ..Default::default() };
    row.update(server.backend.database.write()).await.expect("a project");
    project
}

async fn group_protection_lifecycle(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let path = format!("/groups/{team}");
    let all = format!("{path}/protected_branches");
    let created = protection(&root, &path, json!({"name": "*-stable"})).await;
    assert_eq!((&created["name"], &created["inherited"]), (&json!("*-stable"), &json!(false)));
    assert_eq!(levels(&created, "push_access_levels"), [40]);
    assert_eq!(root.get(&all).await.expect(200).json(), json!([created]));
    let one = format!("{all}/*-stable");
    let changed = root.patch(&one, json!({"allow_force_push": true, "allowed_to_push": [{"access_level": 30}]})).await;
    let changed = changed.expect(200).json();
    assert_eq!((&changed["allow_force_push"], levels(&changed, "push_access_levels")), (&json!(true), vec![30]));
    assert_eq!(root.get(&one).await.expect(200).json(), changed);
    let taken = root.post(&all, json!({"name": "*-stable"})).await.expect(409);
    assert_eq!(taken.message(), "Protected branch '*-stable' already exists");
    root.post(&all, json!({"name": "a..b"})).await.expect(400);
    // A group has roles only.
    let refused = root.post(&all, json!({"name": "x", "allowed_to_push": [{"user_id": 1}]})).await.expect(400);
    assert_eq!(refused.message(), "allowed_to_push[0][access_level] is missing");
    root.patch(&one, json!({"allowed_to_push": [{"user_id": 1}]})).await.expect(400);
    let twice = json!({"name": "x", "allowed_to_push": [{"access_level": 30}, {"access_level": 30}]});
    let refused = root.post(&all, twice).await.expect(422);
    assert_eq!(refused.message(), "Push access levels access level has already been taken");
    assert_eq!(root.get(&format!("{all}?search=STABLE")).await.expect(200).pluck("name"), ["*-stable"]);
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&one).await.expect(412);
    root.delete(&one).await.expect(204);
    root.delete(&one).await.expect(404);
    root.patch(&one, json!({})).await.expect(404);
    assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
}

async fn group_protection_requires_owner(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({"visibility": "public"})).await;
    let hidden = group(&root, "hidden", json!({"visibility": "private"})).await;
    let path = format!("/groups/{team}");
    protection(&root, &path, json!({"name": "main", "unprotect_access_level": 60})).await;
    let (all, one) = (format!("{path}/protected_branches"), format!("{path}/protected_branches/main"));
    for (level, user) in server.create_member_per_role(&root, team).await {
        let allowed = level == 50;
        user.client.get(&all).await.expect(if allowed { 200 } else { 403 });
        user.client.get(&one).await.expect(if allowed { 200 } else { 403 });
        let created = user.client.post(&all, json!({"name": format!("b{level}")})).await;
        created.expect(if allowed { 201 } else { 403 });
        // Only administrators can change this rule.
        let refused = user.client.patch(&one, json!({"allow_force_push": true})).await.expect(403);
        user.client.delete(&one).await.expect(403);
        if allowed {
            assert!(refused.message().contains("not allowed to change the protection"), "{}", refused.message());
            user.client.delete(&format!("{all}/b50")).await.expect(204);
            user.client.get(&format!("/groups/{hidden}/protected_branches")).await.expect(404);
        }
    }
    server.anonymous().get(&all).await.expect(401);
    server.anonymous().post(&all, json!({"name": "x"})).await.expect(401);
    root.patch(&one, json!({"allow_force_push": true})).await.expect(200);
    root.delete(&one).await.expect(204);
}

async fn projects_inherit_protections_of_all_groups_above(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let sub = group(&root, "sub", json!({"parent_id": top})).await;
    let project = project_in(&server, "p", sub).await;
    let other = Project::with_commits(&server, "other", Visibility::Private).await;
    let dev = project.member("dev", AccessLevel::Developer).await;
    protection(&root, &format!("/groups/{top}"), json!({"name": "feature/*"})).await;
    protection(&root, &format!("/groups/{sub}"), json!({"name": "sub", "push_access_level": 0})).await;
    let path = format!("/projects/{}", project.id);
    let listed = root.get(&format!("{path}/protected_branches")).await.expect(200);
    assert_eq!(listed.pluck("name"), ["main", "feature/*", "sub"]);
    assert_eq!(listed.pluck("inherited"), [false, true, true]);
    let of_sub = root.get(&format!("/groups/{sub}/protected_branches")).await.expect(200);
    assert_eq!(of_sub.pluck("name"), ["sub"]);
    let not_below = root.get(&format!("/projects/{}/protected_branches", other.id)).await.expect(200);
    assert_eq!(not_below.pluck("name"), ["main"]);
    // The rule applies to pushes, and the project cannot change it.
    let branch = project.url("/branches/feature%2Fx");
    let seen = dev.get(&branch).await.expect(200).json();
    assert_eq!((&seen["protected"], &seen["can_push"]), (&json!(true), &json!(false)));
    let commit = json!({"branch": "feature/x", "commit_message": "m", "content": "m"});
    dev.post(&project.url("/files/f"), commit.clone()).await.expect(400);
    let one = format!("{path}/protected_branches/feature%2F*");
    assert_eq!(root.get(&one).await.expect(200).json()["inherited"], true);
    let refused = root.patch(&one, json!({"allow_force_push": true})).await.expect(403);
    assert!(refused.message().contains("protected by a group"), "{}", refused.message());
    root.delete(&one).await.expect(403);
    root.put(&format!("{branch}/unprotect"), json!({})).await.expect(200);
    assert_eq!(root.get(&branch).await.expect(200).json()["protected"], true);
    // A rule of the project with the same name is independent and comes first.
    protection(&root, &path, json!({"name": "feature/*", "push_access_level": 30})).await;
    assert_eq!(root.get(&one).await.expect(200).json()["inherited"], false);
    dev.post(&project.url("/files/f"), commit.clone()).await.expect(201);
    root.delete(&one).await.expect(204);
    assert_eq!(root.get(&one).await.expect(200).json()["inherited"], true);
    dev.post(&project.url("/files/g"), commit.clone()).await.expect(400);
    // Inherited rules protect from the deletion of merged branches, and end with the group of the project.
    project.git(&["branch", "sub", "main~1"]);
    root.delete(&project.url("/merged_branches")).await.expect(202);
    server.finish_jobs().await;
    let branches = project.references("refs/heads/");
    assert!(branches.contains(&"sub".to_owned()) && !branches.contains(&"merged".to_owned()), "{branches:?}");
    root.put(&format!("{path}/transfer"), json!({"namespace": "root"})).await.expect(200);
    dev.post(&project.url("/files/g"), commit).await.expect(201);
}

async fn rules_of_groups_need_premium_plan(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    join(&root, &format!("/groups/{team}"), server.create_user("ann").await.id, 50).await;
    let all = format!("/groups/{team}/protected_branches");
    root.get(&all).await.expect(403);
    root.post(&all, json!({"name": "x"})).await.expect(403);
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    root.get(&format!("/projects/{}/protected_branches", project.id)).await.expect(200);
}

/// Options of a server on a plan without protected branches of groups.
fn starter() -> ConfigOptions {
    ConfigOptions { plan: Some("starter".to_owned()), ..ConfigOptions::default() }
}

on_every_database![
    group_protection_lifecycle,
    group_protection_requires_owner,
    projects_inherit_protections_of_all_groups_above,
    rules_of_groups_need_premium_plan with starter(),
];
