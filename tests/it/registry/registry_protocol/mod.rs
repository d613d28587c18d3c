//! The container registry protocol, OCI Distribution 1.1.

mod access;
mod blobs;
mod deploy_tokens;
mod errors;
mod garbage_collection;
mod interrupted_pushes;
mod large;
mod manifest_memory;
mod manifests;
mod object_storage;
mod retention;
mod slow_pushes;
mod tags;
mod upload_slots;
mod uploads;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::server::ROOT_TOKEN;
use crate::support::{ApiResponse, Client, TestServer};

/// Media type of an image manifest.
pub const IMAGE: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of an image index.
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Media type of an image configuration.
pub const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// Returns the digest of bytes.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Returns `count` bytes that depend on the seed.
pub fn noise(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|n| ((n + seed) * (n % 13 + 1) % 251) as u8).collect()
}

/// Returns the value of an `Authorization` header of the Basic scheme.
pub fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

/// Requests a token from the token endpoint.
pub async fn request_token(base: &str, credentials: Option<(&str, &str)>, scopes: &[&str]) -> ApiResponse {
    let mut client = Client::new(base, None);
    if let Some((name, password)) = credentials {
        client = client.header("Authorization", &basic(name, password));
    }
    let mut query = "service=container_registry".to_owned();
    for scope in scopes {
        query.push_str(&format!("&scope={scope}"));
    }
    client.get(&format!("//jwt/auth?{query}")).await
}

/// Client that pushes and pulls images of one name.
pub struct Tool {
    /// HTTP client with a token.
    pub client: Client,
    /// Name of the images.
    pub name: String,
}

/// An image that was pushed.
pub struct Image {
    /// Digest of the manifest.
    pub digest: String,
    /// The manifest.
    pub manifest: Value,
    /// Digest of the configuration.
    pub config: String,
    /// The layer.
    pub layer: Vec<u8>,
}

impl Tool {
    /// Creates a client with a token for these actions.
    pub async fn new(base: &str, credentials: Option<(&str, &str)>, name: &str, actions: &str) -> Self {
        let scope = format!("repository:{name}:{actions}");
        let token = request_token(base, credentials, &[&scope]).await.expect(200).json();
        let token = token["token"].as_str().expect("a token");
        Self {
            client: Client::new(base, None).header("Authorization", &format!("Bearer {token}")),
            name: name.to_owned(),
        }
    }

    /// Creates a client of the administrator, with all actions.
    pub async fn of_root(server: &TestServer, name: &str) -> Self {
        Self::new(&server.base, Some(("root", ROOT_TOKEN)), name, "pull,push,delete").await
    }

    /// Returns a path of the repository.
    pub fn path(&self, rest: &str) -> String {
        format!("//v2/{}/{rest}", self.name)
    }

    /// Sends a request with a body.
    pub async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> ApiResponse {
        let mut request = self.client.request(method, path).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.client.send(request).await
    }

    /// Starts an upload and returns its location.
    pub async fn begin(&self) -> String {
        let started = self.send(Method::POST, &self.path("blobs/uploads/"), &[], Vec::new()).await;
        format!("/{}", started.expect(202).header("location"))
    }

    /// Pushes a blob in one request.
    pub async fn push_blob(&self, bytes: &[u8]) -> String {
        let digest = digest(bytes);
        let path = self.path(&format!("blobs/uploads/?digest={digest}"));
        self.send(Method::POST, &path, &[], bytes.to_vec()).await.expect(201);
        digest
    }

    /// Pushes a manifest.
    pub async fn push_manifest(&self, reference: &str, kind: &str, manifest: &Value) -> ApiResponse {
        let path = self.path(&format!("manifests/{reference}"));
        self.send(Method::PUT, &path, &[("content-type", kind)], manifest.to_string().into_bytes()).await
    }

    /// Pushes a small image.
    pub async fn push_image(&self, tag: &str, seed: usize) -> Image {
        let layer = noise(1_000, seed);
        let config = json!({"created": "2020-01-02T03:04:05Z", "architecture": "amd64", "os": "linux", "seed": seed});
        let config = config.to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": IMAGE,
            "config": {"mediaType": CONFIG, "digest": self.push_blob(&config).await, "size": config.len()},
            "layers": [{
                "mediaType": "application/vnd.oci.image.layer.v1.tar",
                "digest": self.push_blob(&layer).await,
                "size": layer.len(),
            }],
        });
        let pushed = self.push_manifest(tag, IMAGE, &manifest).await.expect(201);
        Image { digest: pushed.header("docker-content-digest").to_owned(), manifest, config: digest(&config), layer }
    }
}

/// Returns the error code of a response.
#[track_caller]
pub fn code(response: &ApiResponse) -> String {
    let errors = &response.json()["errors"];
    assert_eq!(errors.as_array().map(Vec::len), Some(1), "{errors}");
    assert!(errors[0]["message"].is_string(), "{errors}");
    errors[0]["code"].as_str().expect("a code").to_owned()
}

/// Asserts the status and the code of an error.
#[track_caller]
pub fn assert_refused(response: &ApiResponse, status: u16, expected: &str) {
    assert_eq!(
        (response.status, code(response).as_str()),
        (status, expected),
        "{}",
        String::from_utf8_lossy(&response.body)
    );
    assert_eq!(response.header("docker-distribution-api-version"), "registry/2.0");
}

/// Returns the keys of all objects of the registry.
pub async fn objects(server: &TestServer) -> Vec<String> {
    server.backend.objects.keys(Some("registry")).await.expect("keys")
}
