//! Permissions to read and write files.

use sea_orm::ActiveValue::Set;
use serde_json::json;
use storage::entities::projects::FeatureAccess;
use storage::entities::{AccessLevel, Visibility};

use crate::support::repository::Sample;
use crate::support::{TestServer, on_every_database};

async fn read_private_file_requires_reporter(server: TestServer) {
    let sample = Sample::new(&server).await;
    let stranger = sample.member(None).await;
    let guest = sample.member(Some(AccessLevel::Guest)).await;
    let reporter = sample.member(Some(AccessLevel::Reporter)).await;
    for suffix in ["", "/blame", "/raw"] {
        let url = format!("{}{suffix}?ref=main", sample.file("README.md"));
        let hidden = stranger.get(&url).await.expect(404);
        assert_eq!(hidden.message(), "404 Project Not Found");
        server.anonymous().get(&url).await.expect(404);
        assert_eq!(guest.get(&url).await.expect(403).message(), "403 Forbidden");
        server.with_token("unknown").get(&url).await.expect(401);
        reporter.get(&url).await.expect(200);
        for (client, status) in
            [(&stranger, 404), (&guest, 403), (&reporter, 200), (&server.with_token("unknown"), 401)]
        {
            client.head(&url).await.expect(status);
        }
    }
}

async fn read_file_depends_on_visibility_and_repository_access_level(server: TestServer) {
    let sample = Sample::new(&server).await;
    let url = format!("{}?ref=main", sample.file("README.md"));
    let stranger = sample.member(None).await;
    sample.update(|row| row.visibility = Set(Visibility::Internal)).await;
    server.anonymous().get(&url).await.expect(404);
    stranger.get(&url).await.expect(200);
    sample.update(|row| row.visibility = Set(Visibility::Public)).await;
    server.anonymous().get(&url).await.expect(200);
    sample.update(|row| row.repository_access_level = Set(FeatureAccess::Disabled)).await;
    assert_eq!(stranger.get(&url).await.expect(403).message(), "403 Forbidden");
    sample.update(|row| row.repository_access_level = Set(FeatureAccess::Private)).await;
    stranger.get(&url).await.expect(403);
    sample.member(Some(AccessLevel::Guest)).await.get(&url).await.expect(200);
}

async fn read_repository_token_cannot_write_files(server: TestServer) {
    let sample = Sample::new(&server).await;
    let url = sample.file("README.md");
    let level = Some(AccessLevel::Maintainer);
    let reader = sample.member_with_scopes(level, &["read_repository"]).await;
    reader.get(&format!("{url}?ref=main")).await.expect(200);
    let body = json!({ "branch": "main", "commit_message": "x", "content": "x" });
    for answer in [
        reader.put(&url, body.clone()).await,
        reader.post(&url, body).await,
        reader.delete(&format!("{url}?branch=main&commit_message=x")).await,
    ] {
        assert_eq!(answer.expect(403).json()["error"], "insufficient_scope");
    }
    let other = sample.member_with_scopes(level, &["read_user"]).await;
    other.get(&format!("{url}?ref=main")).await.expect(403);
}

async fn write_file_requires_developer(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.update(|row| row.visibility = Set(Visibility::Public)).await;
    let url = sample.file("new");
    let body = json!({ "branch": "topic", "commit_message": "x", "content": "x" });
    let query = format!("{url}?branch=topic&commit_message=x");
    for (level, status) in [(None, 403), (Some(AccessLevel::Guest), 403), (Some(AccessLevel::Reporter), 403)] {
        let client = sample.member(level).await;
        assert_eq!(client.post(&url, body.clone()).await.expect(status).message(), "403 Forbidden");
        client.put(&url, body.clone()).await.expect(status);
        client.delete(&query).await.expect(status);
    }
    let anonymous = server.anonymous();
    assert_eq!(anonymous.post(&url, body.clone()).await.expect(401).message(), "401 Unauthorized");
    anonymous.put(&url, body.clone()).await.expect(401);
    anonymous.delete(&query).await.expect(401);
    let developer = sample.member(Some(AccessLevel::Developer)).await;
    developer.post(&url, body).await.expect(201);
    sample.update(|row| row.visibility = Set(Visibility::Private)).await;
    let stranger = sample.member(None).await;
    let body = json!({ "branch": "topic", "commit_message": "x", "content": "y" });
    stranger.post(&url, body.clone()).await.expect(404);
    stranger.put(&url, body).await.expect(404);
    stranger.delete(&query).await.expect(404);
    // Parameters are validated before the project is looked up.
    stranger.post(&url, json!({})).await.expect(400);
}

async fn write_file_to_protected_branch_requires_its_access_level(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.protect("main", 40, 40).await;
    sample.protect("release/*", 40, 40).await;
    let developer = sample.member(Some(AccessLevel::Developer)).await;
    let maintainer = sample.member(Some(AccessLevel::Maintainer)).await;
    let body =
        |branch: &str| json!({ "branch": branch, "start_branch": "main", "commit_message": "x", "content": "x" });
    for branch in ["main", "release/1"] {
        let answer = developer.post(&sample.file(branch), body(branch)).await.expect(400);
        assert_eq!(answer.message(), "You are not allowed to push into this branch");
        maintainer.post(&sample.file(branch), body(branch)).await.expect(201);
    }
    developer.post(&sample.file("mine"), body("mine")).await.expect(201);
}

async fn write_file_to_archived_project_returns_403(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.update(|row| row.archived = Set(true)).await;
    let body = json!({ "branch": "main", "commit_message": "x", "content": "x" });
    assert_eq!(server.root().post(&sample.file("a"), body).await.expect(403).message(), "403 Forbidden");
    server.root().get(&format!("{}?ref=main", sample.file("README.md"))).await.expect(200);
}

on_every_database![
    read_private_file_requires_reporter,
    read_file_depends_on_visibility_and_repository_access_level,
    read_repository_token_cannot_write_files,
    write_file_requires_developer,
    write_file_to_protected_branch_requires_its_access_level,
    write_file_to_archived_project_returns_403,
];
