//! The registry used by skopeo, a container tool.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tokio::process::Command;

use super::{CONFIG, IMAGE, digest, noise, objects};
use crate::support::places::project;
use crate::support::server::ROOT_TOKEN;
use crate::support::{TestServer, on_every_database};

/// Runs skopeo, which must be installed like git.
async fn skopeo(directory: &Path, arguments: &[&str]) -> Output {
    let policy = directory.join("policy.json");
    std::fs::write(&policy, r#"{"default": [{"type": "insecureAcceptAnything"}]}"#).expect("a policy");
    let mut command = Command::new("skopeo");
    command
        .arg("--policy")
        .arg(&policy)
        .args(arguments)
        .env("REGISTRY_AUTH_FILE", directory.join("auth.json"))
        .env("NO_PROXY", "127.0.0.1")
        .kill_on_drop(true);
    command.output().await.expect("skopeo (Debian: apt-get install skopeo)")
}

async fn skopeo_succeeds(directory: &Path, arguments: &[&str]) -> String {
    let output = skopeo(directory, arguments).await;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn blob(layout: &Path, bytes: &[u8]) -> Value {
    let digest = digest(bytes);
    let folder = layout.join("blobs/sha256");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(&digest[7..]), bytes).expect("a blob");
    json!({"digest": digest, "size": bytes.len()})
}

fn with_media_type(mut descriptor: Value, kind: &str) -> Value {
    descriptor["mediaType"] = kind.into();
    descriptor
}

/// Writes an image in the OCI image layout: layers, a configuration and a manifest. Returns the digest of the manifest.
fn layout(directory: &Path, layers: usize) -> String {
    std::fs::create_dir_all(directory).expect("a folder");
    let layers: Vec<Vec<u8>> = (0..layers).map(|seed| noise(200_000, seed)).collect();
    let ids: Vec<String> = layers.iter().map(|layer| digest(layer)).collect();
    let config = json!({
        "created": "2021-02-03T04:05:06Z", "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": {"type": "layers", "diff_ids": ids},
    });
    let described =
        layers.iter().map(|layer| with_media_type(blob(directory, layer), "application/vnd.oci.image.layer.v1.tar"));
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": IMAGE,
        "config": with_media_type(blob(directory, config.to_string().as_bytes()), CONFIG),
        "layers": described.collect::<Vec<_>>(),
    });
    let described = with_media_type(blob(directory, manifest.to_string().as_bytes()), IMAGE);
    let index = json!({"schemaVersion": 2, "manifests": [described]});
    std::fs::write(directory.join("index.json"), index.to_string()).expect("an index");
    std::fs::write(directory.join("oci-layout"), r#"{"imageLayoutVersion": "1.0.0"}"#).expect("a layout");
    described["digest"].as_str().expect("a digest").to_owned()
}

fn address(server: &TestServer, name: &str) -> String {
    let host = server.base.strip_prefix("http://").expect("an address");
    format!("docker://{host}/{name}")
}

async fn skopeo_copies_inspects_and_deletes_images(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path();
    let id = layout(&directory.join("image"), 3);
    let source = format!("oci:{}", directory.join("image").display());
    let (first, second) = (address(&server, "root/work/app:v1"), address(&server, "root/work/copy/of:v2"));
    let credentials = format!("root:{ROOT_TOKEN}");
    let to = ["copy", "--preserve-digests", "--dest-tls-verify=false", "--dest-creds", &credentials];
    skopeo_succeeds(directory, &[&to[..], &[&source, &first]].concat()).await;
    let inspect = ["inspect", "--tls-verify=false", "--creds", &credentials];
    let response: Value =
        serde_json::from_str(&skopeo_succeeds(directory, &[&inspect[..], &[&first]].concat()).await).expect("JSON");
    assert_eq!((&response["Digest"], &response["RepoTags"]), (&json!(id), &json!(["v1"])));
    assert_eq!(
        (&response["Created"], response["Layers"].as_array().map(Vec::len)),
        (&json!("2021-02-03T04:05:06Z"), Some(3))
    );
    // Copy between repositories: the layers are mounted.
    let between = [&to[..], &["--src-tls-verify=false", "--src-creds", &credentials, &first, &second]].concat();
    skopeo_succeeds(directory, &between).await;
    assert_eq!(objects(&server).await.len(), 4);
    // Copy back to a directory: all bytes are equal.
    let back = format!("oci:{}", directory.join("back").display());
    let from = ["copy", "--preserve-digests", "--src-tls-verify=false", "--src-creds", &credentials, &second, &back];
    skopeo_succeeds(directory, &from).await;
    let names = |name: &str| {
        let entries = std::fs::read_dir(directory.join(name).join("blobs/sha256")).expect("a folder");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry"))
            .map(|entry| (entry.file_name(), std::fs::read(entry.path()).expect("a blob")))
            .map(|(name, bytes)| {
                assert_eq!(digest(&bytes)[7..], *name.to_str().expect("UTF-8"));
                name.to_str().expect("UTF-8").to_owned()
            })
            .collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names("back"), names("image"));
    let remove = ["delete", "--tls-verify=false", "--creds", &credentials, &first];
    skopeo_succeeds(directory, &remove).await;
    assert!(!skopeo(directory, &[&inspect[..], &[&first]].concat()).await.status.success());
    skopeo_succeeds(directory, &[&inspect[..], &[&second]].concat()).await;
}

async fn skopeo_lists_tags_and_push_requires_permission(server: TestServer) {
    let id = project(&server.root(), "work", json!({"visibility": "public"})).await;
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path();
    layout(&directory.join("image"), 1);
    let source = format!("oci:{}", directory.join("image").display());
    let credentials = format!("root:{ROOT_TOKEN}");
    for tag in ["a", "b"] {
        let target = address(&server, &format!("root/work:{tag}"));
        let to =
            ["copy", "--preserve-digests", "--dest-tls-verify=false", "--dest-creds", &credentials, &source, &target];
        skopeo_succeeds(directory, &to).await;
    }
    let listed = skopeo_succeeds(directory, &["list-tags", "--tls-verify=false", &address(&server, "root/work")]).await;
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed["Tags"], json!(["a", "b"]));
    // A login verifies the credentials.
    let host = server.base.strip_prefix("http://").expect("an address");
    let login = ["login", "--tls-verify=false", "--username", "root", "--password"];
    skopeo_succeeds(directory, &[&login[..], &[ROOT_TOKEN, host]].concat()).await;
    assert!(!skopeo(directory, &[&login[..], &["wrong", host]].concat()).await.status.success());
    let stranger = server.person("stranger").await;
    let credentials = format!("stranger:{}", stranger.token);
    let target = address(&server, "root/work:c");
    let to = ["copy", "--preserve-digests", "--dest-tls-verify=false", "--dest-creds", &credentials, &source, &target];
    let refused = skopeo(directory, &to).await;
    let output = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && output.contains("not allowed to push"), "{output}");
    server.root().put(&format!("/projects/{id}"), json!({"visibility": "private"})).await.expect(200);
    let inspect = ["inspect", "--tls-verify=false", "--no-creds", &address(&server, "root/work:a")];
    assert!(!skopeo(directory, &inspect).await.status.success());
}

on_every_database![skopeo_copies_inspects_and_deletes_images, skopeo_lists_tags_and_push_requires_permission,];
