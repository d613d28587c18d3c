//! `holdfast backup` and `restore`.

mod consistency;
mod continuation;
mod encryption;
mod interruptions;
mod object_storage;
mod points_in_time;
mod refusals;
mod verification;

use std::path::{Path, PathBuf};
use std::process::Output;

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::registry::registry_protocol::{Tool, noise};
use crate::support::Client;
use crate::support::git::{self, Work};
use crate::support::process::{Process, Site, TOKEN, on_every_site};
use crate::support::spaces::project;

/// Returns a path as text.
fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Returns a command of the binary without the options of a site.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HOLDFAST_")) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(std::process::Stdio::null()).kill_on_drop(true);
    command
}

async fn run(arguments: &[&str]) -> Output {
    command(arguments).output().await.expect("the binary")
}

/// Runs a command that must succeed, and returns its output.
async fn succeeds(arguments: &[&str]) -> String {
    let output = run(arguments).await;
    assert!(output.status.success(), "{arguments:?}: {}", git::output_text(&output));
    git::output_text(&output)
}

/// Runs a command that must exit with status 1, and returns its output.
async fn fails(arguments: &[&str]) -> String {
    let output = run(arguments).await;
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", git::output_text(&output));
    git::output_text(&output)
}

/// Returns the names of the backups of a directory, oldest first.
async fn names(directory: &Path) -> Vec<String> {
    let listed: Value = serde_json::from_str(&succeeds(&["backup", "list", text(directory), "--json"]).await).unwrap();
    let names = listed.as_array().unwrap().iter();
    names.map(|backup| backup["backup"].as_str().unwrap().to_owned()).collect()
}

/// Returns all files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => found.push(path),
        }
    }
    found.sort();
    found
}

async fn upload(client: &Client, project: i64, content: &[u8]) -> String {
    let form = Form::new().part("file", Part::bytes(content.to_vec()).file_name("a.txt"));
    let request = client.request(Method::POST, &format!("/projects/{project}/uploads")).multipart(form);
    let sent = client.send(request).await.expect(201).json();
    format!("/{}", sent["full_path"].as_str().expect("a path"))
}

/// Creates a project `root/NAME` with a commit, an upload and an image, and returns its ID and the path of the upload.
async fn fill(server: &Process, work: &Work, name: &str) -> (i64, String) {
    let client = Client::new(&server.base, Some(TOKEN));
    let id = project(&client, name, json!({})).await;
    work.git(&["push", "--quiet", &server.address(name), "main"]).await;
    let path = upload(&client, id, format!("upload of {name}").as_bytes()).await;
    let image = format!("root/{name}");
    let tool = Tool::new(&server.base, Some(("root", TOKEN)), &image, "*").await;
    tool.push_image("v1", usize::try_from(id).unwrap()).await;
    tool.push_blob(&noise(70_000, usize::try_from(id).unwrap())).await;
    (id, path)
}

async fn restore_recovers_repositories_users_and_tokens(site: Site) {
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let tip = work.commit("a", "1").await;
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    site.succeeds(&["admin", "create-user", "ann", "--email", "ann@example.com"]).await;
    let token = site.succeeds(&["admin", "create-token", "ann"]).await;
    let directory = site.sibling_path("backups");
    let copy = text(&directory);
    let output = site.succeeds(&["backup", copy]).await;
    assert!(output.starts_with("Saved 1 repository and 0 objects to "), "{output}");
    // A later commit is only in the second backup.
    let second = work.commit("b", "2").await;
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    site.succeeds(&["backup", copy]).await;
    let output = site.fails(&["restore", copy]).await;
    assert!(output.contains("is not empty"), "{output}");
    server.stop().await;

    let names = names(&directory).await;
    for (arguments, tip) in [(vec!["--backup", &names[0]], tip), (vec![], second)] {
        let other = site.another().await;
        other.succeeds(&[&["restore", copy], &arguments[..]].concat()).await;
        other.assert_sound(1).await;
        assert_eq!(
            std::fs::read(other.data.join("secret.key")).unwrap(),
            std::fs::read(site.data.join("secret.key")).unwrap()
        );
        let server = other.serve(&[]).await;
        let listed = work.git(&["ls-remote", &server.address("p"), "refs/heads/main"]).await;
        assert!(listed.starts_with(&tip), "{listed}");
        let url = git::address(&server.base, "ann", token.trim(), "root/p");
        let output = work.fails(&["ls-remote", &url]).await;
        assert!(output.contains("could not be found"), "the token must be valid: {output}");
        // New rows get unused IDs.
        other.import("q", &work.path).await;
        work.git(&["push", "--quiet", &server.address("q"), "main:other"]).await;
        server.stop().await;
        other.assert_sound(2).await;
        other.remove().await;
    }
}

/// The commits of a merge request remain in the target repository when its source branch is deleted.
async fn restore_recovers_commits_of_merge_requests_without_their_branch(site: Site) {
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    work.git(&["checkout", "--quiet", "-b", "side"]).await;
    let tip = work.commit("a", "1").await;
    work.git(&["push", "--quiet", &server.address("p"), "side"]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    let body = json!({ "source_branch": "side", "target_branch": "main", "title": "t" });
    client.post("/projects/root%2Fp/merge_requests", body).await.expect(201);
    let changes = "/projects/root%2Fp/merge_requests/1/changes";
    client.get(changes).await.expect(200);
    work.git(&["push", "--quiet", "--delete", &server.address("p"), "side"]).await;
    let expected = client.get(changes).await.expect(200).json()["changes"].clone();
    assert_eq!(expected[0]["new_path"], "a");
    let directory = site.sibling_path("backups");
    site.succeeds(&["backup", text(&directory)]).await;
    server.stop().await;

    let other = site.another().await;
    other.succeeds(&["restore", text(&directory)]).await;
    let server = other.serve(&[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    assert_eq!(client.get(changes).await.expect(200).json()["changes"], expected);
    let fresh = Work::empty();
    fresh.git(&["init", "--quiet", "."]).await;
    fresh.git(&["fetch", "--quiet", &server.address("p"), "refs/merge-requests/1/head"]).await;
    assert_eq!(fresh.git(&["rev-parse", "FETCH_HEAD"]).await, tip);
    server.stop().await;
    other.assert_sound(1).await;
    other.remove().await;
}

/// Clients may have stored the IDs of deleted rows.
async fn restore_does_not_assign_ids_of_deleted_rows_again(site: Site) {
    let server = site.serve(&[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    let id = project(&client, "p", json!({})).await;
    let labels = format!("/projects/{id}/labels");
    let create = async |client: &Client, name: &str| {
        let body = json!({ "name": name, "color": "#FF0000" });
        client.post(&labels, body).await.expect(201).json()["id"].as_i64().expect("an ID")
    };
    create(&client, "stays").await;
    let deleted = create(&client, "deleted").await;
    client.delete(&format!("{labels}/deleted")).await.expect(204);
    let directory = site.sibling_path("backups");
    site.succeeds(&["backup", text(&directory)]).await;
    server.stop().await;

    let other = site.another().await;
    other.succeeds(&["restore", text(&directory)]).await;
    let server = other.serve(&[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    assert!(create(&client, "new").await > deleted);
    server.stop().await;
    other.remove().await;
}

on_every_site![
    restore_recovers_repositories_users_and_tokens,
    restore_recovers_commits_of_merge_requests_without_their_branch,
    restore_does_not_assign_ids_of_deleted_rows_again,
];
