//! Large groups, with a separate server.

use std::fmt::Write as _;
use std::io::Read;
use std::time::Duration;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::{attributes, header, send};
use crate::support::Client;
use crate::support::process::{Site, TOKEN};
use crate::support::server::DatabaseKind;

/// Number of subgroups of the exported group.
const GROUPS: i64 = 200;
/// Number of records of each subgroup, of all three kinds.
const RECORDS: i64 = 251;
/// Length of each description in bytes.
const TEXT: usize = 2_000;
/// Number of incompressible bytes of each description.
const NOISE: usize = 400;
/// Maximum increase of memory in kilobytes; the records have 100,000.
const MEMORY: u64 = 48 * 1024;

/// Returns an archive of a group with subgroups of `records` records each.
fn archive(groups: i64, records: i64) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut add = |name: &str, content: &str| {
        let mut header = header(name, content.len() as u64);
        header.set_cksum();
        builder.append(&header, content.as_bytes()).expect("an entry");
    };
    add("VERSION", "0.2.4");
    let all: String = (1..=groups + 1).map(|id| format!("{id}\n")).collect();
    add("tree/groups/_all.ndjson", &all);
    let text = "x".repeat(TEXT - NOISE);
    let noise = || (0..NOISE).map(|_| char::from(rand::random_range(b'0'..=b'z'))).collect::<String>();
    for id in 1..=groups + 1 {
        let parent = (id > 1).then_some(1);
        add(&format!("tree/groups/{id}.json"), &attributes(id, parent, &format!("g{id}")).to_string());
        if parent.is_none() {
            continue;
        }
        for (relation, share) in [("labels", 50), ("milestones", 100), ("epics", records - 150)] {
            let mut lines = String::new();
            for iid in 1..=share {
                let record = json!({
                    "id": id * 1_000 + iid, "iid": iid, "title": format!("{relation} {iid}"), "description": format!("{text}{}", noise()), "color": "#123456",
                    "state": if relation == "milestones" { "active" } else { "opened" },
                    "labels": [{"title": format!("labels {}", iid % 50 + 1)}],
                });
                writeln!(lines, "{record}").expect("a text");
            }
            add(&format!("tree/groups/{id}/{relation}.ndjson"), &lines);
        }
    }
    builder.into_inner().and_then(GzEncoder::finish).expect("an archive")
}

/// Waits for the end of an import and returns its status.
async fn wait_for_import(client: &Client, path: &str) -> Value {
    loop {
        let status = client.get(&format!("/groups/{path}/import")).await.expect(200).json();
        if !["scheduled", "started"].contains(&status["import_status"].as_str().expect("a word")) {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Exports a group and returns the archive when it is ready.
async fn export_when_ready(client: &Client, path: &str) -> Vec<u8> {
    client.post(&format!("/groups/{path}/export"), json!({})).await.expect(202);
    loop {
        let response = client.get(&format!("/groups/{path}/export/download")).await;
        if response.status == 200 {
            return response.body;
        }
        assert_eq!(response.status, 404);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn import_and_export_of_50000_records_use_little_memory() {
    let site = Site::new(&DatabaseKind::Sqlite).await;
    let server = site.serve(&["--plan", "ultimate"]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    // A first small transfer allocates memory that is not measured.
    send(&client, "small", None, archive(2, 160)).await.expect(202);
    assert_eq!(wait_for_import(&client, "small").await["import_status"], "finished");
    export_when_ready(&client, "small").await;
    let before = server.peak_memory();
    let large = archive(GROUPS, RECORDS);
    // Larger than the default limit for attachments.
    assert!(large.len() > 10 << 20, "{}", large.len());
    send(&client, "large", None, large).await.expect(202);
    let status = wait_for_import(&client, "large").await;
    assert_eq!(
        (&status["import_status"], &status["imported_groups_count"], &status["unmapped"]),
        (&json!("finished"), &json!(GROUPS + 1), &json!([]))
    );
    let imported = server.peak_memory();
    assert!(imported.saturating_sub(before) < MEMORY, "importing: {before} kB before and {imported} kB after");
    let archive = export_when_ready(&client, "large").await;
    let after = server.peak_memory();
    assert!(after.saturating_sub(before) < MEMORY, "exporting: {before} kB before and {after} kB after");
    let (mut lines, mut bytes) = (0, 0);
    for entry in tar::Archive::new(GzDecoder::new(archive.as_slice())).entries().expect("a tar file") {
        let mut text = String::new();
        entry.expect("an entry").read_to_string(&mut text).expect("a text");
        lines += text.lines().filter(|line| line.contains("xxx")).count();
        bytes += text.len();
    }
    assert_eq!(lines as i64, GROUPS * RECORDS);
    assert!(bytes > 100_000_000, "{bytes}");
    server.stop().await;
}

harness::tests![import_and_export_of_50000_records_use_little_memory];
