//! npm packages of groups and of the instance.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{below_api, document, path, publish};
use crate::identity::deploy_tokens::{credentials, deploy_token};
use crate::packages::check_ranges;
use crate::support::{TestServer, on_every_database};

async fn group_returns_packages_of_its_projects(server: TestServer) {
    let root = server.root();
    let direct = server.insert_project_at("engines/a", Visibility::Public).await.id;
    let below = server.insert_project_at("engines/low/b", Visibility::Public).await.id;
    let other = server.insert_project_at("other/c", Visibility::Public).await.id;
    for (project, version) in [(direct, "1.0.0"), (below, "1.1.0"), (other, "9.0.0")] {
        publish(&root, project, "@engines/web", version).await.expect(200);
    }
    publish(&root, other, "elsewhere", "1.0.0").await.expect(200);
    let group = server.insert_group("engines", Visibility::Public).await;
    for key in [group.to_string(), "engines".to_owned()] {
        let registry = format!("/groups/{key}/-/packages/npm");
        for client in [&root, &server.anonymous()] {
            for name in ["@engines%2fweb", "@engines/web"] {
                let found = client.get(&format!("{registry}/{name}")).await.expect(200).json();
                let versions: Vec<&String> = found["versions"].as_object().expect("versions").keys().collect();
                assert_eq!(versions, ["1.0.0", "1.1.0"]);
                assert_eq!(found["dist-tags"], json!({ "latest": "1.1.0" }));
                let tarball = below_api(&found["versions"]["1.1.0"]["dist"]["tarball"], &server);
                assert_eq!(tarball, format!("{registry}/@engines/web/-/@engines/web-1.1.0.tgz"));
                assert_eq!(client.get(&tarball).await.expect(200).text(), "archive of 1.1.0");
                check_ranges(client, &tarball).await;
            }
            let tags = client.get(&format!("{registry}/-/package/@engines%2fweb/dist-tags")).await.expect(200);
            assert_eq!(tags.json(), json!({ "latest": "1.1.0" }));
        }
        root.get(&format!("{registry}/elsewhere")).await.expect(404);
        root.get(&format!("{registry}/@engines/web/-/@engines/web-9.0.0.tgz")).await.expect(404);
        root.get(&format!("{registry}/-/package/elsewhere/dist-tags")).await.expect(404);
        for invalid in ["-a", "-/package/-a/dist-tags", "-a/-/x.tgz"] {
            root.get(&format!("{registry}/{invalid}")).await.expect(400);
        }
    }
}

async fn last_upload_replaces_same_version_of_another_project(server: TestServer) {
    let root = server.root();
    let first = server.insert_project_at("engines/a", Visibility::Public).await.id;
    let second = server.insert_project_at("engines/b", Visibility::Public).await.id;
    for (project, archive) in [(first, "first"), (second, "second")] {
        root.put(&path(project, "tiny"), document("tiny", "1.0.0", archive.as_bytes())).await.expect(200);
    }
    let registry = "/groups/engines/-/packages/npm";
    let found = root.get(&format!("{registry}/tiny")).await.expect(200).json();
    let archive = root.get(&below_api(&found["versions"]["1.0.0"]["dist"]["tarball"], &server)).await.expect(200);
    assert_eq!(archive.text(), "second");
    assert_eq!(found["versions"]["1.0.0"]["dist"]["shasum"], super::shasum(b"second"));
}

async fn instance_returns_packages_of_the_namespace_of_the_scope(server: TestServer) {
    let root = server.root();
    let project = server.insert_project_at("engines/low/a", Visibility::Public).await.id;
    let elsewhere = server.insert_project_at("other/b", Visibility::Public).await.id;
    publish(&root, project, "@engines/web", "1.0.0").await.expect(200);
    publish(&root, project, "tiny", "1.0.0").await.expect(200);
    publish(&root, project, "@low/web", "1.0.0").await.expect(200);
    publish(&root, elsewhere, "@engines/other", "1.0.0").await.expect(200);
    let found = root.get("/packages/npm/@engines%2fweb").await.expect(200).json();
    let tarball = below_api(&found["versions"]["1.0.0"]["dist"]["tarball"], &server);
    assert_eq!(tarball, "/packages/npm/@engines/web/-/@engines/web-1.0.0.tgz");
    assert_eq!(root.get(&tarball).await.expect(200).text(), "archive of 1.0.0");
    check_ranges(&root, &tarball).await;
    assert_eq!(server.anonymous().get("/packages/npm/@engines/web").await.expect(200).json(), found);
    let tags = root.get("/packages/npm/-/package/@engines%2fweb/dist-tags").await.expect(200).json();
    assert_eq!(tags, json!({ "latest": "1.0.0" }));
    for name in ["tiny", "@low%2Fweb", "@engines%2Fother", "@missing%2Fweb", "npm"] {
        for url in [
            format!("/packages/npm/{name}"),
            format!("/packages/npm/{name}/-/web-1.0.0.tgz"),
            format!("/packages/npm/-/package/{name}/dist-tags"),
        ] {
            root.get(&url).await.expect(404);
            // A client without credentials may have to send them.
            server.anonymous().get(&url).await.expect(401);
        }
    }
    for url in ["/packages/npm/-a", "/packages/npm/-/package/-a/dist-tags", "/packages/npm/-a/-/x.tgz"] {
        root.get(url).await.expect(400);
    }
    // A transferred project leaves the namespace.
    root.put(&format!("/projects/{project}/transfer"), json!({ "namespace": "other" })).await.expect(200);
    root.get("/packages/npm/@engines%2fweb").await.expect(404);
}

async fn scope_can_name_a_personal_namespace(server: TestServer) {
    let ada = server.create_user("ada").await;
    let id = crate::support::spaces::project(&ada.client, "work", json!({})).await;
    publish(&ada.client, id, "@ada/web", "1.0.0").await.expect(200);
    ada.client.get("/packages/npm/@ada%2Fweb").await.expect(200);
    server.create_user("bob").await.client.get("/packages/npm/@ada%2Fweb").await.expect(404);
    server.anonymous().get("/packages/npm/@ada%2Fweb").await.expect(401);
}

async fn only_readable_packages_are_returned(server: TestServer) {
    let root = server.root();
    for (path, visibility, version) in [
        ("engines/private", Visibility::Private, "1.0.0"),
        ("engines/internal", Visibility::Internal, "2.0.0"),
        ("engines/public", Visibility::Public, "3.0.0"),
        ("engines/disabled", Visibility::Public, "4.0.0"),
    ] {
        let project = server.insert_project_at(path, visibility).await.id;
        publish(&root, project, "@engines/web", version).await.expect(200);
        publish(&root, project, &format!("only-{}", path.replace('/', "-")), "1.0.0").await.expect(200);
    }
    root.put("/projects/engines%2Fdisabled", json!({ "packages_enabled": false })).await.expect(200);
    let private = root.get("/projects/engines%2Fprivate").await.expect(200).json()["id"].as_i64().expect("an ID");
    let (guest, reporter) = (server.create_user("guest").await, server.create_user("reporter").await);
    server.insert_member(private, guest.id, AccessLevel::Guest).await;
    server.insert_member(private, reporter.id, AccessLevel::Reporter).await;
    let created = deploy_token(&root, "/groups/engines", &["read_package_registry"]).await;
    let outsider = server.create_user("outsider").await;
    for (client, expected) in [
        (&server.anonymous(), &["3.0.0"][..]),
        (&outsider.client, &["2.0.0", "3.0.0"]),
        (&guest.client, &["2.0.0", "3.0.0"]),
        (&reporter.client, &["1.0.0", "2.0.0", "3.0.0"]),
        (&root, &["1.0.0", "2.0.0", "3.0.0"]),
        (&server.anonymous().header("Deploy-Token", credentials(&created).1), &["1.0.0", "2.0.0", "3.0.0"]),
    ] {
        for registry in ["/groups/engines/-/packages/npm", "/packages/npm"] {
            let found = client.get(&format!("{registry}/@engines%2Fweb")).await.expect(200).json();
            let versions: Vec<&String> = found["versions"].as_object().expect("versions").keys().collect();
            assert_eq!(versions, expected);
            for version in ["1.0.0", "2.0.0", "3.0.0", "4.0.0"] {
                let url = format!("{registry}/@engines/web/-/@engines/web-{version}.tgz");
                let status = client.get(&url).await.status;
                assert_eq!(status == 200, expected.contains(&version), "{url} {status}");
            }
        }
    }
    let hidden = "/groups/engines/-/packages/npm/only-engines-private";
    outsider.client.get(hidden).await.expect(404);
    server.anonymous().get(hidden).await.expect(401);
    reporter.client.get(hidden).await.expect(200);
}

async fn private_group_is_hidden(server: TestServer) {
    let root = server.root();
    let group = server.insert_group("secret", Visibility::Private).await;
    let project = server.insert_project(group, "a", Visibility::Private).await.id;
    publish(&root, project, "tiny", "1.0.0").await.expect(200);
    let outsider = server.create_user("outsider").await;
    let narrow = server.with_token(&server.create_token(1, &["read_user"]).await);
    for end in ["tiny", "tiny/-/tiny-1.0.0.tgz", "-/package/tiny/dist-tags"] {
        for key in ["secret", "missing", "999999"] {
            let url = format!("/groups/{key}/-/packages/npm/{end}");
            outsider.client.get(&url).await.expect(404);
            server.anonymous().get(&url).await.expect(401);
        }
        root.get(&format!("/groups/secret/-/packages/npm/{end}")).await.expect(200);
        narrow.get(&format!("/groups/secret/-/packages/npm/{end}")).await.expect(403);
        narrow.get(&format!("/packages/npm/{end}")).await.expect(403);
    }
}

on_every_database![
    group_returns_packages_of_its_projects,
    last_upload_replaces_same_version_of_another_project,
    instance_returns_packages_of_the_namespace_of_the_scope,
    scope_can_name_a_personal_namespace,
    only_readable_packages_are_returned,
    private_group_is_hidden,
];
