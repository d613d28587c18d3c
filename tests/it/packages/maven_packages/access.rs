//! Roles, tokens and states of projects for Maven packages.

use chrono::TimeDelta;
use domain::identity::job_tokens;
use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{counts, file, put};
use crate::identity::deploy_tokens::{credentials, deploy_token, expire};
use crate::registry::registry_protocol::basic;
use crate::support::{Client, TestServer, on_every_database};

const JAR: &str = "com/gear/1.0/gear-1.0.jar";

/// Sends each request of Maven and returns the statuses: download a file, a checksum and metadata, upload a file and a checksum.
async fn statuses(client: &Client, project: i64) -> [u16; 5] {
    [
        client.get(&file(project, JAR)).await.status,
        client.get(&file(project, &format!("{JAR}.sha1"))).await.status,
        client.get(&file(project, "com/gear/maven-metadata.xml")).await.status,
        put(client, project, JAR, "x").await.status,
        put(client, project, &format!("{JAR}.md5"), "9dd4e461268c8034f5c8564e155c67a6").await.status,
    ]
}

/// Creates the project `engines/a` with a package.
async fn project_with_package(server: &TestServer, visibility: Visibility) -> i64 {
    let project = server.insert_project_at("engines/a", visibility).await.id;
    put(&server.root(), project, JAR, "x").await.expect(200);
    project
}

const ALL: [u16; 5] = [200; 5];
const READER: [u16; 5] = [200, 200, 200, 403, 403];
const ANONYMOUS: [u16; 5] = [200, 200, 200, 401, 401];

async fn roles_decide_about_private_packages(server: TestServer) {
    let project = project_with_package(&server, Visibility::Private).await;
    for (level, expected) in [
        (AccessLevel::Guest, [403; 5]),
        (AccessLevel::Reporter, READER),
        (AccessLevel::Developer, ALL),
        (AccessLevel::Maintainer, ALL),
        (AccessLevel::Owner, ALL),
    ] {
        let user = server.create_user(&format!("{level:?}").to_lowercase()).await;
        server.insert_member(project, user.id, level).await;
        assert_eq!(statuses(&user.client, project).await, expected, "{level:?}");
        let group = server.root().get(&format!("/projects/{project}")).await.expect(200).json();
        let of_group = format!("/groups/{}/-/packages/maven/{JAR}", group["namespace"]["id"]);
        let status = if level == AccessLevel::Guest { 404 } else { 200 };
        user.client.get(&of_group).await.expect(status);
    }
    let outsider = server.create_user("outsider").await;
    assert_eq!(statuses(&outsider.client, project).await, [404; 5]);
    assert_eq!(statuses(&server.anonymous(), project).await, [401; 5]);
    assert_eq!(statuses(&server.root(), project).await, ALL);
    assert_eq!(statuses(&server.anonymous(), 999_999).await, [401; 5]);
}

async fn everyone_reads_public_packages(server: TestServer) {
    let project = project_with_package(&server, Visibility::Public).await;
    let outsider = server.create_user("outsider").await;
    assert_eq!(statuses(&outsider.client, project).await, READER);
    assert_eq!(statuses(&server.anonymous(), project).await, ANONYMOUS);
    let wrong = server.anonymous().header("Private-Token", "wrong");
    assert_eq!(statuses(&wrong, project).await, [401; 5]);
}

async fn tokens_are_accepted_in_headers_and_with_basic_authentication(server: TestServer) {
    let project = project_with_package(&server, Visibility::Private).await;
    let root = server.root();
    let ann = server.create_user("ann").await;
    server.insert_member(project, ann.id, AccessLevel::Developer).await;
    let db = server.backend.database.write();
    let (_, job) = job_tokens::create(db, ann.id, project, TimeDelta::hours(1)).await.expect("a token");
    let base_path = format!("/projects/{project}");
    let writer = deploy_token(&root, &base_path, &["write_package_registry"]).await;
    let reader = deploy_token(&root, &base_path, &["read_package_registry"]).await;
    let narrow = server.create_token(ann.id, &["read_api"]).await;
    for (name, value, expected) in [
        ("Private-Token", ann.token.clone(), ALL),
        ("Authorization", format!("Bearer {}", ann.token), ALL),
        ("Authorization", basic("ann", &ann.token), ALL),
        ("Job-Token", job.clone(), ALL),
        ("Authorization", basic("service-ci-token", &job), ALL),
        ("Deploy-Token", credentials(&writer).1.to_owned(), ALL),
        ("Authorization", basic(credentials(&writer).0, credentials(&writer).1), ALL),
        ("Deploy-Token", credentials(&reader).1.to_owned(), READER),
        ("Private-Token", narrow.clone(), READER),
        ("Private-Token", "wrong".to_owned(), [401; 5]),
        ("Deploy-Token", "wrong".to_owned(), [401; 5]),
        ("Job-Token", "wrong".to_owned(), [401; 5]),
        ("Authorization", basic("ann", "wrong"), [401; 5]),
    ] {
        let client = server.anonymous().header(name, &value);
        assert_eq!(statuses(&client, project).await, expected, "{name}");
    }
    let refused = server.anonymous().get(&file(project, JAR)).await.expect(401);
    assert_eq!(refused.header("www-authenticate"), "Basic realm=\"Holdfast\"");
    // A deploy token is valid only for its project.
    let other = server.insert_project_at("engines/other", Visibility::Private).await.id;
    let client = server.anonymous().header("Deploy-Token", credentials(&writer).1);
    assert_eq!(statuses(&client, other).await, [404; 5]);
    expire(&server, &writer).await;
    assert_eq!(statuses(&client, project).await, [401; 5]);
}

async fn disabled_packages_and_archived_projects_refuse(server: TestServer) {
    let project = project_with_package(&server, Visibility::Private).await;
    let (root, path) = (server.root(), format!("/projects/{project}"));
    root.put(&path, json!({ "packages_enabled": false })).await.expect(200);
    let before = counts(&server).await;
    assert_eq!(statuses(&root, project).await, [403; 5]);
    root.get(&format!("/packages/maven/engines/a/1.0/{JAR}")).await.expect(404);
    root.put(&path, json!({ "packages_enabled": true })).await.expect(200);
    root.post(&format!("{path}/archive"), json!({})).await.expect(201);
    assert_eq!(statuses(&root, project).await, READER);
    assert_eq!(counts(&server).await, before);
    root.post(&format!("{path}/unarchive"), json!({})).await.expect(201);
    assert_eq!(statuses(&root, project).await, ALL);
}

on_every_database![
    roles_decide_about_private_packages,
    everyone_reads_public_packages,
    tokens_are_accepted_in_headers_and_with_basic_authentication,
    disabled_packages_and_archived_projects_refuse,
];
