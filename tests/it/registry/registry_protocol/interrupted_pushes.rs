//! Pushes interrupted by a lost connection or a killed server.

use futures_util::StreamExt;
use reqwest::Method;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::large::files;
use super::{Tool, digest, noise, objects};
use crate::support::Client;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::raw_http::RawConnection;
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

/// Returns the number of bytes that the server has stored for an upload.
async fn stored_bytes(tool: &Tool, location: &str) -> usize {
    let response = tool.client.get(location).await.expect(204);
    let end = response.header("range").split_once('-').expect("a range").1.to_owned();
    end.parse::<usize>().expect("a number") + 1
}

async fn bearer(server: &TestServer) -> (Tool, String) {
    let scope = "repository:root/work:pull,push";
    let credentials = Some(("root", crate::support::server::ROOT_TOKEN));
    let token = super::request_token(&server.base, credentials, &[scope]).await.expect(200).json();
    let token = token["token"].as_str().expect("a token").to_owned();
    (Tool::of_root(server, "root/work").await, token)
}

async fn interrupted_push_resumes_after_stored_bytes(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let (tool, token) = bearer(&server).await;
    let bytes = noise(5_000_000, 1);
    let location = tool.begin().await;
    let mut wire = RawConnection::connect(&server.base).await;
    let head = format!(
        "PATCH {} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n",
        &location[1..],
        bytes.len()
    );
    wire.stream.write_all(head.as_bytes()).await.expect("writing");
    wire.stream.write_all(&bytes[..3_000_000]).await.expect("writing");
    wire.stream.shutdown().await.expect("an end");
    drop(wire);
    // The server stores the part as soon as it has read the end of the connection.
    let limit = std::time::Duration::from_secs(60);
    let seen = async {
        while objects(&server).await.is_empty() || stored_bytes(&tool, &location).await < 2 {
            tokio::task::yield_now().await;
        }
        stored_bytes(&tool, &location).await
    };
    let received = tokio::time::timeout(limit, seen).await.expect("the received bytes are stored");
    assert!(received <= 3_000_000, "{received}");
    let range = format!("{received}-{}", bytes.len() - 1);
    tool.send(Method::PATCH, &location, &[("content-range", &range)], bytes[received..].to_vec()).await.expect(202);
    let ended = format!("{location}?digest={}", digest(&bytes));
    tool.send(Method::PUT, &ended, &[], Vec::new()).await.expect(201);
    let pulled = tool.client.get(&tool.path(&format!("blobs/{}", digest(&bytes)))).await.expect(200);
    assert!(pulled.body == bytes);
}

on_every_database![interrupted_push_resumes_after_stored_bytes,];

async fn killed_server_keeps_finished_parts_and_records_partial_object(site: Site) {
    let server = site.serve(&[]).await;
    project(&Client::new(&server.base, Some(TOKEN)), "work", json!({})).await;
    let tool = Tool::new(&server.base, Some(("root", TOKEN)), "root/work", "*").await;
    let id = tool.push_blob(b"was there before").await;
    let bytes = noise(6_000_000, 1);
    let location = tool.begin().await;
    tool.send(Method::PATCH, &location, &[], bytes[..1_000_000].to_vec()).await.expect(202);
    // Another part, which is never completed.
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(1);
    let body = futures_util::stream::unfold(receiver, async |mut receiver| {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    let body = reqwest::Body::wrap_stream(body.boxed());
    let request = tool.client.request(Method::PATCH, &location).body(body).send();
    let request = tokio::spawn(request);
    sender.send(Ok(bytes[1_000_000..4_000_000].to_vec())).await.expect("a taker");
    let folder = site.data.join("objects/registry");
    let limit = std::time::Duration::from_secs(60);
    let started = async {
        while !files(&folder).iter().any(|name| name.contains('#')) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(limit, started).await.expect("a part that is written");
    server.kill().await;
    assert!(request.await.expect("a task").is_err());
    drop(sender);

    let server = site.serve(&[]).await;
    let tool = Tool::new(&server.base, Some(("root", TOKEN)), "root/work", "*").await;
    assert_eq!(stored_bytes(&tool, &location).await, 1_000_000);
    let ended = format!("{location}?digest={}", digest(&bytes));
    tool.send(Method::PUT, &ended, &[], bytes[1_000_000..].to_vec()).await.expect(201);
    for (id, expected) in [(id, b"was there before".to_vec()), (digest(&bytes), bytes)] {
        let pulled = tool.client.get(&tool.path(&format!("blobs/{id}"))).await.expect(200);
        assert!(pulled.body == expected);
    }
    server.stop().await;
    site.succeeds(&["doctor"]).await;
    // The partially written object is recorded, and a later sweep deletes it.
    let options = storage::database::DatabaseOptions::default();
    let database = storage::database::Database::connect(&site.database_url(), &options).await.expect("a database");
    let left = storage::entities::registry_pieces::orphans(database.read(), storage::entities::now(), None, 10).await;
    assert_eq!(left.expect("rows").len(), 1);
    database.close().await.expect("closing");
}

on_every_site![killed_server_keeps_finished_parts_and_records_partial_object,];
