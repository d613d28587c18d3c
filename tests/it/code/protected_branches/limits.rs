//! The maximum number of protections, and projects with more of them than the maximum.

use sea_orm::{ActiveValue::Set, EntityTrait};
use serde_json::json;
use storage::entities::{AccessLevel, Visibility, now, protected_branches, protected_tags};

use crate::support::code::Project;
use crate::support::{TestServer, on_every_database};

/// Stores protections, which the API would refuse.
async fn store(server: &TestServer, project_id: i64, names: impl Iterator<Item = String>) {
    let (db, at) = (server.backend.database.write(), now());
    let rows: Vec<_> = names
        .map(|name| protected_branches::ActiveModel {
            project_id: Set(project_id),
            name: Set(name),
            push_access_level: Set(40),
            merge_access_level: Set(40),
            created_at: Set(at),
            updated_at: Set(at),
            ..Default::default()
        })
        .collect();
    for part in rows.chunks(1_000) {
        protected_branches::Entity::insert_many(part.to_vec()).exec(db).await.expect("rows");
    }
}

async fn project_has_maximum_of_protections(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let (branches, tags) = ("protected_branches", "protected_tags");
    store(&server, project.id, (0..198).map(|number| format!("b{number}"))).await;
    let url = |kind: &str| format!("/projects/{}/{kind}", project.id);
    root.post(&url(branches), json!({"name": "last"})).await.expect(201);
    let refused = root.post(&url(branches), json!({"name": "more"})).await.expect(400);
    assert_eq!(refused.message(), "The maximum number of protected branches (200) is reached");
    let older = root.put(&project.url("/branches/merged/protect"), json!({})).await.expect(400);
    assert_eq!(older.message(), refused.message());
    root.put(&project.url("/branches/main/protect"), json!({"developers_can_push": true})).await.expect(200);
    let at = now();
    let rows = (0..200).map(|number| protected_tags::ActiveModel {
        project_id: Set(project.id),
        name: Set(format!("v{number}")),
        create_access_level: Set(40),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    });
    protected_tags::Entity::insert_many(rows).exec(server.backend.database.write()).await.expect("rows");
    let refused = root.post(&url(tags), json!({"name": "more"})).await.expect(400);
    assert_eq!(refused.message(), "The maximum number of protected tags (200) is reached");
}

async fn ten_thousand_protections_are_listed_and_enforced(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let (root, developer) = (server.root(), project.member("dev", AccessLevel::Developer).await);
    store(&server, project.id, (0..10_000).map(|number| format!("*-{number}-*/x"))).await;
    for number in 0..100 {
        project.git(&["branch", &format!("a-{number}-b/x"), "main"]);
    }
    let all = format!("/projects/{}/protected_branches", project.id);
    let page = root.get(&format!("{all}?per_page=100&page=101")).await.expect(200);
    assert_eq!(page.json().as_array().map(Vec::len), Some(1), "the default branch and 10,000 more");
    assert_eq!(root.get(&format!("{all}?search=-9999-")).await.expect(200).pluck("name"), ["*-9999-*/x"]);
    root.post(&all, json!({"name": "more"})).await.expect(400);
    let before = server.statements();
    let listed = root.get(&project.url("/branches?per_page=100&search=-b/x")).await.expect(200);
    assert!(server.statements() - before <= 6);
    assert!(listed.pluck("protected").iter().all(|protected| *protected == json!(true)));
    let commit = json!({"branch": "a-99-b/x", "commit_message": "m", "content": "m"});
    developer.post(&project.url("/files/f"), commit).await.expect(400);
    let commit = json!({"branch": "feature/x", "commit_message": "m", "content": "m"});
    developer.post(&project.url("/files/f"), commit).await.expect(201);
    root.delete(&format!("{all}/*-9999-*%2Fx")).await.expect(204);
}

on_every_database![project_has_maximum_of_protections, ten_thousand_protections_are_listed_and_enforced];
