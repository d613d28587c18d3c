//! Pushes that are cut: by the connection, or with the server.

use futures_util::StreamExt;
use reqwest::Method;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::large::files;
use super::{Tool, digest, noise, objects};
use crate::support::Client;
use crate::support::places::project;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::wire::Wire;
use crate::support::{TestServer, on_every_database};

/// How many bytes of an upload are kept.
async fn kept(tool: &Tool, location: &str) -> usize {
    let told = tool.client.get(location).await.expect(204);
    let end = told.header("range").split_once('-').expect("a range").1.to_owned();
    end.parse::<usize>().expect("a number") + 1
}

async fn bearer(server: &TestServer) -> (Tool, String) {
    let scope = "repository:root/work:pull,push";
    let credentials = Some(("root", crate::support::server::ROOT_TOKEN));
    let token = super::ask(&server.base, credentials, &[scope]).await.expect(200).json();
    let token = token["token"].as_str().expect("a token").to_owned();
    (Tool::of_root(server, "root/work").await, token)
}

async fn a_push_that_is_cut_in_the_middle_goes_on_where_it_was(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let (tool, token) = bearer(&server).await;
    let bytes = noise(5_000_000, 1);
    let location = tool.begin().await;
    let mut wire = Wire::connect(&server.base).await;
    let head = format!(
        "PATCH {} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n",
        &location[1..],
        bytes.len()
    );
    wire.stream.write_all(head.as_bytes()).await.expect("writing");
    wire.stream.write_all(&bytes[..3_000_000]).await.expect("writing");
    wire.stream.shutdown().await.expect("an end");
    drop(wire);
    // The part is kept as soon as the server has seen that nothing more comes.
    let patience = std::time::Duration::from_secs(60);
    let seen = async {
        while objects(&server).await.is_empty() || kept(&tool, &location).await < 2 {
            tokio::task::yield_now().await;
        }
        kept(&tool, &location).await
    };
    let kept = tokio::time::timeout(patience, seen).await.expect("what was sent is kept");
    assert!(kept <= 3_000_000, "{kept}");
    let range = format!("{kept}-{}", bytes.len() - 1);
    tool.send(Method::PATCH, &location, &[("content-range", &range)], bytes[kept..].to_vec()).await.expect(202);
    let ended = format!("{location}?digest={}", digest(&bytes));
    tool.send(Method::PUT, &ended, &[], Vec::new()).await.expect(201);
    let pulled = tool.client.get(&tool.path(&format!("blobs/{}", digest(&bytes)))).await.expect(200);
    assert!(pulled.body == bytes);
}

on_every_database![a_push_that_is_cut_in_the_middle_goes_on_where_it_was,];

async fn a_server_that_is_killed_in_a_push_loses_nothing_and_leaves_nothing(site: Site) {
    let server = site.serve(&[]).await;
    project(&Client::new(&server.base, Some(TOKEN)), "work", json!({})).await;
    let tool = Tool::new(&server.base, Some(("root", TOKEN)), "root/work", "*").await;
    let id = tool.push_blob(b"was there before").await;
    let bytes = noise(6_000_000, 1);
    let location = tool.begin().await;
    tool.send(Method::PATCH, &location, &[], bytes[..1_000_000].to_vec()).await.expect(202);
    // Another part that never ends.
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(1);
    let body = futures_util::stream::unfold(receiver, async |mut receiver| {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    let body = reqwest::Body::wrap_stream(body.boxed());
    let request = tool.client.request(Method::PATCH, &location).body(body).send();
    let request = tokio::spawn(request);
    sender.send(Ok(bytes[1_000_000..4_000_000].to_vec())).await.expect("a taker");
    let folder = site.data.join("objects/registry");
    let patience = std::time::Duration::from_secs(60);
    let begun = async {
        while !files(&folder).iter().any(|name| name.contains('#')) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(patience, begun).await.expect("a part that is written");
    server.kill().await;
    assert!(request.await.expect("a task").is_err());
    drop(sender);

    let server = site.serve(&[]).await;
    let tool = Tool::new(&server.base, Some(("root", TOKEN)), "root/work", "*").await;
    assert_eq!(kept(&tool, &location).await, 1_000_000);
    let ended = format!("{location}?digest={}", digest(&bytes));
    tool.send(Method::PUT, &ended, &[], bytes[1_000_000..].to_vec()).await.expect(201);
    for (id, wanted) in [(id, b"was there before".to_vec()), (digest(&bytes), bytes)] {
        let pulled = tool.client.get(&tool.path(&format!("blobs/{id}"))).await.expect(200);
        assert!(pulled.body == wanted);
    }
    server.stop().await;
    site.succeeds(&["doctor"]).await;
    // What was being written is known, and goes with the next sweep that finds it old enough.
    let options = storage::database::Options::default();
    let database = storage::database::Database::connect(&site.database_url(), &options).await.expect("a database");
    let left = storage::entities::registry_pieces::orphans(database.read(), storage::entities::now(), 10).await;
    assert_eq!(left.expect("rows").len(), 1);
    database.close().await.expect("closing");
}

on_every_site![a_server_that_is_killed_in_a_push_loses_nothing_and_leaves_nothing,];
