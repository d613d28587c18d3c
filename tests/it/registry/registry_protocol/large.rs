//! Memory use of large layers, measured in a separate server process.

use std::path::Path;

use bytes::Bytes;
use futures_util::StreamExt;
use reqwest::Method;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::Tool;
use crate::support::Client;
use crate::support::process::{Site, TOKEN};
use crate::support::server::DatabaseKind;
use crate::support::spaces::project;

/// Size of the pushed layer unless `HOLDFAST_LARGE_PUSH_MEGABYTES` is set, as in .ci/run.
const MEGABYTES: usize = 192;
/// Maximum additional memory of the server in kilobytes.
const MEMORY: u64 = 24 * 1024;

/// The names of all files below a directory.
pub fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    // Directories deleted during the walk are skipped.
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.path().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.file_name().to_string_lossy().into_owned()),
        }
    }
    found
}

/// One megabyte of a layer, different for each number.
fn megabyte(number: usize) -> Bytes {
    let mut bytes = vec![0x5a; 1 << 20];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes.into()
}

async fn large_layer_push_and_pull_use_bounded_memory() {
    let variable = std::env::var("HOLDFAST_LARGE_PUSH_MEGABYTES").ok();
    let megabytes = variable.map_or(MEGABYTES, |text| text.parse().expect("a number"));
    let site = Site::on_disk(&DatabaseKind::Sqlite).await;
    let server = site.serve(&[]).await;
    project(&Client::new(&server.base, Some(TOKEN)), "work", json!({})).await;
    let tool = Tool::new(&server.base, Some(("root", TOKEN)), "root/work", "*").await;
    // The first, small transfer warms the server up and is not measured.
    let small = tool.push_blob(&vec![1; 4 << 20]).await;
    tool.client.get(&tool.path(&format!("blobs/{small}"))).await.expect(200);
    let before = server.peak_memory();
    let mut hash = Sha256::new();
    for number in 0..megabytes {
        hash.update(megabyte(number));
    }
    let digest = format!("sha256:{}", hex::encode(hash.finalize()));
    let location = tool.begin().await;
    let pieces = futures_util::stream::iter(0..megabytes).map(|number| Ok::<_, std::io::Error>(megabyte(number)));
    let request = tool.client.request(Method::PATCH, &location).body(reqwest::Body::wrap_stream(pieces));
    tool.client.send(request).await.expect(202);
    let ended = format!("{location}?digest={digest}");
    tool.send(Method::PUT, &ended, &[], Vec::new()).await.expect(201);
    let request = tool.client.request(Method::GET, &tool.path(&format!("blobs/{digest}")));
    let response = request.send().await.expect("a response");
    assert_eq!(response.content_length(), Some((megabytes as u64) << 20));
    let (mut hash, mut pieces) = (Sha256::new(), response.bytes_stream());
    while let Some(piece) = pieces.next().await {
        hash.update(piece.expect("a piece"));
    }
    assert_eq!(format!("sha256:{}", hex::encode(hash.finalize())), digest);
    let after = server.peak_memory();
    assert!(after - before < MEMORY, "peak memory of the server grew from {before} kB to {after} kB");
    // Objects of 128 megabytes each, and the small blob; no partial object.
    let stored = files(&site.data.join("objects/registry"));
    assert_eq!(stored.len(), megabytes.div_ceil(128) + 1, "{stored:?}");
    server.stop().await;
}

harness::tests![large_layer_push_and_pull_use_bounded_memory];
