//! Tags of npm packages.

use reqwest::Method;
use serde_json::{Value, json};

use super::{document, path, publish};
use crate::support::spaces::project;
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

/// Returns the path of the tags of a package.
fn tags_path(project: i64, name: &str) -> String {
    format!("/projects/{project}/packages/npm/-/package/{}/dist-tags", name.replace('/', "%2f"))
}

/// Sets a tag to a version, as npm does.
pub async fn set(client: &Client, project: i64, name: &str, tag: &str, version: &Value) -> ApiResponse {
    client.put(&format!("{}/{tag}", tags_path(project, name)), version.clone()).await
}

async fn tag_is_set_moved_and_deleted(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for name in ["tiny", "@engines/web"] {
        publish(&root, id, name, "1.0.0").await.expect(200);
        publish(&root, id, name, "2.0.0").await.expect(200);
        let tags = tags_path(id, name);
        assert_eq!(root.get(&tags).await.expect(200).json(), json!({ "latest": "2.0.0" }));
        for version in ["1.0.0", "2.0.0", "2.0.0"] {
            let response = set(&root, id, name, "next", &json!(version)).await.expect(204);
            assert!(response.body.is_empty());
            assert_eq!(root.get(&tags).await.expect(200).json(), json!({ "latest": "2.0.0", "next": version }));
        }
        set(&root, id, name, "latest", &json!("1.0.0")).await.expect(204);
        let found = root.get(&path(id, name)).await.expect(200).json();
        assert_eq!(found["dist-tags"], json!({ "latest": "1.0.0", "next": "2.0.0" }));
        root.delete(&format!("{tags}/next")).await.expect(204);
        root.delete(&format!("{tags}/next")).await.expect(404);
        assert_eq!(root.get(&tags).await.expect(200).json(), json!({ "latest": "1.0.0" }));
        // Without the tag, it is the tag of the highest version.
        root.delete(&format!("{tags}/latest")).await.expect(204);
        assert_eq!(root.get(&tags).await.expect(200).json(), json!({ "latest": "2.0.0" }));
    }
    let plain = format!("/projects/{id}/packages/npm/-/package/@engines/web/dist-tags");
    assert_eq!(root.get(&plain).await.expect(200).json(), json!({ "latest": "2.0.0" }));
}

async fn invalid_tags_and_versions_are_refused(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    publish(&root, id, "tiny", "1.0.0").await.expect(200);
    let version = json!("1.0.0");
    for tag in ["1.0.0", "v1", "x", "%5E1", "a%20b", "a%2Fb", "..%2f", "%00", "%C3%A4", "-a"] {
        let refused = set(&root, id, "tiny", tag, &version).await;
        assert_eq!(refused.status, 400, "{tag}: {}", refused.text());
        let refused = root.delete(&format!("{}/{tag}", tags_path(id, "tiny"))).await;
        assert!(matches!(refused.status, 400 | 404), "{tag}: {}", refused.text());
    }
    let long = "a".repeat(256);
    set(&root, id, "tiny", &long, &version).await.expect(400);
    set(&root, id, "tiny", &long[1..], &version).await.expect(204);
    for version in [json!("1.0"), json!("latest"), json!(""), json!(1), json!({}), json!(null), json!("1.0.0\0")] {
        set(&root, id, "tiny", "next", &version).await.expect(400);
    }
    let url = format!("{}/next", tags_path(id, "tiny"));
    let send = async |media_type: &str, body: Vec<u8>| {
        root.send(root.request(Method::PUT, &url).header("content-type", media_type).body(body)).await
    };
    for body in ["", "1.0.0", "\"1.0.0", "\"1.0.0\" 1"] {
        send("application/json", body.into()).await.expect(400);
    }
    send("text/plain", b"\"1.0.0\"".to_vec()).await.expect(400);
    send("application/json", format!("\"{}\"", "1".repeat(4_096)).into()).await.expect(413);
    set(&root, id, "tiny", "next", &json!("2.0.0")).await.expect(404);
    set(&root, id, "missing", "next", &version).await.expect(404);
    set(&root, id, "-tiny", "next", &version).await.expect(400);
    root.get(&tags_path(id, "-tiny")).await.expect(400);
    root.get(&tags_path(id, "missing")).await.expect(404);
    root.delete(&format!("{}/next", tags_path(id, "missing"))).await.expect(404);
    root.delete(&format!("{}/next", tags_path(id, "-tiny"))).await.expect(400);
    let other = project(&root, "other", json!({})).await;
    set(&root, other, "tiny", "next", &version).await.expect(404);
}

async fn number_of_tags_is_limited(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    publish(&root, id, "tiny", "1.0.0").await.expect(200);
    publish(&root, id, "tiny", "2.0.0").await.expect(200);
    insert_tags(&server, id, 999).await;
    let refused = set(&root, id, "tiny", "next", &json!("1.0.0")).await.expect(400);
    assert_eq!(refused.message(), "the package has too many tags (maximum is 1000)");
    let mut sent = document("tiny", "3.0.0", b"x");
    sent["dist-tags"] = json!({ "latest": "3.0.0", "next": "3.0.0" });
    let refused = root.put(&path(id, "tiny"), sent.clone()).await.expect(400);
    assert_eq!(refused.message(), "the package has too many tags (maximum is 1000)");
    sent["dist-tags"] = json!({ "latest": "3.0.0", "tag-3": "3.0.0" });
    root.put(&path(id, "tiny"), sent).await.expect(200);
    // Existing tags can be moved, and other packages have tags of their own.
    set(&root, id, "tiny", "latest", &json!("1.0.0")).await.expect(204);
    publish(&root, id, "other", "1.0.0").await.expect(200);
    set(&root, id, "other", "next", &json!("1.0.0")).await.expect(204);
    root.delete(&format!("{}/tag-7", tags_path(id, "tiny"))).await.expect(204);
    set(&root, id, "tiny", "next", &json!("1.0.0")).await.expect(204);
}

/// Inserts tags of the first version of the package `tiny`.
async fn insert_tags(server: &TestServer, project: i64, count: usize) {
    use sea_orm::{ActiveValue::Set, EntityTrait};
    use storage::entities::{now, package_tags, packages};

    let db = server.backend.database.write();
    let package = packages::of_project(project).one(db).await.expect("a lookup").expect("a package");
    let rows = (0..count).map(|number| package_tags::ActiveModel {
        project_id: Set(project),
        lookup_name: Set("tiny".to_owned()),
        tag: Set(format!("tag-{number}")),
        package_id: Set(package.id),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    });
    package_tags::Entity::insert_many(rows).exec(db).await.expect("tags");
}

async fn concurrent_changes_of_a_tag_leave_one_tag(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for version in 0..4 {
        publish(&root, id, "tiny", &format!("{version}.0.0")).await.expect(200);
    }
    let changes = (0..8).map(|number| {
        let root = root.clone();
        async move { set(&root, id, "tiny", "next", &json!(format!("{}.0.0", number % 4))).await.status }
    });
    let statuses = futures_util::future::join_all(changes).await;
    assert!(statuses.iter().all(|status| *status == 204), "{statuses:?}");
    let tags = root.get(&tags_path(id, "tiny")).await.expect(200).json();
    assert_eq!(tags.as_object().expect("tags").len(), 2);
}

async fn upload_sets_several_tags(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let mut sent = document("tiny", "1.0.0", b"x");
    sent["dist-tags"] = json!({ "a": "1.0.0", "b": "1.0.0" });
    root.put(&path(id, "tiny"), sent.clone()).await.expect(200);
    let expected = json!({ "a": "1.0.0", "b": "1.0.0", "latest": "1.0.0" });
    assert_eq!(root.get(&tags_path(id, "tiny")).await.expect(200).json(), expected);
    sent["dist-tags"] = (0..6).map(|number| (format!("tag-{number}"), json!("1.0.0"))).collect();
    let refused = root.put(&path(id, "tiny"), sent).await.expect(400);
    assert_eq!(refused.message(), "dist-tags has too many tags (maximum is 5)");
}

on_every_database![
    tag_is_set_moved_and_deleted,
    invalid_tags_and_versions_are_refused,
    number_of_tags_is_limited,
    concurrent_changes_of_a_tag_leave_one_tag,
    upload_sets_several_tags,
];
