//! Memory of manifests and lists of referrers, until their clients have received them.

use holdfast::config::ConfigOptions;
use reqwest::Method;
use reqwest::header::HeaderValue;
use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::registry_manifests;

use super::{IMAGE, INDEX, Tool, assert_refused, digest, request_token};
use crate::support::body_memory::wait_until_released;
use crate::support::client::http;
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

fn small_memory() -> ConfigOptions {
    ConfigOptions { body_memory_bytes: Some(32 << 20), ..ConfigOptions::default() }
}

/// Returns a manifest without layers and with an annotation of this length.
async fn manifest(tool: &Tool, annotation: usize) -> Value {
    json!({
        "schemaVersion": 2,
        "config": {
            "mediaType": "application/vnd.oci.empty.v1+json",
            "digest": tool.push_blob(b"{}").await,
            "size": 2,
        },
        "layers": [],
        "annotations": {"text": "x".repeat(annotation)},
    })
}

/// Requests a path 40 times as an anonymous client that reads only the start of each response. Checks that a response
/// uses `size` bytes until the client disconnects, and that the address cannot use more than its share.
async fn check_unread_responses(server: &TestServer, path: &str, size: usize) {
    let token = request_token(&server.base, None, &["repository:root/work:pull"]).await.expect(200).json();
    let token = token["token"].as_str().expect("a token");
    let client = http().http2_prior_knowledge().http2_initial_stream_window_size(1_024).build().expect("a client");
    let url = format!("{}/{}", server.base, path.trim_start_matches('/'));
    let (mut unread, mut refused) = (Vec::new(), 0);
    for number in 0..40 {
        let response = client.get(&url).bearer_auth(token).send().await.expect("a response");
        match response.status().as_u16() {
            200 => unread.push(response),
            status => {
                assert_eq!((status, &response.headers()["retry-after"]), (503, &HeaderValue::from_static("5")));
                let body: Value = response.json().await.expect("JSON");
                assert_eq!(body["errors"][0]["code"], "UNAVAILABLE");
                refused += 1;
            }
        }
        assert_eq!(server.backend.budgets.memory.used(), (unread.len() * size) as u64, "{number}");
    }
    assert!(unread.len() > 20 && refused > 5, "{} {refused}", unread.len());
    drop((unread, client));
    wait_until_released(server).await;
}

async fn unread_manifests_hold_at_most_the_share_of_an_address(server: TestServer) {
    project(&server.root(), "work", json!({"visibility": "public"})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let large = manifest(&tool, 1_000_000).await;
    tool.push_manifest("large", IMAGE, &large).await.expect(201);
    let size = large.to_string().len();
    let path = tool.path("manifests/large");
    assert_eq!(tool.client.get(&path).await.expect(200).body.len(), size);
    let head = tool.client.head(&path).await.expect(200);
    assert_eq!(head.header("content-length"), size.to_string());
    wait_until_released(&server).await;
    check_unread_responses(&server, &path, size).await;
}

async fn unread_referrers_hold_at_most_the_share_of_an_address(server: TestServer) {
    project(&server.root(), "work", json!({"visibility": "public"})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let subject = digest(b"a subject");
    for number in 0..4 {
        let mut referrer = manifest(&tool, 250_000 + number).await;
        referrer["subject"] = json!({"mediaType": IMAGE, "digest": subject, "size": 9});
        tool.push_manifest(&format!("referrer-{number}"), IMAGE, &referrer).await.expect(201);
    }
    let path = tool.path(&format!("referrers/{subject}"));
    let size = tool.client.get(&path).await.expect(200).body.len();
    assert!(size > 1_000_000, "{size}");
    wait_until_released(&server).await;
    check_unread_responses(&server, &path, size).await;
}

/// An image index can refer to very many manifests with long annotations.
async fn push_of_index_does_not_read_annotations_of_its_manifests(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let mut children = Vec::new();
    for number in 0..2 {
        let mut child = manifest(&tool, 100_000 + number).await;
        child["subject"] = json!({"mediaType": IMAGE, "digest": digest(b"a subject"), "size": 9});
        tool.push_manifest(&format!("child-{number}"), IMAGE, &child).await.expect(201);
        let bytes = child.to_string().into_bytes();
        children.push(json!({"mediaType": IMAGE, "digest": digest(&bytes), "size": bytes.len()}));
    }
    let before = server.statements();
    let index = json!({"schemaVersion": 2, "manifests": children});
    tool.push_manifest("index", INDEX, &index).await.expect(201);
    let of_children = |text: &String| text.contains("FROM \"registry_manifests\"") && text.contains("\"digest\" IN");
    let texts: Vec<String> = server.statement_texts(before).into_iter().filter(of_children).collect();
    assert!(!texts.is_empty() && texts.iter().all(|text| !text.contains("annotations")), "{texts:?}");
    // The configuration of each child has two bytes.
    let rows = registry_manifests::Entity::find().all(server.backend.database.read()).await.expect("rows");
    assert_eq!(rows.iter().map(|row| row.total_size).max(), Some(4));
}

async fn push_beyond_memory_returns_503_and_stores_nothing(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let path = tool.path("manifests/large");
    // The share of a user is 24 MiB, and a parsed manifest can need twelve times its size.
    for size in [2_500_000, 4_000_000] {
        let large = manifest(&tool, size).await;
        let refused = tool.push_manifest("large", IMAGE, &large).await;
        assert_refused(&refused, 503, "UNAVAILABLE");
        assert_eq!(refused.header("retry-after"), "5");
    }
    assert_refused(&tool.send(Method::GET, &path, &[], Vec::new()).await, 404, "MANIFEST_UNKNOWN");
    let small = manifest(&tool, 100_000).await;
    tool.push_manifest("large", IMAGE, &small).await.expect(201);
    wait_until_released(&server).await;
}

on_every_database![
    unread_manifests_hold_at_most_the_share_of_an_address with small_memory(),
    unread_referrers_hold_at_most_the_share_of_an_address with small_memory(),
    push_beyond_memory_returns_503_and_stores_nothing with small_memory(),
    push_of_index_does_not_read_annotations_of_its_manifests,
];
