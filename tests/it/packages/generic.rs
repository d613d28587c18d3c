//! Generic packages: uploads and downloads.

use holdfast::config::ConfigOptions;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, package_blobs};

use super::{file_path, package, upload};
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

const FILE: [&str; 3] = ["engine", "1.4.0", "engine.tar.gz"];

/// Digests of the content that the tests upload.
const MD5: &str = "74ed481a8d7d78132fa842b8f186f61f";
const SHA1: &str = "e9f2b86a2baf5fbd89cf714b4820614cf0ff18eb";
const SHA256: &str = "11630bb88c82dd476d8f970b9e24861a1ac28481f1d2f7b72092ecb240eb5953";

async fn work(server: &TestServer, visibility: &str) -> String {
    format!("/projects/{}", project(&server.root(), "work", json!({ "visibility": visibility })).await)
}

async fn uploaded_file_is_downloaded_with_its_digests(server: TestServer) {
    let (root, work) = (server.root(), work(&server, "public").await);
    // Longer than the parts in which the content is read and stored.
    let content: Vec<u8> = (0..6_000_000_u32).map(|n| (n % 251) as u8).collect();
    let path = format!("{}?select=package_file&status=default", file_path(&work, FILE));
    let request = root.request(Method::PUT, &path).header("content-type", "application/octet-stream");
    let file = root.send(request.body(content.clone())).await.expect(201).json();
    assert_eq!(
        file,
        json!({
            "id": file["id"], "package_id": file["package_id"], "created_at": file["created_at"],
            "file_name": "engine.tar.gz", "size": 6_000_000, "file_md5": MD5,
            "file_sha1": SHA1, "file_sha256": SHA256, "updated_at": file["created_at"], "status": "default",
            "file": { "url": file["file"]["url"] },
        })
    );
    // Clients put the URL into links, so it is absolute.
    let url = file["file"]["url"].as_str().expect("a text");
    let (server_url, path) = url.split_once("/api/v4").expect("a URL of the API");
    assert!(server_url.starts_with("http"), "{url}");
    assert_eq!(path, format!("{work}/packages/generic/engine/1.4.0/engine.tar.gz"));
    assert!(root.get(path).await.expect(200).body == content);
    let anonymous = server.anonymous();
    let download = anonymous.get(&file_path(&work, FILE)).await.expect(200);
    assert!(download.body == content);
    assert_eq!(download.header("content-type"), "application/octet-stream");
    assert_eq!(download.header("content-length"), "6000000");
    assert_eq!(download.header("x-checksum-sha256"), SHA256);
    assert_eq!(download.header("etag"), format!("\"{SHA256}\""));
    assert!(download.header("content-disposition").starts_with("attachment; filename=\"engine.tar.gz\""));
    assert!(download.header("content-security-policy").contains("sandbox"));
    let part = anonymous.clone().header("Range", "bytes=2000000-2000099").get(&file_path(&work, FILE)).await;
    let part = part.expect(206);
    assert!(part.body == content[2_000_000..2_000_100]);
    assert_eq!(part.header("content-range"), "bytes 2000000-2000099/6000000");
    anonymous.clone().header("Range", "bytes=6000000-").get(&file_path(&work, FILE)).await.expect(416);
    let known = anonymous.clone().header("If-None-Match", download.header("etag"));
    assert!(known.get(&file_path(&work, FILE)).await.expect(304).body.is_empty());
    let head = anonymous.head(&file_path(&work, FILE)).await.expect(200);
    assert_eq!((head.body.len(), head.header("content-length")), (0, "6000000"));
    let by_id = format!("{work}/packages/{}/package_files/{}/download", file["package_id"], file["id"]);
    assert!(anonymous.get(&by_id).await.expect(200).body == content);
    anonymous.clone().header("Range", "bytes=0-3").get(&by_id).await.expect(206);
    anonymous.clone().header("Range", "bytes=6000000-").get(&by_id).await.expect(416);
    anonymous.clone().header("If-None-Match", download.header("etag")).get(&by_id).await.expect(304);
}

async fn upload_accepts_forms_and_bodies_of_any_type(server: TestServer) {
    let (root, work) = (server.root(), work(&server, "private").await);
    let form = Form::new()
        .text("status", "hidden")
        .text("select", "package_file")
        .part("file", Part::bytes(b"from a form".to_vec()).file_name("other.txt"));
    let request = root.request(Method::PUT, &file_path(&work, ["a", "1", "form.txt"])).multipart(form);
    let file = root.send(request).await.expect(201).json();
    assert_eq!((&file["file_name"], &file["size"]), (&json!("form.txt"), &json!(11)));
    assert_eq!(root.get(&file_path(&work, ["a", "1", "form.txt"])).await.expect(200).text(), "from a form");
    let hidden = root.get(&format!("{work}/packages/{}", file["package_id"])).await.expect(200).json();
    assert_eq!(hidden["status"], "hidden");
    for (name, media) in [("1", "application/json"), ("2", "application/x-www-form-urlencoded"), ("3", "text/html")] {
        let request = root.request(Method::PUT, &file_path(&work, ["a", "1", name]));
        let sent = root.send(request.header("content-type", media).body("{\"a\": 1")).await.expect(201).json();
        assert_eq!(sent, json!({ "message": "201 Created" }));
        assert_eq!(root.get(&file_path(&work, ["a", "1", name])).await.expect(200).text(), "{\"a\": 1");
    }
    // The status of an existing package changes only on request.
    let status = async || {
        let package = root.get(&format!("{work}/packages/{}", file["package_id"])).await.expect(200).json();
        package["status"].clone()
    };
    assert_eq!(status().await, "hidden");
    let path = format!("{}?status=default", file_path(&work, ["a", "1", "x"]));
    root.send(root.request(Method::PUT, &path).body("x")).await.expect(201);
    assert_eq!(status().await, "default");
    let empty = Form::new().text("status", "hidden");
    let request = root.request(Method::PUT, &file_path(&work, ["b", "1", "x"])).multipart(empty);
    assert_eq!(root.send(request).await.expect(400).message(), "file is missing");
}

async fn newest_of_equal_file_names_is_downloaded(server: TestServer) {
    let (root, work) = (server.root(), work(&server, "private").await);
    for content in ["old", "new"] {
        upload(&root, &work, FILE, content.as_bytes()).await.expect(201);
    }
    assert_eq!(root.get(&file_path(&work, FILE)).await.expect(200).text(), "new");
    let packages = root.get(&format!("{work}/packages")).await.expect(200).json();
    assert_eq!(packages.as_array().map(Vec::len), Some(1));
    let files = format!("{work}/packages/{}/package_files", packages[0]["id"]);
    let files = root.get(&files).await.expect(200).json();
    assert_eq!((&files[0]["size"], &files[1]["file_name"]), (&json!(3), &json!("engine.tar.gz")));
    let newest = format!("{work}/packages/{}/package_files/{}", packages[0]["id"], files[1]["id"]);
    root.delete(&newest).await.expect(204);
    assert_eq!(root.get(&file_path(&work, FILE)).await.expect(200).text(), "old");
}

async fn upload_refuses_invalid_names_and_parameters(server: TestServer) {
    let (root, work) = (server.root(), work(&server, "private").await);
    let long = "x".repeat(256);
    for (names, fault) in [
        (["a b", "1", "f"], "package_name is invalid"),
        (["...", "1", "f"], "package_name is invalid"),
        (["a/b", "1", "f"], "package_name is invalid"),
        (["a", "..1.2.3", "f"], "package_version is invalid"),
        (["a", "1.2.3-4/../../", "f"], "package_version is invalid"),
        (["a", "1", "../f"], "file_name is invalid"),
        (["a", "1", "%2e%2e%2ff"], "file_name is invalid"),
        (["a", "1", "~f"], "file_name is invalid"),
        (["a", "1", "f@"], "file_name is invalid"),
        (["é", "1", "~"], "package_name is invalid, file_name is invalid"),
        (["a", "1", "f\0"], "file_name is invalid"),
        (["a", "1", &long], "file_name is too long (maximum is 255 characters)"),
    ] {
        let refused = upload(&root, &work, names, b"x").await.expect(400);
        assert_eq!(refused.message(), fault, "{names:?}");
    }
    for (query, fault) in
        [("status=error", "status does not have a valid value"), ("select=other", "select does not have a valid value")]
    {
        let path = format!("{}?{query}", file_path(&work, FILE));
        let refused = root.send(root.request(Method::PUT, &path).body("x")).await.expect(400);
        assert_eq!(refused.message(), fault);
    }
    assert_eq!(upload(&root, &work, FILE, b"").await.expect(400).message(), "file is empty");
    assert_eq!(root.get(&format!("{work}/packages")).await.expect(200).json(), json!([]));
    for names in [["a", "1", "none"], ["a", "2", "f"], ["b", "1", "f"], ["é", "...", "a/b"]] {
        root.get(&file_path(&work, names)).await.expect(404);
    }
    root.get(&file_path(&work, ["a", "1", &long])).await.expect(400);
}

/// A server that accepts files of at most 1,000 bytes.
fn small_files() -> ConfigOptions {
    ConfigOptions { max_package_file_bytes: Some(1_000), ..ConfigOptions::default() }
}

async fn upload_above_the_maximum_size_returns_413(server: TestServer) {
    let (root, work) = (server.root(), work(&server, "private").await);
    upload(&root, &work, FILE, &[0; 1_000]).await.expect(201);
    for size in [1_001, 100_000] {
        let form = Form::new().part("file", Part::bytes(vec![0; size]).file_name("f"));
        for refused in [
            upload(&root, &work, FILE, &vec![0; size]).await,
            root.send(root.request(Method::PUT, &file_path(&work, FILE)).multipart(form)).await,
        ] {
            assert_eq!(refused.expect(413).json()["setting"], "max_package_file_bytes", "{size}");
        }
    }
    let files = root.get(&format!("{work}/packages/1/package_files")).await.expect(200).json();
    assert_eq!(files.as_array().map(Vec::len), Some(1));
}

/// A server that stores packages of at most 1,000 bytes for each project.
fn small_projects() -> ConfigOptions {
    ConfigOptions { max_project_package_bytes: Some(1_000), ..ConfigOptions::default() }
}

async fn upload_above_the_maximum_size_of_the_project_returns_413(server: TestServer) {
    let (root, work) = (server.root(), work(&server, "private").await);
    upload(&root, &work, FILE, &[0; 600]).await.expect(201);
    let refused = upload(&root, &work, ["other", "1.0.0", "f"], &[0; 401]).await.expect(413);
    assert_eq!(refused.json()["setting"], "max_project_package_bytes");
    assert!(refused.message().contains("(maximum is 1000 bytes); delete packages"), "{}", refused.message());
    let packages = root.get(&format!("{work}/packages")).await.expect(200).json();
    assert_eq!(packages.as_array().map(Vec::len), Some(1));
    let blobs = package_blobs::Entity::find().count(server.backend.database.read()).await.expect("a count");
    assert_eq!(blobs, 1, "the content of the refused file remains");

    // Other projects are not affected, and a deletion makes room.
    let other = project(&root, "other", json!({})).await;
    let before = server.statements();
    upload(&root, &format!("/projects/{other}"), FILE, &[0; 1_000]).await.expect(201);
    // Under the lock of the project, the sizes of older files are not read again.
    let texts = server.statement_texts(before);
    let insert = texts.iter().position(|text| text.starts_with("INSERT INTO \"package_files\"")).expect("an insert");
    let sums: Vec<&String> = texts[insert..].iter().filter(|text| text.contains("SUM(")).collect();
    assert!(matches!(sums.as_slice(), [sum] if sum.contains("\"package_files\".\"id\" >")), "{sums:?}");
    root.delete(&format!("{work}/packages/{}", packages[0]["id"])).await.expect(204);
    let uploads = (0..4).map(|number| {
        let (root, work) = (root.clone(), work.clone());
        async move { upload(&root, &work, ["many", "1.0.0", &format!("f{number}")], &[0; 300]).await.status }
    });
    let mut statuses = futures_util::future::join_all(uploads).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 201, 201, 413]);
}

async fn concurrent_uploads_create_one_package(server: TestServer) {
    let (root, work) = (server.root(), work(&server, "private").await);
    let uploads = (0..8).map(|number| {
        let (root, work) = (root.clone(), work.clone());
        async move { upload(&root, &work, FILE, format!("content {number}").as_bytes()).await.expect(201) }
    });
    futures_util::future::join_all(uploads).await;
    let packages = root.get(&format!("{work}/packages")).await.expect(200).json();
    assert_eq!(packages.as_array().map(Vec::len), Some(1));
    let files = root.get(&format!("{work}/packages/{}/package_files", packages[0]["id"])).await.expect(200);
    assert_eq!(files.json().as_array().map(Vec::len), Some(8));
    let newest = files.json()[7]["file_sha256"].clone();
    let download = root.get(&file_path(&work, FILE)).await.expect(200);
    assert_eq!(json!(download.header("x-checksum-sha256")), newest);
}

async fn download_records_its_time(server: TestServer) {
    let (root, work) = (server.root(), work(&server, "public").await);
    let (id, _) = package(&root, &work, "a", "1").await;
    let one = format!("{work}/packages/{id}");
    assert_eq!(root.get(&one).await.expect(200).json()["last_downloaded_at"], Value::Null);
    server.anonymous().get(&file_path(&work, ["a", "1", "there"])).await.expect(200);
    let first = root.get(&one).await.expect(200).json()["last_downloaded_at"].clone();
    assert!(first.is_string());
    root.get(&file_path(&work, ["a", "1", "there"])).await.expect(200);
    assert_eq!(root.get(&one).await.expect(200).json()["last_downloaded_at"], first);
}

async fn archived_project_is_read_only(server: TestServer) {
    let (root, work) = (server.root(), work(&server, "private").await);
    let ann = server.create_user("ann").await;
    let id = work.rsplit('/').next().and_then(|id| id.parse().ok()).expect("an ID");
    server.insert_member(id, ann.id, AccessLevel::Maintainer).await;
    upload(&ann.client, &work, FILE, b"x").await.expect(201);
    root.post(&format!("{work}/archive"), json!({})).await.expect(201);
    upload(&ann.client, &work, FILE, b"x").await.expect(403);
    ann.client.delete(&format!("{work}/packages/1")).await.expect(403);
    ann.client.get(&file_path(&work, FILE)).await.expect(200);
}

async fn upload_with_path_of_the_project_and_trailing_slash_is_accepted(server: TestServer) {
    server.insert_project_at("g/p", Visibility::Private).await;
    let root = server.root();
    let path = format!("{}/", file_path("/projects/g%2Fp", FILE));
    root.send(root.request(Method::PUT, &path).body("x")).await.expect(201);
    assert_eq!(root.get(&path).await.expect(200).text(), "x");
}

on_every_database![
    uploaded_file_is_downloaded_with_its_digests,
    upload_accepts_forms_and_bodies_of_any_type,
    newest_of_equal_file_names_is_downloaded,
    upload_refuses_invalid_names_and_parameters,
    upload_above_the_maximum_size_returns_413 with small_files(),
    upload_above_the_maximum_size_of_the_project_returns_413 with small_projects(),
    concurrent_uploads_create_one_package,
    download_records_its_time,
    archived_project_is_read_only,
    upload_with_path_of_the_project_and_trailing_slash_is_accepted,
];
