//! Protected tags.

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::support::code::Project;
use crate::support::git::{Work, address};
use crate::support::server::ROOT_TOKEN;
use crate::support::users::TestUser;
use crate::support::{Client, TestServer, on_every_database};

/// Creates a protection of `/projects/:id` and returns it.
pub async fn protection(client: &Client, path: &str, body: Value) -> Value {
    client.post(&format!("{path}/protected_tags"), body).await.expect(201).json()
}

/// Creates a project with the tag `v1`, and a Developer.
async fn project_with_tag<'a>(server: &'a TestServer, visibility: Visibility) -> (Project<'a>, TestUser) {
    let project = Project::with_commits(server, "engine", visibility).await;
    project.git(&["tag", "v1", "main"]);
    let dev = server.create_user("dev").await;
    server.insert_member(project.id, dev.id, AccessLevel::Developer).await;
    (project, dev)
}

async fn tag_protection_lifecycle(server: TestServer) {
    let (project, dev) = project_with_tag(&server, Visibility::Private).await;
    let (root, path) = (server.root(), format!("/projects/{}", project.id));
    let all = format!("{path}/protected_tags");
    assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
    let created = protection(&root, &path, json!({"name": "v*"})).await;
    assert_eq!(
        created,
        json!({
            "name": "v*",
            "create_access_levels": [{
                "id": created["create_access_levels"][0]["id"], "access_level": 40,
                "access_level_description": "Maintainers", "user_id": null, "group_id": null, "deploy_key_id": null,
            }],
        })
    );
    let one = format!("{all}/v*");
    assert_eq!(root.get(&one).await.expect(200).json(), created);
    let body = json!({"name": "rel/*", "create_access_level": 0, "allowed_to_create": [{"user_id": dev.id}]});
    let second = protection(&root, &path, body).await;
    let entries = second["create_access_levels"].as_array().expect("a list").clone();
    assert_eq!((entries.len(), &entries[0]["user_id"]), (1, &json!(dev.id)));
    assert_eq!(root.get(&all).await.expect(200).pluck("name"), ["v*", "rel/*"]);
    assert_eq!(root.get(&format!("{all}?search=REL")).await.expect(200).pluck("name"), ["rel/*"]);
    let page = root.get(&format!("{all}?per_page=1&page=2")).await.expect(200);
    assert_eq!((page.pluck("name"), page.header("X-Total")), (vec![json!("rel/*")], "2"));
    for (tag, protected) in [("v1", true), ("other", false)] {
        project.git(&["tag", "--force", tag, "main"]);
        let shown = root.get(&project.url(&format!("/tags/{tag}"))).await.expect(200).json();
        assert_eq!(shown["protected"], protected, "{tag}");
    }
    let listed = root.get(&project.url("/tags?order_by=name&sort=asc")).await.expect(200);
    assert_eq!(listed.pluck("protected"), [false, true]);
    root.delete(&format!("{all}/rel%2F*")).await.expect(204);
    root.delete(&format!("{all}/rel%2F*")).await.expect(404);
    root.get(&format!("{all}/rel%2F*")).await.expect(404);
    let old = server.root().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    old.delete(&one).await.expect(412);
    root.delete(&one).await.expect(204);
    assert_eq!(root.get(&project.url("/tags/v1")).await.expect(200).json()["protected"], false);
}

async fn all_operations_require_maintainer(server: TestServer) {
    let (project, _) = project_with_tag(&server, Visibility::Public).await;
    let private = Project::with_commits(&server, "secret", Visibility::Private).await;
    let url = |id: i64| format!("/projects/{id}/protected_tags");
    let (all, one) = (url(project.id), format!("{}/v*", url(project.id)));
    protection(&server.root(), &format!("/projects/{}", project.id), json!({"name": "v*"})).await;
    for (level, name) in
        [(AccessLevel::Guest, "guest"), (AccessLevel::Developer, "developer"), (AccessLevel::Maintainer, "maintainer")]
    {
        let client = project.member(name, level).await;
        let allowed = level >= AccessLevel::Maintainer;
        client.get(&all).await.expect(if allowed { 200 } else { 403 });
        client.get(&one).await.expect(if allowed { 200 } else { 403 });
        client.post(&all, json!({"name": name})).await.expect(if allowed { 201 } else { 403 });
        client.delete(&one).await.expect(if allowed { 204 } else { 403 });
    }
    let stranger = server.create_user("stranger").await.client;
    for (client, visible, hidden) in [(&stranger, 403, 404), (&server.anonymous(), 401, 401)] {
        for (base, status) in [(&all, visible), (&url(private.id), hidden)] {
            client.get(base).await.expect(status);
            client.get(&format!("{base}/x")).await.expect(status);
            client.post(base, json!({"name": "x"})).await.expect(status);
            client.delete(&format!("{base}/x")).await.expect(status);
        }
    }
    project.archive().await;
    server.root().post(&all, json!({"name": "x"})).await.expect(403);
}

async fn invalid_attributes_are_rejected(server: TestServer) {
    let (project, _) = project_with_tag(&server, Visibility::Private).await;
    let (root, path) = (server.root(), format!("/projects/{}", project.id));
    let all = format!("{path}/protected_tags");
    protection(&root, &path, json!({"name": "taken"})).await;
    let stranger = server.create_user("stranger").await;
    for (body, status, message) in [
        (json!({}), 400, "name is missing, name is empty"),
        (json!({"name": ""}), 400, "name is empty"),
        (json!({"name": "a..b"}), 400, r#"{"name":["is not a valid name or wildcard"]}"#),
        (json!({"name": "x".repeat(1_025)}), 400, "name is too long (maximum is 1024 characters)"),
        (json!({"name": "x", "create_access_level": 60}), 400, "create_access_level does not have a valid value"),
        (json!({"name": "x", "create_access_level": 20}), 400, "create_access_level does not have a valid value"),
        (
            json!({"name": "x", "allowed_to_create": [{"access_level": 60}]}),
            400,
            "allowed_to_create[0][access_level] does not have a valid value",
        ),
        (
            json!({"name": "x", "allowed_to_create": [{}]}),
            400,
            "allowed_to_create[0] must have exactly one of access_level, user_id, group_id and deploy_key_id",
        ),
        (json!({"name": "taken"}), 422, "Name has already been taken"),
        (
            json!({"name": "x", "allowed_to_create": [{"user_id": stranger.id}]}),
            422,
            "Create access levels user is not a member of the project",
        ),
        (
            json!({"name": "x", "allowed_to_create": [{"group_id": 999_999_999}]}),
            422,
            "Create access levels group does not have access to the project",
        ),
        (
            json!({"name": "x", "allowed_to_create": [{"deploy_key_id": 999_999_999}]}),
            422,
            "Create access levels deploy key cannot push to the project",
        ),
        (
            json!({"name": "x", "allowed_to_create": [{"access_level": 30}, {"access_level": 30}]}),
            422,
            "Create access levels access level has already been taken",
        ),
    ] {
        let answer = root.post(&all, body.clone()).await.expect(status);
        assert_eq!(answer.message(), message, "{body}");
    }
    root.post(&all, json!({"name": "x", "y": "y".repeat(2 << 20)})).await.expect(413);
    assert_eq!(root.get(&all).await.expect(200).pluck("name"), ["taken"]);
}

async fn api_creates_and_deletes_protected_tags_by_role(server: TestServer) {
    let (project, dev) = project_with_tag(&server, Visibility::Private).await;
    let max = project.member("max", AccessLevel::Maintainer).await;
    let (root, path) = (server.root(), format!("/projects/{}", project.id));
    protection(&root, &path, json!({"name": "v*"})).await;
    protection(&root, &path, json!({"name": "never", "create_access_level": 0})).await;
    protection(&root, &path, json!({"name": "v9*", "allowed_to_create": [{"user_id": dev.id}]})).await;
    let tags = project.url("/tags");
    let body = |name: &str| json!({"tag_name": name, "ref": "main"});
    for (client, name, status) in [
        (&dev.client, "v2", 403),
        (&max, "v2", 201),
        (&dev.client, "free", 201),
        (&dev.client, "v9", 201),
        (&max, "v9.1", 201),
        (&max, "never", 403),
        (&root, "never", 403),
    ] {
        let answer = client.post(&tags, body(name)).await.expect(status);
        if status == 403 {
            let expected = "403 Forbidden - You are not allowed to create this tag as it is protected.";
            assert_eq!(answer.message(), expected, "{name}");
        } else {
            assert_eq!(answer.json()["protected"], name != "free");
        }
    }
    for (client, name, status) in
        [(&dev.client, "v9", 403), (&dev.client, "free", 204), (&max, "v9", 204), (&max, "v1", 204)]
    {
        client.delete(&format!("{tags}/{name}")).await.expect(status);
    }
    assert_eq!(project.references("refs/tags/"), ["v2", "v9.1"]);
}

async fn pushes_follow_tag_protections(server: TestServer) {
    let (project, dev) = project_with_tag(&server, Visibility::Private).await;
    let (root, path) = (server.root(), format!("/projects/{}", project.id));
    protection(&root, &path, json!({"name": "v*"})).await;
    let by_dev = address(&server.base, "dev", &dev.token, "root/engine");
    let by_root = address(&server.base, "root", ROOT_TOKEN, "root/engine");
    let work = Work::empty();
    work.git(&["clone", "--quiet", &by_dev, "c"]).await;
    let copy = work.below("c");
    let before = project.git(&["for-each-ref"]);
    copy.git(&["checkout", "--quiet", "-b", "side"]).await;
    copy.commit("n", "1").await;
    for (url, arguments, text) in [
        (&by_dev, vec!["HEAD:refs/tags/v2"], "You are not allowed to create this tag as it is protected."),
        (&by_root, vec!["--force", "HEAD:refs/tags/v1"], "Protected tags cannot be updated."),
        (&by_root, vec![":refs/tags/v1"], "The protected tag v1 cannot be deleted by pushing."),
        // One refused ref refuses the push.
        (&by_dev, vec!["HEAD:refs/heads/side", "HEAD:refs/tags/v3"], "You are not allowed to create this tag"),
    ] {
        let output = copy.fails(&[&["push", url.as_str()][..], &arguments].concat()).await;
        assert!(output.contains(text), "{arguments:?}: {output}");
        assert_eq!(project.git(&["for-each-ref"]), before, "{arguments:?}");
    }
    copy.git(&["push", "--quiet", &by_root, "HEAD:refs/tags/v2"]).await;
    copy.git(&["push", "--quiet", &by_dev, "HEAD:refs/tags/free", "HEAD:refs/heads/side"]).await;
    copy.git(&["push", "--quiet", &by_dev, ":refs/tags/free"]).await;
    assert_eq!(project.references("refs/tags/"), ["v1", "v2"]);
}

async fn pipeline_of_protected_tag_requires_permission_to_create_it(server: TestServer) {
    let (project, dev) = project_with_tag(&server, Visibility::Private).await;
    let path = format!("/projects/{}", project.id);
    let pipeline = format!("{path}/pipeline");
    dev.client.post(&pipeline, json!({"ref": "v1"})).await.expect(201);
    protection(&server.root(), &path, json!({"name": "v*"})).await;
    let refused = dev.client.post(&pipeline, json!({"ref": "v1"})).await.expect(403);
    assert!(refused.message().contains("run pipelines for this protected tag"), "{}", refused.message());
    server.root().post(&pipeline, json!({"ref": "v1"})).await.expect(201);
}

on_every_database![
    tag_protection_lifecycle,
    all_operations_require_maintainer,
    invalid_attributes_are_rejected,
    api_creates_and_deletes_protected_tags_by_role,
    pushes_follow_tag_protections,
    pipeline_of_protected_tag_requires_permission_to_create_it,
];
