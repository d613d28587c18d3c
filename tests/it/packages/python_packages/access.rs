//! Roles, tokens and states of projects for Python packages.

use chrono::TimeDelta;
use domain::identity::job_tokens;
use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{Upload, sha256, upload, wheel};
use crate::identity::deploy_tokens::{credentials, deploy_token};
use crate::registry::registry_protocol::basic;
use crate::support::{Client, TestServer, on_every_database};

/// Sends each request of pip and twine and returns the statuses: read the index, a package and its file, and upload a file.
async fn statuses(client: &Client, project: i64) -> [u16; 4] {
    let base = format!("/projects/{project}/packages/pypi");
    let file_name = wheel("a", "1.0");
    let digest = sha256(file_name.as_bytes());
    let version = format!("2.0.{}", rand::random::<u32>());
    let uploaded = wheel("a", &version);
    [
        client.get(&format!("{base}/simple/")).await.status,
        client.get(&format!("{base}/simple/a/")).await.status,
        client.get(&format!("{base}/files/{digest}/{file_name}")).await.status,
        Upload::new("a", &version, &uploaded, b"x").send(client, project).await.status,
    ]
}

/// Creates the project `engines/a` with the package `a`.
async fn project_with_package(server: &TestServer, visibility: Visibility) -> i64 {
    let project = server.insert_project_at("engines/a", visibility).await.id;
    upload(&server.root(), project, "a", "1.0").await.expect(201);
    project
}

const ALL: [u16; 4] = [200, 200, 200, 201];
const READER: [u16; 4] = [200, 200, 200, 403];

async fn roles_decide_about_private_packages(server: TestServer) {
    let project = project_with_package(&server, Visibility::Private).await;
    for (level, expected) in [
        (AccessLevel::Guest, [403; 4]),
        (AccessLevel::Reporter, READER),
        (AccessLevel::Developer, ALL),
        (AccessLevel::Maintainer, ALL),
        (AccessLevel::Owner, ALL),
    ] {
        let user = server.create_user(&format!("{level:?}").to_lowercase()).await;
        server.insert_member(project, user.id, level).await;
        assert_eq!(statuses(&user.client, project).await, expected, "{level:?}");
    }
    let outsider = server.create_user("outsider").await;
    assert_eq!(statuses(&outsider.client, project).await, [404; 4]);
    assert_eq!(statuses(&server.anonymous(), project).await, [401; 4]);
    assert_eq!(statuses(&server.root(), project).await, ALL);
    let asked = server.anonymous().get(&format!("/projects/{project}/packages/pypi/simple/a/")).await.expect(401);
    assert_eq!(asked.header("www-authenticate"), "Basic realm=\"Holdfast\"");
}

async fn everyone_reads_public_packages(server: TestServer) {
    let project = project_with_package(&server, Visibility::Public).await;
    let outsider = server.create_user("outsider").await;
    assert_eq!(statuses(&outsider.client, project).await, READER);
    assert_eq!(statuses(&server.anonymous(), project).await, [200, 200, 200, 401]);
    let wrong = server.anonymous().header("Authorization", &basic("__token__", "wrong"));
    assert_eq!(statuses(&wrong, project).await, [401; 4]);
}

async fn tokens_of_all_kinds_are_accepted(server: TestServer) {
    let project = project_with_package(&server, Visibility::Private).await;
    let root = server.root();
    let base_path = format!("/projects/{project}");
    let member = server.create_user("member").await;
    server.insert_member(project, member.id, AccessLevel::Developer).await;
    let db = server.backend.database.write();
    let (_, job) = job_tokens::create(db, member.id, project, TimeDelta::hours(1)).await.expect("a token");
    let with_basic = |name: &str, token: &str| server.anonymous().header("Authorization", &basic(name, token));
    for (name, token) in [("__token__", &member.token), ("anything", &member.token), ("ci-token", &job)] {
        assert_eq!(statuses(&with_basic(name, token), project).await, ALL, "{name}");
    }
    let created = deploy_token(&root, &base_path, &["read_package_registry"]).await;
    let (name, token) = credentials(&created);
    assert_eq!(statuses(&with_basic(name, token), project).await, READER);
    let created = deploy_token(&root, &base_path, &["write_package_registry"]).await;
    let (name, token) = credentials(&created);
    assert_eq!(statuses(&with_basic(name, token), project).await, ALL);
    assert_eq!(statuses(&with_basic("other", token), project).await, [401; 4]);
    let narrow = server.create_token(member.id, &["read_user"]).await;
    assert_eq!(statuses(&with_basic("__token__", &narrow), project).await, [403; 4]);
}

async fn disabled_and_archived_projects_refuse_requests(server: TestServer) {
    let project = project_with_package(&server, Visibility::Public).await;
    let root = server.root();
    root.put(&format!("/projects/{project}"), json!({ "packages_enabled": false })).await.expect(200);
    assert_eq!(statuses(&root, project).await, [403; 4]);
    root.put(&format!("/projects/{project}"), json!({ "packages_enabled": true })).await.expect(200);
    root.post(&format!("/projects/{project}/archive"), json!({})).await.expect(201);
    assert_eq!(statuses(&root, project).await, READER);
}

on_every_database![
    roles_decide_about_private_packages,
    everyone_reads_public_packages,
    tokens_of_all_kinds_are_accepted,
    disabled_and_archived_projects_refuse_requests,
];
