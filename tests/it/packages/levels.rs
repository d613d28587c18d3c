//! Access levels of the packages of projects.

use chrono::TimeDelta;
use domain::identity::job_tokens;
use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{cargo_packages, file_path, maven_packages, npm_packages, package, python_packages, upload};
use crate::identity::deploy_tokens::{credentials, deploy_token};
use crate::support::{Client, TestServer, on_every_database};

const JAR: &str = "com/gear/1.0/gear-1.0.jar";
const CHALLENGE: &str = "Basic realm=\"Holdfast\"";
const DISABLED: &str = "403 Forbidden - The package registry of this project is disabled.";
const FOR_MEMBERS: &str = "403 Forbidden - Only members of this project can use its package registry.";

/// A public project `engines/open` with a package of each format.
struct Packages {
    id: i64,
    path: String,
    /// Reads by clients of packages.
    client_reads: Vec<String>,
    /// Reads by the other operations.
    reads: Vec<String>,
}

impl Packages {
    async fn new(server: &TestServer) -> Self {
        let id = server.insert_project_at("engines/open", Visibility::Public).await.id;
        let (root, path) = (server.root(), format!("/projects/{id}"));
        let (package_id, file) = package(&root, &path, "a", "1").await;
        npm_packages::publish(&root, id, "tiny", "1.0.0").await.expect(200);
        python_packages::upload(&root, id, "gear", "1.0").await.expect(201);
        cargo_packages::publish(&root, id, "gear", "1.0.0").await.expect(200);
        maven_packages::put(&root, id, JAR, "x").await.expect(200);
        let wheel = python_packages::wheel("gear", "1.0");
        let digest = python_packages::sha256(wheel.as_bytes());
        let below = |rest: &str| format!("{path}/packages/{rest}");
        let client_reads = vec![
            file_path(&path, ["a", "1", "there"]),
            below("npm/tiny"),
            below("npm/tiny/-/tiny-1.0.0.tgz"),
            below("npm/-/package/tiny/dist-tags"),
            below("pypi/simple"),
            below("pypi/simple/gear"),
            below(&format!("pypi/files/{digest}/{wheel}")),
            below("cargo/config.json"),
            below("cargo/ge/ar/gear"),
            cargo_packages::version_path(id, "gear", "1.0.0", "download"),
            maven_packages::file(id, JAR),
            maven_packages::file(id, &format!("{JAR}.sha1")),
            maven_packages::file(id, "com/gear/maven-metadata.xml"),
        ];
        let one = below(&package_id.to_string());
        let reads = vec![
            format!("{path}/packages"),
            one.clone(),
            format!("{one}/package_files"),
            format!("{one}/package_files/{file}/download"),
        ];
        Self { id, path, client_reads, reads }
    }

    /// Sets the access level.
    async fn set(&self, server: &TestServer, level: &str) {
        let body = json!({ "package_registry_access_level": level });
        server.root().put(&self.path, body).await.expect(200);
    }

    /// Checks that all reads have a status, and the message of errors.
    async fn check(&self, client: &Client, status: u16, message: Option<&str>) {
        for path in self.client_reads.iter().chain(&self.reads) {
            let response = client.get(path).await;
            assert_eq!(response.status, status, "{path}");
            if let Some(message) = message {
                assert_eq!(response.message(), message, "{path}");
            }
        }
    }
}

async fn private_packages_are_available_to_members_only(server: TestServer) {
    let packages = Packages::new(&server).await;
    packages.check(&server.anonymous(), 200, None).await;
    packages.set(&server, "private").await;
    let (guest, stranger) = (server.create_user("guest").await, server.create_user("stranger").await);
    server.insert_member(packages.id, guest.id, AccessLevel::Guest).await;
    packages.check(&server.root(), 200, None).await;
    packages.check(&guest.client, 200, None).await;
    packages.check(&stranger.client, 403, Some(FOR_MEMBERS)).await;
    // A client is asked for credentials, because other clients send none before.
    packages.check(&server.anonymous(), 401, None).await;
    for path in &packages.client_reads {
        let refused = server.anonymous().get(path).await.expect(401);
        assert_eq!(refused.header("www-authenticate"), CHALLENGE, "{path}");
    }
    let created = deploy_token(&server.root(), &packages.path, &["read_package_registry"]).await;
    let deploy = server.anonymous().header("Deploy-Token", credentials(&created).1);
    for path in &packages.client_reads {
        deploy.get(path).await.expect(200);
    }
    let other = server.insert_project_at("engines/other", Visibility::Public).await.id;
    let created = deploy_token(&server.root(), &format!("/projects/{other}"), &["read_package_registry"]).await;
    let stray = server.anonymous().header("Deploy-Token", credentials(&created).1);
    for path in &packages.client_reads {
        assert!(matches!(stray.get(path).await.status, 403 | 404), "{path}");
    }
    let db = server.backend.database.write();
    for (user, status) in [(guest.id, 200), (stranger.id, 403)] {
        let (_, token) = job_tokens::create(db, user, packages.id, TimeDelta::hours(1)).await.expect("a token");
        packages.check(&server.anonymous().header("Job-Token", &token), status, None).await;
    }
    // Writes require the same roles as before.
    upload(&guest.client, &packages.path, ["a", "1", "f"], b"x").await.expect(403);
    let developer = server.create_user("developer").await;
    server.insert_member(packages.id, developer.id, AccessLevel::Developer).await;
    upload(&developer.client, &packages.path, ["a", "1", "f"], b"x").await.expect(201);
    npm_packages::publish(&developer.client, packages.id, "tiny", "2.0.0").await.expect(200);
    // In a private project, Guests have no packages, as with other levels.
    server.root().put(&packages.path, json!({ "visibility": "private" })).await.expect(200);
    packages.check(&guest.client, 403, Some("403 Forbidden")).await;
    packages.check(&developer.client, 200, None).await;
    packages.check(&stranger.client, 404, None).await;
}

async fn disabled_packages_are_refused_for_every_format(server: TestServer) {
    let packages = Packages::new(&server).await;
    packages.set(&server, "disabled").await;
    for client in [server.root(), server.anonymous()] {
        packages.check(&client, 403, Some(DISABLED)).await;
    }
    let created = deploy_token(&server.root(), &packages.path, &["write_package_registry"]).await;
    let deploy = server.anonymous().header("Deploy-Token", credentials(&created).1);
    for path in &packages.client_reads {
        assert_eq!(deploy.get(path).await.expect(403).message(), DISABLED, "{path}");
    }
    let (root, id) = (server.root(), packages.id);
    for response in [
        upload(&root, &packages.path, ["a", "1", "f"], b"x").await,
        npm_packages::publish(&root, id, "tiny", "2.0.0").await,
        python_packages::upload(&root, id, "gear", "2.0").await,
        cargo_packages::publish(&root, id, "gear", "2.0.0").await,
        cargo_packages::set_yanked(&root, id, "gear", "1.0.0", true).await,
        maven_packages::put(&root, id, JAR, "y").await,
        root.delete(&packages.reads[1]).await,
    ] {
        assert_eq!(response.expect(403).message(), DISABLED);
    }
    for rest in ["cleanup_policy", "protection/rules"] {
        let path = format!("{}/packages/{rest}", packages.path);
        assert_eq!(root.get(&path).await.expect(403).message(), DISABLED, "{path}");
    }
    packages.set(&server, "enabled").await;
    packages.check(&server.anonymous(), 200, None).await;
}

async fn lists_of_groups_omit_unavailable_packages(server: TestServer) {
    let root = server.root();
    for (name, visibility, level) in [
        ("enabled", Visibility::Public, "enabled"),
        ("members", Visibility::Public, "private"),
        ("internal", Visibility::Internal, "private"),
        ("hidden", Visibility::Private, "private"),
        ("disabled", Visibility::Public, "disabled"),
    ] {
        let id = server.insert_project_at(&format!("engines/{name}"), visibility).await.id;
        package(&root, &format!("/projects/{id}"), name, "1").await;
        npm_packages::publish(&root, id, &format!("@engines/{name}"), "1.0.0").await.expect(200);
        python_packages::upload(&root, id, name, "1.0").await.expect(201);
        let maven = format!("engines/{name}/1.0/{name}-1.0.jar");
        maven_packages::put(&root, id, &maven, "x").await.expect(200);
        let level = json!({ "package_registry_access_level": level });
        root.put(&format!("/projects/{id}"), level).await.expect(200);
    }
    let user = async |name: &str, role: Option<AccessLevel>| {
        let user = server.create_user(name).await;
        for project in ["members", "internal", "hidden", "disabled"] {
            let path = format!("/projects/engines%2F{project}");
            let id = root.get(&path).await.expect(200).json()["id"].as_i64().expect("an ID");
            if let Some(role) = role {
                server.insert_member(id, user.id, role).await;
            }
        }
        user.client
    };
    let stranger = user("stranger", None).await;
    let guest = user("guest", Some(AccessLevel::Guest)).await;
    let reporter = user("reporter", Some(AccessLevel::Reporter)).await;
    let created = deploy_token(&root, "/groups/engines", &["read_package_registry"]).await;
    let deploy = server.anonymous().header("Deploy-Token", credentials(&created).1);
    for (client, expected, has_lists) in [
        (&server.anonymous(), &["enabled"][..], true),
        (&stranger, &["enabled"], true),
        (&guest, &["enabled", "internal", "members"], true),
        (&reporter, &["enabled", "hidden", "internal", "members"], true),
        (&root, &["enabled", "hidden", "internal", "members"], true),
        (&deploy, &["enabled", "hidden", "internal", "members"], false),
    ] {
        if has_lists {
            let path = "/groups/engines/packages?package_type=generic&order_by=name&sort=asc";
            let list = client.get(path).await.expect(200);
            assert_eq!(list.pluck("name"), expected);
            assert_eq!(list.header("X-Total"), expected.len().to_string());
        }
        for name in ["enabled", "members", "internal", "hidden", "disabled"] {
            let maven = format!("engines/{name}/1.0/{name}-1.0.jar");
            for path in [
                format!("/groups/engines/-/packages/npm/@engines%2F{name}"),
                format!("/packages/npm/@engines%2F{name}"),
                format!("/groups/engines/-/packages/pypi/simple/{name}"),
                format!("/groups/engines/-/packages/maven/{maven}"),
                format!("/packages/maven/{maven}"),
            ] {
                let status = client.get(&path).await.status;
                assert_eq!(status == 200, expected.contains(&name), "{path} {status}");
                assert!(matches!(status, 200 | 401 | 404), "{path} {status}");
            }
        }
    }
}

async fn cargo_clients_send_credentials_for_private_packages(server: TestServer) {
    let packages = Packages::new(&server).await;
    let config = format!("{}/config.json", cargo_packages::registry(packages.id));
    let requires = async || server.root().get(&config).await.expect(200).json()["auth-required"].clone();
    assert_eq!(requires().await, json!(false));
    packages.set(&server, "private").await;
    assert_eq!(requires().await, json!(true));
}

on_every_database![
    private_packages_are_available_to_members_only,
    disabled_packages_are_refused_for_every_format,
    lists_of_groups_omit_unavailable_packages,
    cargo_clients_send_credentials_for_private_packages,
];
