//! Reports of the maximum size, tested in a separate server process.

use std::fmt::Write as _;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::process::{Site, TOKEN};
use crate::support::server::DatabaseKind;
use crate::support::{Client, spaces};

/// Number of results in the report.
const RESULTS: usize = 20_000;
/// Size of the report in bytes.
const SIZE: usize = 50_000_000;
/// Maximum additional memory of the server in kilobytes.
const MEMORY: u64 = 32 * 1024;

/// Creates a document with this number of results, rules after the results and many ignored attributes.
fn document(results: usize, size: usize) -> String {
    let mut text = r#"{"version": "2.1.0", "runs": [{"results": ["#.to_owned();
    let noise = "x".repeat(size / results - 220);
    for number in 0..results {
        let comma = if number == 0 { "" } else { "," };
        write!(
            text,
            r#"{comma}{{"ruleId": "r{}", "message": {{"text": "Result {number}"}}, "codeFlows": [{{"note": "{noise}"}}],
            "locations": [{{"physicalLocation": {{"artifactLocation": {{"uri": "f{number}"}}, "region": {{"startLine": {number}}}}}}}]}}"#,
            number % 50,
        )
        .expect("a text");
    }
    let rules: Vec<Value> =
        (0..50).map(|number| json!({"id": format!("r{number}"), "name": format!("Rule {number}")})).collect();
    write!(text, r#"], "tool": {{"driver": {{"name": "t", "rules": {}}}}}}}]}}"#, json!(rules)).expect("a text");
    text
}

async fn send(client: &Client, base_path: &str, body: String) -> Value {
    let request = client.request(Method::POST, &format!("{base_path}/vulnerability_reports"));
    let request = request.header("Content-Type", "application/json").body(body);
    client.send(request).await.expect(201).json()
}

async fn report_of_50_megabytes_uses_bounded_memory() {
    let site = Site::new(&DatabaseKind::Sqlite).await;
    // Debug builds of the server need a longer timeout.
    let server = site.serve(&["--plan", "ultimate", "--request-timeout", "300"]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    let base_path = format!("/projects/{}", spaces::project(&client, "work", json!({})).await);
    // The first, small report warms the server up and is not measured.
    send(&client, &base_path, document(1_000, 1_000_000)).await;
    let before = server.peak_memory();
    let complete = document(RESULTS, SIZE);
    assert!(complete.len() > 49_000_000 && complete.len() <= 52_428_800, "{}", complete.len());
    assert_eq!(
        send(&client, &base_path, complete).await,
        json!({"created": RESULTS - 1_000, "updated": 0, "unchanged": 1_000})
    );
    let after = server.peak_memory();
    assert!(after - before < MEMORY, "peak memory of the server grew from {before} kB to {after} kB");
    let last = client.get(&format!("{base_path}/vulnerabilities?per_page=1")).await.expect(200);
    assert_eq!(last.json()[0]["title"], "Rule 0");
    server.stop().await;
}

async fn report_contents_do_not_appear_in_log() {
    let site = Site::migrated(&DatabaseKind::Sqlite).await;
    let log = site.sibling_path("log");
    let server = site.serve_logging(&log).await;
    let client = Client::new(&server.base, Some(TOKEN));
    let base_path = format!("/projects/{}", spaces::project(&client, "work", json!({})).await);
    let finding = json!({"name": "hushhush", "description": "hushhush", "location": {"file": "hushhush"}});
    send(&client, &base_path, json!({"vulnerabilities": [finding]}).to_string()).await;
    let path = format!("{base_path}/vulnerability_reports");
    client.post(&path, json!({"vulnerabilities": [finding, "hushhush"]})).await.expect(400);
    client.post(&path, json!({"vulnerabilities": [finding], "scan": {"type": ["hushhush"]}})).await.expect(400);
    server.stop().await;
    let text = std::fs::read_to_string(&log).expect("a log");
    assert!(!text.is_empty() && !text.contains("hushhush"), "{text}");
}

harness::tests![report_of_50_megabytes_uses_bounded_memory, report_contents_do_not_appear_in_log];
