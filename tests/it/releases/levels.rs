//! Access levels of the releases of projects.

use chrono::TimeDelta;
use domain::identity::job_tokens;
use reqwest::Method;
use sea_orm::ActiveValue::Set;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use super::access::{reads, released};
use super::release;
use crate::support::code::Project;
use crate::support::spaces::{group, join};
use crate::support::{Client, TestServer, on_every_database};

/// Sets the access level of the releases of a project.
async fn set(server: &TestServer, path: &str, level: &str) {
    server.root().put(path, json!({ "releases_access_level": level })).await.expect(200);
}

/// Returns the statuses of all changes of the release `v1` and its link, and of the creation of the release `v2`.
async fn writes(client: &Client, path: &str, link: &Value) -> Vec<u16> {
    let one = format!("{path}/releases/v1");
    let links = format!("{one}/assets/links");
    let mut statuses = Vec::new();
    for (method, path, body) in [
        (Method::POST, format!("{path}/releases"), json!({ "tag_name": "v2", "ref": "main" })),
        (Method::PUT, one.clone(), json!({ "name": "x" })),
        (Method::POST, format!("{one}/evidence"), json!({})),
        (Method::POST, links.clone(), json!({ "name": "b", "url": "https://example.com/b" })),
        (Method::PUT, format!("{links}/{link}"), json!({ "name": "c" })),
        (Method::DELETE, format!("{links}/{link}"), json!({})),
        (Method::DELETE, one, json!({})),
    ] {
        let response = client.send(client.request(method, &path).json(&body)).await;
        if response.status == 403 {
            assert_eq!(response.message(), "403 Forbidden", "{path}");
        }
        statuses.push(response.status);
    }
    statuses
}

/// Returns the statuses of the addresses below the page of the project: a download of a tag and of the latest release, and the
/// evidence.
async fn pages(client: &Client, evidence: &str) -> Vec<u16> {
    let mut statuses = Vec::new();
    for address in
        ["//root/engine/-/releases/v1/downloads/a", "//root/engine/-/releases/permalink/latest/downloads/a", evidence]
    {
        statuses.push(client.get(address).await.status);
    }
    statuses
}

/// Returns the address of the first evidence of the release `v1`.
async fn evidence(server: &TestServer, path: &str) -> String {
    server.finish_jobs().await;
    let found = server.root().get(&format!("{path}/releases/v1")).await.expect(200).json();
    let url = found["evidences"][0]["filepath"].as_str().expect("a URL").to_owned();
    format!("//{}", url.splitn(4, '/').nth(3).expect("a path"))
}

/// Returns the release in the responses with the tag `v1`: the list of tags and the tag.
async fn releases_of_tags(client: &Client, project: &Project<'_>) -> [Value; 2] {
    let list = client.get(&project.url("/tags")).await.expect(200).json();
    let one = client.get(&project.url("/tags/v1")).await.expect(200).json();
    [list[0]["release"].clone(), one["release"].clone()]
}

async fn job(server: &TestServer, user: i64, project: i64) -> Client {
    let db = server.backend.database.write();
    let token = job_tokens::create(db, user, project, TimeDelta::hours(1)).await;
    server.anonymous().header("Job-Token", &token.expect("a token").1)
}

async fn disabled_releases_return_403_and_remain(server: TestServer) {
    let (project, path, link) = released(&server, Visibility::Public).await;
    let evidence = evidence(&server, &path).await;
    let root = server.root();
    let member = server.create_user("ada").await;
    server.insert_member(project.id, member.id, AccessLevel::Maintainer).await;
    let job = job(&server, member.id, project.id).await;
    set(&server, &path, "disabled").await;
    for client in [&root, &member.client, &job, &server.anonymous()] {
        assert_eq!(reads(client, &path, &link).await, [403; 6]);
    }
    for client in [&root, &member.client] {
        assert_eq!(writes(client, &path, &link).await, [403; 7]);
    }
    for client in [&root, &member.client, &server.anonymous()] {
        assert_eq!(pages(client, &evidence).await, [404; 3]);
    }
    assert_eq!(releases_of_tags(&root, &project).await, [json!(null), json!(null)]);
    let latest = root.get(&format!("{path}/releases/permalink/latest/downloads/a")).await;
    assert_eq!(latest.expect(403).message(), "403 Forbidden");
    // A refused creation leaves no tag.
    root.get(&project.url("/tags/v2")).await.expect(404);
    // A tag can be created and deleted, because it belongs to the code.
    let created = root.post(&project.url("/tags"), json!({ "tag_name": "w", "ref": "main" })).await.expect(201).json();
    assert_eq!(created["release"], json!(null));
    root.delete(&project.url("/tags/w")).await.expect(204);
    set(&server, &path, "enabled").await;
    assert_eq!(reads(&server.anonymous(), &path, &link).await, [200, 200, 200, 200, 302, 302]);
    assert_eq!(pages(&server.anonymous(), &evidence).await, [302, 302, 200]);
    for shown in releases_of_tags(&root, &project).await {
        assert_eq!(shown, json!({ "tag_name": "v1", "description": null }));
    }
    assert_eq!(root.get(&format!("{path}/releases/v1")).await.expect(200).json()["name"], "v1");
}

async fn private_releases_are_available_to_members_only(server: TestServer) {
    let (project, path, link) = released(&server, Visibility::Public).await;
    let evidence = evidence(&server, &path).await;
    set(&server, &path, "private").await;
    let stranger = server.create_user("stranger").await;
    let guest = server.create_user("guest").await;
    server.insert_member(project.id, guest.id, AccessLevel::Guest).await;
    for visibility in ["public", "internal"] {
        server.root().put(&path, json!({ "visibility": visibility })).await.expect(200);
        assert_eq!(reads(&stranger.client, &path, &link).await, [403; 6], "{visibility}");
        assert_eq!(pages(&stranger.client, &evidence).await, [404; 3], "{visibility}");
        assert_eq!(releases_of_tags(&stranger.client, &project).await, [json!(null), json!(null)]);
        for client in [&guest.client, &server.root()] {
            assert_eq!(reads(client, &path, &link).await, [200, 200, 200, 200, 302, 302], "{visibility}");
            assert_eq!(pages(client, &evidence).await, [302, 302, 200], "{visibility}");
            assert!(releases_of_tags(client, &project).await.iter().all(Value::is_object), "{visibility}");
        }
        let expected = if visibility == "public" { 403 } else { 404 };
        assert_eq!(reads(&server.anonymous(), &path, &link).await, [expected; 6], "{visibility}");
        assert_eq!(pages(&server.anonymous(), &evidence).await, [404; 3], "{visibility}");
    }
    let of_guest = job(&server, guest.id, project.id).await;
    assert_eq!(reads(&of_guest, &path, &link).await, [200, 200, 200, 200, 302, 302]);
    // A member who can read the code of a private project has the same access, and other members as much as before.
    server.root().put(&path, json!({ "visibility": "private" })).await.expect(200);
    assert_eq!(reads(&guest.client, &path, &link).await, [200, 403, 200, 200, 403, 403]);
    assert_eq!(reads(&stranger.client, &path, &link).await, [404; 6]);
    let developer = project.member("developer", AccessLevel::Developer).await;
    assert_eq!(reads(&developer, &path, &link).await, [200, 200, 200, 200, 302, 302]);
    assert_eq!(writes(&developer, &path, &link).await, [201, 200, 202, 201, 200, 200, 200]);
}

async fn job_of_another_project_needs_membership(server: TestServer) {
    let (project, path, link) = released(&server, Visibility::Public).await;
    let other = Project::with_commits(&server, "other", Visibility::Private).await;
    let (member, outsider) = (server.create_user("member").await, server.create_user("outsider").await);
    for (user, id) in [(member.id, other.id), (outsider.id, other.id), (member.id, project.id)] {
        server.insert_member(id, user, AccessLevel::Developer).await;
    }
    let allowed = json!({ "target_project_id": other.id });
    server.root().post(&format!("{path}/job_token_scope/allowlist"), allowed).await.expect(201);
    for (level, of_member, of_outsider) in [("enabled", 200, 200), ("private", 200, 403), ("disabled", 403, 403)] {
        set(&server, &path, level).await;
        for (user, expected) in [(member.id, of_member), (outsider.id, of_outsider)] {
            let client = job(&server, user, other.id).await;
            client.get(&format!("{path}/releases/v1/assets/links/{link}")).await.expect(expected);
            client.get(&format!("{path}/releases")).await.expect(expected);
        }
    }
}

async fn group_list_omits_unavailable_releases(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({ "visibility": "public" })).await;
    let low = group(&root, "low", json!({ "visibility": "public", "parent_id": top })).await;
    for (name, visibility, namespace) in [
        ("enabled", Visibility::Public, top),
        ("private", Visibility::Public, low),
        ("disabled", Visibility::Public, top),
        ("hidden", Visibility::Private, low),
    ] {
        let project = Project::with_commits(&server, name, visibility).await;
        project.update(|row| row.namespace_id = Set(namespace)).await;
        let path = format!("/projects/{}", project.id);
        release(&root, &path, name, json!({})).await;
        set(&server, &path, if name == "hidden" { "private" } else { name }).await;
    }
    let (stranger, guest) = (server.create_user("stranger").await, server.create_user("guest").await);
    join(&root, &format!("/groups/{low}"), guest.id, 10).await;
    for parameters in ["sort=asc", "sort=asc&simple=true"] {
        for (client, expected) in [
            (&server.anonymous(), &["enabled"][..]),
            (&stranger.client, &["enabled"]),
            (&guest.client, &["enabled", "private", "hidden"]),
            (&root, &["enabled", "private", "hidden"]),
        ] {
            let found = client.get(&format!("/groups/{top}/releases?{parameters}")).await.expect(200);
            assert_eq!(found.pluck("name"), expected, "{parameters}");
            assert_eq!(found.header("X-Total"), expected.len().to_string(), "{parameters}");
        }
    }
    // The releases of a disabled project are not counted.
    let page = guest.client.get(&format!("/groups/{top}/releases?per_page=2&page=2")).await.expect(200);
    assert_eq!((page.pluck("name"), page.header("X-Total-Pages")), (vec![json!("enabled")], "2"));
}

on_every_database![
    disabled_releases_return_403_and_remain,
    private_releases_are_available_to_members_only,
    job_of_another_project_needs_membership,
    group_list_omits_unavailable_releases,
];
