//! Files uploaded to projects.

mod object_storage;

use std::path::Path;
use std::time::Duration;

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, PaginatorTrait};
use serde_json::json;
use storage::entities::{now, project_uploads};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::process::{Site, on_every_site};
use crate::support::spaces::project;
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

async fn send(client: &Client, project: i64, name: &str, bytes: Vec<u8>) -> ApiResponse {
    let form = Form::new().part("file", Part::bytes(bytes).file_name(name.to_owned()));
    let path = format!("/projects/{project}/uploads");
    client.send(client.request(Method::POST, &path).multipart(form)).await
}

/// Sends a multipart body that client libraries would not create.
async fn send_raw(client: &Client, project: i64, disposition: &str, content: &[u8]) -> ApiResponse {
    let mut body = format!("--b\r\nContent-Disposition: form-data; {disposition}\r\n\r\n").into_bytes();
    body.extend_from_slice(content);
    body.extend_from_slice(b"\r\n--b--\r\n");
    let request = client
        .request(Method::POST, &format!("/projects/{project}/uploads"))
        .header("content-type", "multipart/form-data; boundary=b")
        .body(body);
    client.send(request).await
}

fn url(response: &ApiResponse) -> String {
    format!("/{}", response.json()["full_path"].as_str().expect("an address"))
}

/// Returns all files below a directory.
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

fn stored_file_count(server: &TestServer) -> usize {
    files(&server.data().join("objects")).len() + files(&server.data().join("tmp")).len()
}

async fn row_count(server: &TestServer) -> u64 {
    let count = project_uploads::Entity::find().count(server.backend.database.read()).await;
    count.expect("a count")
}

async fn uploaded_file_is_served_at_its_url(server: TestServer) {
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
    let anonymous = server.anonymous();
    let response = anonymous.get(&url(&sent)).await.expect(200);
    assert!(response.body == content);
    assert_eq!((response.header("content-type"), response.header("content-length")), ("image/png", "200000"));
    assert!(response.header("content-disposition").starts_with("inline; filename=\"my_card.png\""));
    assert_eq!(response.header("x-content-type-options"), "nosniff");
    assert!(response.header("content-security-policy").contains("sandbox"));
    let part = anonymous.clone().header("Range", "bytes=100-199").get(&url(&sent)).await.expect(206);
    assert!(part.body == content[100..200]);
    anonymous.clone().header("If-None-Match", response.header("etag")).get(&url(&sent)).await.expect(304);
    let head = anonymous.head(&url(&sent)).await.expect(200);
    assert!(head.body.is_empty());
    for wrong in [
        url(&sent).replace("my_card.png", "other.png"),
        url(&sent).replace(secret, &"0".repeat(32)),
        url(&sent).replace("/work/", "/other/"),
        url(&sent).replace("my_card", "MY_CARD"),
    ] {
        anonymous.get(&wrong).await.expect(404);
    }
    anonymous.send(anonymous.request(Method::POST, &url(&sent))).await.expect(404);
    // Paths are case-insensitive.
    anonymous.get(&url(&sent).replace("/root/work/", "/ROOT/Work/")).await.expect(200);
}

async fn uploaded_file_has_the_access_rules_of_its_project(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    server.insert_member(id, ada.id, storage::entities::AccessLevel::Guest).await;
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
    let narrow = server.create_token(ada.id, &["read_user"]).await;
    server.with_token(&narrow).get(&url(&sent)).await.expect(403);
    send(&server.with_token(&narrow), id, "a.txt", b"x".to_vec()).await.expect(403);
    send(&bob.client, id, "a.txt", b"x".to_vec()).await.expect(404);
    send(&server.anonymous(), id, "a.txt", b"x".to_vec()).await.expect(401);
    assert_eq!(row_count(&server).await, 1);
    root.post(&format!("/projects/{id}/archive"), json!({})).await.expect(201);
    send(&ada.client, id, "a.txt", b"x".to_vec()).await.expect(403);
    ada.client.get(&url(&sent)).await.expect(200);
}

async fn active_content_is_served_as_attachment_in_a_sandbox(server: TestServer) {
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
        let response = server.anonymous().get(&url(&sent)).await.expect(200);
        assert_eq!(response.header("content-type"), "application/octet-stream", "{name}");
        assert!(response.header("content-disposition").starts_with("attachment; "), "{name}");
        assert_eq!(response.header("x-content-type-options"), "nosniff");
        assert!(response.header("content-security-policy").contains("sandbox"));
    }
    // A file with an image extension is sent as an image, which browsers do not execute.
    let sent = send(&root, id, "x.png", b"<script>alert(1)</script>".to_vec()).await.expect(201);
    let response = server.anonymous().get(&url(&sent)).await.expect(200);
    assert_eq!((response.header("content-type"), response.header("x-content-type-options")), ("image/png", "nosniff"));
}

async fn file_names_are_sanitized_and_files_remain_available(server: TestServer) {
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
        let sent = send_raw(&root, id, &format!("name=\"file\"; filename=\"{name}\""), b"x").await.expect(201);
        let full = sent.json()["full_path"].as_str().expect("an address").to_owned();
        assert_eq!(full.rsplit('/').next(), Some(clean), "{name:?}");
        assert_eq!(root.get(&format!("/{full}")).await.expect(200).text(), "x");
    }
    let long = format!("{}.txt", "ä".repeat(1_000));
    let sent = send_raw(&root, id, &format!("name=\"file\"; filename=\"{long}\""), b"x").await.expect(201);
    assert_eq!(root.get(&url(&sent)).await.expect(200).text(), "x");
}

async fn upload_accepts_empty_files_and_files_up_to_the_limit(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let empty = send(&root, id, "empty.txt", Vec::new()).await.expect(201);
    let response = root.get(&url(&empty)).await.expect(200);
    assert_eq!((response.body.len(), response.header("content-length")), (0, "0"));
    let largest = vec![7; 10 << 20];
    let sent = send(&root, id, "largest", largest.clone()).await.expect(201);
    assert!(root.get(&url(&sent)).await.expect(200).body == largest);
    let before = stored_file_count(&server);
    let rejected = send(&root, id, "larger", vec![7; (10 << 20) + 1]).await.expect(413);
    assert_eq!(rejected.message(), "413 Request Entity Too Large");
    assert_eq!(rejected.json()["setting"], "max_attachment_size");
    let far_larger = send(&root, id, "larger", vec![7; 12 << 20]).await.expect(413).json();
    assert_eq!(far_larger["setting"], "max_attachment_size");
    assert_eq!((stored_file_count(&server), row_count(&server).await), (before, 2));
    for (megabytes, status) in [(1, 413), (11, 201)] {
        root.put("/application/settings", json!({ "max_attachment_size": megabytes })).await.expect(200);
        send(&root, id, "between", vec![7; (1 << 20) + (1 << 17)]).await.expect(status);
    }
}

async fn upload_rejects_missing_and_malformed_files(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let path = format!("/projects/{id}/uploads");
    for (response, message) in [
        (root.post(&path, json!({})).await, "file is missing"),
        (root.post_form(&path, &[("file", "text")]).await, "file is missing"),
        (send_raw(&root, id, "name=\"other\"", b"x").await, "file is missing"),
        (send_raw(&root, id, "name=\"file\"", b"x").await, "file is invalid"),
        (send_raw(&root, id, "name=\"other\"", b"\xff").await, "other is invalid"),
    ] {
        assert_eq!(response.expect(400).message(), message);
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
    assert_eq!((stored_file_count(&server), row_count(&server).await), (0, 0));
}

async fn interrupted_upload_leaves_no_files(server: TestServer) {
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
    // The server has finished when it closes its side of the connection.
    let mut rest = Vec::new();
    let closed = connection.read_to_end(&mut rest);
    let _ = tokio::time::timeout(Duration::from_secs(20), closed).await.expect("an end");
    assert_eq!((stored_file_count(&server), row_count(&server).await), (0, 0));
}

async fn upload_with_failing_storage_returns_500_and_sweep_deletes_its_rows(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let objects = server.data().join("objects");
    std::fs::remove_dir_all(&objects).expect("a removal");
    std::fs::write(&objects, "no directory").expect("a file");
    for size in [5, 6 << 20] {
        // The helper of the client panics on server errors, so the request is sent directly.
        let form = Form::new().part("file", Part::bytes(vec![7; size]).file_name("a"));
        let request = root.request(Method::POST, &format!("/projects/{id}/uploads")).multipart(form);
        let rejected = request.send().await.expect("a response");
        assert_eq!(rejected.status(), 500);
        let expected = r#"{"message":"500 Internal Server Error","error":"500 Internal Server Error"}"#;
        assert_eq!(rejected.text().await.expect("a text"), expected);
    }
    // The storage deletes nothing either, so the rows remain: the sweep finds the objects by them.
    assert_eq!((row_count(&server).await, files(&server.data().join("tmp")).len()), (2, 0));
    std::fs::remove_file(&objects).expect("a removal");
    std::fs::create_dir(&objects).expect("a directory");
    send(&root, id, "a", vec![7; 6 << 20]).await.expect(201);
    for row in project_uploads::Entity::find().all(server.backend.database.read()).await.expect("rows") {
        let created_at = Set(row.created_at - chrono::TimeDelta::days(2));
        let old = project_uploads::ActiveModel { id: Set(row.id), created_at, ..Default::default() };
        old.update(server.backend.database.write()).await.expect("a row");
    }
    assert_eq!(domain::accounts::uploads::sweep(&server.backend).await.expect("a sweep"), 2);
    assert_eq!((row_count(&server).await, stored_file_count(&server)), (1, 1));
}

async fn sweep_deletes_unfinished_uploads(server: TestServer) {
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
    let stored = files(&server.data().join("objects"));
    let stored = stored.iter().find(|path| path.ends_with(&secret)).expect("an object");
    // A server that is killed while it writes an object leaves a file with this name.
    std::fs::write(format!("{stored}#1"), "x").expect("a file");
    root.get(&url(&lost)).await.expect(404);
    let swept = domain::accounts::uploads::sweep(&server.backend).await.expect("a sweep");
    assert_eq!((swept, row_count(&server).await, stored_file_count(&server)), (1, 1, 1));
    root.get(&url(&sent)).await.expect(200);
}

async fn sweep_stops_after_consecutive_failures(server: TestServer) {
    let id = project(&server.root(), "work", json!({})).await;
    let folder = server.data().join(format!("objects/projects/{id}/uploads"));
    let old = now() - chrono::TimeDelta::days(2);
    for number in 0..11 {
        let secret = format!("{number:032}");
        // The storage cannot delete a directory. The last upload has no object.
        if number < 10 {
            std::fs::create_dir_all(folder.join(&secret)).expect("a directory");
        }
        let row = project_uploads::ActiveModel {
            project_id: Set(id),
            secret: Set(secret),
            file_name: Set("a.txt".to_owned()),
            size: Set(1),
            created_at: Set(old + chrono::TimeDelta::seconds(number)),
            ..Default::default()
        };
        row.insert(server.backend.database.write()).await.expect("a row");
    }
    domain::accounts::uploads::sweep(&server.backend).await.expect_err("objects that cannot be deleted");
    assert_eq!(row_count(&server).await, 11);
    // One object less does not stop the sweep.
    std::fs::remove_dir(folder.join(format!("{:032}", 0))).expect("a removal");
    domain::accounts::uploads::sweep(&server.backend).await.expect_err("objects that cannot be deleted");
    assert_eq!(row_count(&server).await, 9);
    std::fs::remove_dir_all(&folder).expect("a removal");
    assert_eq!(domain::accounts::uploads::sweep(&server.backend).await.expect("a sweep"), 9);
}

async fn delete_project_deletes_its_files(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let other = project(&root, "other", json!({})).await;
    for id in [work, work] {
        send(&root, id, "a.txt", b"x".to_vec()).await.expect(201);
    }
    // A server that is killed while it writes an object leaves a file with this name.
    for stored in files(&server.data().join("objects")) {
        std::fs::write(format!("{stored}#1"), "x").expect("a file");
    }
    send(&root, other, "a.txt", b"x".to_vec()).await.expect(201);
    root.delete(&format!("/projects/{work}")).await.expect(202);
    server.finish_jobs().await;
    assert_eq!((row_count(&server).await, stored_file_count(&server)), (1, 1));
}

on_every_database![
    uploaded_file_is_served_at_its_url,
    uploaded_file_has_the_access_rules_of_its_project,
    active_content_is_served_as_attachment_in_a_sandbox,
    file_names_are_sanitized_and_files_remain_available,
    upload_accepts_empty_files_and_files_up_to_the_limit,
    upload_rejects_missing_and_malformed_files,
    interrupted_upload_leaves_no_files,
    upload_with_failing_storage_returns_500_and_sweep_deletes_its_rows,
    sweep_deletes_unfinished_uploads,
    sweep_stops_after_consecutive_failures,
    delete_project_deletes_its_files,
];

async fn backup_and_restore_include_uploaded_files(site: Site) {
    let server = site.serve(&[]).await;
    let client = Client::new(&server.base, Some(crate::support::process::TOKEN));
    let id = project(&client, "work", json!({})).await;
    let sent = send(&client, id, "a.txt", b"kept".to_vec()).await.expect(201);
    let copy = site.sibling_path("copy");
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

on_every_site![backup_and_restore_include_uploaded_files,];
