//! Deprecation of versions of npm packages.

use holdfast::config::ConfigOptions;
use sea_orm::{ActiveValue::Set, EntityTrait, QueryOrder};
use serde_json::{Value, json};
use storage::entities::packages::{self, PackageStatus, PackageType};
use storage::entities::{now, package_metadata};

use super::{counts, document, path, publish};
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

/// Returns the deprecation messages of the versions of a package.
fn messages(package: &Value) -> Value {
    let versions = package["versions"].as_object().expect("versions").iter();
    versions.map(|(version, manifest)| (version.clone(), manifest["deprecated"].clone())).collect()
}

async fn versions_are_deprecated_by_the_document_of_the_package(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for version in ["1.0.0", "1.1.0", "2.0.0"] {
        publish(&root, id, "@engines/web", version).await.expect(200);
    }
    let url = path(id, "@engines/web");
    // npm sends the whole package back.
    let mut package = root.get(&format!("{url}?write=true")).await.expect(200).json();
    assert_eq!(messages(&package), json!({ "1.0.0": null, "1.1.0": null, "2.0.0": null }));
    package["versions"]["1.0.0"]["deprecated"] = json!("use 2 \u{1F600} <b>");
    package["versions"]["1.1.0"]["deprecated"] = json!("use 2");
    let changed = root.put(&url, package.clone()).await.expect(200).json();
    assert_eq!(changed, json!({ "name": "@engines/web", "versions": ["1.0.0", "1.1.0"] }));
    let found = root.get(&url).await.expect(200).json();
    assert_eq!(found, package);
    // The same document changes nothing.
    let changed = root.put(&url, package.clone()).await.expect(200).json();
    assert_eq!(changed["versions"], json!([]));
    package["versions"]["1.0.0"]["deprecated"] = json!("");
    let changed = root.put(&url, package).await.expect(200).json();
    assert_eq!(changed["versions"], json!(["1.0.0"]));
    let found = root.get(&url).await.expect(200).json();
    assert_eq!(messages(&found), json!({ "1.0.0": null, "1.1.0": "use 2", "2.0.0": null }));
    assert_eq!(counts(&server).await, (3, 3, 3));
}

async fn versions_that_do_not_exist_are_ignored(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    publish(&root, id, "tiny", "1.0.0").await.expect(200);
    let deprecated = json!({ "deprecated": "old" });
    let document = json!({ "name": "tiny", "versions": { "1.0.0": {}, "9.0.0": deprecated }, "_attachments": {} });
    let changed = root.put(&path(id, "tiny"), document).await.expect(200).json();
    assert_eq!(changed, json!({ "name": "tiny", "versions": [] }));
    let document = json!({ "name": "missing", "versions": { "1.0.0": deprecated } });
    root.put(&path(id, "missing"), document.clone()).await.expect(404);
    root.put(&path(id, "tiny"), document).await.expect(400);
    assert_eq!(counts(&server).await, (1, 1, 1));
}

async fn invalid_deprecations_are_refused(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    publish(&root, id, "tiny", "1.0.0").await.expect(200);
    for (version, message, expected) in [
        ("1.0.0", json!(7), "deprecated must be a string"),
        ("1.0.0", json!("a\0"), "deprecated must not contain NUL"),
        ("1.0.0", json!("x".repeat(4_097)), "deprecated is too long (maximum is 4096 characters)"),
        ("latest", json!("old"), "version must be a semantic version"),
    ] {
        let document = json!({ "name": "tiny", "versions": { version: { "deprecated": message } } });
        let refused = root.put(&path(id, "tiny"), document).await.expect(400);
        assert!(refused.message().starts_with(expected), "{}", refused.message());
    }
    let longest = "\u{1F600}".repeat(4_096);
    let document = json!({ "name": "tiny", "versions": { "1.0.0": { "deprecated": longest } } });
    root.put(&path(id, "tiny"), document).await.expect(200);
    let found = root.get(&path(id, "tiny")).await.expect(200).json();
    assert_eq!(messages(&found), json!({ "1.0.0": longest }));
}

async fn version_is_published_as_deprecated(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let mut sent = document("tiny", "1.0.0", b"x");
    sent["versions"]["1.0.0"]["deprecated"] = json!("a test");
    root.put(&path(id, "tiny"), sent).await.expect(200);
    assert_eq!(messages(&root.get(&path(id, "tiny")).await.expect(200).json()), json!({ "1.0.0": "a test" }));
}

/// Adds versions of the package `tiny` with large documents, from `1.0.0` to `1.0.<count - 1>`.
async fn insert_versions(server: &TestServer, project_id: i64, count: usize) {
    let (db, at) = (server.backend.database.write(), now());
    let versions = (0..count).map(|number| packages::ActiveModel {
        project_id: Set(project_id),
        package_type: Set(PackageType::Npm),
        name: Set("tiny".to_owned()),
        name_key: Set("tiny".to_owned()),
        lookup_name: Set("tiny".to_owned()),
        version: Set(format!("1.0.{number}")),
        status: Set(PackageStatus::Default),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    });
    packages::Entity::insert_many(versions).exec_without_returning(db).await.expect("packages");
    let manifest = json!({ "description": "x".repeat(15_000) });
    let content = json!({ "shasum": "", "integrity": "", "manifest": manifest }).to_string();
    let all = packages::Entity::find().all(db).await.expect("packages");
    let documents = all.into_iter().map(|package| package_metadata::ActiveModel {
        package_id: Set(package.id),
        content: Set(content.clone()),
        ..Default::default()
    });
    package_metadata::Entity::insert_many(documents).exec_without_returning(db).await.expect("documents");
}

/// Returns a document that deprecates the versions of [`insert_versions`].
fn deprecation(count: usize) -> Value {
    let versions = (0..count).map(|number| (format!("1.0.{number}"), json!({ "deprecated": "old" })));
    let versions: serde_json::Map<_, _> = versions.collect();
    json!({ "name": "tiny", "versions": versions })
}

/// Returns the number of stored documents with the message of [`deprecation`].
async fn deprecated_count(server: &TestServer) -> usize {
    let all = package_metadata::Entity::find().all(server.backend.database.read()).await.expect("documents");
    let contents = all.iter().map(|row| serde_json::from_str::<Value>(&row.content).expect("a document"));
    contents.filter(|content| content["deprecated"] == "old").count()
}

async fn many_versions_are_deprecated_in_several_batches(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    insert_versions(&server, id, 230).await;
    let before = packages::Entity::find().order_by_asc(packages::Column::Id);
    let before = before.all(server.backend.database.read()).await.expect("packages");
    let changed = root.put(&path(id, "tiny"), deprecation(229)).await.expect(200).json();
    let expected: Vec<String> = before.iter().take(229).map(|package| package.version.clone()).collect();
    assert_eq!(changed["versions"], json!(expected));
    assert_eq!(deprecated_count(&server).await, 229);
    let after = packages::Entity::find().order_by_asc(packages::Column::Id);
    let after = after.all(server.backend.database.read()).await.expect("packages");
    let updated = before.iter().zip(&after).filter(|(before, after)| before.updated_at < after.updated_at);
    assert_eq!(updated.count(), 229);
}

fn small_memory() -> ConfigOptions {
    ConfigOptions { body_memory_bytes: Some(3 << 20), ..ConfigOptions::default() }
}

async fn deprecation_beyond_memory_returns_503_and_changes_nothing(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    insert_versions(&server, id, 120).await;
    let response = root.put(&path(id, "tiny"), deprecation(120)).await.expect(503);
    assert_eq!(response.header("retry-after"), "5");
    assert_eq!(deprecated_count(&server).await, 0);
    // Few documents need little memory.
    root.put(&path(id, "tiny"), deprecation(10)).await.expect(200);
    assert_eq!(deprecated_count(&server).await, 10);
}

on_every_database![
    versions_are_deprecated_by_the_document_of_the_package,
    versions_that_do_not_exist_are_ignored,
    invalid_deprecations_are_refused,
    version_is_published_as_deprecated,
    many_versions_are_deprecated_in_several_batches,
    deprecation_beyond_memory_returns_503_and_changes_nothing with small_memory(),
];
