//! `protect_branch` and `unprotect_branch` on protections with grants, and rows of servers of the previous version.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};
use serde_json::json;
use storage::entities::{AccessLevel, Visibility, protected_branches};

use super::{levels, protection};
use crate::support::code::Project;
use crate::support::git::{Work, address};
use crate::support::{TestServer, on_every_database};

async fn protect_replaces_roles_and_preserves_grants(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let dev = server.create_user("dev").await;
    server.insert_member(project.id, dev.id, AccessLevel::Developer).await;
    let (root, path) = (server.root(), format!("/projects/{}", project.id));
    let body = json!({
        "name": "merged", "push_access_level": 0, "allow_force_push": true, "unprotect_access_level": 60,
        "allowed_to_push": [{"user_id": dev.id}],
    });
    protection(&root, &path, body).await;
    let one = format!("{path}/protected_branches/merged");
    let branch = project.url("/branches/merged");
    assert_eq!(dev.client.get(&branch).await.json()["can_push"], true);
    let shown = root.put(&format!("{branch}/protect"), json!({"developers_can_push": true})).await.expect(200).json();
    assert_eq!((&shown["developers_can_push"], &shown["developers_can_merge"]), (&json!(true), &json!(false)));
    let after = root.get(&one).await.expect(200).json();
    assert_eq!((levels(&after, "push_access_levels"), levels(&after, "merge_access_levels")), (vec![30, 40], vec![40]));
    assert_eq!(after["push_access_levels"][1]["user_id"], dev.id);
    assert_eq!((&after["allow_force_push"], levels(&after, "unprotect_access_levels")), (&json!(true), vec![60]));
    root.put(&format!("{branch}/protect"), json!({"developers_can_push": false})).await.expect(200);
    assert_eq!(levels(&root.get(&one).await.expect(200).json(), "push_access_levels"), [40, 40]);
    root.put(&format!("{branch}/unprotect"), json!({})).await.expect(200);
    root.get(&one).await.expect(404);
}

async fn protect_creates_protection_of_both_operations(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let (root, path) = (server.root(), format!("/projects/{}", project.id));
    let body = json!({"developers_can_merge": true});
    root.put(&project.url("/branches/merged/protect"), body).await.expect(200);
    let found = root.get(&format!("{path}/protected_branches/merged")).await.expect(200).json();
    assert_eq!((levels(&found, "push_access_levels"), levels(&found, "merge_access_levels")), (vec![40], vec![30]));
    assert_eq!((&found["unprotect_access_levels"], &found["allow_force_push"]), (&json!([]), &json!(false)));
    root.delete(&format!("{path}/protected_branches/merged")).await.expect(204);
    assert_eq!(root.get(&project.url("/branches/merged")).await.json()["protected"], false);
}

/// A server of the previous version knows only the roles of a row. Both versions read the same columns.
async fn roles_of_previous_version_are_enforced_and_shown(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    project.protect("feature/*", 0, 30).await;
    let one = format!("/projects/{}/protected_branches/feature%2F*", project.id);
    let found = server.root().get(&one).await.expect(200).json();
    assert_eq!((levels(&found, "push_access_levels"), levels(&found, "merge_access_levels")), (vec![0], vec![30]));
    let db = server.backend.database.write();
    let row = protected_branches::named(project.id, "feature/*").one(db).await.expect("a query").expect("a row");
    let mut row = row.into_active_model();
    row.push_access_level = Set(30);
    let row = row.update(db).await.expect("an update");
    assert_eq!(developer.get(&project.url("/branches/feature%2Fx")).await.json()["can_push"], true);
    let body = json!({"allowed_to_push": [{"access_level": 60}, {"id": found["push_access_levels"][0]["id"], "_destroy": true}]});
    server.root().patch(&one, body).await.expect(200);
    let stored = protected_branches::named(project.id, "feature/*").one(db).await.expect("a query").expect("a row");
    assert_eq!((stored.id, stored.push_access_level, stored.merge_access_level), (row.id, 60, 30));
}

async fn first_push_protects_default_branch(server: TestServer) {
    let project = Project::empty(&server, "engine", Visibility::Private).await;
    let max = server.create_user("max").await;
    server.insert_member(project.id, max.id, AccessLevel::Maintainer).await;
    let work = Work::new().await;
    let url = address(&server.base, "max", &max.token, "root/engine");
    work.git(&["push", "--quiet", &url, "main"]).await;
    let all = format!("/projects/{}/protected_branches", project.id);
    let listed = server.root().get(&all).await.expect(200).json();
    assert_eq!((&listed[0]["name"], listed.as_array().map(Vec::len)), (&json!("main"), Some(1)));
    assert_eq!(
        (levels(&listed[0], "push_access_levels"), levels(&listed[0], "merge_access_levels")),
        (vec![40], vec![40])
    );
    // A rule that exists before the first push is not replaced.
    let other = Project::empty(&server, "other", Visibility::Private).await;
    protection(&server.root(), &format!("/projects/{}", other.id), json!({"name": "main", "push_access_level": 30}))
        .await;
    let url = address(&server.base, "root", crate::support::server::ROOT_TOKEN, "root/other");
    work.git(&["push", "--quiet", &url, "main"]).await;
    let listed = server.root().get(&format!("/projects/{}/protected_branches", other.id)).await.expect(200).json();
    assert_eq!((levels(&listed[0], "push_access_levels"), listed.as_array().map(Vec::len)), (vec![30], Some(1)));
}

on_every_database![
    protect_replaces_roles_and_preserves_grants,
    protect_creates_protection_of_both_operations,
    roles_of_previous_version_are_enforced_and_shown,
    first_push_protects_default_branch,
];
