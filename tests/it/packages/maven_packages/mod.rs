//! Maven packages: uploads, downloads, checksums and access.

mod access;
mod metadata;
mod refusals;

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::json;
use sha2::{Digest, Sha256, Sha512};
use storage::entities::{package_blobs, package_files, packages};

use crate::packages::check_ranges;
use crate::support::spaces::{group, project};
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

/// Returns the path of a file of a project.
pub fn file(project: i64, path: &str) -> String {
    format!("/projects/{project}/packages/maven/{path}")
}

/// Uploads a file.
pub async fn put(client: &Client, project: i64, path: &str, content: impl Into<reqwest::Body>) -> ApiResponse {
    client.send(client.request(Method::PUT, &file(project, path)).body(content)).await
}

/// Returns the checksums of a text: the extension of each, and the digits.
fn checksums(text: &[u8]) -> [(&'static str, String); 2] {
    [("sha256", hex::encode(Sha256::digest(text))), ("sha512", hex::encode(Sha512::digest(text)))]
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

/// Uploads the files of a version in the order of Maven: each file with its checksums, and then the metadata of the artifact.
async fn deploy(client: &Client, project: i64, folder: &str, version: &str) {
    let artifact = folder.rsplit('/').next().expect("an artifact");
    for extension in ["jar", "pom"] {
        let path = format!("{folder}/{version}/{artifact}-{version}.{extension}");
        let content = format!("{extension} of {version}");
        put(client, project, &path, content.clone()).await.expect(200);
        for (extension, digits) in checksums(content.as_bytes()) {
            put(client, project, &format!("{path}.{extension}"), digits).await.expect(200);
        }
    }
    let metadata = format!("{folder}/maven-metadata.xml");
    let stored = client.get(&file(project, &metadata)).await.expect(200).text();
    assert!(stored.contains(&format!("<version>{version}</version>")), "{stored}");
    put(client, project, &metadata, stored.clone()).await.expect(200);
    for (extension, digits) in checksums(stored.as_bytes()) {
        put(client, project, &format!("{metadata}.{extension}"), digits).await.expect(200);
    }
}

async fn uploaded_file_is_downloaded_with_its_checksums(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({ "visibility": "public" })).await;
    // Longer than the parts in which the content is read and stored.
    let content: Vec<u8> = (0..600_000_u32).map(|n| (n % 251) as u8).collect();
    let path = "com/example/app/1.0/app-1.0.jar";
    let stored = put(&root, id, path, content.clone()).await.expect(200);
    assert!(stored.body.is_empty());
    let listed = root.get(&format!("/projects/{id}/packages?package_type=maven")).await.expect(200).json();
    assert_eq!(
        (&listed[0]["name"], &listed[0]["version"], &listed[0]["package_type"]),
        (&json!("com/example/app"), &json!("1.0"), &json!("maven"))
    );
    let files = root.get(&format!("/projects/{id}/packages/{}/package_files", listed[0]["id"])).await.expect(200);
    let files = files.json();
    assert_eq!((&files[0]["file_name"], &files[0]["size"]), (&json!("app-1.0.jar"), &json!(600_000)));
    let anonymous = server.anonymous();
    let download = anonymous.get(&file(id, path)).await.expect(200);
    assert!(download.body == content);
    let [(_, sha256), (_, sha512)] = checksums(&content);
    for (extension, header, digits) in [
        ("md5", "x-checksum-md5", files[0]["file_md5"].as_str().expect("a text")),
        ("sha1", "x-checksum-sha1", files[0]["file_sha1"].as_str().expect("a text")),
        ("sha256", "x-checksum-sha256", sha256.as_str()),
        ("sha512", "etag", sha512.as_str()),
    ] {
        let checksum = anonymous.get(&file(id, &format!("{path}.{extension}"))).await.expect(200);
        assert_eq!((checksum.text().as_str(), checksum.header("content-type")), (digits, "text/plain; charset=utf-8"));
        if header != "etag" {
            assert_eq!(download.header(header), digits);
        }
        put(&root, id, &format!("{path}.{extension}"), digits.to_owned()).await.expect(200);
        put(&root, id, &format!("{path}.{extension}"), format!("{}  app-1.0.jar\n", digits.to_uppercase()))
            .await
            .expect(200);
        put(&root, id, &format!("{path}.{extension}"), "0".repeat(digits.len())).await.expect(409);
        let tag = checksum.header("etag");
        anonymous.clone().header("If-None-Match", tag).get(&file(id, &format!("{path}.{extension}"))).await.expect(304);
    }
    assert_eq!(download.header("etag"), format!("\"{sha256}\""));
    assert!(download.header("content-disposition").starts_with("attachment; filename=\"app-1.0.jar\""));
    assert!(download.header("content-security-policy").contains("sandbox"));
    let part = anonymous.clone().header("Range", "bytes=300000-300099").get(&file(id, path)).await.expect(206);
    assert!(part.body == content[300_000..300_100]);
    assert_eq!(part.header("content-range"), "bytes 300000-300099/600000");
    anonymous.clone().header("Range", "bytes=600000-").get(&file(id, path)).await.expect(416);
    check_ranges(&anonymous, &file(id, &format!("{path}.sha1"))).await;
    anonymous.clone().header("If-None-Match", download.header("etag")).get(&file(id, path)).await.expect(304);
    let head = anonymous.head(&file(id, path)).await.expect(200);
    assert_eq!((head.body.len(), head.header("content-length")), (0, "600000"));
    // Checksums are not stored.
    assert_eq!(counts(&server).await, (1, 1, 1));
    let package = root.get(&format!("/projects/{id}/packages/{}", listed[0]["id"])).await.expect(200).json();
    assert!(package["last_downloaded_at"].is_string());
}

async fn newest_file_with_a_path_is_downloaded(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let path = "com/example/app/1.0/app-1.0.jar";
    for content in ["first", "second"] {
        put(&root, id, path, content).await.expect(200);
        assert_eq!(root.get(&file(id, path)).await.expect(200).text(), content);
        let [(_, digits), _] = checksums(content.as_bytes());
        assert_eq!(root.get(&file(id, &format!("{path}.sha256"))).await.expect(200).text(), digits);
        put(&root, id, &format!("{path}.sha256"), digits).await.expect(200);
    }
    assert_eq!(counts(&server).await, (1, 2, 2));
    // Another file of the version, in a form.
    let form = Form::new().part("file", Part::bytes(b"from a form".to_vec()).file_name("other"));
    let sources = file(id, "com/example/app/1.0/app-1.0-sources.jar");
    root.send(root.request(Method::PUT, &sources).multipart(form)).await.expect(200);
    assert_eq!(root.get(&sources).await.expect(200).text(), "from a form");
    assert_eq!(root.get(&file(id, path)).await.expect(200).text(), "second");
    assert_eq!(counts(&server).await, (1, 3, 3));
}

async fn files_of_groups_and_of_the_instance_are_downloaded(server: TestServer) {
    let root = server.root();
    let top = group(&root, "engines", json!({ "visibility": "public" })).await;
    let sub = json!({ "parent_id": top, "visibility": "public" });
    let sub = group(&root, "sub", sub).await;
    let public = json!({ "namespace_id": top, "visibility": "public" });
    let first = project(&root, "difference", public).await;
    let second = project(&root, "other", json!({ "namespace_id": sub })).await;
    put(&root, first, "com/a/1.0/a.jar", "first").await.expect(200);
    put(&root, second, "com/a/1.1/a.jar", "second").await.expect(200);
    put(&root, second, "com/a/1.0/a.jar", "newest").await.expect(200);
    let group_file = |path: &str| format!("/groups/{top}/-/packages/maven/{path}");
    let anonymous = server.anonymous();
    assert_eq!(anonymous.get(&group_file("com/a/1.0/a.jar")).await.expect(200).text(), "first");
    assert_eq!(root.get(&group_file("com/a/1.0/a.jar")).await.expect(200).text(), "newest");
    assert_eq!(root.get(&group_file("com/a/1.1/a.jar")).await.expect(200).text(), "second");
    anonymous.get(&group_file("com/a/1.1/a.jar")).await.expect(401);
    root.get(&group_file("com/a/1.2/a.jar")).await.expect(404);
    let of_group = root.get(&group_file("com/a/1.0/a.jar.sha256")).await.expect(200).text();
    assert_eq!(of_group, checksums(b"newest")[0].1);
    check_ranges(&root, &group_file("com/a/1.0/a.jar")).await;
    let tag = root.get(&group_file("com/a/1.0/a.jar")).await.expect(200).header("etag").to_owned();
    root.clone().header("If-None-Match", &tag).get(&group_file("com/a/1.0/a.jar")).await.expect(304);
    // The metadata of the group lists the versions of all projects that the caller can read.
    let metadata = group_file("com/a/maven-metadata.xml");
    let versions = |text: &str| text.matches("<version>").count();
    assert_eq!(versions(&anonymous.get(&metadata).await.expect(200).text()), 1);
    assert_eq!(versions(&root.get(&metadata).await.expect(200).text()), 2);
    // The name of the package is the full path of the project.
    let instance_file = |path: &str| format!("/packages/maven/{path}");
    put(&root, first, "engines/difference/1.0/d.jar", "of the project").await.expect(200);
    put(&root, second, "engines/difference/1.0/d.jar", "of another project").await.expect(200);
    put(&root, second, "engines/sub/other/2.0/o.jar", "private").await.expect(200);
    for client in [&root, &anonymous] {
        let path = instance_file("engines/difference/1.0/d.jar");
        let found = client.get(&path).await.expect(200);
        assert_eq!(found.text(), "of the project");
        client.clone().header("If-None-Match", found.header("etag")).get(&path).await.expect(304);
        check_ranges(client, &path).await;
        let metadata = client.get(&instance_file("engines/difference/maven-metadata.xml")).await.expect(200);
        assert_eq!(versions(&metadata.text()), 1);
    }
    assert_eq!(root.get(&instance_file("engines/sub/other/2.0/o.jar")).await.expect(200).text(), "private");
    anonymous.get(&instance_file("engines/sub/other/2.0/o.jar")).await.expect(401);
    let stranger = server.create_user("stranger").await;
    stranger.client.get(&instance_file("engines/sub/other/2.0/o.jar")).await.expect(404);
    for path in ["com/a/1.0/a.jar", "engines/difference/1.1/d.jar", "x", "engines/missing/1.0/d.jar", "a%00/b/c/d"] {
        let status = if path.contains('%') { 400 } else { 404 };
        root.get(&instance_file(path)).await.expect(status);
        root.get(&group_file(path).replace("com/a/1.0", "com/b/1.0")).await.expect(status);
    }
}

async fn concurrent_uploads_of_a_file_are_all_stored(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let uploads = (0..6).map(|number| {
        let root = root.clone();
        async move {
            let path = if number < 3 { "com/a/1.0/a.jar" } else { "com/a/maven-metadata.xml" };
            put(&root, id, path, format!("content {number}")).await.status
        }
    });
    assert_eq!(futures_util::future::join_all(uploads).await, [200; 6]);
    server.finish_jobs().await;
    // Metadata replaces older metadata.
    assert_eq!(counts(&server).await, (2, 4, 4));
    assert!(root.get(&file(id, "com/a/1.0/a.jar")).await.expect(200).text().starts_with("content "));
}

async fn upload_during_a_deletion_succeeds_or_creates_the_package_again(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for round in 0..5 {
        put(&root, id, "com/a/1.0/a.jar", "old").await.expect(200);
        let listed = root.get(&format!("/projects/{id}/packages")).await.expect(200).json();
        let one = format!("/projects/{id}/packages/{}", listed[0]["id"]);
        let (deleted, stored) = tokio::join!(root.delete(&one), put(&root, id, "com/a/1.0/a.jar", "new"));
        assert_eq!((deleted.status, stored.status), (204, 200), "{round}");
        // The package contains the new file, unless the deletion came last.
        let found = root.get(&file(id, "com/a/1.0/a.jar")).await;
        assert!(found.status == 404 || found.text() == "new", "{} {}", found.status, found.text());
    }
    server.finish_jobs().await;
    let (_, files, contents) = counts(&server).await;
    assert_eq!(files, contents);
}

async fn deletion_of_the_project_deletes_its_files(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    deploy(&root, id, "com/example/app", "1.0").await;
    root.put("/application/settings", json!({ "deletion_adjourned_period": 0 })).await.expect(200);
    root.delete(&format!("/projects/{id}")).await.expect(202);
    server.finish_jobs().await;
    root.get(&file(id, "com/example/app/1.0/app-1.0.jar")).await.expect(404);
    assert_eq!(counts(&server).await, (0, 0, 0));
}

async fn transferred_project_has_its_files(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    deploy(&root, id, "root/work", "1.0").await;
    root.get("/packages/maven/root/work/1.0/work-1.0.jar").await.expect(200);
    let space = group(&root, "space", json!({})).await;
    root.put(&format!("/projects/{id}/transfer"), json!({ "namespace": space })).await.expect(200);
    root.get(&file(id, "root/work/1.0/work-1.0.jar")).await.expect(200);
    root.get(&format!("/groups/{space}/-/packages/maven/root/work/1.0/work-1.0.jar")).await.expect(200);
    // The name of the package is not the full path of the project any more.
    root.get("/packages/maven/root/work/1.0/work-1.0.jar").await.expect(404);
}

on_every_database![
    uploaded_file_is_downloaded_with_its_checksums,
    newest_file_with_a_path_is_downloaded,
    files_of_groups_and_of_the_instance_are_downloaded,
    concurrent_uploads_of_a_file_are_all_stored,
    upload_during_a_deletion_succeeds_or_creates_the_package_again,
    deletion_of_the_project_deletes_its_files,
    transferred_project_has_its_files,
];
