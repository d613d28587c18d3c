//! Access to the registry: tokens, roles and projects that are not visible.

use chrono::TimeDelta;
use domain::identity::job_tokens;
use reqwest::Method;
use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{Tool, assert_refused, request_token};
use crate::support::server::ROOT_TOKEN;
use crate::support::spaces::project;
use crate::support::users::{PASSWORD, TestUser};
use crate::support::{TestServer, on_every_database};

/// Creates a project of this visibility with an image and returns its ID and the digest of the manifest.
pub(super) async fn project_with_image(server: &TestServer, visibility: &str) -> (i64, String) {
    let id = project(&server.root(), "work", json!({ "visibility": visibility })).await;
    let tool = Tool::of_root(server, "root/work").await;
    (id, tool.push_image("latest", 1).await.digest)
}

async fn tool_of(server: &TestServer, user: &TestUser, actions: &str) -> Tool {
    Tool::new(&server.base, Some((&user.row.username, &user.token)), "root/work", actions).await
}

/// Statuses of pulling a manifest, starting an upload, deleting a tag and deleting a manifest.
pub(super) async fn statuses(tool: &Tool, image: &str) -> [u16; 4] {
    let pull = tool.client.head(&tool.path("manifests/latest")).await.status;
    let push = tool.send(Method::POST, &tool.path("blobs/uploads/"), &[], Vec::new()).await.status;
    let tag = tool.client.delete(&tool.path("manifests/no-such-tag")).await.status;
    let other = image.replace(&image[7..11], "0000");
    let manifest = tool.client.delete(&tool.path(&format!("manifests/{other}"))).await.status;
    [pull, push, tag, manifest]
}

async fn requests_without_token_return_401_with_challenge(server: TestServer) {
    project_with_image(&server, "private").await;
    let anonymous = server.anonymous();
    let realm = format!("Bearer realm=\"{}/jwt/auth\",service=\"container_registry\"", server.base);
    for path in ["//v2/", "//v2"] {
        let refused = anonymous.get(path).await;
        assert_refused(&refused, 401, "UNAUTHORIZED");
        assert_eq!(refused.header("www-authenticate"), realm);
    }
    let refused = anonymous.get("//v2/root/work/tags/list").await;
    assert_refused(&refused, 401, "UNAUTHORIZED");
    assert_eq!(refused.header("www-authenticate"), format!("{realm},scope=\"repository:root/work:pull\""));
    let refused = anonymous.post("//v2/root/none/blobs/uploads/", json!({})).await;
    assert_eq!(refused.header("www-authenticate"), format!("{realm},scope=\"repository:root/none:pull,push\""));
    for wrong in ["Bearer x", "Bearer v1.00000000.AAAA", "Basic cm9vdDp4", "Bearer"] {
        let refused = anonymous.clone().header("Authorization", wrong).get("//v2/").await;
        assert_refused(&refused, 401, "UNAUTHORIZED");
    }
    let tool = Tool::of_root(&server, "root/work").await;
    let there = tool.client.get("//v2/").await.expect(200);
    assert_eq!(there.header("docker-distribution-api-version"), "registry/2.0");
    assert_refused(&tool.client.get("//v2/_catalog").await, 404, "UNSUPPORTED");
    assert_refused(&tool.client.get("//v2/Root/work/tags/list").await, 400, "NAME_INVALID");
    assert_refused(&tool.client.post("//v2/", json!({})).await, 405, "UNSUPPORTED");
}

async fn token_endpoint_rejects_wrong_credentials(server: TestServer) {
    project_with_image(&server, "private").await;
    let ada = server.create_user("ada").await;
    server.set_password(&ada).await;
    for (name, password) in
        [("root", ROOT_TOKEN), ("ada", PASSWORD), ("ada", ada.token.as_str()), ("whoever", ada.token.as_str())]
    {
        let response = request_token(&server.base, Some((name, password)), &[]).await.expect(200);
        assert_eq!(response.header("cache-control"), "no-store");
        let body = response.json();
        assert_eq!((&body["token"], &body["expires_in"]), (&body["access_token"], &json!(900)));
        let issued = body["issued_at"].as_str().expect("an instant");
        assert!(chrono::DateTime::parse_from_rfc3339(issued).is_ok(), "{issued}");
    }
    for (name, password) in [("ada", "wrong"), ("missing-user", "wrong"), ("", ""), ("ada", "")] {
        let refused = request_token(&server.base, Some((name, password)), &[]).await;
        assert_refused(&refused, 401, "UNAUTHORIZED");
        assert_eq!(refused.header("www-authenticate"), "Basic realm=\"Holdfast\"");
    }
    let odd = server.anonymous().header("Authorization", "Digest x").get("//jwt/auth").await;
    assert_refused(&odd, 401, "UNAUTHORIZED");
    let posted = server.anonymous().post("//jwt/auth", json!({})).await;
    assert_refused(&posted, 405, "UNSUPPORTED");
    let many = vec!["repository:a/b:pull"; 65];
    assert_eq!(request_token(&server.base, None, &many).await.status, 400);
    // Repeated wrong passwords are rate limited as in other places.
    let mut last = 0;
    for _ in 0..12 {
        last = request_token(&server.base, Some(("ada", "wrong")), &[]).await.status;
    }
    assert_eq!(last, 429);
    assert_refused(&request_token(&server.base, Some(("ada", PASSWORD)), &[]).await, 429, "TOOMANYREQUESTS");
}

async fn registry_token_ends_with_its_password(server: TestServer) {
    let (id, _) = project_with_image(&server, "private").await;
    let (ada, root) = (server.create_user("ada").await, server.root());
    server.set_password(&ada).await;
    server.insert_member(id, ada.id, AccessLevel::Developer).await;
    let by_password = Tool::new(&server.base, Some(("ada", PASSWORD)), "root/work", "pull").await;
    let by_token = tool_of(&server, &ada, "pull").await;
    let path = by_password.path("tags/list");
    by_password.client.get(&path).await.expect(200);
    root.put(&format!("/users/{}", ada.id), json!({ "name": "Countess" })).await.expect(200);
    by_password.client.get(&path).await.expect(200);
    root.put(&format!("/users/{}", ada.id), json!({ "password": "chosen for ada" })).await.expect(200);
    assert_refused(&by_password.client.get(&path).await, 401, "UNAUTHORIZED");
    by_token.client.get(&path).await.expect(200);
}

async fn private_registry_access_depends_on_role(server: TestServer) {
    let (id, image) = project_with_image(&server, "private").await;
    for (name, level, expected) in [
        ("guest", Some(AccessLevel::Guest), [403, 403, 403, 403]),
        ("reporter", Some(AccessLevel::Reporter), [200, 403, 403, 403]),
        ("developer", Some(AccessLevel::Developer), [200, 202, 404, 403]),
        ("maintainer", Some(AccessLevel::Maintainer), [200, 202, 404, 404]),
        ("stranger", None, [404, 404, 404, 404]),
    ] {
        let user = server.create_user(name).await;
        if let Some(level) = level {
            server.insert_member(id, user.id, level).await;
        }
        let tool = tool_of(&server, &user, "pull,push,delete").await;
        assert_eq!(statuses(&tool, &image).await, expected, "{name}");
    }
    let anonymous = Tool::new(&server.base, None, "root/work", "pull,push,delete").await;
    assert_eq!(statuses(&anonymous, &image).await, [401, 401, 401, 401]);
    // A missing project is indistinguishable from one that is not visible.
    let non_member = server.create_user("another").await;
    let credentials = Some((non_member.row.username.as_str(), non_member.token.as_str()));
    for name in ["root/work", "root/none"] {
        let tool = Tool::new(&server.base, credentials, name, "pull").await;
        let refused = tool.client.get(&tool.path("tags/list")).await;
        assert_refused(&refused, 404, "NAME_UNKNOWN");
        assert_eq!(refused.json()["errors"][0]["detail"], name);
    }
}

async fn public_project_allows_anonymous_pull_only(server: TestServer) {
    let (_, image) = project_with_image(&server, "public").await;
    let anonymous = Tool::new(&server.base, None, "root/work", "pull,push,delete").await;
    assert_eq!(statuses(&anonymous, &image).await, [200, 401, 401, 401]);
    let non_member = server.create_user("stranger").await;
    let tool = tool_of(&server, &non_member, "pull,push,delete").await;
    assert_eq!(statuses(&tool, &image).await, [200, 403, 403, 403]);
    let push = tool.send(Method::POST, &tool.path("blobs/uploads/"), &[], Vec::new()).await;
    assert_refused(&push, 403, "DENIED");
}

async fn token_grants_only_requested_actions(server: TestServer) {
    let (_, image) = project_with_image(&server, "private").await;
    let of_root = async |actions: &str| Tool::new(&server.base, Some(("root", ROOT_TOKEN)), "root/work", actions).await;
    let tool = of_root("pull").await;
    assert_eq!(statuses(&tool, &image).await, [200, 401, 401, 401]);
    let push = tool.send(Method::POST, &tool.path("blobs/uploads/"), &[], Vec::new()).await;
    assert!(
        push.header("www-authenticate")
            .ends_with(",scope=\"repository:root/work:pull,push\",error=\"insufficient_scope\"")
    );
    assert_eq!(statuses(&of_root("push").await, &image).await, [401, 202, 401, 401]);
    assert_eq!(statuses(&of_root("delete").await, &image).await, [401, 401, 404, 404]);
    assert_eq!(statuses(&of_root("*").await, &image).await, [200, 202, 404, 404]);
    assert_eq!(statuses(&of_root("nonsense").await, &image).await, [401, 401, 401, 401]);
    let elsewhere = Tool { name: "root/work/app".to_owned(), ..of_root("*").await };
    assert_eq!(elsewhere.client.get(&elsewhere.path("tags/list")).await.status, 401);
}

async fn access_token_scopes_limit_granted_actions(server: TestServer) {
    let (id, image) = project_with_image(&server, "private").await;
    let user = server.create_user("ada").await;
    server.insert_member(id, user.id, AccessLevel::Maintainer).await;
    for (scope, expected) in [
        ("api", [200, 202, 404, 404]),
        ("write_registry", [200, 202, 404, 404]),
        ("read_registry", [200, 403, 403, 403]),
        ("read_api", [403, 403, 403, 403]),
        ("write_repository", [403, 403, 403, 403]),
    ] {
        let token = server.create_token(user.id, &[scope]).await;
        let tool = Tool::new(&server.base, Some(("ada", &token)), "root/work", "*").await;
        assert_eq!(statuses(&tool, &image).await, expected, "{scope}");
    }
}

async fn missing_token_scope_returns_403_if_registry_is_visible(server: TestServer) {
    let (id, image) = project_with_image(&server, "public").await;
    let user = server.create_user("ada").await;
    let token = server.create_token(user.id, &["read_user"]).await;
    let tool = Tool::new(&server.base, Some(("ada", &token)), "root/work", "pull,push,delete").await;
    assert_eq!(statuses(&tool, &image).await, [403, 403, 403, 403]);
    let refused = tool.client.get(&tool.path("tags/list")).await;
    assert_refused(&refused, 403, "DENIED");
    let response = refused.json()["errors"][0]["message"].as_str().expect("a text").to_owned();
    assert!(response.contains("read_registry"), "{response}");
    // A token does not reveal a registry that its owner cannot see.
    server
        .root()
        .put(&format!("/projects/{id}"), json!({"container_registry_access_level": "private"}))
        .await
        .expect(200);
    assert_refused(&tool.client.get(&tool.path("tags/list")).await, 404, "NAME_UNKNOWN");
    server
        .root()
        .put(&format!("/projects/{id}"), json!({"container_registry_access_level": "enabled", "visibility": "private"}))
        .await
        .expect(200);
    assert_refused(&tool.client.get(&tool.path("tags/list")).await, 404, "NAME_UNKNOWN");
}

async fn registry_token_follows_changed_role_and_revoked_credentials(server: TestServer) {
    let (id, image) = project_with_image(&server, "private").await;
    let user = server.create_user("ada").await;
    server.insert_member(id, user.id, AccessLevel::Developer).await;
    let tool = tool_of(&server, &user, "*").await;
    assert_eq!(statuses(&tool, &image).await, [200, 202, 404, 403]);
    let path = format!("/projects/{id}/members/{}", user.id);
    server.root().put(&path, json!({"access_level": 20})).await.expect(200);
    assert_eq!(statuses(&tool, &image).await, [200, 403, 403, 403]);
    server.root().delete(&path).await.expect(204);
    assert_eq!(statuses(&tool, &image).await, [404, 404, 404, 404]);
    server.insert_member(id, user.id, AccessLevel::Developer).await;
    let other = server.create_token(user.id, &["api"]).await;
    let by_other = Tool::new(&server.base, Some(("ada", &other)), "root/work", "*").await;
    let row = server.token_row(&user.token).await;
    server.root().delete(&format!("/personal_access_tokens/{}", row.id)).await.expect(204);
    assert_eq!(statuses(&tool, &image).await, [401, 401, 401, 401]);
    assert_eq!(statuses(&by_other, &image).await, [200, 202, 404, 403]);
    server.root().post(&format!("/users/{}/block", user.id), json!({})).await.expect(201);
    assert_eq!(statuses(&by_other, &image).await, [401, 401, 401, 401]);
    let refused = request_token(&server.base, Some(("ada", &other)), &[]).await;
    assert_refused(&refused, 403, "DENIED");
}

async fn job_token_pushes_only_to_its_own_project(server: TestServer) {
    let (id, image) = project_with_image(&server, "public").await;
    let other = server.insert_project_at("root/other", Visibility::Public).await;
    let user = server.create_user("ada").await;
    for project in [id, other.id] {
        server.insert_member(project, user.id, AccessLevel::Developer).await;
    }
    let db = server.backend.database.write();
    let (row, secret) = job_tokens::create(db, user.id, id, TimeDelta::hours(1)).await.expect("a token");
    let credentials = Some(("ci-token", secret.as_str()));
    let tool = Tool::new(&server.base, credentials, "root/work", "*").await;
    assert_eq!(statuses(&tool, &image).await, [200, 202, 404, 403]);
    let elsewhere = Tool::new(&server.base, credentials, "root/other", "*").await;
    assert_eq!(elsewhere.client.get(&elsewhere.path("tags/list")).await.status, 404);
    job_tokens::delete(db, row.id).await.expect("the database");
    assert_eq!(statuses(&tool, &image).await, [401, 401, 401, 401]);
}

async fn archived_project_rejects_push_and_disabled_registry_rejects_all(server: TestServer) {
    let (id, image) = project_with_image(&server, "private").await;
    let tool = Tool::of_root(&server, "root/work").await;
    server.root().post(&format!("/projects/{id}/archive"), json!({})).await.expect(201);
    assert_eq!(statuses(&tool, &image).await, [200, 403, 403, 403]);
    server.root().post(&format!("/projects/{id}/unarchive"), json!({})).await.expect(201);
    server.root().put(&format!("/projects/{id}"), json!({"container_registry_enabled": false})).await.expect(200);
    assert_eq!(statuses(&tool, &image).await, [403, 403, 403, 403]);
}

async fn image_names_are_case_insensitive_and_keep_the_former_project_path(server: TestServer) {
    let group = server.insert_group("Deep/Group", Visibility::Public).await;
    let created = server.root().post("/projects", json!({"path": "My.App", "namespace_id": group})).await.expect(201);
    let id = created.json()["id"].as_i64().expect("an id");
    for name in ["deep/group/my.app", "deep/group/my.app/web", "deep/group/my.app/web/base"] {
        let tool = Tool::of_root(&server, name).await;
        let image = tool.push_image("latest", 1).await;
        let path = tool.path("manifests/latest");
        assert_eq!(tool.client.get(&path).await.expect(200).header("docker-content-digest"), image.digest);
    }
    let deeper = Tool::of_root(&server, "deep/group/my.app/a/b/c").await;
    assert_eq!(deeper.client.get(&deeper.path("tags/list")).await.status, 404);
    server.root().put(&format!("/projects/{id}"), json!({"path": "renamed"})).await.expect(200);
    let moved = Tool::of_root(&server, "deep/group/renamed/web").await;
    moved.client.get(&moved.path("manifests/latest")).await.expect(200);
    let former = Tool::of_root(&server, "deep/group/my.app/web").await;
    former.client.get(&former.path("manifests/latest")).await.expect(200);
}

on_every_database![
    registry_token_ends_with_its_password,
    requests_without_token_return_401_with_challenge,
    token_endpoint_rejects_wrong_credentials,
    private_registry_access_depends_on_role,
    public_project_allows_anonymous_pull_only,
    token_grants_only_requested_actions,
    access_token_scopes_limit_granted_actions,
    missing_token_scope_returns_403_if_registry_is_visible,
    registry_token_follows_changed_role_and_revoked_credentials,
    job_token_pushes_only_to_its_own_project,
    archived_project_rejects_push_and_disabled_registry_rejects_all,
    image_names_are_case_insensitive_and_keep_the_former_project_path,
];
