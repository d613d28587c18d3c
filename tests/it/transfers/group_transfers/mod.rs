//! Export of groups into archives and import of such archives.

mod exports;
mod hostile;
mod imports;
mod large;
mod members;
mod restarts;
mod round_trip;

use std::collections::BTreeMap;
use std::io::Read;

use domain::transfers::exports as service;
use domain::transfers::jobs::export_group::ExportGroup;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::support::{ApiResponse, Client, TestServer};

/// Runs the export job of a group.
pub async fn run_export(server: &TestServer, group_id: i64) {
    let job = ExportGroup { group_id, user_id: 1 };
    service::run(&server.backend, &job).await.expect("an export");
}

/// Exports a group and returns the archive.
async fn export(server: &TestServer, client: &Client, group: i64) -> Vec<u8> {
    let path = format!("/groups/{group}/export");
    client.post(&path, json!({})).await.expect(202);
    server.finish_jobs().await;
    client.get(&format!("{path}/download")).await.expect(200).body
}

/// Sends an archive to import as a group with this path.
async fn send(client: &Client, path: &str, parent: Option<i64>, archive: Vec<u8>) -> ApiResponse {
    let part = Part::bytes(archive).file_name("file.tar.gz");
    let part = part.mime_str("application/octet-stream").expect("a type");
    let form = Form::new().text("name", path.to_owned()).text("path", path.to_owned());
    let form = match parent {
        Some(parent) => form.text("parent_id", parent.to_string()),
        None => form,
    };
    let request = client.request(Method::POST, "/groups/import");
    client.send(request.multipart(form.part("file", part))).await
}

/// Imports an archive to the end. Returns the group ID and the import status.
async fn import(
    server: &TestServer,
    client: &Client,
    path: &str,
    parent: Option<i64>,
    archive: Vec<u8>,
) -> (i64, Value) {
    send(client, path, parent, archive).await.expect(202);
    server.finish_jobs().await;
    let above = match parent {
        Some(parent) => {
            let parent = client.get(&format!("/groups/{parent}")).await.expect(200).json();
            format!("{}%2F", parent["full_path"].as_str().expect("a path").replace('/', "%2F"))
        }
        None => String::new(),
    };
    let status = client.get(&format!("/groups/{above}{path}/import")).await.expect(200).json();
    (status["id"].as_i64().expect("a number"), status)
}

/// Returns the files of an archive by name.
fn files(archive: &[u8]) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(GzDecoder::new(archive)).entries().expect("a tar file") {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a name").display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("a text");
        files.insert(name, text);
    }
    files
}

/// Returns the records of one file of an archive.
fn records(files: &BTreeMap<String, String>, name: &str) -> Vec<Value> {
    let lines = files.get(name).into_iter().flat_map(|text| text.lines());
    lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns a tar file with these entries, compressed with gzip.
fn packed(entries: impl IntoIterator<Item = (tar::Header, Vec<u8>)>) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (mut header, content) in entries {
        header.set_cksum();
        builder.append(&header, content.as_slice()).expect("an entry");
    }
    builder.into_inner().and_then(GzEncoder::finish).expect("an archive")
}

/// Returns the header of a file with this name and length.
fn header(name: &str, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    // The name is written directly because the library rejects unsafe paths.
    let field = &mut header.as_old_mut().name;
    field[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(0o644);
    header.set_size(size);
    header
}

/// A builder of archives: files by name.
#[derive(Clone)]
struct Draft(Vec<(String, Vec<u8>)>);

impl Draft {
    /// Creates an archive of one group with ID 7 and path `top`.
    fn new() -> Self {
        Self(vec![("VERSION".to_owned(), b"0.2.4".to_vec())])
            .with("tree/groups/_all.ndjson", "7\n")
            .with("tree/groups/7.json", attributes(7, None, "top").to_string())
    }

    /// Adds or replaces a file.
    fn with(mut self, name: &str, content: impl Into<Vec<u8>>) -> Self {
        self.0.retain(|(other, _)| other != name);
        self.0.push((name.to_owned(), content.into()));
        self
    }

    /// Adds a subgroup.
    fn with_subgroup(self, id: i64, parent: i64, path: &str) -> Self {
        let all = self.0.iter().find(|(name, _)| name.ends_with("_all.ndjson"));
        let all = all.map(|(_, text)| text.clone()).unwrap_or_default();
        let all = [all, format!("{id}\n").into_bytes()].concat();
        self.with("tree/groups/_all.ndjson", all)
            .with(&format!("tree/groups/{id}.json"), attributes(id, Some(parent), path).to_string())
    }

    /// Adds records of a group.
    fn with_records(self, group: i64, relation: &str, records: impl IntoIterator<Item = Value>) -> Self {
        let lines: String = records.into_iter().map(|record| format!("{record}\n")).collect();
        self.with(&format!("tree/groups/{group}/{relation}.ndjson"), lines)
    }

    fn packed(self) -> Vec<u8> {
        packed(self.0.into_iter().map(|(name, content)| (header(&name, content.len() as u64), content)))
    }
}

/// Returns the attributes of a group of an archive.
fn attributes(id: i64, parent: Option<i64>, path: &str) -> Value {
    json!({"id": id, "parent_id": parent, "name": path, "path": path, "description": "", "visibility_level": 0})
}

/// Returns a member of an archive with an email address.
fn member(id: i64, address: &str, level: i64) -> Value {
    json!({"access_level": level, "user": {"id": id, "username": "somebody", "email": address}})
}

/// Returns the unmapped records as kind, name and reason.
fn unmapped(status: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let all = status["unmapped"].as_array().expect("a list").iter();
    all.map(|one| (text(&one["kind"]), text(&one["name"]), text(&one["reason"]))).collect()
}

/// Returns the keys of archives in object storage.
async fn stored_archives(server: &TestServer) -> Vec<String> {
    let mut keys = server.backend.objects.keys(None).await.expect("keys");
    keys.retain(|key| key.starts_with("group_"));
    keys
}
