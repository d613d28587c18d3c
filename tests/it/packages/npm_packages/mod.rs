//! npm packages: uploads, versions and archives.

mod access;
mod deprecation;
mod refusals;
mod registries;
pub mod tags;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha512};
use storage::entities::{package_blobs, package_files, packages};

use crate::identity::deploy_tokens::{credentials, deploy_token};
use crate::support::spaces::project;
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

/// Returns the document with which npm publishes a version.
pub fn document(name: &str, version: &str, archive: &[u8]) -> Value {
    json!({
        "_id": name,
        "name": name,
        "dist-tags": { "latest": version },
        "versions": { version: {
            "name": name,
            "version": version,
            "readme": "# Read me",
            "_id": format!("{name}@{version}"),
            "dist": { "shasum": shasum(archive), "integrity": integrity(archive), "tarball": "http://example.com/x" },
        }},
        "access": null,
        "_attachments": { format!("{name}-{version}.tgz"): {
            "content_type": "application/octet-stream",
            "data": STANDARD.encode(archive),
            "length": archive.len(),
        }},
    })
}

fn shasum(archive: &[u8]) -> String {
    hex::encode(<Sha1 as sha1::Digest>::digest(archive))
}

fn integrity(archive: &[u8]) -> String {
    format!("sha512-{}", STANDARD.encode(Sha512::digest(archive)))
}

/// Returns the path of a package, with the slash of its scope encoded as npm does.
fn path(project: i64, name: &str) -> String {
    format!("/projects/{project}/packages/npm/{}", name.replace('/', "%2f"))
}

/// Publishes a version whose archive is the text `archive of <version>`.
pub async fn publish(client: &Client, project: i64, name: &str, version: &str) -> ApiResponse {
    let document = document(name, version, format!("archive of {version}").as_bytes());
    client.put(&path(project, name), document).await
}

/// Returns the part of a URL below the API.
pub fn below_api(url: &Value, server: &TestServer) -> String {
    let url = url.as_str().expect("a URL");
    url.strip_prefix(&format!("{}/api/v4", server.base)).expect("a URL of the server").to_owned()
}

/// Returns the numbers of packages, files and stored contents.
async fn counts(server: &TestServer) -> (u64, u64, u64) {
    let db = server.backend.database.read();
    (
        packages::Entity::find().count(db).await.expect("a count"),
        package_files::Entity::find().count(db).await.expect("a count"),
        package_blobs::Entity::find().count(db).await.expect("a count"),
    )
}

async fn published_version_is_returned_with_all_attributes(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let archive: Vec<u8> = (0..50_000_u32).map(|number| (number % 251) as u8).collect();
    let mut sent = document("@engines/web", "1.0.0-rc.1+build.7", &archive);
    let kept = json!({
        "description": "Web",
        "dependencies": { "tiny": "^2.1.0" },
        "devDependencies": { "a": "1" },
        "optionalDependencies": {},
        "peerDependencies": { "b": "*" },
        "peerDependenciesMeta": { "b": { "optional": true } },
        "bundleDependencies": ["tiny"],
        "bundledDependencies": false,
        "bin": { "web": "cli.js" },
        "directories": { "lib": "lib" },
        "engines": { "node": ">=18" },
        "os": ["linux"],
        "cpu": ["x64"],
        "libc": ["glibc"],
        "funding": [{ "url": "https://example.com" }],
        "gypfile": false,
        "_hasShrinkwrap": false,
    });
    let manifest = sent["versions"]["1.0.0-rc.1+build.7"].as_object_mut().expect("a manifest");
    manifest.extend(kept.as_object().expect("an object").clone());
    manifest.insert("scripts".to_owned(), json!({ "test": "secret", "postinstall": "secret" }));
    let result = root.put(&path(id, "@engines/web"), sent).await.expect(200).json();
    assert_eq!(result, json!({ "name": "@engines/web", "versions": ["1.0.0-rc.1+build.7"] }));

    let registry = format!("{}/api/v4/projects/{id}/packages/npm", server.base);
    let tarball = format!("{registry}/@engines/web/-/@engines/web-1.0.0-rc.1+build.7.tgz");
    let mut version = kept;
    version["name"] = json!("@engines/web");
    version["version"] = json!("1.0.0-rc.1+build.7");
    version["hasInstallScript"] = json!(true);
    version["dist"] = json!({ "shasum": shasum(&archive), "integrity": integrity(&archive), "tarball": tarball });
    let expected = json!({
        "name": "@engines/web",
        "dist-tags": { "latest": "1.0.0-rc.1+build.7" },
        "versions": { "1.0.0-rc.1+build.7": version },
    });
    let npm = root.clone().header("Accept", "application/vnd.npm.install-v1+json; q=1.0, */*");
    for name in ["@engines%2fweb", "@engines%2Fweb", "%40engines%2Fweb", "@engines/web", "@engines/web/"] {
        let found = npm.get(&format!("/projects/{id}/packages/npm/{name}")).await.expect(200);
        assert_eq!(found.json(), expected, "{name}");
        assert_eq!(found.header("content-type"), "application/json");
    }
    for name in ["web", "@engines%2FWeb", "@engines%2Fweb2", "@engines%2Fweb/1.0.0"] {
        npm.get(&format!("/projects/{id}/packages/npm/{name}")).await.expect(404);
    }
}

async fn archive_is_downloaded_from_its_url(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let archive: Vec<u8> = (0..50_000_u32).map(|number| (number % 249) as u8).collect();
    for name in ["tiny", "@engines/web"] {
        root.put(&path(id, name), document(name, "1.0.0", &archive)).await.expect(200);
        let found = root.get(&path(id, name)).await.expect(200).json();
        let url = below_api(&found["versions"]["1.0.0"]["dist"]["tarball"], &server);
        let whole = root.get(&url).await.expect(200);
        assert!(whole.body == archive);
        assert_eq!(whole.header("content-type"), "application/octet-stream");
        assert_eq!(whole.header("x-checksum-sha256"), hex::encode(sha2::Sha256::digest(&archive)));
        let part = root.clone().header("Range", "bytes=100-199").get(&url).await.expect(206);
        assert!(part.body == archive[100..200]);
        root.clone().header("Range", "bytes=50000-").get(&url).await.expect(416);
        root.clone().header("If-None-Match", whole.header("etag")).get(&url).await.expect(304);
        assert!(root.head(&url).await.expect(200).body.is_empty());
        for wrong in [
            url.replace("1.0.0.tgz", "1.0.1.tgz"),
            url.replace(".tgz", ".zip"),
            url.replace(&format!("/projects/{id}/"), &format!("/projects/{}/", id + 1)),
            format!("{url}%00"),
            url.replace("/-/", "/-/../"),
        ] {
            let refused = root.get(&wrong).await;
            assert!(matches!(refused.status, 400 | 404), "{wrong}: {}", refused.status);
        }
    }
    let encoded = format!("/projects/{id}/packages/npm/@engines%2Fweb/-/@engines%2Fweb-1.0.0.tgz");
    assert!(root.get(&encoded).await.expect(200).body == archive);
    let wrong = format!("/projects/{id}/packages/npm/tiny/-/@engines/web-1.0.0.tgz");
    root.get(&wrong).await.expect(404);
}

async fn urls_of_archives_start_with_requested_url(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    publish(&root, id, "tiny", "1.0.0").await.expect(200);
    for place in [format!("projects/{id}"), "projects/root%2Fwork".to_owned()] {
        let found = root.get(&format!("/{place}/packages/npm/tiny")).await.expect(200).json();
        let tarball = &found["versions"]["1.0.0"]["dist"]["tarball"];
        assert_eq!(*tarball, format!("{}/api/v4/{place}/packages/npm/tiny/-/tiny-1.0.0.tgz", server.base));
        assert_eq!(root.get(&below_api(tarball, &server)).await.expect(200).text(), "archive of 1.0.0");
    }
}

async fn versions_are_ordered_and_highest_is_latest_without_tag(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for version in ["1.10.0", "1.9.0", "2.0.0-rc.1", "1.10.0-beta"] {
        let mut sent = document("tiny", version, b"x");
        sent["dist-tags"] = json!({ format!("of-{}", version.replace('.', "-")): version });
        root.put(&path(id, "tiny"), sent).await.expect(200);
    }
    let found = root.get(&path(id, "tiny")).await.expect(200).json();
    let versions: Vec<&String> = found["versions"].as_object().expect("versions").keys().collect();
    assert_eq!(versions, ["1.9.0", "1.10.0-beta", "1.10.0", "2.0.0-rc.1"]);
    let expected = json!({
        "latest": "2.0.0-rc.1",
        "of-1-10-0": "1.10.0",
        "of-1-10-0-beta": "1.10.0-beta",
        "of-1-9-0": "1.9.0",
        "of-2-0-0-rc-1": "2.0.0-rc.1",
    });
    assert_eq!(found["dist-tags"], expected);
    publish(&root, id, "tiny", "1.11.0").await.expect(200);
    assert_eq!(root.get(&path(id, "tiny")).await.expect(200).json()["dist-tags"]["latest"], "1.11.0");
    // A later upload without tags moves the tag.
    let mut sent = document("tiny", "1.0.0", b"x");
    sent["dist-tags"] = json!(null);
    root.put(&path(id, "tiny"), sent).await.expect(200);
    assert_eq!(root.get(&path(id, "tiny")).await.expect(200).json()["dist-tags"]["latest"], "1.0.0");
}

async fn large_archive_is_published(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    // More than the limits of JSON bodies and of attachments.
    let archive: Vec<u8> = (0..20_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    root.put(&path(id, "tiny"), document("tiny", "1.0.0", &archive)).await.expect(200);
    let url = format!("{}/-/tiny-1.0.0.tgz", path(id, "tiny"));
    assert!(root.get(&url).await.expect(200).body == archive);
}

async fn concurrent_uploads_of_a_version_publish_it_once(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let uploads = (0..6).map(|number| {
        let root = root.clone();
        async move {
            let archive = format!("archive {number}");
            root.put(&path(id, "tiny"), document("tiny", "1.0.0", archive.as_bytes())).await.status
        }
    });
    let mut statuses = futures_util::future::join_all(uploads).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 403, 403, 403, 403, 403]);
    assert_eq!(counts(&server).await, (1, 1, 1));
    let found = root.get(&path(id, "tiny")).await.expect(200).json();
    let stored = root.get(&format!("{}/-/tiny-1.0.0.tgz", path(id, "tiny"))).await.expect(200);
    assert_eq!(found["versions"]["1.0.0"]["dist"]["shasum"], shasum(&stored.body));
}

async fn deleted_version_and_project_are_not_returned(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for version in ["1.0.0", "2.0.0"] {
        publish(&root, id, "tiny", version).await.expect(200);
    }
    let listed = root.get(&format!("/projects/{id}/packages?package_name=tiny&package_version=2.0.0")).await;
    let package = &listed.expect(200).json()[0];
    assert_eq!((&package["package_type"], &package["tags"][0]["name"]), (&json!("npm"), &json!("latest")));
    root.delete(&format!("/projects/{id}/packages/{}", package["id"])).await.expect(204);
    let found = root.get(&path(id, "tiny")).await.expect(200).json();
    assert_eq!(found["dist-tags"], json!({ "latest": "1.0.0" }));
    assert!(found["versions"]["2.0.0"].is_null());
    root.get(&format!("{}/-/tiny-2.0.0.tgz", path(id, "tiny"))).await.expect(404);
    // The version can be published again.
    publish(&root, id, "tiny", "2.0.0").await.expect(200);
    root.put("/application/settings", json!({ "deletion_adjourned_period": 0 })).await.expect(200);
    root.delete(&format!("/projects/{id}")).await.expect(202);
    server.finish_jobs().await;
    root.get(&path(id, "tiny")).await.expect(404);
    let (packages, files, _) = counts(&server).await;
    assert_eq!((packages, files), (0, 0));
}

async fn package_is_read_in_few_statements(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for version in 0..5 {
        publish(&root, id, "tiny", &format!("{version}.0.0")).await.expect(200);
    }
    for url in [path(id, "tiny"), format!("/projects/{id}/packages/npm/-/package/tiny/dist-tags")] {
        root.get(&format!("{url}?a=1")).await.expect(200);
        let before = server.statements();
        root.get(&format!("{url}?a=2")).await.expect(200);
        // The sizes of the documents are read before the documents.
        assert!(server.statements() - before <= 5, "{url}: {}", server.statements() - before);
    }
}

async fn audit_requests_of_npm_are_answered_without_advisories(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({ "visibility": "public" })).await;
    let group = crate::support::spaces::group(&root, "engines", json!({})).await;
    let places = [format!("/projects/{id}"), format!("/groups/{group}/-"), String::new()];
    for place in places {
        for end in ["advisories/bulk", "audits/quick"] {
            let url = format!("{place}/packages/npm/-/npm/v1/security/{end}");
            let sent = root.post(&url, json!({ "tiny": ["1.0.0"] })).await.expect(200);
            assert_eq!(sent.json(), json!({}));
            // npm sends a compressed body.
            let compressed = root.request(Method::POST, &url).header("content-encoding", "gzip");
            let compressed = compressed.header("content-type", "application/json").body(vec![0x1F, 0x8B, 0, 1]);
            assert_eq!(root.send(compressed).await.expect(200).json(), json!({}));
            let large = root.request(Method::POST, &url).header("content-type", "application/json");
            root.send(large.body(vec![b' '; (16 << 20) + 1])).await.expect(413);
            let plain = root.request(Method::POST, &url).header("content-type", "text/plain").body("x");
            root.send(plain).await.expect(400);
            server.anonymous().post(&url, json!({})).await.expect(401);
            let narrow = server.create_token(1, &["read_user"]).await;
            server.with_token(&narrow).post(&url, json!({})).await.expect(403);
        }
    }
    let other = crate::support::spaces::group(&root, "gears", json!({})).await;
    let of_group = deploy_token(&root, &format!("/groups/{group}"), &["read_package_registry"]).await;
    let of_project = deploy_token(&root, &format!("/projects/{id}"), &["read_package_registry"]).await;
    for (token, place, status) in [
        (&of_group, format!("/groups/{group}/-"), 200),
        (&of_group, format!("/groups/{other}/-"), 404),
        (&of_group, String::new(), 200),
        (&of_project, format!("/projects/{id}"), 200),
        (&of_project, format!("/groups/{group}/-"), 404),
        (&of_project, String::new(), 200),
    ] {
        let client = server.anonymous().header("Deploy-Token", credentials(token).1);
        for end in ["advisories/bulk", "audits/quick"] {
            let url = format!("{place}/packages/npm/-/npm/v1/security/{end}");
            client.post(&url, json!({ "tiny": ["1.0.0"] })).await.expect(status);
        }
    }
    for place in ["/projects/999999", "/groups/999999/-"] {
        for end in ["advisories/bulk", "audits/quick"] {
            root.post(&format!("{place}/packages/npm/-/npm/v1/security/{end}"), json!({})).await.expect(404);
        }
    }
}

on_every_database![
    published_version_is_returned_with_all_attributes,
    archive_is_downloaded_from_its_url,
    urls_of_archives_start_with_requested_url,
    versions_are_ordered_and_highest_is_latest_without_tag,
    large_archive_is_published,
    concurrent_uploads_of_a_version_publish_it_once,
    deleted_version_and_project_are_not_returned,
    package_is_read_in_few_statements,
    audit_requests_of_npm_are_answered_without_advisories,
];
