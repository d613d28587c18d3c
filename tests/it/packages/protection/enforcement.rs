//! Uploads and deletions of protected packages.

use chrono::TimeDelta;
use domain::identity::job_tokens;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use super::rule;
use crate::identity::deploy_tokens::{credentials, deploy_token};
use crate::packages::cargo_packages;
use crate::packages::npm_packages::{self, tags};
use crate::packages::python_packages;
use crate::packages::{file_path, package, upload};
use crate::support::slow_request::SlowRequest;
use crate::support::spaces::{id, project};
use crate::support::{Client, TestServer, on_every_database};

const PUSH: &str = "403 Forbidden - Package protected.";
const DELETE: &str = "403 Forbidden - Package is deletion protected.";
const KINDS: [&str; 4] = ["generic", "npm", "pypi", "cargo"];

/// Creates the packages `gear` of all formats. Returns the IDs of the packages.
async fn packages_of_all_formats(root: &Client, project: i64) -> Vec<i64> {
    package(root, &format!("/projects/{project}"), "gear", "1.0.0").await;
    npm_packages::publish(root, project, "gear", "1.0.0").await.expect(200);
    tags::set(root, project, "gear", "old", &json!("1.0.0")).await.expect(204);
    python_packages::upload(root, project, "gear", "1.0").await.expect(201);
    cargo_packages::publish(root, project, "gear", "1.0.0").await.expect(200);
    let listed = root.get(&format!("/projects/{project}/packages")).await.expect(200).json();
    listed.as_array().expect("a list").iter().map(id).collect()
}

/// Sends each request that changes the packages, and returns the statuses and the different messages of refusals.
async fn pushes(client: &Client, project: i64) -> (Vec<u16>, Vec<String>) {
    let number = rand::random::<u32>();
    let path = format!("/projects/{project}");
    let npm = format!("{path}/packages/npm/gear");
    let deprecation = json!({ "name": "gear", "versions": { "1.0.0": { "deprecated": format!("{number}") } } });
    let responses = [
        upload(client, &path, ["gear", "1.0.0", &format!("f{number}")], b"x").await,
        upload(client, &path, ["gear", &format!("1.0.{number}"), "f"], b"x").await,
        npm_packages::publish(client, project, "gear", &format!("1.0.0-{number}")).await,
        client.put(&npm, deprecation).await,
        tags::set(client, project, "gear", "next", &json!("1.0.0")).await,
        python_packages::upload(client, project, "Gear", &format!("1.{number}")).await,
        cargo_packages::publish(client, project, "gear", &format!("1.0.0-{number}")).await,
        cargo_packages::set_yanked(client, project, "gear", "1.0.0", true).await,
        cargo_packages::set_yanked(client, project, "gear", "1.0.0", false).await,
    ];
    let mut texts: Vec<String> =
        responses.iter().filter(|response| response.status == 403).map(|response| response.message()).collect();
    texts.dedup();
    (responses.iter().map(|response| response.status).collect(), texts)
}

const PUSHED: [u16; 9] = [201, 201, 200, 200, 204, 201, 200, 200, 200];

async fn uploads_require_the_level_of_all_matching_rules(server: TestServer) {
    let private = server.insert_project_at("g/p", Visibility::Private).await.id;
    let root = server.root();
    packages_of_all_formats(&root, private).await;
    let mut clients = Vec::new();
    for level in [AccessLevel::Developer, AccessLevel::Maintainer, AccessLevel::Owner] {
        let user = server.create_user(&format!("{level:?}").to_lowercase()).await;
        server.insert_member(private, user.id, level).await;
        clients.push(user.client);
    }
    clients.push(root.clone());
    for client in &clients {
        assert_eq!(pushes(client, private).await, (PUSHED.to_vec(), vec![]));
    }
    let refused = (vec![403; 9], vec![PUSH.to_owned()]);
    let mut ids = Vec::new();
    // Further rules with other patterns or only for deletions change nothing.
    for kind in KINDS {
        rule(&root, private, kind, "gearbox", [Some("admin"), None]).await;
        rule(&root, private, kind, "GEAR?", [Some("admin"), None]).await;
        rule(&root, private, kind, "*", [None, Some("admin")]).await;
        ids.push(id(&rule(&root, private, kind, "g*r", [Some("maintainer"), None]).await));
    }
    for (level, first) in [("maintainer", 1), ("owner", 2), ("admin", 3)] {
        for rule in &ids {
            let path = format!("{}/{rule}", super::rules(private));
            root.patch(&path, json!({ "minimum_access_level_for_push": level })).await.expect(200);
        }
        for (position, client) in clients.iter().enumerate() {
            let expected = if position < first { refused.clone() } else { (PUSHED.to_vec(), vec![]) };
            assert_eq!(pushes(client, private).await, expected, "{level} {position}");
        }
    }
    // All matching rules must allow a change.
    for kind in KINDS {
        rule(&root, private, kind, "**", [Some("admin"), None]).await;
        rule(&root, private, kind, "gear", [Some("maintainer"), None]).await;
    }
    assert_eq!(pushes(&clients[2], private).await, refused);
    assert_eq!(pushes(&root, private).await, (PUSHED.to_vec(), vec![]));
}

async fn deploy_and_job_tokens_do_not_pass_a_rule(server: TestServer) {
    let private = server.insert_project_at("g/p", Visibility::Private).await.id;
    let root = server.root();
    packages_of_all_formats(&root, private).await;
    let created = deploy_token(&root, &format!("/projects/{private}"), &["write_package_registry"]).await;
    let db = server.backend.database.write();
    let (_, job) = job_tokens::create(db, 1, private, TimeDelta::hours(1)).await.expect("a token");
    let clients = [
        server.anonymous().header("Deploy-Token", credentials(&created).1),
        server.anonymous().header("Job-Token", &job),
    ];
    for client in &clients {
        assert_eq!(pushes(client, private).await, (PUSHED.to_vec(), vec![]));
    }
    for kind in KINDS {
        rule(&root, private, kind, "gear", [Some("maintainer"), Some("maintainer")]).await;
    }
    for client in &clients {
        assert_eq!(pushes(client, private).await, (vec![403; 9], vec![PUSH.to_owned()]));
        client.get(&file_path(&format!("/projects/{private}"), ["gear", "1.0.0", "there"])).await.expect(200);
    }
    let listed = root.get(&format!("/projects/{private}/packages")).await.expect(200).json();
    let one = format!("/projects/{private}/packages/{}", listed[0]["id"]);
    assert_eq!(clients[1].delete(&one).await.expect(403).message(), DELETE);
    assert_eq!(pushes(&root, private).await, (PUSHED.to_vec(), vec![]));
    root.delete(&one).await.expect(204);
}

async fn deletions_require_the_level_of_the_rule(server: TestServer) {
    let private = server.insert_project_at("g/p", Visibility::Private).await.id;
    let root = server.root();
    let ids = packages_of_all_formats(&root, private).await;
    let all = format!("/projects/{private}/packages");
    let mut clients = Vec::new();
    for level in [AccessLevel::Maintainer, AccessLevel::Owner] {
        let user = server.create_user(&format!("{level:?}").to_lowercase()).await;
        server.insert_member(private, user.id, level).await;
        clients.push(user.client);
    }
    for kind in KINDS {
        rule(&root, private, kind, "gear", [None, Some("owner")]).await;
    }
    for package in &ids {
        let one = format!("{all}/{package}");
        let files = root.get(&format!("{one}/package_files")).await.expect(200).json();
        let file = format!("{one}/package_files/{}", files[0]["id"]);
        for path in [&one, &file] {
            assert_eq!(clients[0].delete(path).await.expect(403).message(), DELETE);
        }
        root.get(&one).await.expect(200);
        clients[1].delete(&file).await.expect(204);
        root.get(&one).await.expect(404);
    }
    // Packages with other names are not protected.
    let (other, _) = package(&root, &format!("/projects/{private}"), "other", "1").await;
    clients[0].delete(&format!("{all}/{other}")).await.expect(204);
    // A tag of npm decides which version is installed, as an upload does.
    npm_packages::publish(&root, private, "gear", "1.0.0").await.expect(200);
    tags::set(&root, private, "gear", "old", &json!("1.0.0")).await.expect(204);
    let tag = format!("{all}/npm/-/package/gear/dist-tags/old");
    rule(&root, private, "npm", "*", [Some("owner"), None]).await;
    assert_eq!(clients[0].delete(&tag).await.expect(403).message(), PUSH);
    clients[1].delete(&tag).await.expect(204);
}

async fn other_spellings_of_a_name_are_protected(server: TestServer) {
    let private = server.insert_project_at("g/p", Visibility::Private).await.id;
    let root = server.root();
    let ann = server.create_user("ann").await;
    server.insert_member(private, ann.id, AccessLevel::Developer).await;
    rule(&root, private, "pypi", "Analytical-*", [Some("maintainer"), None]).await;
    rule(&root, private, "cargo", "gear_*", [Some("maintainer"), None]).await;
    rule(&root, private, "npm", "@engines/*", [Some("maintainer"), None]).await;
    for name in ["analytical.engine", "Analytical_Engine", "ANALYTICAL--x"] {
        python_packages::upload(&ann.client, private, name, "1.0").await.expect(403);
    }
    for name in ["gear-ratio", "Gear_x"] {
        cargo_packages::publish(&ann.client, private, name, "1.0.0").await.expect(403);
    }
    npm_packages::publish(&ann.client, private, "@engines/web", "1.0.0").await.expect(403);
    python_packages::upload(&ann.client, private, "analytical", "1.0").await.expect(201);
    cargo_packages::publish(&ann.client, private, "gears", "1.0.0").await.expect(200);
    npm_packages::publish(&ann.client, private, "@engine/web", "1.0.0").await.expect(200);
    // Rules of another project or format do not apply.
    npm_packages::publish(&ann.client, private, "gear_x", "1.0.0").await.expect(200);
    let other = project(&ann.client, "other", json!({})).await;
    cargo_packages::publish(&ann.client, other, "gear-ratio", "1.0.0").await.expect(200);
    let lists: Vec<Value> = root.get(&format!("/projects/{private}/packages")).await.expect(200).pluck("package_type");
    assert_eq!(lists, ["pypi", "cargo", "npm", "npm"]);
}

async fn rule_created_during_an_upload_applies(server: TestServer) {
    let private = server.insert_project_at("g/p", Visibility::Private).await.id;
    let root = server.root();
    let ann = server.create_user("ann").await;
    server.insert_member(private, ann.id, AccessLevel::Developer).await;
    let path = format!("/projects/{private}");
    let line = format!("PUT /api/v4{}", file_path(&path, ["gear", "1", "f"]));
    let begin =
        async || SlowRequest::begin(&server.base, &line, &[("Private-Token", ann.token.as_str())], vec![7; 100]).await;
    let request = begin().await;
    let created = rule(&root, private, "generic", "gear", [Some("maintainer"), None]).await;
    assert_eq!(request.finish().await.expect(403).message(), PUSH);
    assert_eq!(root.get(&format!("{path}/packages")).await.expect(200).json(), json!([]));
    assert_eq!(server.backend.objects.keys(Some("packages")).await.expect("keys"), [""; 0]);
    let request = begin().await;
    root.delete(&format!("{}/{}", super::rules(private), created["id"])).await.expect(204);
    request.finish().await.expect(201);
}

on_every_database![
    uploads_require_the_level_of_all_matching_rules,
    deploy_and_job_tokens_do_not_pass_a_rule,
    deletions_require_the_level_of_the_rule,
    other_spellings_of_a_name_are_protected,
    rule_created_during_an_upload_applies,
];
