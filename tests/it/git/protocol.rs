//! The Git protocol over HTTP.

use std::io::Write;

use reqwest::Method;
use storage::entities::{AccessLevel, Visibility};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::git::{Work, output_text};
use crate::support::{TestServer, on_every_database};

async fn protocol_version_2_is_used_on_request(server: TestServer) {
    server.insert_project_at("g/p", Visibility::Public).await;
    let output = Work::empty()
        .command(&["ls-remote", &format!("{}/g/p.git", server.base)])
        .env("GIT_TRACE_PACKET", "1")
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    assert!(output_text(&output).contains("< version 2"), "{}", output_text(&output));
    let old = Work::empty()
        .command(&["-c", "protocol.version=0", "ls-remote", &format!("{}/g/p.git", server.base)])
        .env("GIT_TRACE_PACKET", "1")
        .output()
        .await
        .unwrap();
    assert!(old.status.success() && !output_text(&old).contains("version 2"), "{}", output_text(&old));
}

async fn requests_outside_smart_protocol_are_rejected(server: TestServer) {
    server.insert_project_at("g/p", Visibility::Public).await;
    let client = server.anonymous();
    for (method, path, status) in [
        (Method::GET, "//g/p.git/info/refs", 403),
        (Method::GET, "//g/p.git/info/refs?service=git-shell", 403),
        (Method::GET, "//g/p.git/info/refs?service=git-upload-pack%00", 403),
        (Method::POST, "//g/p.git/info/refs?service=git-upload-pack", 405),
        (Method::GET, "//g/p.git/git-upload-pack", 405),
        (Method::POST, "//g/p.git/git-upload-pack", 415),
        (Method::GET, "//g/p.git/HEAD", 404),
        (Method::GET, "//g/p.git/objects/info/packs", 404),
        (Method::GET, "//g/p.git/config", 404),
        (Method::GET, "//g%2F..%2F..%2Fx/p.git/info/refs?service=git-upload-pack", 401),
        (Method::GET, "//g/p%00.git/info/refs?service=git-upload-pack", 401),
    ] {
        let response = client.send(client.request(method.clone(), path)).await;
        assert_eq!(response.status, status, "{method} {path}: {}", response.text());
    }
}

async fn malformed_push_returns_400_and_changes_nothing(server: TestServer) {
    let ann = server.create_user("ann").await;
    let project = server.insert_project_at("g/p", Visibility::Public).await;
    server.insert_member(project.id, ann.id, AccessLevel::Maintainer).await;
    for body in ["", "zzzz", "0000", "0009hello0000", "ffff"] {
        let client = server.anonymous();
        let request = client
            .request(Method::POST, "//g/p.git/git-receive-pack")
            .basic_auth("ann", Some(&ann.token))
            .header("content-type", "application/x-git-receive-pack-request")
            .body(body);
        let status = client.send(request).await.status;
        assert!(status == 400 || (body == "0000" && status == 200), "{body:?}: {status}");
    }
    assert!(server.repository(project.id).is_empty().await.unwrap());
}

async fn gzip_request_body_is_accepted(server: TestServer) {
    server.insert_project_at("g/p", Visibility::Public).await;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(b"0014command=ls-refs\n0001000csymrefs\n0000").unwrap();
    let body = encoder.finish().unwrap();
    let client = server.anonymous();
    let send = async |encoding: &str| {
        let request = client
            .request(Method::POST, "//g/p.git/git-upload-pack")
            .header("content-type", "application/x-git-upload-pack-request")
            .header("git-protocol", "version=2")
            .header("content-encoding", encoding)
            .body(body.clone());
        client.send(request).await
    };
    let response = send("gzip").await.expect(200);
    assert_eq!(response.header("content-type"), "application/x-git-upload-pack-result");
    assert_eq!(response.body, b"0000");
    send("br").await.expect(415);
}

async fn interrupted_push_changes_nothing(server: TestServer) {
    let ann = server.create_user("ann").await;
    let project = server.insert_project_at("g/p", Visibility::Public).await;
    server.insert_member(project.id, ann.id, AccessLevel::Maintainer).await;
    let host = server.base.strip_prefix("http://").unwrap();
    let mut connection = tokio::net::TcpStream::connect(host).await.unwrap();
    let credentials = {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(format!("ann:{}", ann.token))
    };
    let head = format!(
        "POST /g/p.git/git-receive-pack HTTP/1.1\r\nHost: {host}\r\nAuthorization: Basic {credentials}\r\n\
         Content-Type: application/x-git-receive-pack-request\r\nContent-Length: 1000000\r\n\
         Expect: 100-continue\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut response = [0; 25];
    connection.read_exact(&mut response).await.unwrap();
    assert_eq!(&response, b"HTTP/1.1 100 Continue\r\n\r\n");
    let command = format!("{} {} refs/heads/main\0report-status", "0".repeat(40), "a".repeat(40));
    let body = format!("{:04x}{command}0000PACK\0\0\0\u{2}\0\0\0\u{9}", command.len() + 4);
    connection.write_all(body.as_bytes()).await.unwrap();
    drop(connection);
    // The server deletes the intent when it notices the disconnect. Only the row shows this.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        use sea_orm::{EntityTrait, PaginatorTrait};
        let rows = storage::entities::ref_updates::Entity::find();
        if rows.count(server.backend.database.read()).await.unwrap() == 0 {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "the intent is still there");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(server.repository(project.id).is_empty().await.unwrap());
    assert_eq!(server.repository(project.id).fsck().await.unwrap(), [""; 0]);
}

on_every_database![
    protocol_version_2_is_used_on_request,
    requests_outside_smart_protocol_are_rejected,
    malformed_push_returns_400_and_changes_nothing,
    gzip_request_body_is_accepted,
    interrupted_push_changes_nothing,
];
