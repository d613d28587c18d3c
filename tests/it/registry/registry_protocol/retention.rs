//! Images in backups and in the checks of `holdfast doctor`.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Tool, digest};
use crate::support::Client;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::spaces::project;

fn paths(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| match entry.path() {
            path if path.is_dir() => paths(&path),
            path => vec![path],
        })
        .collect()
}

async fn restore_brings_back_images_and_doctor_reports_missing_objects(site: Site) {
    let server = site.serve(&[]).await;
    project(&Client::new(&server.base, Some(TOKEN)), "work", json!({})).await;
    let tool = Tool::new(&server.base, Some(("root", TOKEN)), "root/work", "*").await;
    let image = tool.push_image("latest", 1).await;
    let copy = site.sibling_path("copy");
    let copy = copy.to_str().expect("UTF-8");
    site.succeeds(&["backup", copy]).await;
    server.stop().await;
    site.succeeds(&["doctor"]).await;

    let other = site.another().await;
    other.succeeds(&["restore", copy]).await;
    let server = other.serve(&[]).await;
    let tool = Tool::new(&server.base, Some(("root", TOKEN)), "root/work", "*").await;
    let manifest = tool.client.get(&tool.path("manifests/latest")).await.expect(200);
    assert_eq!(manifest.header("docker-content-digest"), image.digest);
    let layer = tool.path(&format!("blobs/{}", digest(&image.layer)));
    assert_eq!(tool.client.get(&layer).await.expect(200).body, image.layer);
    server.stop().await;

    let objects = other.data.join("objects/registry");
    let layer = paths(&objects).into_iter().find(|path| std::fs::read(path).expect("bytes") == image.layer);
    let layer = layer.expect("the layer");
    std::fs::rename(&layer, layer.with_file_name("elsewhere")).expect("renaming");
    let output = other.fails(&["doctor"]).await;
    assert!(output.contains(&format!("blob {}: the object registry/", digest(&image.layer))), "{output}");
    assert!(output.contains("/elsewhere: it belongs to no blob"), "{output}");
    other.remove().await;
}

on_every_site![restore_brings_back_images_and_doctor_reports_missing_objects,];
