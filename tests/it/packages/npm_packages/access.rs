//! Roles, tokens and states of projects for npm packages.

use chrono::TimeDelta;
use domain::identity::job_tokens;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use super::{document, path, publish};
use crate::identity::deploy_tokens::{credentials, deploy_token};
use crate::packages::npm_packages::tags::set;
use crate::registry::registry_protocol::basic;
use crate::support::{Client, TestServer, on_every_database};

/// Sends each request of npm and returns the statuses: read the package, its archive and its tags, publish a version,
/// deprecate, set and delete a tag.
async fn statuses(server: &TestServer, client: &Client, project: i64) -> [u16; 7] {
    let root = server.root();
    let package = path(project, "tiny");
    let tags = format!("/projects/{project}/packages/npm/-/package/tiny/dist-tags");
    let deprecation = json!({ "name": "tiny", "versions": { "1.0.0": { "deprecated": "" } } });
    set(&root, project, "tiny", "old", &json!("1.0.0")).await;
    let number = rand::random::<u32>();
    let version = format!("2.0.0-{number}");
    let mut sent = document("tiny", &version, b"x");
    sent["dist-tags"] = json!({ "test": version });
    [
        client.get(&package).await.status,
        client.get(&format!("{package}/-/tiny-1.0.0.tgz")).await.status,
        client.get(&tags).await.status,
        client.put(&package, sent).await.status,
        client.put(&package, deprecation).await.status,
        set(client, project, "tiny", "next", &json!("1.0.0")).await.status,
        client.delete(&format!("{tags}/old")).await.status,
    ]
}

/// Creates the project `engines/a` with the package `tiny`.
async fn project_with_package(server: &TestServer, visibility: Visibility) -> i64 {
    let project = server.insert_project_at("engines/a", visibility).await.id;
    publish(&server.root(), project, "tiny", "1.0.0").await.expect(200);
    project
}

const ALL: [u16; 7] = [200, 200, 200, 200, 200, 204, 204];
const DEVELOPER: [u16; 7] = [200, 200, 200, 200, 200, 204, 403];
const READER: [u16; 7] = [200, 200, 200, 403, 403, 403, 403];

async fn roles_decide_about_private_packages(server: TestServer) {
    let project = project_with_package(&server, Visibility::Private).await;
    for (level, expected) in [
        (AccessLevel::Guest, [403; 7]),
        (AccessLevel::Reporter, READER),
        (AccessLevel::Developer, DEVELOPER),
        (AccessLevel::Maintainer, ALL),
        (AccessLevel::Owner, ALL),
    ] {
        let user = server.create_user(&format!("{level:?}").to_lowercase()).await;
        server.insert_member(project, user.id, level).await;
        assert_eq!(statuses(&server, &user.client, project).await, expected, "{level:?}");
    }
    let outsider = server.create_user("outsider").await;
    assert_eq!(statuses(&server, &outsider.client, project).await, [404; 7]);
    assert_eq!(statuses(&server, &server.anonymous(), project).await, [401; 7]);
    assert_eq!(statuses(&server, &server.with_token("wrong"), project).await, [401; 7]);
    assert_eq!(statuses(&server, &server.root(), project).await, ALL);
}

async fn everyone_reads_public_packages(server: TestServer) {
    let project = project_with_package(&server, Visibility::Public).await;
    let outsider = server.create_user("outsider").await;
    assert_eq!(statuses(&server, &outsider.client, project).await, READER);
    assert_eq!(statuses(&server, &server.anonymous(), project).await, [200, 200, 200, 401, 401, 401, 401]);
    assert_eq!(statuses(&server, &server.with_token("wrong"), project).await, [401; 7]);
}

async fn tokens_of_all_kinds_are_accepted(server: TestServer) {
    let project = project_with_package(&server, Visibility::Private).await;
    let root = server.root();
    let base_path = format!("/projects/{project}");
    let member = server.create_user("member").await;
    server.insert_member(project, member.id, AccessLevel::Maintainer).await;
    let hour = TimeDelta::hours(1);
    let db = server.backend.database.write();
    let (_, job) = job_tokens::create(db, member.id, project, hour).await.expect("a token");
    let bearer = |token: &str| server.anonymous().header("Authorization", &format!("Bearer {token}"));
    let with_basic = |name: &str, token: &str| server.anonymous().header("Authorization", &basic(name, token));
    for client in [
        bearer(&member.token),
        bearer(&job),
        server.anonymous().header("Job-Token", &job),
        with_basic("member", &member.token),
        with_basic("job", &job),
    ] {
        assert_eq!(statuses(&server, &client, project).await, ALL);
    }
    let deploy = async |scopes: &[&str]| deploy_token(&root, &base_path, scopes).await;
    for (created, expected) in [
        (deploy(&["read_package_registry"]).await, READER),
        (deploy(&["write_package_registry"]).await, DEVELOPER),
        (deploy(&["read_registry"]).await, [403; 7]),
    ] {
        let (name, token) = credentials(&created);
        for client in [bearer(token), server.anonymous().header("Deploy-Token", token), with_basic(name, token)] {
            assert_eq!(statuses(&server, &client, project).await, expected, "{created}");
        }
    }
    for (scopes, expected) in [(&["read_api"][..], READER), (&["read_user"], [403; 7]), (&["api"], ALL)] {
        let token = server.create_token(member.id, scopes).await;
        assert_eq!(statuses(&server, &bearer(&token), project).await, expected, "{scopes:?}");
    }
    let other = server.insert_project_at("other/b", Visibility::Private).await.id;
    publish(&root, other, "tiny", "1.0.0").await.expect(200);
    assert_eq!(statuses(&server, &bearer(&job), other).await, [404; 7]);
}

async fn disabled_and_archived_projects_refuse_requests(server: TestServer) {
    let project = project_with_package(&server, Visibility::Public).await;
    let root = server.root();
    let enable = async |enabled: bool| {
        root.put(&format!("/projects/{project}"), json!({ "packages_enabled": enabled })).await.expect(200);
    };
    enable(false).await;
    assert_eq!(statuses(&server, &root, project).await, [403; 7]);
    enable(true).await;
    root.post(&format!("/projects/{project}/archive"), json!({})).await.expect(201);
    let archived = statuses(&server, &root, project).await;
    assert_eq!(archived, [200, 200, 200, 403, 403, 403, 403]);
}

async fn changes_are_audited(server: TestServer) {
    let project = project_with_package(&server, Visibility::Private).await;
    let root = server.root();
    let tags = format!("/projects/{project}/packages/npm/-/package/tiny/dist-tags");
    for _ in 0..2 {
        set(&root, project, "tiny", "next", &json!("1.0.0")).await.expect(204);
        let deprecation = json!({ "name": "tiny", "versions": { "1.0.0": { "deprecated": "old" } } });
        root.put(&path(project, "tiny"), deprecation).await.expect(200);
    }
    root.delete(&format!("{tags}/next")).await.expect(204);
    let events = root.get(&format!("/projects/{project}/audit_events")).await.expect(200).json();
    let names: Vec<&Value> =
        events.as_array().expect("events").iter().rev().map(|each| &each["details"]["event_name"]).collect();
    assert_eq!(
        names,
        ["package_published", "package_tag_changed", "package_deprecation_changed", "package_tag_deleted"]
    );
    let details: Vec<&Value> = events.as_array().expect("events").iter().rev().map(|each| &each["details"]).collect();
    assert_eq!((&details[1]["target_details"], &details[1]["to"]), (&json!("tiny@next"), &json!("1.0.0")));
    assert_eq!(details[2]["to"], "old");
    assert_eq!(details[3]["target_details"], "tiny@next");
}

on_every_database![
    roles_decide_about_private_packages,
    everyone_reads_public_packages,
    tokens_of_all_kinds_are_accepted,
    disabled_and_archived_projects_refuse_requests,
    changes_are_audited,
];
