//! Pushes whose body takes long are authorized again.

use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::json;
use storage::entities::{AccessLevel, Visibility, registry_manifests, registry_pieces, registry_repository_blobs};

use super::{CONFIG, IMAGE, Tool, digest, noise, request_token};
use crate::support::slow_request::SlowRequest;
use crate::support::users::TestUser;
use crate::support::{TestServer, on_every_database};

/// A Developer who pushes to `g/p`.
struct Sample {
    project: i64,
    dev: TestUser,
    tool: Tool,
    authorization: String,
}

async fn sample(server: &TestServer) -> Sample {
    let project = server.insert_project_at("g/p", Visibility::Private).await.id;
    let dev = server.create_user("dev").await;
    server.insert_member(project, dev.id, AccessLevel::Developer).await;
    let credentials = Some(("dev", dev.token.as_str()));
    let tool = Tool::new(&server.base, credentials, "g/p", "pull,push").await;
    let token = request_token(&server.base, credentials, &["repository:g/p:pull,push"]).await.expect(200).json();
    let authorization = format!("Bearer {}", token["token"].as_str().expect("a token"));
    Sample { project, dev, tool, authorization }
}

impl Sample {
    async fn begin(&self, server: &TestServer, line: &str, kind: &str, body: &[u8]) -> SlowRequest {
        let headers = [("Authorization", self.authorization.as_str()), ("Content-Type", kind)];
        SlowRequest::begin(&server.base, line, &headers, body.to_vec()).await
    }
}

async fn count<E: EntityTrait>(server: &TestServer) -> u64
where
    for<'a> sea_orm::Select<E>: PaginatorTrait<'a, sea_orm::DatabaseConnection>,
{
    E::find().count(server.backend.database.read().pool()).await.expect("a count")
}

async fn slow_blob_is_refused_after_access_is_lost(server: TestServer) {
    let sample = sample(&server).await;
    let blob = noise(100_000, 1);
    let octets = "application/octet-stream";
    let at_once = format!("POST /v2/g/p/blobs/uploads/?digest={}", digest(&blob));
    let location = sample.tool.begin().await;
    let chunk = format!("PATCH {}", location.strip_prefix('/').expect("a path"));
    let requests =
        [sample.begin(&server, &at_once, octets, &blob).await, sample.begin(&server, &chunk, octets, &blob).await];
    server.root().delete(&format!("/projects/{}/members/{}", sample.project, sample.dev.id)).await.expect(204);
    for request in requests {
        let response = request.finish().await.expect(404);
        assert_eq!(response.json()["errors"][0]["code"], "NAME_UNKNOWN");
    }
    server.insert_member(sample.project, sample.dev.id, AccessLevel::Developer).await;
    let request = sample.begin(&server, &at_once, octets, &blob).await;
    let token = server.token_row(&sample.dev.token).await;
    server.root().delete(&format!("/personal_access_tokens/{}", token.id)).await.expect(204);
    let response = request.finish().await.expect(403);
    assert_eq!(response.json()["errors"][0]["code"], "DENIED");
    assert_eq!(count::<registry_repository_blobs::Entity>(&server).await, 0);
    assert_eq!(count::<registry_pieces::Entity>(&server).await, 0);
}

async fn slow_manifest_is_refused_after_project_is_archived(server: TestServer) {
    let sample = sample(&server).await;
    let config = b"{}";
    let config = json!({"mediaType": CONFIG, "digest": sample.tool.push_blob(config).await, "size": config.len()});
    let manifest = json!({"schemaVersion": 2, "mediaType": IMAGE, "config": config, "layers": []}).to_string();
    let line = "PUT /v2/g/p/manifests/latest";
    let request = sample.begin(&server, line, IMAGE, manifest.as_bytes()).await;
    server.root().post(&format!("/users/{}/block", sample.dev.id), json!({})).await.expect(201);
    request.finish().await.expect(403);
    assert_eq!(count::<registry_manifests::Entity>(&server).await, 0);
    server.root().post(&format!("/users/{}/unblock", sample.dev.id), json!({})).await.expect(201);
    let request = sample.begin(&server, line, IMAGE, manifest.as_bytes()).await;
    server.root().post(&format!("/projects/{}/archive", sample.project), json!({})).await.expect(201);
    request.finish().await.expect(403);
    server.root().post(&format!("/projects/{}/unarchive", sample.project), json!({})).await.expect(201);
    sample.begin(&server, line, IMAGE, manifest.as_bytes()).await.finish().await.expect(201);
}

on_every_database![slow_blob_is_refused_after_access_is_lost, slow_manifest_is_refused_after_project_is_archived,];
