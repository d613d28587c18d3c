//! Crates: uploads, the index, downloads and yanks.

mod access;
mod refusals;

use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::Method;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use storage::entities::{package_blobs, package_files, packages};
use tar::{Builder, Header};

use crate::packages::check_ranges;
use crate::support::spaces::project;
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

/// Returns the archive of a version with these files.
pub fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, content) in files {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        // Paths are written as they are.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        builder.append(&header, *content).expect("a file");
    }
    builder.into_inner().and_then(GzEncoder::finish).expect("an archive")
}

/// Returns an archive with a manifest, and a content that cannot be compressed.
pub fn crate_archive(name: &str, version: &str, size: usize) -> Vec<u8> {
    let mut content = vec![0_u8; size];
    rand::fill(&mut content[..]);
    let manifest = format!("[package]\nname = \"{name}\"\nversion = \"{version}\"\n");
    let folder = format!("{name}-{version}");
    let paths = [format!("{folder}/Cargo.toml"), format!("{folder}/src/lib.rs")];
    archive(&[(&paths[0], manifest.as_bytes()), (&paths[1], &content)])
}

pub fn metadata(name: &str, version: &str) -> Value {
    json!({ "name": name, "vers": version, "deps": [], "features": {}, "readme": "# Read me", "license": "MIT" })
}

/// Returns the body of `cargo publish`.
pub fn body(metadata: &str, archive: &[u8]) -> Vec<u8> {
    let length = |size: usize| u32::try_from(size).expect("a length").to_le_bytes();
    [&length(metadata.len())[..], metadata.as_bytes(), &length(archive.len()), archive].concat()
}

/// Returns the path of the registry of a project.
pub fn registry(project: i64) -> String {
    format!("/projects/{project}/packages/cargo")
}

pub async fn send(client: &Client, project: i64, body: Vec<u8>) -> ApiResponse {
    let path = format!("{}/api/v1/crates/new", registry(project));
    client.send(client.request(Method::PUT, &path).body(body)).await
}

/// Publishes a version.
pub async fn publish(client: &Client, project: i64, name: &str, version: &str) -> ApiResponse {
    let archive = crate_archive(name, version, 10);
    send(client, project, body(&metadata(name, version).to_string(), &archive)).await
}

/// Returns the path of a version, with an action such as `download`.
pub fn version_path(project: i64, name: &str, version: &str, action: &str) -> String {
    format!("{}/api/v1/crates/{name}/{version}/{action}", registry(project))
}

/// Yanks a version, or undoes it.
pub async fn set_yanked(client: &Client, project: i64, name: &str, version: &str, yanked: bool) -> ApiResponse {
    match yanked {
        true => client.delete(&version_path(project, name, version, "yank")).await,
        false => {
            let request = client.request(Method::PUT, &version_path(project, name, version, "unyank"));
            client.send(request).await
        }
    }
}

/// Returns the lines of a crate in the index.
async fn lines(client: &Client, project: i64, path: &str) -> Vec<Value> {
    let file = client.get(&format!("{}/{path}", registry(project))).await.expect(200);
    assert_eq!(file.header("content-type"), "text/plain; charset=utf-8");
    let text = file.text();
    assert!(text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
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

async fn published_version_is_in_the_index_and_can_be_downloaded(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let content = crate_archive("Gear-ratio", "1.0.0+a", 50_000);
    let mut sent = metadata("Gear-ratio", "1.0.0+a");
    sent["deps"] = json!([{
        "name": "teeth", "version_req": "^1", "features": ["a"], "optional": true, "default_features": false,
        "target": null, "kind": "normal", "registry": null, "explicit_name_in_toml": "tooth",
    }]);
    sent["features"] = json!({ "std": [], "fast": ["dep:tooth"] });
    sent["links"] = json!("gears");
    sent["rust_version"] = json!("1.80");
    let published = send(&root, id, body(&sent.to_string(), &content)).await.expect(200).json();
    assert_eq!(published, json!({ "warnings": { "invalid_categories": [], "invalid_badges": [], "other": [] } }));
    let digest = hex::encode(Sha256::digest(&content));
    let expected = json!({
        "name": "Gear-ratio",
        "vers": "1.0.0+a",
        "deps": [{
            "name": "tooth", "req": "^1", "features": ["a"], "optional": true, "default_features": false,
            "target": null, "kind": "normal", "registry": null, "package": "teeth",
        }],
        "cksum": digest,
        "features": { "std": [] },
        "features2": { "fast": ["dep:tooth"] },
        "yanked": false,
        "links": "gears",
        "rust_version": "1.80",
        "v": 2,
    });
    assert_eq!(lines(&root, id, "ge/ar/gear-ratio").await, [expected]);
    for range in ["bytes=0-3", "bytes=100000-"] {
        let index = root.clone().header("Range", range).get(&format!("{}/ge/ar/gear-ratio", registry(id))).await;
        let index = index.expect(200);
        assert!(index.text().ends_with('\n'));
        assert_eq!((index.header("accept-ranges"), index.header("content-range")), ("", ""));
    }
    let download = version_path(id, "Gear-ratio", "1.0.0+a", "download");
    let archive = root.get(&download).await.expect(200);
    assert!(archive.body == content);
    assert_eq!(archive.header("x-checksum-sha256"), digest);
    assert!(archive.header("content-disposition").contains("filename=\"Gear-ratio-1.0.0+a.crate\""));
    check_ranges(&root, &download).await;
    let tag = archive.header("etag").to_owned();
    root.clone().header("If-None-Match", &tag).get(&download).await.expect(304);
    let listed = root.get(&format!("/projects/{id}/packages?package_type=cargo")).await.expect(200).json();
    assert_eq!(
        (&listed[0]["package_type"], &listed[0]["name"], &listed[0]["version"]),
        (&json!("cargo"), &json!("Gear-ratio"), &json!("1.0.0+a"))
    );
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    let files = root.get(&format!("/projects/{id}/packages/{}/package_files", listed[0]["id"])).await.expect(200);
    assert_eq!(files.json()[0]["file_name"], "Gear-ratio-1.0.0+a.crate");
    for query in ["package_type=npm", "package_type=generic"] {
        assert_eq!(root.get(&format!("/projects/{id}/packages?{query}")).await.expect(200).json(), json!([]));
    }
}

async fn configuration_contains_addresses_and_need_of_credentials(server: TestServer) {
    let root = server.root();
    for (visibility, required) in [("private", true), ("internal", true), ("public", false)] {
        let id = project(&root, visibility, json!({ "visibility": visibility })).await;
        let base = format!("{}/api/v4/projects/{id}/packages/cargo", server.base);
        let expected = json!({ "dl": format!("{base}/api/v1/crates"), "api": base, "auth-required": required });
        let path = format!("{}/config.json", registry(id));
        let config = root.get(&path).await.expect(200);
        assert_eq!(config.json(), expected);
        root.clone().header("If-None-Match", config.header("etag")).get(&path).await.expect(304);
        let by_path = root.get(&format!("/projects/root%2F{visibility}/packages/cargo/config.json")).await;
        assert_eq!(by_path.expect(200).json(), expected);
        server.anonymous().get(&path).await.expect(if required { 401 } else { 200 });
    }
}

async fn index_paths_depend_on_the_name(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for name in ["a", "Bc", "def", "gear_ratio"] {
        publish(&root, id, name, "1.0.0").await.expect(200);
    }
    for (path, name) in
        [("1/a", "a"), ("2/bc", "Bc"), ("3/d/def", "def"), ("ge/ar/gear_ratio", "gear_ratio"), ("2/BC", "Bc")]
    {
        assert_eq!(lines(&root, id, path).await[0]["name"], name);
        assert_eq!(lines(&root, id, &path.replace('/', "%2F")).await[0]["name"], name);
    }
    for path in [
        "1/b",
        "2/a",
        "3/d/dex",
        "3/x/def",
        "ge/ar/gear-ratio",
        "ge/ar/gearratio",
        "ab/cd/abcd",
        "a",
        "config",
        "1/1/a",
        "..%2Fa",
        "ge/ar/../gear_ratio",
        "%C3%A4/1",
        "api/v1/crates",
        "api/v1/crates/a",
    ] {
        let missing = root.get(&format!("{}/{path}", registry(id))).await.expect(404);
        assert_eq!(missing.json()["errors"][0]["detail"], missing.message(), "{path}");
    }
    for path in ["1/%FF", "1/a%00"] {
        root.get(&format!("{}/{path}", registry(id))).await.expect(400);
    }
    root.get(&format!("{}/{}", registry(id), "a".repeat(129))).await.expect(400);
}

async fn index_file_is_revalidated_until_it_changes(server: TestServer) {
    let (root, anonymous) = (server.root(), server.anonymous());
    let id = project(&root, "work", json!({ "visibility": "public" })).await;
    publish(&root, id, "gear", "1.0.0").await.expect(200);
    let path = format!("{}/ge/ar/gear", registry(id));
    let mut tags = vec![root.get(&path).await.expect(200).header("etag").to_owned()];
    for change in ["publish", "yank", "unyank"] {
        let former = tags.last().expect("a tag").clone();
        anonymous.clone().header("If-None-Match", &former).get(&path).await.expect(304);
        match change {
            "publish" => publish(&root, id, "gear", "1.1.0").await.expect(200),
            "yank" => set_yanked(&root, id, "gear", "1.0.0", true).await.expect(200),
            _ => set_yanked(&root, id, "gear", "1.0.0", false).await.expect(200),
        };
        for client in [&root, &anonymous] {
            let current = client.clone().header("If-None-Match", &former).get(&path).await.expect(200);
            let tag = current.header("etag");
            let unchanged = client.clone().header("If-None-Match", tag).get(&path).await.expect(304);
            assert_eq!(unchanged.header("etag"), tag);
        }
        tags.push(root.get(&path).await.expect(200).header("etag").to_owned());
    }
    // The end of the yank restores the file.
    assert_eq!(tags[1], tags[3]);
    assert!(tags[0] != tags[1] && tags[1] != tags[2], "{tags:?}");
}

async fn yanked_version_remains_in_the_index_and_can_be_downloaded(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for version in ["1.0.0", "1.1.0"] {
        publish(&root, id, "gear", version).await.expect(200);
    }
    let yanked = async || {
        let lines = lines(&root, id, "ge/ar/gear").await;
        lines.iter().map(|line| line["yanked"].as_bool().expect("a boolean")).collect::<Vec<_>>()
    };
    assert_eq!(yanked().await, [false, false]);
    let before = lines(&root, id, "ge/ar/gear").await;
    for _ in 0..2 {
        let done = set_yanked(&root, id, "gear", "1.1.0", true).await.expect(200);
        assert_eq!(done.json(), json!({ "ok": true }));
        assert_eq!(yanked().await, [false, true]);
    }
    root.get(&version_path(id, "gear", "1.1.0", "download")).await.expect(200);
    publish(&root, id, "gear", "1.1.0").await.expect(409);
    for _ in 0..2 {
        set_yanked(&root, id, "gear", "1.1.0", false).await.expect(200);
        assert_eq!(lines(&root, id, "ge/ar/gear").await, before);
    }
    for (name, version) in [("gear", "2.0.0"), ("gears", "1.0.0"), ("gear", "1.0"), ("g.", "1.0.0")] {
        for yanked in [true, false] {
            let missing = set_yanked(&root, id, name, version, yanked).await.expect(404);
            assert_eq!(missing.message(), "404 Crate version Not Found");
        }
        root.get(&version_path(id, name, version, "download")).await.expect(404);
    }
    set_yanked(&root, id, "gear", "%00", true).await.expect(400);
    set_yanked(&root, id, "gear", "%FF", false).await.expect(400);
    // Changes without effect are not recorded.
    let events = root.get(&format!("/projects/{id}/audit_events")).await.expect(200).json();
    let names = events.as_array().expect("a list").iter().map(|event| event["details"]["event_name"].clone());
    let names: Vec<Value> = names.filter(|name| name.as_str().is_some_and(|name| name.contains("yank"))).collect();
    assert_eq!(names, ["package_unyanked", "package_yanked"]);
}

async fn deleted_version_and_project_are_not_in_the_index(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for version in ["1.0.0", "1.1.0"] {
        publish(&root, id, "gear", version).await.expect(200);
    }
    let listed = root.get(&format!("/projects/{id}/packages?package_version=1.1.0")).await.expect(200).json();
    root.delete(&format!("/projects/{id}/packages/{}", listed[0]["id"])).await.expect(204);
    assert_eq!(lines(&root, id, "ge/ar/gear").await.len(), 1);
    root.get(&version_path(id, "gear", "1.1.0", "download")).await.expect(404);
    publish(&root, id, "gear", "1.1.0").await.expect(200);
    root.put("/application/settings", json!({ "deletion_adjourned_period": 0 })).await.expect(200);
    root.delete(&format!("/projects/{id}")).await.expect(202);
    server.finish_jobs().await;
    root.get(&format!("{}/ge/ar/gear", registry(id))).await.expect(404);
    assert_eq!(counts(&server).await, (0, 0, 0));
}

async fn concurrent_uploads_of_a_version_publish_it_once(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let names = ["gear-ratio", "gear_ratio", "Gear-Ratio"];
    let uploads = (0..6).map(|number| {
        let root = root.clone();
        // Other spellings and build metadata are the same version.
        async move { publish(&root, id, names[number % 3], &format!("1.0.0+{number}")).await.status }
    });
    let mut statuses = futures_util::future::join_all(uploads).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409, 409, 409, 409]);
    assert_eq!(counts(&server).await, (1, 1, 1));
}

async fn index_is_read_in_few_statements(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for version in 0..5 {
        publish(&root, id, "gear", &format!("{version}.0.0")).await.expect(200);
    }
    let path = format!("{}/ge/ar/gear", registry(id));
    root.get(&format!("{path}?a=1")).await.expect(200);
    let before = server.statements();
    root.get(&format!("{path}?a=2")).await.expect(200);
    // The sizes of the documents are read before the documents.
    assert!(server.statements() - before <= 4, "{}", server.statements() - before);
}

on_every_database![
    published_version_is_in_the_index_and_can_be_downloaded,
    configuration_contains_addresses_and_need_of_credentials,
    index_paths_depend_on_the_name,
    index_file_is_revalidated_until_it_changes,
    yanked_version_remains_in_the_index_and_can_be_downloaded,
    deleted_version_and_project_are_not_in_the_index,
    concurrent_uploads_of_a_version_publish_it_once,
    index_is_read_in_few_statements,
];
