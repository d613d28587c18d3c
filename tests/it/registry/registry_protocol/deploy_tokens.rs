//! The registry with deploy tokens.

use reqwest::Method;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use storage::entities::{Visibility, registry_repository_blobs};

use super::access::{project_with_image, statuses};
use super::{Tool, assert_refused, digest, noise, request_token};
use crate::identity::deploy_tokens::{credentials, deploy_token, expire};
use crate::support::slow_request::SlowRequest;
use crate::support::{TestServer, on_every_database};

/// Creates a deploy token of the project `root/work`.
async fn token(server: &TestServer, scopes: &[&str]) -> Value {
    deploy_token(&server.root(), "/projects/root%2Fwork", scopes).await
}

async fn tool(server: &TestServer, name: &str, created: &Value) -> Tool {
    Tool::new(&server.base, Some(credentials(created)), name, "*").await
}

async fn scopes_of_deploy_token_limit_pulls_and_pushes(server: TestServer) {
    let (_, image) = project_with_image(&server, "private").await;
    for (scopes, expected) in [
        (&["read_registry"][..], [200, 403, 403, 403]),
        (&["write_registry"], [200, 202, 403, 403]),
        (&["read_registry", "write_registry"], [200, 202, 403, 403]),
        (&["read_repository"], [403, 403, 403, 403]),
    ] {
        let created = token(&server, scopes).await;
        let tool = tool(&server, "root/work", &created).await;
        assert_eq!(statuses(&tool, &image).await, expected, "{scopes:?}");
    }
    let created = token(&server, &["read_registry", "write_registry"]).await;
    let tool = tool(&server, "root/work", &created).await;
    tool.client.get("//v2/").await.expect(200);
    let pushed = tool.push_image("by-token", 2).await;
    let pulled = tool.client.get(&tool.path("manifests/by-token")).await.expect(200);
    assert_eq!(pulled.header("docker-content-digest"), pushed.digest);
    let refused = tool.client.delete(&tool.path("manifests/by-token")).await;
    assert_refused(&refused, 403, "DENIED");
}

async fn deploy_token_reaches_images_of_its_project_and_group_only(server: TestServer) {
    let (_, image) = project_with_image(&server, "private").await;
    let created = token(&server, &["read_registry", "write_registry"]).await;
    for (path, visibility, expected) in [
        ("top/sub/private", Visibility::Private, [404, 404, 404, 404]),
        ("top/sub/internal", Visibility::Internal, [404, 404, 404, 404]),
        ("top/sub/public", Visibility::Public, [200, 403, 403, 403]),
    ] {
        server.insert_project_at(path, visibility).await;
        Tool::of_root(&server, path).await.push_image("latest", 1).await;
        assert_eq!(statuses(&tool(&server, path, &created).await, &image).await, expected, "{path}");
    }
    let of_group = deploy_token(&server.root(), "/groups/top", &["read_registry", "write_registry"]).await;
    for path in ["top/sub/private", "top/sub/internal", "top/sub/public"] {
        assert_eq!(statuses(&tool(&server, path, &of_group).await, &image).await, [200, 202, 403, 403], "{path}");
    }
    let refused = tool(&server, "root/work", &of_group).await;
    assert_refused(&refused.client.get(&refused.path("tags/list")).await, 404, "NAME_UNKNOWN");
}

async fn registry_token_ends_with_its_deploy_token(server: TestServer) {
    let (_, image) = project_with_image(&server, "private").await;
    let (first, second) = (token(&server, &["read_registry"]).await, token(&server, &["read_registry"]).await);
    let tools = [tool(&server, "root/work", &first).await, tool(&server, "root/work", &second).await];
    server.root().delete(&format!("/projects/root%2Fwork/deploy_tokens/{}", first["id"])).await.expect(204);
    assert_eq!(statuses(&tools[0], &image).await, [401, 401, 401, 401]);
    assert_eq!(statuses(&tools[1], &image).await, [200, 403, 403, 403]);
    expire(&server, &second).await;
    assert_eq!(statuses(&tools[1], &image).await, [401, 401, 401, 401]);
    for created in [&first, &second] {
        let (name, secret) = credentials(created);
        for name in [name, "root"] {
            let refused = request_token(&server.base, Some((name, secret)), &[]).await;
            assert_refused(&refused, 401, "UNAUTHORIZED");
            assert_eq!(refused.header("www-authenticate"), "Basic realm=\"Holdfast\"");
        }
    }
}

async fn deploy_token_does_not_push_to_archived_project(server: TestServer) {
    let (id, image) = project_with_image(&server, "private").await;
    let created = token(&server, &["read_registry", "write_registry"]).await;
    let tool = tool(&server, "root/work", &created).await;
    server.root().post(&format!("/projects/{id}/archive"), json!({})).await.expect(201);
    assert_eq!(statuses(&tool, &image).await, [200, 403, 403, 403]);
    server.root().post(&format!("/projects/{id}/unarchive"), json!({})).await.expect(201);
    server.root().put(&format!("/projects/{id}"), json!({ "container_registry_enabled": false })).await.expect(200);
    assert_eq!(statuses(&tool, &image).await, [403, 403, 403, 403]);
}

async fn blob_is_mounted_only_from_repositories_that_deploy_token_can_pull(server: TestServer) {
    project_with_image(&server, "private").await;
    let created = token(&server, &["read_registry", "write_registry"]).await;
    server.insert_project_at("g/hidden", Visibility::Private).await;
    let blob = Tool::of_root(&server, "g/hidden").await.push_blob(&noise(100, 7)).await;
    let own = Tool::of_root(&server, "root/work/base").await.push_blob(&noise(100, 8)).await;
    let scopes = ["repository:root/work:*", "repository:root/work/base:pull", "repository:g/hidden:pull"];
    let issued = request_token(&server.base, Some(credentials(&created)), &scopes).await.expect(200).json();
    let bearer = format!("Bearer {}", issued["token"].as_str().expect("a token"));
    let tool = Tool { client: server.anonymous().header("Authorization", &bearer), name: "root/work".to_owned() };
    for (from, digest, expected) in [("g/hidden", blob, 202), ("root/work/base", own, 201)] {
        let path = tool.path(&format!("blobs/uploads/?mount={digest}&from={from}"));
        tool.send(Method::POST, &path, &[], Vec::new()).await.expect(expected);
    }
}

async fn slow_push_is_refused_after_deploy_token_is_deleted(server: TestServer) {
    server.insert_project_at("root/work", Visibility::Private).await;
    let created = token(&server, &["read_registry", "write_registry"]).await;
    let issued = request_token(&server.base, Some(credentials(&created)), &["repository:root/work:pull,push"]).await;
    let bearer = format!("Bearer {}", issued.expect(200).json()["token"].as_str().expect("a token"));
    let blob = noise(100_000, 1);
    let line = format!("POST /v2/root/work/blobs/uploads/?digest={}", digest(&blob));
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/octet-stream")];
    let accepted = SlowRequest::begin(&server.base, &line, &headers, blob).await;
    accepted.finish().await.expect(201);
    let blob = noise(100_000, 2);
    let line = format!("POST /v2/root/work/blobs/uploads/?digest={}", digest(&blob));
    let refused = SlowRequest::begin(&server.base, &line, &headers, blob).await;
    server.root().delete(&format!("/projects/root%2Fwork/deploy_tokens/{}", created["id"])).await.expect(204);
    let refused = refused.finish().await.expect(403);
    assert_eq!(refused.json()["errors"][0]["code"], "DENIED");
    let db = server.backend.database.read();
    let blobs = registry_repository_blobs::Entity::find().count(db.pool()).await.expect("a count");
    assert_eq!(blobs, 1);
}

on_every_database![
    scopes_of_deploy_token_limit_pulls_and_pushes,
    deploy_token_reaches_images_of_its_project_and_group_only,
    registry_token_ends_with_its_deploy_token,
    deploy_token_does_not_push_to_archived_project,
    blob_is_mounted_only_from_repositories_that_deploy_token_can_pull,
    slow_push_is_refused_after_deploy_token_is_deleted,
];
