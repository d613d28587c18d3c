//! Files uploaded to projects.

mod in_buckets;

use std::path::Path;
use std::time::Duration;

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, PaginatorTrait};
use serde_json::json;
use storage::entities::project_uploads;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::places::project;
use crate::support::process::{Site, on_every_site};
use crate::support::{Answer, Client, TestServer, on_every_database};

async fn send(client: &Client, project: i64, name: &str, bytes: Vec<u8>) -> Answer {
    let form = Form::new().part("file", Part::bytes(bytes).file_name(name.to_owned()));
    let path = format!("/projects/{project}/uploads");
    client.send(client.request(Method::POST, &path).multipart(form)).await
}

/// A body written by hand, for what no client library would send.
async fn raw(client: &Client, project: i64, disposition: &str, content: &[u8]) -> Answer {
    let mut body = format!("--b\r\nContent-Disposition: form-data; {disposition}\r\n\r\n").into_bytes();
    body.extend_from_slice(content);
    body.extend_from_slice(b"\r\n--b--\r\n");
    let request = client
        .request(Method::POST, &format!("/projects/{project}/uploads"))
        .header("content-type", "multipart/form-data; boundary=b")
        .body(body);
    client.send(request).await
}

fn url(answer: &Answer) -> String {
    format!("/{}", answer.json()["full_path"].as_str().expect("an address"))
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

fn kept(server: &TestServer) -> usize {
    files(&server.data().join("objects")).len() + files(&server.data().join("tmp")).len()
}

async fn rows(server: &TestServer) -> u64 {
    let count = project_uploads::Entity::find().count(server.backend.database.read()).await;
    count.expect("a count")
}

async fn an_uploaded_file_is_served_at_its_address(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({"visibility": "public"})).await;
    let content: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    let sent = send(&root, id, "my card.png", content.clone()).await.expect(201);
    let upload = sent.json();
    let address = upload["url"].as_str().expect("an address");
    let secret = address.split('/').nth(2).expect("a secret");
    assert!(secret.len() == 32 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(address, format!("/uploads/{secret}/my_card.png"));
    assert_eq!(upload["full_path"], format!("/root/work{address}"));
    assert_eq!((&upload["alt"], &upload["markdown"]), (&json!("my_card"), &json!(format!("![my_card]({address})"))));
    let nobody = server.anonymous();
    let got = nobody.get(&url(&sent)).await.expect(200);
    assert!(got.body == content);
    assert_eq!((got.header("content-type"), got.header("content-length")), ("image/png", "200000"));
    assert!(got.header("content-disposition").starts_with("inline; filename=\"my_card.png\""));
    assert_eq!(got.header("x-content-type-options"), "nosniff");
    assert!(got.header("content-security-policy").contains("sandbox"));
    let part = nobody.clone().header("Range", "bytes=100-199").get(&url(&sent)).await.expect(206);
    assert!(part.body == content[100..200]);
    nobody.clone().header("If-None-Match", got.header("etag")).get(&url(&sent)).await.expect(304);
    let head = nobody.head(&url(&sent)).await.expect(200);
    assert!(head.body.is_empty());
    for wrong in [
        url(&sent).replace("my_card.png", "other.png"),
        url(&sent).replace(secret, &"0".repeat(32)),
        url(&sent).replace("/work/", "/other/"),
        url(&sent).replace("my_card", "MY_CARD"),
    ] {
        nobody.get(&wrong).await.expect(404);
    }
    nobody.send(nobody.request(Method::POST, &url(&sent))).await.expect(404);
    // By the path in other letters too, as everywhere.
    nobody.get(&url(&sent).replace("/root/work/", "/ROOT/Work/")).await.expect(200);
}

async fn a_file_follows_the_access_rules_of_its_project(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let (ada, bob) = (server.person("ada").await, server.person("bob").await);
    server.enrol(id, ada.id, storage::entities::AccessLevel::Guest).await;
    let sent = send(&ada.client, id, "a.txt", b"secret".to_vec()).await.expect(201);
    assert_eq!(sent.json()["markdown"], format!("[a.txt]({})", sent.json()["url"].as_str().expect("an address")));
    assert_eq!(ada.client.get(&url(&sent)).await.expect(200).text(), "secret");
    let hidden = bob.client.get(&url(&sent)).await.expect(404);
    assert_eq!(
        hidden.body,
        bob.client.get("//root/none/uploads/00000000000000000000000000000000/a").await.expect(404).body
    );
    server.anonymous().get(&url(&sent)).await.expect(404);
    server.with_token("wrong").get(&url(&sent)).await.expect(401);
    let narrow = server.token_of(ada.id, &["read_user"]).await;
    server.with_token(&narrow).get(&url(&sent)).await.expect(403);
    send(&server.with_token(&narrow), id, "a.txt", b"x".to_vec()).await.expect(403);
    send(&bob.client, id, "a.txt", b"x".to_vec()).await.expect(404);
    send(&server.anonymous(), id, "a.txt", b"x".to_vec()).await.expect(401);
    assert_eq!(rows(&server).await, 1);
    root.post(&format!("/projects/{id}/archive"), json!({})).await.expect(201);
    send(&ada.client, id, "a.txt", b"x".to_vec()).await.expect(403);
    ada.client.get(&url(&sent)).await.expect(200);
}

async fn nothing_that_could_run_does_so_in_the_origin_of_the_server(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({"visibility": "public"})).await;
    for (name, content) in [
        ("x.html", &b"<script>alert(1)</script>"[..]),
        ("x.svg", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"),
        ("x.xml", b"<?xml-stylesheet href='x'?>"),
        ("x.pdf", b"%PDF-1.4"),
        ("x.js", b"alert(1)"),
        ("x", b"<html>"),
        ("x.png.html", b"<html>"),
    ] {
        let sent = send(&root, id, name, content.to_vec()).await.expect(201);
        let got = server.anonymous().get(&url(&sent)).await.expect(200);
        assert_eq!(got.header("content-type"), "application/octet-stream", "{name}");
        assert!(got.header("content-disposition").starts_with("attachment; "), "{name}");
        assert_eq!(got.header("x-content-type-options"), "nosniff");
        assert!(got.header("content-security-policy").contains("sandbox"));
    }
    // What only says that it is a picture is sent as one, which browsers do not look into.
    let sent = send(&root, id, "x.png", b"<script>alert(1)</script>".to_vec()).await.expect(201);
    let got = server.anonymous().get(&url(&sent)).await.expect(200);
    assert_eq!((got.header("content-type"), got.header("x-content-type-options")), ("image/png", "nosniff"));
}

async fn names_of_every_kind_are_cleaned_and_found_again(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for (name, clean) in [
        ("../../../etc/passwd", "passwd"),
        ("..\\\\..\\\\boot.ini", "boot.ini"),
        ("a b&c<d>;e|f`g$h'i.txt", "a_b_c_d__e_f_g_h_i.txt"),
        ("%2e%2e%2f%00.txt", "_2e_2e_2f_00.txt"),
        ("größe+日本語.txt", "größe+日本語.txt"),
        ("\u{202e}gpj.exe", "_gpj.exe"),
        ("..", "__"),
        ("🚀", "_"),
    ] {
        let sent = raw(&root, id, &format!("name=\"file\"; filename=\"{name}\""), b"x").await.expect(201);
        let full = sent.json()["full_path"].as_str().expect("an address").to_owned();
        assert_eq!(full.rsplit('/').next(), Some(clean), "{name:?}");
        assert_eq!(root.get(&format!("/{full}")).await.expect(200).text(), "x");
    }
    let long = format!("{}.txt", "ä".repeat(1_000));
    let sent = raw(&root, id, &format!("name=\"file\"; filename=\"{long}\""), b"x").await.expect(201);
    assert_eq!(root.get(&url(&sent)).await.expect(200).text(), "x");
}

async fn a_file_may_be_empty_and_as_large_as_the_limit_and_no_larger(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let empty = send(&root, id, "empty.txt", Vec::new()).await.expect(201);
    let got = root.get(&url(&empty)).await.expect(200);
    assert_eq!((got.body.len(), got.header("content-length")), (0, "0"));
    let largest = vec![7; 10 << 20];
    let sent = send(&root, id, "largest", largest.clone()).await.expect(201);
    assert!(root.get(&url(&sent)).await.expect(200).body == largest);
    let before = kept(&server);
    let refused = send(&root, id, "larger", vec![7; (10 << 20) + 1]).await.expect(413);
    assert_eq!(refused.message(), "413 Request Entity Too Large");
    assert_eq!((kept(&server), rows(&server).await), (before, 2));
    for (megabytes, status) in [(1, 413), (11, 201)] {
        root.put("/application/settings", json!({ "max_attachment_size": megabytes })).await.expect(200);
        send(&root, id, "between", vec![7; (1 << 20) + (1 << 17)]).await.expect(status);
    }
}

async fn what_is_no_file_is_refused(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let path = format!("/projects/{id}/uploads");
    for (answer, message) in [
        (root.post(&path, json!({})).await, "file is missing"),
        (root.post_form(&path, &[("file", "text")]).await, "file is missing"),
        (raw(&root, id, "name=\"other\"", b"x").await, "file is missing"),
        (raw(&root, id, "name=\"file\"", b"x").await, "file is invalid"),
        (raw(&root, id, "name=\"other\"", b"\xff").await, "other is invalid"),
    ] {
        assert_eq!(answer.expect(400).message(), message);
    }
    let request = |kind: &str, body: &'static str| {
        root.request(Method::POST, &path).header("content-type", kind.to_owned()).body(body)
    };
    root.send(request("multipart/form-data", "x")).await.expect(400);
    root.send(request("multipart/form-data; boundary=b", "nothing")).await.expect(400);
    let cut = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nhalf";
    root.send(request("multipart/form-data; boundary=b", cut)).await.expect(400);
    let large = Form::new().text("other", "x".repeat((1 << 20) + 1));
    root.send(root.request(Method::POST, &path).multipart(large)).await.expect(413);
    assert_eq!((kept(&server), rows(&server).await), (0, 0));
}

async fn an_upload_that_breaks_off_leaves_nothing(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let host = server.base.strip_prefix("http://").expect("an address").to_owned();
    let mut connection = tokio::net::TcpStream::connect(&host).await.expect("a connection");
    let head = format!(
        "POST /api/v4/projects/{id}/uploads HTTP/1.1\r\nHost: {host}\r\nPrivate-Token: {}\r\n\
         Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 5000000\r\n\r\n\
         --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n",
        "root-token-of-the-tests"
    );
    connection.write_all(head.as_bytes()).await.expect("sending");
    connection.write_all(&vec![b'x'; 1_000_000]).await.expect("sending");
    connection.shutdown().await.expect("breaking off");
    // The server is done with it when it closes its side.
    let mut rest = Vec::new();
    let closed = connection.read_to_end(&mut rest);
    let _ = tokio::time::timeout(Duration::from_secs(20), closed).await.expect("an end");
    assert_eq!((kept(&server), rows(&server).await), (0, 0));
}

async fn an_upload_that_the_storage_does_not_take_leaves_nothing(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let objects = server.data().join("objects");
    std::fs::remove_dir_all(&objects).expect("a removal");
    std::fs::write(&objects, "no directory").expect("a file");
    for size in [5, 6 << 20] {
        // Not by the client's own way, which takes no failures of the server's.
        let form = Form::new().part("file", Part::bytes(vec![7; size]).file_name("a"));
        let request = root.request(Method::POST, &format!("/projects/{id}/uploads")).multipart(form);
        let refused = request.send().await.expect("an answer");
        assert_eq!(refused.status(), 500);
        assert_eq!(refused.text().await.expect("a text"), r#"{"message":"500 Internal Server Error"}"#);
    }
    assert_eq!((rows(&server).await, files(&server.data().join("tmp")).len()), (0, 0));
    std::fs::remove_file(&objects).expect("a removal");
    std::fs::create_dir(&objects).expect("a directory");
    send(&root, id, "a", vec![7; 6 << 20]).await.expect(201);
}

async fn what_a_killed_server_left_is_swept(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let sent = send(&root, id, "kept.txt", b"x".to_vec()).await.expect(201);
    let lost = send(&root, id, "lost.txt", b"x".to_vec()).await.expect(201);
    let secret = lost.json()["url"].as_str().expect("an address").split('/').nth(2).expect("a secret").to_owned();
    let db = server.backend.database.write();
    let row = project_uploads::stored(db, id, &secret).await.expect("a query").expect("a row");
    let unfinished = project_uploads::ActiveModel {
        id: Set(row.id),
        stored_at: Set(None),
        created_at: Set(row.created_at - chrono::TimeDelta::days(2)),
        ..Default::default()
    };
    unfinished.update(db).await.expect("a row");
    root.get(&url(&lost)).await.expect(404);
    let swept = domain::accounts::uploads::sweep(&server.backend).await.expect("a sweep");
    assert_eq!((swept, rows(&server).await, kept(&server)), (1, 1, 1));
    root.get(&url(&sent)).await.expect(200);
}

async fn files_go_with_their_project(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let other = project(&root, "other", json!({})).await;
    for id in [work, work, other] {
        send(&root, id, "a.txt", b"x".to_vec()).await.expect(201);
    }
    root.delete(&format!("/projects/{work}")).await.expect(202);
    server.finish_jobs().await;
    assert_eq!((rows(&server).await, kept(&server)), (1, 1));
}

on_every_database![
    an_uploaded_file_is_served_at_its_address,
    a_file_follows_the_access_rules_of_its_project,
    nothing_that_could_run_does_so_in_the_origin_of_the_server,
    names_of_every_kind_are_cleaned_and_found_again,
    a_file_may_be_empty_and_as_large_as_the_limit_and_no_larger,
    what_is_no_file_is_refused,
    an_upload_that_breaks_off_leaves_nothing,
    an_upload_that_the_storage_does_not_take_leaves_nothing,
    what_a_killed_server_left_is_swept,
    files_go_with_their_project,
];

async fn a_backup_has_the_uploaded_files(site: Site) {
    let server = site.serve(&[]).await;
    let client = Client::new(&server.base, Some(crate::support::process::TOKEN));
    let id = project(&client, "work", json!({})).await;
    let sent = send(&client, id, "a.txt", b"kept".to_vec()).await.expect(201);
    let copy = site.beside("copy");
    let copy = copy.to_str().expect("a path");
    site.succeeds(&["backup", copy]).await;
    server.stop().await;
    let other = site.another().await;
    other.succeeds(&["restore", copy]).await;
    let server = other.serve(&[]).await;
    let client = Client::new(&server.base, Some(crate::support::process::TOKEN));
    assert_eq!(client.get(&url(&sent)).await.expect(200).text(), "kept");
    server.stop().await;
    other.remove().await;
}

on_every_site![a_backup_has_the_uploaded_files,];
