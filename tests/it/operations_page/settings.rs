//! The settings files of the page.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;

use holdfast::config::{ConfigOptions, ServerSettings};
use rand::RngExt;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::json;

use super::blocks::block;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::s3::Bucket;
use crate::support::{Client, git};

/// Returns the settings of blocks that are written to one file.
fn settings(names: &[&str]) -> ServerSettings {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("holdfast.toml");
    let text: String = names.iter().map(|name| block(name)).collect();
    std::fs::write(&path, text).expect("a file");
    let options = ConfigOptions::default().over_file(Some(&path)).expect("a settings file");
    options.settings().expect("settings")
}

fn settings_files_are_valid() {
    let all = settings(&["holdfast.toml", "postgresql.toml", "object-storage.toml"]);
    assert_eq!(all.base_url.as_deref(), Some("https://git.example.com"));
    assert_eq!((all.requests_per_minute_per_user, all.requests_per_minute_per_address), (2000, 500));
    let loopback: [IpAddr; 2] = [[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()];
    assert!(loopback.iter().all(|address| all.trusted_proxies.contain(*address)));
    assert!(!all.trusted_proxies.contain([10, 0, 0, 2].into()));
    assert!(all.database_url.starts_with("postgres://holdfast:"));
    assert_eq!(all.object_store_url.as_deref(), Some("s3://holdfast-files/production"));
    let node = settings(&["node.toml"]);
    assert!(node.listen.ip().is_ipv4() && !node.listen.ip().is_loopback());
    assert!(node.trusted_proxies.contain([10, 0, 0, 2].into()));
}

/// Returns the variables that a file for `EnvironmentFile` sets.
fn variables(text: &str) -> Vec<(&str, &str)> {
    text.lines().map(|line| line.split_once('=').expect("a variable")).collect()
}

async fn uploads_are_stored_in_bucket(site: Site) {
    let bucket = Bucket::start().await;
    let file = site.sibling_path("holdfast.toml");
    std::fs::write(&file, block("object-storage.toml").replace("holdfast-files", "files")).expect("a file");
    let mut command = site.command(&["serve", "--listen", "127.0.0.1:0"]);
    bucket.configure(&mut command, "other");
    let environment = block("object-storage.env");
    let names: Vec<&str> = variables(&environment).into_iter().map(|(name, _)| name).collect();
    let set: Vec<_> = command.as_std().get_envs().filter(|(_, value)| value.is_some()).map(|(name, _)| name).collect();
    for name in set.iter().filter_map(|name| name.to_str()).filter(|name| name.starts_with("AWS_")) {
        assert!(names.contains(&name), "the page does not set {name}");
    }
    command.env_remove("HOLDFAST_OBJECT_STORE_URL").env("HOLDFAST_CONFIG", &file);
    let server = Site::ready(command).await;
    let client = Client::new(&server.base, Some(TOKEN));
    let project = client.post("/projects", json!({"name": "p"})).await.expect(201).json();
    let form = Form::new().part("file", Part::bytes(b"content".to_vec()).file_name("a.txt"));
    let request = client.request(Method::POST, &format!("/projects/{}/uploads", project["id"])).multipart(form);
    client.send(request).await.expect(201);
    let keys = bucket.keys();
    assert!(keys.len() == 1 && keys[0].starts_with("production/"), "{keys:?}");
    server.stop().await;
}

/// Directory of the unit, in place of which the test has its own.
const BACKUPS: &str = "/var/backups/holdfast";
/// Number of backups that the unit keeps.
const KEPT: usize = 7;

async fn backup_unit_keeps_the_newest_backups(site: Site) {
    site.serve(&[]).await.stop().await;
    let backups = site.sibling_path("backups");
    let backups = backups.to_str().expect("UTF-8");
    let unit = block("holdfast-backup.service").replace(BACKUPS, backups);
    let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/holdfast "));
    let command: Vec<&str> = command.expect("a command").split(' ').collect();
    let names = || -> BTreeSet<OsString> {
        let entries = std::fs::read_dir(Path::new(backups).join("backups")).expect("backups");
        entries.map(|entry| entry.expect("an entry").file_name()).collect()
    };
    site.succeeds(&command).await;
    let first = names();
    for _ in 0..KEPT {
        site.succeeds(&command).await;
    }
    let left = names();
    assert_eq!(left.len(), KEPT);
    assert!(left.is_disjoint(&first), "{left:?}");
    let other = site.another().await;
    other.succeeds(&["restore", backups]).await;
    other.succeeds(&["doctor"]).await;
    other.remove().await;
}

async fn restored_instance_with_large_object_can_be_saved_again(site: Site) {
    let server = site.serve(&[]).await;
    let work = git::Work::new().await;
    site.import("p", &work.path).await;
    // Random bytes do not compress.
    let mut noise = vec![0_u8; 3 << 20];
    rand::rng().fill(&mut noise[..]);
    std::fs::write(work.path.join("noise"), noise).expect("a file");
    work.commit("note", "x").await;
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    server.stop().await;
    let mut current = site;
    for name in ["first", "second"] {
        let copy = current.sibling_path(name);
        current.succeeds(&["backup", copy.to_str().expect("UTF-8")]).await;
        let restored = current.another().await;
        restored.succeeds(&["restore", copy.to_str().expect("UTF-8")]).await;
        restored.assert_sound(1).await;
        current = restored;
    }
}

harness::tests![settings_files_are_valid];
on_every_site![
    restored_instance_with_large_object_can_be_saved_again,
    uploads_are_stored_in_bucket,
    backup_unit_keeps_the_newest_backups,
];
