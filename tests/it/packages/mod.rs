//! Packages of projects and groups.

mod access;
pub mod cargo_packages;
mod cleanup;
mod credentials;
mod deletion;
mod generic;
mod levels;
mod lists;
pub mod maven_packages;
pub mod npm_packages;
pub mod protection;
pub mod python_packages;
mod reauthorization;
mod storage;

use holdfast::config::ConfigOptions;
use reqwest::Method;

use crate::support::client::segment;
use crate::support::{ApiResponse, Client, spaces};

/// Returns the path of a file by the names of the package, its version and the file.
pub fn file_path(project: &str, names: [&str; 3]) -> String {
    let [name, version, file] = names.map(segment);
    format!("{project}/packages/generic/{name}/{version}/{file}")
}

/// Uploads a file of the project `project`, such as `/projects/1`.
pub async fn upload(client: &Client, project: &str, names: [&str; 3], content: &[u8]) -> ApiResponse {
    let request = client.request(Method::PUT, &file_path(project, names)).body(content.to_vec());
    client.send(request).await
}

/// Uploads a file to a package. Returns the IDs of the package and of the file.
pub async fn package(client: &Client, project: &str, name: &str, version: &str) -> (i64, i64) {
    let path = format!("{}?select=package_file", file_path(project, [name, version, "there"]));
    let uploaded = client.send(client.request(Method::PUT, &path).body("there")).await.expect(201).json();
    (uploaded["package_id"].as_i64().expect("an ID"), spaces::id(&uploaded))
}

/// Checks that a part of a file can be downloaded, and that a range after its end is refused.
async fn check_ranges(client: &Client, path: &str) {
    let part = client.clone().header("Range", "bytes=1-3").get(path).await.expect(206);
    assert_eq!(part.body.len(), 3);
    client.clone().header("Range", "bytes=100000-").get(path).await.expect(416);
}

/// Returns the options of a server with a maximum of 100,000 bytes for a file.
fn small_files() -> ConfigOptions {
    ConfigOptions { max_package_file_bytes: Some(100_000), ..ConfigOptions::default() }
}
