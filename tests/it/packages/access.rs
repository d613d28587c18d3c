//! Roles and the feature of the project.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{file_path, package, upload};
use crate::support::slow_request::SlowRequest;
use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn every_role_has_its_operations(server: TestServer) {
    let private = server.insert_project_at("g/p", Visibility::Private).await;
    let path = format!("/projects/{}", private.id);
    let (root, names) = (server.root(), ["a", "1", "there"]);
    let (id, file) = package(&root, &path, "a", "1").await;
    let one = format!("{path}/packages/{id}");
    let reads = [
        format!("{path}/packages"),
        one.clone(),
        format!("{one}/package_files"),
        format!("{one}/package_files/{file}/download"),
        file_path(&path, names),
    ];
    for (role, read, write, delete) in [
        (None, 404, 404, 404),
        (Some(AccessLevel::Guest), 403, 403, 403),
        (Some(AccessLevel::Reporter), 200, 403, 403),
        (Some(AccessLevel::Developer), 200, 201, 403),
        (Some(AccessLevel::Maintainer), 200, 201, 404),
        (Some(AccessLevel::Owner), 200, 201, 404),
    ] {
        let user = server.create_user(&format!("user-{role:?}").replace(['(', ')'], "")).await;
        if let Some(role) = role {
            server.insert_member(private.id, user.id, role).await;
        }
        for path in &reads {
            user.client.get(path).await.expect(read);
        }
        upload(&user.client, &path, names, b"x").await.expect(write);
        for missing in [format!("{path}/packages/999999"), format!("{one}/package_files/999999")] {
            user.client.delete(&missing).await.expect(delete);
        }
        if read == 200 {
            let shown = user.client.get(&one).await.expect(200).json();
            let url = format!("{}/api/v4{one}", server.base);
            let expected = if delete == 404 { json!(url) } else { json!(null) };
            assert_eq!(shown["_links"]["delete_api_path"], expected, "{role:?}");
        }
    }
    let anonymous = server.anonymous();
    for path in &reads[..4] {
        anonymous.get(path).await.expect(404);
    }
    anonymous.delete(&one).await.expect(401);
    anonymous.delete(&format!("{one}/package_files/{file}")).await.expect(401);
    root.put(&path, json!({ "visibility": "public" })).await.expect(200);
    for path in &reads {
        anonymous.get(path).await.expect(200);
    }
    root.put(&path, json!({ "visibility": "internal" })).await.expect(200);
    let stranger = server.create_user("stranger").await;
    stranger.client.get(&reads[0]).await.expect(200);
    stranger.client.get(&reads[4]).await.expect(200);
    upload(&stranger.client, &path, names, b"x").await.expect(403);
    stranger.client.delete(&one).await.expect(403);
    root.get(&one).await.expect(200);
}

async fn disabled_packages_return_403_and_remain(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let id = project(&root, "work", json!({ "namespace_id": top })).await;
    let path = format!("/projects/{id}");
    let (package_id, file) = package(&root, &path, "a", "1").await;
    root.put(&path, json!({ "packages_enabled": false })).await.expect(200);
    let one = format!("{path}/packages/{package_id}");
    let refused = "403 Forbidden - The package registry of this project is disabled.";
    for path in [
        format!("{path}/packages"),
        one.clone(),
        format!("{one}/package_files"),
        format!("{one}/package_files/{file}/download"),
        file_path(&path, ["a", "1", "there"]),
        format!("{path}/packages/protection/rules"),
    ] {
        assert_eq!(root.get(&path).await.expect(403).message(), refused, "{path}");
    }
    let rule = json!({
        "package_name_pattern": "a", "package_type": "generic", "minimum_access_level_for_push": "owner"
    });
    for (name, body) in [
        ("protection/rules", rule.clone()),
        ("npm/-/npm/v1/security/advisories/bulk", json!({ "a": ["1"] })),
        ("npm/-/npm/v1/security/audits/quick", json!({})),
    ] {
        let path = format!("{path}/packages/{name}");
        assert_eq!(root.post(&path, body).await.expect(403).message(), refused, "{path}");
    }
    let rules = format!("{path}/packages/protection/rules/1");
    assert_eq!(root.patch(&rules, rule).await.expect(403).message(), refused);
    assert_eq!(root.delete(&rules).await.expect(403).message(), refused);
    assert_eq!(upload(&root, &path, ["a", "1", "there"], b"x").await.expect(403).message(), refused);
    for path in [one.clone(), format!("{one}/package_files/{file}")] {
        assert_eq!(root.delete(&path).await.expect(403).message(), refused);
    }
    assert_eq!(root.get(&format!("/groups/{top}/packages")).await.expect(200).json(), json!([]));
    root.put(&path, json!({ "packages_enabled": true })).await.expect(200);
    root.get(&one).await.expect(200);
    assert_eq!(root.get(&file_path(&path, ["a", "1", "there"])).await.expect(200).text(), "there");
}

async fn packages_of_other_projects_and_invalid_ids_are_not_found(server: TestServer) {
    let root = server.root();
    let first = format!("/projects/{}", project(&root, "first", json!({})).await);
    let second = format!("/projects/{}", project(&root, "second", json!({})).await);
    let (id, file) = package(&root, &first, "a", "1").await;
    let (other, other_file) = package(&root, &first, "b", "1").await;
    for path in [
        format!("{second}/packages/{id}"),
        format!("{second}/packages/{id}/package_files"),
        format!("{second}/packages/{id}/package_files/{file}/download"),
        format!("{first}/packages/{other}/package_files/{file}/download"),
        format!("{first}/packages/9223372036854775807"),
        file_path(&second, ["a", "1", "there"]),
    ] {
        root.get(&path).await.expect(404);
    }
    for path in [
        format!("{second}/packages/{id}"),
        format!("{second}/packages/{id}/package_files/{file}"),
        format!("{first}/packages/{id}/package_files/{other_file}"),
    ] {
        root.delete(&path).await.expect(404);
    }
    for path in ["packages/x", "packages/1/package_files?per_page=x", "packages/9223372036854775808"] {
        root.get(&format!("{first}/{path}")).await.expect(400);
    }
    root.get(&format!("{first}/packages/1/package_files/x/download")).await.expect(400);
    root.delete(&format!("{first}/packages/x")).await.expect(400);
    root.delete(&format!("{first}/packages/1/package_files/x")).await.expect(400);
    root.get(&format!("{first}/packages/{id}")).await.expect(200);
}

async fn slow_upload_is_refused_after_access_is_lost(server: TestServer) {
    let private = server.insert_project_at("g/p", Visibility::Private).await;
    let path = format!("/projects/{}", private.id);
    let ann = server.create_user("ann").await;
    join(&server.root(), &path, ann.id, 30).await;
    let line = format!("PUT /api/v4{}", file_path(&path, ["a", "1", "f"]));
    let begin =
        async || SlowRequest::begin(&server.base, &line, &[("Private-Token", ann.token.as_str())], vec![7; 100]).await;
    let request = begin().await;
    server.root().delete(&format!("{path}/members/{}", ann.id)).await.expect(204);
    request.finish().await.expect(404);
    join(&server.root(), &path, ann.id, 30).await;
    let request = begin().await;
    let packages = json!({ "packages_enabled": false });
    server.root().put(&path, packages).await.expect(200);
    request.finish().await.expect(403);
    server.root().put(&path, json!({ "packages_enabled": true })).await.expect(200);
    assert_eq!(server.root().get(&format!("{path}/packages")).await.expect(200).json(), json!([]));
    begin().await.finish().await.expect(201);
}

on_every_database![
    every_role_has_its_operations,
    disabled_packages_return_403_and_remain,
    packages_of_other_projects_and_invalid_ids_are_not_found,
    slow_upload_is_refused_after_access_is_lost,
];
