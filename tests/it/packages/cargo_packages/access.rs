//! Roles, tokens and states of projects for crates.

use chrono::TimeDelta;
use domain::identity::job_tokens;
use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{counts, publish, registry, set_yanked, version_path};
use crate::identity::deploy_tokens::{credentials, deploy_token, expire};
use crate::registry::registry_protocol::basic;
use crate::support::{Client, TestServer, on_every_database};

/// Sends each request of Cargo and returns the statuses: read the configuration, the index and an archive, publish a version,
/// yank, and undo the yank.
async fn statuses(client: &Client, project: i64) -> [u16; 6] {
    let version = format!("2.0.0-{}", rand::random::<u32>());
    [
        client.get(&format!("{}/config.json", registry(project))).await.status,
        client.get(&format!("{}/ge/ar/gear", registry(project))).await.status,
        client.get(&version_path(project, "gear", "1.0.0", "download")).await.status,
        publish(client, project, "gear", &version).await.status,
        set_yanked(client, project, "gear", "1.0.0", true).await.status,
        set_yanked(client, project, "gear", "1.0.0", false).await.status,
    ]
}

/// Creates the project `engines/a` with the crate `gear`.
async fn project_with_crate(server: &TestServer, visibility: Visibility) -> i64 {
    let project = server.insert_project_at("engines/a", visibility).await.id;
    publish(&server.root(), project, "gear", "1.0.0").await.expect(200);
    project
}

const ALL: [u16; 6] = [200; 6];
const READER: [u16; 6] = [200, 200, 200, 403, 403, 403];
const ANONYMOUS: [u16; 6] = [200, 200, 200, 401, 401, 401];

async fn roles_decide_about_private_crates(server: TestServer) {
    let project = project_with_crate(&server, Visibility::Private).await;
    for (level, expected) in [
        (AccessLevel::Guest, [403; 6]),
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
    assert_eq!(statuses(&outsider.client, project).await, [404; 6]);
    assert_eq!(statuses(&server.anonymous(), project).await, [401; 6]);
    assert_eq!(statuses(&server.root(), project).await, ALL);
    assert_eq!(statuses(&server.anonymous(), 999_999).await, [401; 6]);
}

async fn everyone_reads_public_crates(server: TestServer) {
    let project = project_with_crate(&server, Visibility::Public).await;
    let outsider = server.create_user("outsider").await;
    assert_eq!(statuses(&outsider.client, project).await, READER);
    assert_eq!(statuses(&server.anonymous(), project).await, ANONYMOUS);
}

async fn token_is_accepted_without_a_scheme(server: TestServer) {
    let project = project_with_crate(&server, Visibility::Private).await;
    let root = server.root();
    let ann = server.create_user("ann").await;
    server.insert_member(project, ann.id, AccessLevel::Developer).await;
    let db = server.backend.database.write();
    let (_, job) = job_tokens::create(db, ann.id, project, TimeDelta::hours(1)).await.expect("a token");
    let base_path = format!("/projects/{project}");
    let writer = deploy_token(&root, &base_path, &["write_package_registry"]).await;
    let reader = deploy_token(&root, &base_path, &["read_package_registry"]).await;
    let narrow = server.create_token(ann.id, &["read_api"]).await;
    for (token, expected) in [
        (ann.token.as_str(), ALL),
        (job.as_str(), ALL),
        (credentials(&writer).1, ALL),
        (credentials(&reader).1, READER),
        (narrow.as_str(), READER),
    ] {
        for value in [token.to_owned(), format!("Bearer {token}"), format!("bearer {token}")] {
            let client = server.anonymous().header("Authorization", &value);
            assert_eq!(statuses(&client, project).await, expected, "{value}");
        }
    }
    let basic = server.anonymous().header("Authorization", &basic("__token__", &ann.token));
    assert_eq!(statuses(&basic, project).await, ALL);
    assert_eq!(statuses(&server.anonymous().header("Deploy-Token", credentials(&writer).1), project).await, ALL);
    // A job token is valid only for the project of the job.
    let other = server.insert_project_at("engines/other", Visibility::Private).await.id;
    server.insert_member(other, ann.id, AccessLevel::Developer).await;
    assert_eq!(statuses(&server.anonymous().header("Authorization", &job), other).await, [404; 6]);
    // Expired tokens.
    expire(&server, &writer).await;
    let expired = server.anonymous().header("Authorization", credentials(&writer).1);
    assert_eq!(statuses(&expired, project).await, [401; 6]);
}

async fn wrong_token_is_refused_for_public_projects_too(server: TestServer) {
    let project = project_with_crate(&server, Visibility::Public).await;
    for value in ["wrong", "Bearer wrong", "Bearer", "Basic", "Digest x", "a b c", "hfdt-unknown"] {
        let client = server.anonymous().header("Authorization", value);
        assert_eq!(statuses(&client, project).await, [401; 6], "{value}");
    }
    let refused = publish(&server.anonymous().header("Authorization", "wrong"), project, "gear", "3.0.0").await;
    let refused = refused.expect(401);
    assert_eq!(refused.header("www-authenticate"), "Basic realm=\"Holdfast\"");
    assert_eq!(refused.json()["errors"][0]["detail"], refused.message());
    // Other operations do not accept a token without a scheme.
    let root = server.anonymous().header("Authorization", crate::support::server::ROOT_TOKEN);
    assert_eq!(statuses(&root, project).await, ALL);
    root.get(&format!("/projects/{project}/packages")).await.expect(401);
    root.get(&format!("/projects/{project}/packages/npm/tiny")).await.expect(401);
    root.get("/user").await.expect(401);
}

async fn disabled_packages_and_archived_projects_refuse(server: TestServer) {
    let project = project_with_crate(&server, Visibility::Private).await;
    let (root, path) = (server.root(), format!("/projects/{project}"));
    let disabled = json!({ "packages_enabled": false });
    root.put(&path, disabled).await.expect(200);
    let before = counts(&server).await;
    assert_eq!(statuses(&root, project).await, [403; 6]);
    let refused = root.get(&format!("{}/config.json", registry(project))).await.expect(403);
    let text = "403 Forbidden - The package registry of this project is disabled.";
    assert_eq!(refused.json()["errors"], json!([{ "detail": text }]));
    root.put(&path, json!({ "packages_enabled": true })).await.expect(200);
    root.post(&format!("{path}/archive"), json!({})).await.expect(201);
    assert_eq!(statuses(&root, project).await, READER);
    assert_eq!(counts(&server).await, before);
    root.post(&format!("{path}/unarchive"), json!({})).await.expect(201);
    assert_eq!(statuses(&root, project).await, ALL);
}

on_every_database![
    roles_decide_about_private_crates,
    everyone_reads_public_crates,
    token_is_accepted_without_a_scheme,
    wrong_token_is_refused_for_public_projects_too,
    disabled_packages_and_archived_projects_refuse,
];
