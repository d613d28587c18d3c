//! Refused uploads of Maven files, and hostile paths.

use sea_orm::{ActiveValue::Set, EntityTrait};
use serde_json::json;
use storage::entities::{AccessLevel, Visibility, fold, now, package_files, packages};

use super::{checksums, counts, file, put};
use crate::packages::protection::rule;
use crate::packages::small_files;
use crate::support::slow_request::SlowRequest;
use crate::support::spaces::{id as id_of, project};
use crate::support::{TestServer, on_every_database};

const JAR: &str = "com/gear/1.0/gear-1.0.jar";

async fn invalid_paths_are_refused_and_nothing_is_stored(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let long = "a".repeat(256);
    for path in [
        "gear.jar",
        "1.0/gear.jar",
        "gear/1.0/gear.jar",
        "maven-metadata.xml",
        "com%2F..%2Fgear/1.0/gear.jar",
        "com/gear/1.0/..%2Fgear.jar",
        "com/gear/1.0/..%252Fgear.jar",
        "com%2F%2Fgear/1.0/gear.jar",
        "com/gear/1..0/gear.jar",
        "com/gear/1.0/.gear.jar",
        "com/gear/1.0/.sha1",
        "com/gear/1.0/gear%20.jar",
        "com/gear/1.0/gear%0A.jar",
        "com/gear/1.0/gear%5C.jar",
        "com/gear/1.0/g%C3%A4r.jar",
        "com/%3Cgear%3E/1.0/gear.jar",
        "com/gear/1%260/gear.jar",
        &format!("com/gear/1.0/{long}"),
        &format!("com/gear/{long}/gear.jar"),
        &format!("com/{long}/1.0/gear.jar"),
    ] {
        let refused = put(&root, id, path, "x").await.expect(400);
        let text = "maven_path must be the path of a file in a Maven repository";
        assert!(refused.message().starts_with(text), "{path}: {}", refused.message());
        root.get(&file(id, path)).await.expect(404);
    }
    for path in ["com/gear/1.0/%FF", "com/gear/1.0/a%00", &format!("com/gear/{}/a", "a".repeat(1100))] {
        put(&root, id, path, "x").await.expect(400);
        root.get(&file(id, path)).await.expect(400);
    }
    assert_eq!(counts(&server).await, (0, 0, 0));
    // An encoded slash is a slash.
    put(&root, id, "com%2Fgear/1.0/gear%2D1.0.jar", "x").await.expect(200);
    assert_eq!(root.get(&file(id, JAR)).await.expect(200).text(), "x");
    assert_eq!(root.get(&file(id, &JAR.replace('/', "%2F"))).await.expect(200).text(), "x");
}

async fn checksums_are_compared_with_the_stored_file(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for extension in ["md5", "sha1", "sha256", "sha512"] {
        root.get(&file(id, &format!("{JAR}.{extension}"))).await.expect(404);
    }
    let [(_, digits), _] = checksums(b"x");
    put(&root, id, &format!("{JAR}.sha256"), digits.clone()).await.expect(404);
    put(&root, id, JAR, "x").await.expect(200);
    put(&root, id, &format!("{JAR}.sha256"), digits.clone()).await.expect(200);
    let wrong = put(&root, id, &format!("{JAR}.sha256"), digits.replace('a', "b")).await.expect(409);
    assert_eq!(wrong.message(), "the sha256 is not that of the stored file; upload the file again");
    let long = "0".repeat(5_000);
    for body in ["", " ", "x", "\u{0}", &digits[1..], &format!("{digits}0"), "ä", long.as_str()] {
        let refused = put(&root, id, &format!("{JAR}.sha256"), body.to_owned()).await.expect(400);
        assert_eq!(refused.message(), "the body must contain 64 hexadecimal digits", "{body}");
    }
    // Checksums of metadata that the server computes are not compared.
    put(&root, id, "com/gear/maven-metadata.xml.sha1", "0".repeat(40)).await.expect(404);
    put(&root, id, "com/gear/maven-metadata.xml", "<metadata/>").await.expect(200);
    put(&root, id, "com/gear/maven-metadata.xml.sha1", "0".repeat(40)).await.expect(200);
    put(&root, id, "com/gear/maven-metadata.xml.sha1", "x").await.expect(400);
    assert_eq!(counts(&server).await, (2, 2, 2));
}

async fn empty_file_and_file_over_the_limit_are_refused(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    assert_eq!(put(&root, id, JAR, "").await.expect(400).message(), "file is empty");
    put(&root, id, JAR, vec![7; 100_001]).await.expect(413);
    assert_eq!(counts(&server).await, (0, 0, 0));
    assert_eq!(server.backend.objects.keys(Some("packages")).await.expect("keys"), [""; 0]);
    put(&root, id, JAR, vec![7; 100_000]).await.expect(200);
}

async fn large_metadata_is_refused(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let large = vec![b' '; (4 << 20) + 1];
    for path in ["com/gear/maven-metadata.xml", "com/gear/1-SNAPSHOT/maven-metadata.xml"] {
        put(&root, id, path, large.clone()).await.expect(413);
        put(&root, id, path, large[1..].to_vec()).await.expect(200);
    }
    put(&root, id, JAR, large).await.expect(200);
    assert_eq!(counts(&server).await, (3, 3, 3));
}

async fn full_package_and_artifact_refuse_files(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    put(&root, id, JAR, "x").await.expect(200);
    let db = server.backend.database.write();
    let package = packages::Entity::find().one(db).await.expect("a query").expect("a package");
    let stored = package_files::Entity::find().one(db).await.expect("a query").expect("a file");
    let row = |number: i32| package_files::ActiveModel {
        package_id: Set(package.id),
        file_name: Set(format!("f{number}")),
        size: Set(1),
        md5: Set(stored.md5.clone()),
        sha1: Set(stored.sha1.clone()),
        sha256: Set(stored.sha256.clone()),
        created_at: Set(now()),
        ..Default::default()
    };
    for start in (1..10_000).step_by(1_000) {
        let rows = (start..10_000.min(start + 1_000)).map(row);
        package_files::Entity::insert_many(rows).exec_without_returning(db).await.expect("rows");
    }
    let refused = put(&root, id, JAR, "x").await.expect(400);
    assert_eq!(refused.message(), "the package has too many files (maximum is 10000)");
    put(&root, id, "com/gear/1.1/gear.jar", "x").await.expect(200);
    // Files of other formats, and those before this version of the server, have no SHA-512.
    root.get(&file(id, "com/gear/1.0/f1.sha256")).await.expect(200);
    root.get(&file(id, "com/gear/1.0/f1.sha512")).await.expect(404);
    let row = |number: i32| packages::ActiveModel {
        project_id: Set(id),
        package_type: Set(packages::PackageType::Maven),
        name: Set("com/gear".to_owned()),
        name_key: Set(fold("com/gear")),
        lookup_name: Set("com/gear".to_owned()),
        version: Set(format!("2.{number}")),
        status: Set(packages::PackageStatus::Default),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    };
    for start in (2..10_000).step_by(1_000) {
        let rows = (start..10_000.min(start + 1_000)).map(row);
        packages::Entity::insert_many(rows).exec_without_returning(db).await.expect("rows");
    }
    let refused = put(&root, id, "com/gear/3.0/gear.jar", "x").await.expect(400);
    assert_eq!(refused.message(), "the package has too many versions (maximum is 10000); delete old versions");
    put(&root, id, "com/gear/1.1/other.jar", "x").await.expect(200);
    put(&root, id, "com/gears/3.0/gears.jar", "x").await.expect(200);
    let metadata = root.get(&file(id, "com/gear/maven-metadata.xml")).await.expect(200).text();
    assert_eq!(metadata.matches("<version>").count(), 10_000);
}

async fn protection_rules_apply_to_all_files_of_an_artifact(server: TestServer) {
    let private = server.insert_project_at("g/p", Visibility::Private).await.id;
    let root = server.root();
    let (ann, bob) = (server.create_user("ann").await, server.create_user("bob").await);
    server.insert_member(private, ann.id, AccessLevel::Developer).await;
    server.insert_member(private, bob.id, AccessLevel::Maintainer).await;
    put(&ann.client, private, JAR, "x").await.expect(200);
    let created = rule(&root, private, "maven", "com/g*", [Some("maintainer"), Some("owner")]).await;
    for path in [JAR, "com/gear/1.1/gear.jar", "com/gear/maven-metadata.xml", "com/gear/1-SNAPSHOT/maven-metadata.xml"]
    {
        let refused = put(&ann.client, private, path, "x").await.expect(403);
        assert_eq!(refused.message(), "403 Forbidden - Package protected.");
    }
    put(&ann.client, private, "com/other/1.0/other.jar", "x").await.expect(200);
    put(&bob.client, private, "com/gear/1.1/gear.jar", "x").await.expect(200);
    let listed = root.get(&format!("/projects/{private}/packages")).await.expect(200).json();
    let one = format!("/projects/{private}/packages/{}", listed[0]["id"]);
    let refused = bob.client.delete(&one).await.expect(403);
    assert_eq!(refused.message(), "403 Forbidden - Package is deletion protected.");
    let before = counts(&server).await;
    // A rule that is created during an upload applies.
    let path = format!("/projects/{private}/packages/protection/rules/{}", id_of(&created));
    root.patch(&path, json!({ "package_name_pattern": "com/x" })).await.expect(200);
    let line = format!("PUT /api/v4{}", file(private, JAR));
    let token = [("Private-Token", ann.token.as_str())];
    let request = SlowRequest::begin(&server.base, &line, &token, vec![7; 100]).await;
    root.patch(&path, json!({ "package_name_pattern": "com/gear" })).await.expect(200);
    request.finish().await.expect(403);
    assert_eq!(counts(&server).await, before);
    // Rules of another format do not apply.
    root.patch(&path, json!({ "package_type": "generic" })).await.expect(200);
    put(&ann.client, private, JAR, "x").await.expect(200);
    bob.client.delete(&one).await.expect(204);
}

on_every_database![
    invalid_paths_are_refused_and_nothing_is_stored,
    checksums_are_compared_with_the_stored_file,
    empty_file_and_file_over_the_limit_are_refused with small_files(),
    large_metadata_is_refused,
    full_package_and_artifact_refuse_files,
    protection_rules_apply_to_all_files_of_an_artifact,
];
