//! Git with deploy tokens.

use chrono::TimeDelta;
use reqwest::Method;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, now};

use super::access::{RECEIVE, UPLOAD, advertised_refs};
use crate::identity::deploy_tokens::{credentials, deploy_token, expire};
use crate::registry::registry_protocol::basic;
use crate::support::git::{self, Work};
use crate::support::process::{Site, TOKEN};
use crate::support::{Client, DatabaseKind, TestServer, on_every_database};

/// Creates a private project and a deploy token of the project that reads its code.
async fn reader(server: &TestServer) -> Value {
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    deploy_token(&server.root(), &format!("/projects/{}", project.id), &["read_repository"]).await
}

/// Returns the status of a request for the refs of a project.
async fn fetch(server: &TestServer, path: &str, created: &Value) -> u16 {
    advertised_refs(server, path, UPLOAD, Some(credentials(created))).await.status
}

async fn deploy_token_clones_but_never_pushes(server: TestServer) {
    let ann = server.create_user("ann").await;
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    server.insert_member(project.id, ann.id, AccessLevel::Maintainer).await;
    let work = Work::new().await;
    work.git(&["push", "--quiet", &git::address(&server.base, "ann", &ann.token, "g/p"), "main"]).await;
    let tip = work.commit("a", "1").await;
    let scopes = ["read_repository", "read_registry", "write_registry"];
    let all = format!("/projects/{}/deploy_tokens", project.id);
    for username in [json!(null), json!("robot-1")] {
        let body = json!({ "name": "cluster", "username": username, "scopes": scopes });
        let created = ann.client.post(&all, body).await.expect(201).json();
        let (name, token) = credentials(&created);
        let url = git::address(&server.base, name, token, "g/p");
        let clone = Work::empty();
        clone.git(&["clone", "--quiet", &url, "c"]).await;
        let output = work.fails(&["push", &url, "main"]).await;
        assert!(output.contains("You are not allowed to upload code."), "{output}");
        assert!(output.contains("403"), "{output}");
        // The text is the same for a project that does not exist, and no project is created.
        for path in ["g/p", "g/new"] {
            let refused = advertised_refs(&server, path, RECEIVE, Some((name, token))).await.expect(403);
            assert_eq!(refused.text(), "You are not allowed to upload code.\n");
        }
        server.root().get("/projects/g%2Fnew").await.expect(404);
    }
    assert_ne!(server.repository(project.id).branch("main").await.expect("a branch").commit.to_string(), tip);
}

async fn wrong_expired_and_deleted_deploy_tokens_return_401(server: TestServer) {
    let created = reader(&server).await;
    let (name, token) = credentials(&created);
    assert_eq!(fetch(&server, "g/p", &created).await, 200);
    for (name, token) in
        [("root", token), ("", token), (name, "hfdt-unknown"), (name, ""), (&name.to_uppercase(), token)]
    {
        let refused = advertised_refs(&server, "g/p", UPLOAD, Some((name, token))).await.expect(401);
        assert_eq!(refused.header("www-authenticate"), "Basic realm=\"Holdfast\"", "{name}");
    }
    expire(&server, &created).await;
    assert_eq!(fetch(&server, "g/p", &created).await, 401);
    let created = deploy_token(&server.root(), "/projects/g%2Fp", &["read_repository"]).await;
    assert_eq!(fetch(&server, "g/p", &created).await, 200);
    server.root().delete(&format!("/projects/g%2Fp/deploy_tokens/{}", created["id"])).await.expect(204);
    assert_eq!(fetch(&server, "g/p", &created).await, 401);
    // Invalid credentials are refused for public projects, too.
    server.insert_project_at("g/public", Visibility::Public).await;
    assert_eq!(fetch(&server, "g/public", &created).await, 401);
}

async fn deploy_token_without_read_repository_cannot_fetch(server: TestServer) {
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    let path = format!("/projects/{}", project.id);
    let created = deploy_token(&server.root(), &path, &["read_registry", "write_registry"]).await;
    let refused = advertised_refs(&server, "g/p", UPLOAD, Some(credentials(&created))).await.expect(403);
    assert!(refused.text().contains("read_repository"), "{}", refused.text());
}

async fn project_deploy_token_fetches_only_its_project_and_public_projects(server: TestServer) {
    let created = reader(&server).await;
    for (path, visibility, expected) in [
        ("g/hidden", Visibility::Private, 404),
        ("g/internal", Visibility::Internal, 404),
        ("g/public", Visibility::Public, 200),
    ] {
        server.insert_project_at(path, visibility).await;
        assert_eq!(fetch(&server, path, &created).await, expected, "{path}");
    }
    assert_eq!(fetch(&server, "g/absent", &created).await, 404);
}

async fn code_for_members_is_available_only_to_deploy_tokens_of_the_project(server: TestServer) {
    let (root, created) = (server.root(), reader(&server).await);
    let other = server.insert_project_at("g/other", Visibility::Public).await;
    let members_only = json!({ "repository_access_level": "private" });
    root.put("/projects/g%2Fp", members_only.clone()).await.expect(200);
    assert_eq!(fetch(&server, "g/p", &created).await, 200);
    root.put(&format!("/projects/{}", other.id), members_only).await.expect(200);
    assert_eq!(fetch(&server, "g/other", &created).await, 403);
    root.put("/projects/g%2Fp", json!({ "repository_access_level": "disabled" })).await.expect(200);
    assert_eq!(fetch(&server, "g/p", &created).await, 403);
}

async fn group_deploy_token_fetches_projects_of_the_group_and_its_subgroups(server: TestServer) {
    let root = server.root();
    for path in ["top/a", "top/sub/b", "top/sub/low/c", "other/d"] {
        server.insert_project_at(path, Visibility::Private).await;
    }
    let sub = deploy_token(&root, "/groups/top%2Fsub", &["read_repository"]).await;
    for (path, expected) in [("top/a", 404), ("top/sub/b", 200), ("top/sub/low/c", 200), ("other/d", 404)] {
        assert_eq!(fetch(&server, path, &sub).await, expected, "{path}");
    }
    // The groups at the moment of the request count.
    root.put("/projects/top%2Fsub%2Fb/transfer", json!({ "namespace": "other" })).await.expect(200);
    root.put("/projects/other%2Fd/transfer", json!({ "namespace": "top/sub" })).await.expect(200);
    assert_eq!(fetch(&server, "other/b", &sub).await, 404);
    assert_eq!(fetch(&server, "top/sub/d", &sub).await, 200);
    root.delete("/groups/top%2Fsub").await.expect(202);
    assert_eq!(fetch(&server, "top/sub/d", &sub).await, 404);
    server.finish_jobs().await;
    assert_eq!(fetch(&server, "top/sub/d", &sub).await, 401);
}

async fn project_deploy_token_follows_transfer_and_ends_with_the_project(server: TestServer) {
    let (root, created) = (server.root(), reader(&server).await);
    server.insert_group("other", Visibility::Private).await;
    root.put("/projects/g%2Fp/transfer", json!({ "namespace": "other" })).await.expect(200);
    assert_eq!(fetch(&server, "other/p", &created).await, 200);
    root.delete("/projects/other%2Fp").await.expect(202);
    assert_eq!(fetch(&server, "other/p", &created).await, 404);
    server.finish_jobs().await;
    assert_eq!(fetch(&server, "other/p", &created).await, 401);
}

async fn operations_and_pages_do_not_accept_deploy_tokens(server: TestServer) {
    let created = reader(&server).await;
    let (name, token) = credentials(&created);
    let paths = ["/projects/g%2Fp", "/projects/g%2Fp/repository/archive", "/user", "/version"];
    let anonymous = server.anonymous();
    for client in [
        server.with_token(token),
        anonymous.clone().header("Authorization", &format!("Bearer {token}")),
        anonymous.clone().header("Authorization", &basic(name, token)),
    ] {
        for path in paths {
            client.get(path).await.expect(401);
        }
        client.get("//g/p/-/archive/main/p-main.zip").await.expect(401);
        client.get("//g/p/-/raw/main/README").await.expect(401);
        client.post("/projects/g%2Fp/deploy_tokens", json!({})).await.expect(401);
    }
    for query in ["private_token", "access_token"] {
        anonymous.get(&format!("/projects/g%2Fp?{query}={token}")).await.expect(401);
    }
    // Other headers are ignored, so the request is anonymous.
    for header in ["Deploy-Token", "Job-Token"] {
        let client = anonymous.clone().header(header, token);
        client.get("/user").await.expect(401);
        client.get("/projects/g%2Fp").await.expect(404);
    }
    let client = anonymous.header("Job-Token", token);
    client.get("/projects/g%2Fp/repository/archive").await.expect(401);
}

async fn go_command_finds_project_with_deploy_token(server: TestServer) {
    let created = reader(&server).await;
    let (name, token) = credentials(&created);
    let page = async |client: Client| client.get("//g/p/sub?go-get=1").await.expect(200).text();
    server.insert_project_at("g/sub/q", Visibility::Private).await;
    let deep = server.anonymous().header("Authorization", &basic(name, token));
    assert!(page(deep.clone()).await.contains("/g/p.git"));
    assert!(deep.get("//g/sub/q?go-get=1").await.expect(200).text().contains("/g/sub.git"));
}

async fn wrong_deploy_tokens_are_limited_like_passwords(server: TestServer) {
    let created = reader(&server).await;
    let (name, token) = credentials(&created);
    let mut statuses = Vec::new();
    for number in 0..12 {
        let wrong = format!("hfdt-{number}");
        statuses.push(advertised_refs(&server, "g/p", UPLOAD, Some((name, &wrong))).await.status);
    }
    assert_eq!((statuses[0], statuses[11]), (401, 429), "{statuses:?}");
    assert_eq!(advertised_refs(&server, "g/p", UPLOAD, Some(("root", token))).await.status, 429);
    // The valid token is accepted, as other tokens are.
    assert_eq!(fetch(&server, "g/p", &created).await, 200);
}

async fn deploy_token_expires_at_its_time(server: TestServer) {
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    let all = format!("/projects/{}/deploy_tokens", project.id);
    let create = async |end: Value| {
        let body = json!({ "name": "x", "scopes": ["read_repository"], "expires_at": end });
        server.root().post(&all, body).await.expect(201).json()
    };
    let today = now().date_naive();
    for (end, expected) in [
        (json!(today), 401),
        (json!(today + TimeDelta::days(1)), 200),
        (json!(now() - TimeDelta::seconds(1)), 401),
        (json!(now() + TimeDelta::hours(1)), 200),
    ] {
        let created = create(end.clone()).await;
        assert_eq!(fetch(&server, "g/p", &created).await, expected, "{end}");
        assert_eq!(created["expired"], json!(expected == 401), "{end}");
    }
}

on_every_database![
    deploy_token_clones_but_never_pushes,
    wrong_expired_and_deleted_deploy_tokens_return_401,
    deploy_token_without_read_repository_cannot_fetch,
    project_deploy_token_fetches_only_its_project_and_public_projects,
    code_for_members_is_available_only_to_deploy_tokens_of_the_project,
    group_deploy_token_fetches_projects_of_the_group_and_its_subgroups,
    project_deploy_token_follows_transfer_and_ends_with_the_project,
    operations_and_pages_do_not_accept_deploy_tokens,
    go_command_finds_project_with_deploy_token,
    wrong_deploy_tokens_are_limited_like_passwords,
    deploy_token_expires_at_its_time,
];

async fn deploy_token_deleted_on_one_node_is_refused_by_other_node() {
    let site = Site::migrated(&DatabaseKind::postgresql()).await;
    let nodes = [site.serve(&[]).await, site.serve(&[]).await];
    let [one, other] = [&nodes[0], &nodes[1]].map(|node| Client::new(&node.base, Some(TOKEN)));
    one.post("/projects", json!({ "path": "p" })).await.expect(201);
    let created = deploy_token(&one, "/projects/root%2Fp", &["read_repository"]).await;
    let (name, token) = credentials(&created);
    let anonymous = Client::new(&nodes[1].base, None).header("Authorization", &basic(name, token));
    let refs = "//root/p.git/info/refs?service=git-upload-pack";
    let fetch = || anonymous.send(anonymous.request(Method::GET, refs));
    // Twice, so that a cached token would be used.
    for _ in 0..2 {
        fetch().await.expect(200);
    }
    one.delete(&format!("/projects/root%2Fp/deploy_tokens/{}", created["id"])).await.expect(204);
    fetch().await.expect(401);
    other.get(&format!("/projects/root%2Fp/deploy_tokens/{}", created["id"])).await.expect(404);
    for node in nodes {
        node.stop().await;
    }
    site.remove().await;
}

harness::tests![requires harness::postgresql::missing; deploy_token_deleted_on_one_node_is_refused_by_other_node];
