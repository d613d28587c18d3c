//! Who can read and change releases.

use chrono::TimeDelta;
use domain::identity::job_tokens;
use sea_orm::ActiveValue::Set;
use serde_json::{Value, json};
use storage::entities::projects::FeatureAccess;
use storage::entities::{AccessLevel, Visibility};

use super::release;
use crate::support::code::Project;
use crate::support::{Client, TestServer, on_every_database, spaces};

/// Attributes that only readers of the code receive.
const OF_CODE: [&str; 6] = ["tag_name", "commit", "commit_path", "tag_path", "evidences", "_links"];

/// Returns the statuses of reads of a release with a link: list, release, links, link, download and permalink.
pub(super) async fn reads(client: &Client, path: &str, link: &Value) -> Vec<u16> {
    let mut statuses = Vec::new();
    for rest in [
        String::new(),
        "/v1".to_owned(),
        "/v1/assets/links".to_owned(),
        format!("/v1/assets/links/{link}"),
        "/v1/downloads/a".to_owned(),
        "/permalink/latest".to_owned(),
    ] {
        statuses.push(client.get(&format!("{path}/releases{rest}")).await.status);
    }
    statuses
}

/// Creates the project `root/engine` with the release `v1`. Returns the project, its path and the ID of a link.
pub(super) async fn released<'a>(server: &'a TestServer, visibility: Visibility) -> (Project<'a>, String, Value) {
    let project = Project::with_commits(server, "engine", visibility).await;
    let path = format!("/projects/{}", project.id);
    let link = json!({ "name": "a", "url": "https://example.com/a", "filepath": "/a" });
    let created = release(&server.root(), &path, "v1", json!({ "assets": { "links": [link] } })).await;
    let link = created["assets"]["links"][0]["id"].clone();
    (project, path, link)
}

async fn releases_of_private_project_require_membership(server: TestServer) {
    let (project, path, link) = released(&server, Visibility::Private).await;
    let stranger = server.create_user("stranger").await.client;
    assert_eq!(reads(&server.anonymous(), &path, &link).await, [404; 6]);
    assert_eq!(reads(&stranger, &path, &link).await, [404; 6]);
    let guest = project.member("guest", AccessLevel::Guest).await;
    assert_eq!(reads(&guest, &path, &link).await, [200, 403, 200, 200, 403, 403]);
    let seen = guest.get(&format!("{path}/releases")).await.expect(200).json();
    for name in OF_CODE {
        assert_eq!(seen[0].get(name), None, "{name}");
    }
    assert_eq!((seen[0]["assets"].get("sources"), &seen[0]["assets"]["count"]), (None, &json!(1)));
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    assert_eq!(reads(&reporter, &path, &link).await, [200, 200, 200, 200, 302, 302]);
}

async fn releases_of_public_project_are_readable_by_everyone(server: TestServer) {
    let (project, path, link) = released(&server, Visibility::Public).await;
    let stranger = server.create_user("stranger").await.client;
    for client in [&server.anonymous(), &stranger] {
        assert_eq!(reads(client, &path, &link).await, [200, 200, 200, 200, 302, 302]);
    }
    // With a repository for members, others do not read the code.
    project.update(|row| row.repository_access_level = Set(FeatureAccess::Private)).await;
    for client in [&server.anonymous(), &stranger] {
        assert_eq!(reads(client, &path, &link).await, [200, 403, 200, 200, 403, 403]);
        let seen = client.get(&format!("{path}/releases")).await.expect(200).json();
        assert!(OF_CODE.iter().all(|name| seen[0].get(name).is_none()));
    }
}

async fn lists_contain_no_tags_for_callers_who_cannot_read_the_code(server: TestServer) {
    let root = server.root();
    let group = spaces::group(&root, "labs", json!({})).await;
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    project.update(|row| row.namespace_id = Set(group)).await;
    let path = format!("/projects/{}", project.id);
    let link = json!({ "name": "a", "url": "https://example.com/a", "filepath": "/a" });
    release(&root, &path, "secret-tag", json!({ "name": "First", "assets": { "links": [link] } })).await;
    release(&root, &path, "unnamed-tag", json!({})).await;
    let user = server.create_user("guest").await;
    spaces::join(&root, &format!("/groups/{group}"), user.id, 10).await;
    for list in [format!("{path}/releases"), format!("/groups/{group}/releases")] {
        let mut seen = user.client.get(&format!("{list}?sort=asc")).await.expect(200).json();
        assert_eq!(seen.as_array().map(Vec::len), Some(2), "{seen}");
        let asset = &seen[0]["assets"]["links"][0];
        assert_eq!(asset["direct_asset_url"], asset["url"]);
        assert_eq!((&seen[0]["name"], seen[0].get("_links")), (&json!("First"), None));
        // A release without a name has the name of its tag.
        assert_eq!(seen[1]["name"].take(), "unnamed-tag");
        let text = seen.to_string();
        assert!(!text.contains("secret-tag") && !text.contains("unnamed-tag"), "{text}");
        let complete = root.get(&format!("{list}?sort=asc")).await.expect(200).json();
        let direct = complete[0]["assets"]["links"][0]["direct_asset_url"].as_str().expect("a URL");
        assert!(direct.ends_with("/labs/engine/-/releases/secret-tag/downloads/a"), "{direct}");
        assert!(complete[0]["_links"]["self"].as_str().is_some_and(|url| url.ends_with("/secret-tag")));
    }
}

async fn release_writes_require_developer(server: TestServer) {
    let (project, path, link) = released(&server, Visibility::Public).await;
    let stranger = server.create_user("stranger").await.client;
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    let one = format!("{path}/releases/v1");
    let links = format!("{one}/assets/links");
    let new = json!({ "tag_name": "v2", "ref": "main" });
    for (client, status) in [(&server.anonymous(), 401), (&stranger, 403), (&reporter, 403)] {
        client.post(&format!("{path}/releases"), new.clone()).await.expect(status);
        client.put(&one, json!({ "name": "x" })).await.expect(status);
        client.delete(&one).await.expect(status);
        client.post(&format!("{one}/evidence"), json!({})).await.expect(status);
        client.post(&links, json!({ "name": "b", "url": "https://example.com/b" })).await.expect(status);
        client.put(&format!("{links}/{link}"), json!({ "name": "b" })).await.expect(status);
        client.delete(&format!("{links}/{link}")).await.expect(status);
    }
    let developer = project.member("dev", AccessLevel::Developer).await;
    developer.post(&format!("{path}/releases"), new).await.expect(201);
    project.archive().await;
    developer.get(&one).await.expect(200);
    developer.put(&one, json!({ "name": "x" })).await.expect(403);
    developer.delete(&one).await.expect(403);
}

async fn job_token_creates_release_of_its_project(server: TestServer) {
    let (project, path, _) = released(&server, Visibility::Private).await;
    let member = server.create_user("ada").await;
    server.insert_member(project.id, member.id, AccessLevel::Developer).await;
    let db = server.backend.database.write();
    let token = job_tokens::create(db, member.id, project.id, TimeDelta::hours(1)).await;
    let job = server.anonymous().header("Job-Token", &token.expect("a token").1);
    let created = release(&job, &path, "v2", json!({ "tag_message": "Of a job" })).await;
    assert_eq!((&created["author"]["username"], &created["commit"]["id"]), (&json!("ada"), &json!(project.id("main"))));
    let one = format!("{path}/releases/v2");
    job.get(&one).await.expect(200);
    job.put(&one, json!({ "name": "x" })).await.expect(200);
    let links = format!("{one}/assets/links");
    let link = job.post(&links, json!({ "name": "b", "url": "https://example.com/b" })).await.expect(201).json();
    job.delete(&format!("{links}/{}", link["id"])).await.expect(200);
    job.delete(&one).await.expect(200);
    let other = Project::with_commits(&server, "other", Visibility::Public).await;
    let body = json!({ "tag_name": "v1", "ref": "main" });
    job.post(&format!("/projects/{}/releases", other.id), body).await.expect(404);
}

async fn release_of_protected_tag_requires_permission_to_create_the_tag(server: TestServer) {
    let (project, path, link) = released(&server, Visibility::Public).await;
    let body = json!({ "name": "v*", "create_access_level": 40 });
    server.root().post(&format!("{path}/protected_tags"), body).await.expect(201);
    let developer = project.member("developer", AccessLevel::Developer).await;
    let one = format!("{path}/releases/v1");
    let links = format!("{one}/assets/links");
    let asset = json!({ "name": "b", "url": "https://example.com/b" });
    let refused = [
        developer.post(&format!("{path}/releases"), json!({ "tag_name": "v2", "ref": "main" })).await,
        developer.put(&one, json!({ "name": "x" })).await,
        developer.delete(&one).await,
        developer.post(&links, asset.clone()).await,
        developer.put(&format!("{links}/{link}"), json!({ "name": "x" })).await,
        developer.delete(&format!("{links}/{link}")).await,
    ];
    for response in refused {
        let message = response.expect(403).message();
        assert_eq!(message, "403 Forbidden - You are not allowed to create this tag as it is protected.");
    }
    assert_eq!(developer.get(&one).await.expect(200).json()["name"], "v1");
    let maintainer = project.member("maintainer", AccessLevel::Maintainer).await;
    release(&maintainer, &path, "v2", json!({})).await;
    maintainer.post(&links, asset).await.expect(201);
    maintainer.put(&one, json!({ "name": "x" })).await.expect(200);
    release(&developer, &path, "w1", json!({})).await;
}

on_every_database![
    releases_of_private_project_require_membership,
    releases_of_public_project_are_readable_by_everyone,
    lists_contain_no_tags_for_callers_who_cannot_read_the_code,
    release_writes_require_developer,
    release_of_protected_tag_requires_permission_to_create_the_tag,
    job_token_creates_release_of_its_project,
];
