//! Images pushed through the registry protocol, read through the API.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::tags;
use crate::support::client::http;
use crate::support::server::ROOT_TOKEN;
use crate::support::spaces::{group, project};
use crate::support::{TestServer, on_every_database};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// A client that pushes images to one repository.
struct Pusher<'a> {
    server: &'a TestServer,
    name: &'a str,
    token: String,
}

impl<'a> Pusher<'a> {
    async fn new(server: &'a TestServer, name: &'a str) -> Self {
        let expected = format!("service=container_registry&scope=repository:{name}:pull,push,delete");
        let request = http().build().expect("a client").get(format!("{}/jwt/auth?{expected}", server.base));
        let response = request.basic_auth("root", Some(ROOT_TOKEN)).send().await.expect("a response");
        let response: Value = response.json().await.expect("a token");
        let token = response["token"].as_str().expect("a token").to_owned();
        Self { server, name, token }
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: Vec<u8>) -> u16 {
        let method = method.parse().expect("a method");
        let url = format!("{}/v2/{}/{path}", self.server.base, self.name);
        let request = http().build().expect("a client").request(method, url);
        let request = request
            .bearer_auth(&self.token)
            .header("Content-Type", kind)
            .header("Accept", format!("{MANIFEST}, {INDEX}"));
        request.body(body).send().await.expect("a response").status().as_u16()
    }

    async fn blob(&self, bytes: &[u8]) -> Value {
        let path = format!("blobs/uploads/?digest={}", digest(bytes));
        assert_eq!(self.send("POST", &path, "application/octet-stream", bytes.to_vec()).await, 201);
        json!({ "digest": digest(bytes), "size": bytes.len() })
    }

    async fn manifest(&self, reference: &str, kind: &str, manifest: &Value) -> String {
        let bytes = manifest.to_string().into_bytes();
        let known = digest(&bytes);
        assert_eq!(self.send("PUT", &format!("manifests/{reference}"), kind, bytes).await, 201);
        known
    }

    /// Pushes an image. Returns the digests of its manifest and configuration, and its size.
    async fn image(&self, reference: &str, config: &[u8], layers: &[&[u8]]) -> (String, String, usize) {
        let mut described = Vec::new();
        for layer in layers {
            let mut layer = self.blob(layer).await;
            layer["mediaType"] = json!("application/vnd.oci.image.layer.v1.tar");
            described.push(layer);
        }
        let mut configured = self.blob(config).await;
        configured["mediaType"] = json!("application/vnd.oci.image.config.v1+json");
        let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": configured, "layers": described });
        let size = config.len() + layers.iter().map(|layer| layer.len()).sum::<usize>();
        (self.manifest(reference, MANIFEST, &manifest).await, digest(config), size)
    }
}

async fn pushed_image_can_be_listed_read_and_deleted(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "Engines", json!({})).await;
    let work = project(&root, "Difference", json!({ "namespace_id": engines })).await;
    let pusher = Pusher::new(&server, "engines/difference/tools/web").await;
    let config = br#"{"created": "2024-05-06T07:08:09.123456789+02:00", "architecture": "amd64", "os": "linux"}"#;
    let (manifest, revision, size) = pusher.image("v1", config, &[b"one", b"another"]).await;
    let all = format!("/projects/{work}/registry/repositories");
    let repository = root.get(&format!("{all}?tags=true&tags_count=true")).await.expect(200).json()[0].clone();
    let host = server.base.strip_prefix("http://").expect("an address").to_owned();
    let path = "engines/difference/tools/web";
    assert_eq!(
        repository,
        json!({
            "id": repository["id"], "name": "tools/web", "path": path, "project_id": work, "location": format!("{host}/{path}"),
            "created_at": repository["created_at"], "tags_count": 1,
            "tags": [{ "name": "v1", "path": format!("{path}:v1"), "location": format!("{host}/{path}:v1") }],
        })
    );
    let id = repository["id"].as_i64().expect("an id");
    let one = format!("{all}/{id}/tags");
    assert_eq!(
        root.get(&format!("{one}/v1")).await.expect(200).json(),
        json!({
            "name": "v1", "path": format!("{path}:v1"), "location": format!("{host}/{path}:v1"), "revision": &revision[7..],
            "short_revision": &revision[7..16], "digest": manifest, "created_at": "2024-05-06T05:08:09.123Z", "total_size": size,
        })
    );

    // A configuration without fields, and an index of two images.
    let (odd, _, odd_size) = pusher.image("odd", b"[1]", &[b"one"]).await;
    let both = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [
        { "mediaType": MANIFEST, "digest": manifest, "size": 1 }, { "mediaType": MANIFEST, "digest": odd, "size": 1 },
    ] });
    let tag = root.get(&format!("{one}/odd")).await.expect(200).json();
    assert_eq!((&tag["created_at"], &tag["total_size"]), (&json!(null), &json!(odd_size)));
    let mut both = both;
    for (index, digest) in [&manifest, &odd].into_iter().enumerate() {
        let bytes = http()
            .build()
            .expect("a client")
            .get(format!("{}/v2/{path}/manifests/{digest}", server.base))
            .bearer_auth(&pusher.token)
            .header("Accept", MANIFEST)
            .send()
            .await
            .expect("a response")
            .bytes()
            .await
            .expect("a manifest");
        both["manifests"][index]["size"] = json!(bytes.len());
    }
    let list = pusher.manifest("both", INDEX, &both).await;
    let tag = root.get(&format!("{one}/both")).await.expect(200).json();
    assert_eq!((&tag["digest"], &tag["revision"], &tag["created_at"]), (&json!(list), &json!(null), &json!(null)));

    // The image stays readable by digest after its tag is deleted.
    root.delete(&format!("{one}/v1")).await.expect(200);
    assert_eq!(pusher.send("GET", "manifests/v1", "", Vec::new()).await, 404);
    assert_eq!(pusher.send("GET", &format!("manifests/{manifest}"), "", Vec::new()).await, 200);
    pusher.image("v1", config, &[b"one", b"another"]).await;
    assert_eq!(tags(&root, work, id).await, ["both", "odd", "v1"]);

    root.delete(&format!("{one}?name_regex_delete=.*&older_than=1d")).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(tags(&root, work, id).await, ["both", "odd"]);
    assert_eq!(pusher.send("GET", "manifests/v1", "", Vec::new()).await, 404);
    assert_eq!(pusher.send("GET", "manifests/odd", "", Vec::new()).await, 200);

    root.delete(&format!("{all}/{id}")).await.expect(202);
    assert_eq!(pusher.send("GET", "manifests/odd", "", Vec::new()).await, 404);
    // Pushed while the deletion is still running.
    pusher.image("new", config, &[b"one"]).await;
    server.finish_jobs().await;
    let listed = root.get(&all).await.expect(200);
    let next = listed.json()[0]["id"].as_i64().expect("an id");
    assert!(next != id && listed.pluck("id").len() == 1);
    assert_eq!(tags(&root, work, next).await, ["new"]);
    assert_eq!(pusher.send("GET", "manifests/odd", "", Vec::new()).await, 404);
    assert_eq!(pusher.send("GET", "manifests/new", "", Vec::new()).await, 200);
}

on_every_database![pushed_image_can_be_listed_read_and_deleted,];
