//! Listing and reading repositories and tags.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, IntoActiveModel};
use serde_json::json;
use storage::entities::{registry_manifests, registry_repositories, registry_tags};

use super::{count, image, label, repository, tag_row};
use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn list_repositories_returns_all_fields(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "Engines", json!({ "visibility": "public" })).await;
    let work = project(&root, "Difference", json!({ "namespace_id": engines, "visibility": "public" })).await;
    let all = format!("/projects/{work}/registry/repositories");
    assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
    let named = image(&server, work, "tools/web", "v1", None).await;
    image(&server, work, "tools/web", "latest", None).await;
    let plain = image(&server, work, "", "rootA", None).await;
    let empty = repository(&server, work, "empty").await;
    let host = server.base.strip_prefix("http://").expect("an address").to_owned();
    let listed = root.get(&all).await.expect(200);
    assert_eq!(listed.header("x-total"), "3");
    let created = listed.pluck("created_at");
    assert_eq!(
        listed.json(),
        json!([
            {
                "id": named, "name": "tools/web", "path": "engines/difference/tools/web", "project_id": work,
                "location": format!("{host}/engines/difference/tools/web"), "created_at": created[0],
            },
            {
                "id": plain, "name": "", "path": "engines/difference", "project_id": work,
                "location": format!("{host}/engines/difference"), "created_at": created[1],
            },
            {
                "id": empty, "name": "empty", "path": "engines/difference/empty", "project_id": work,
                "location": format!("{host}/engines/difference/empty"), "created_at": created[2],
            },
        ])
    );
    let row = registry_repositories::Entity::find_by_id(named).one(server.backend.database.read()).await;
    let created_row = row.expect("the database").expect("the row").created_at;
    assert_eq!(created[0], json!(created_row.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)));

    let with = root.get(&format!("{all}?tags=true&tags_count=true")).await.expect(200);
    assert_eq!(with.pluck("tags_count"), [json!(2), json!(1), json!(0)]);
    let tag = |path: &str| {
        json!({
            "name": path.rsplit(':').next(), "path": path, "location": format!("{host}/{path}"),
        })
    };
    assert_eq!(
        with.pluck("tags"),
        [
            json!([tag("engines/difference/tools/web:latest"), tag("engines/difference/tools/web:v1")]),
            json!([tag("engines/difference:rootA")]),
            json!([]),
        ]
    );
    for (query, tags, count) in
        [("?tags=true", true, false), ("?tags_count=1", false, true), ("?tags=false&tags_count=0", false, false)]
    {
        let entry = root.get(&format!("{all}{query}")).await.expect(200).json()[0].clone();
        assert_eq!((entry.get("tags").is_some(), entry.get("tags_count").is_some()), (tags, count), "{query}");
    }
    let ids = async |query: &str| root.get(&format!("{all}{query}")).await.expect(200).pluck("id");
    assert_eq!(ids("?name=tools/web").await, [json!(named)]);
    assert_eq!(ids("?name=").await, [json!(plain)]);
    assert_eq!(ids("?name=tools").await, [json!(null); 0]);
    assert_eq!(ids("?name=Empty").await, [json!(null); 0]);
    assert_eq!(ids("?per_page=2&page=2").await, [json!(empty)]);
    root.get(&format!("{all}?tags=perhaps")).await.expect(400);

    let one = format!("/registry/repositories/{named}");
    assert_eq!(root.get(&one).await.expect(200).json(), listed.json()[0]);
    assert_eq!(server.anonymous().get(&one).await.expect(200).json(), listed.json()[0]);
    assert_eq!(root.get(&format!("{one}?tags=true&tags_count=true")).await.expect(200).json(), with.json()[0]);
    assert_eq!(root.get("/registry/repositories/999").await.expect(404).message(), "404 Not found");
    root.get("/registry/repositories/x").await.expect(400);
}

async fn list_tags_orders_by_byte_value(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let other = project(&root, "other", json!({})).await;
    let mut id = 0;
    for tag in ["rootA", "latest", "Zed", "a", "_x", "a.b", "a-b", "A", "10", "9", "ab"] {
        id = image(&server, work, "web", tag, None).await;
    }
    image(&server, work, "", "elsewhere", None).await;
    let all = format!("/projects/{work}/registry/repositories/{id}/tags");
    let page = root.get(&all).await.expect(200);
    assert_eq!(page.header("x-total"), "11");
    assert_eq!(page.pluck("name"), ["10", "9", "A", "Zed", "_x", "a", "a-b", "a.b", "ab", "latest", "rootA"]);
    let host = server.base.strip_prefix("http://").expect("an address");
    assert_eq!(
        page.json()[2],
        json!({ "name": "A", "path": "root/work/web:A", "location": format!("{host}/root/work/web:A") })
    );
    let second = root.get(&format!("{all}?per_page=4&page=2")).await.expect(200);
    assert_eq!(second.pluck("name"), ["_x", "a", "a-b", "a.b"]);
    assert_eq!(second.header("x-next-page"), "3");
    let with = root.get(&format!("/projects/{work}/registry/repositories?tags=true&name=web")).await.expect(200).json();
    assert_eq!(with[0]["tags"], page.json());
    for path in [
        format!("/projects/{other}/registry/repositories/{id}/tags"),
        format!("/projects/{work}/registry/repositories/999/tags"),
        format!("/projects/{other}/registry/repositories/{id}/tags/a"),
    ] {
        assert_eq!(root.get(&path).await.expect(404).message(), "404 Not found", "{path}");
    }
    root.get(&format!("/projects/{work}/registry/repositories/web/tags")).await.expect(400);
}

async fn get_tag_returns_image_details(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let id = image(&server, work, "web", "v1.0", Some("2024-05-06T07:08:09.123456789Z")).await;
    let tags = format!("/projects/{work}/registry/repositories/{id}/tags");
    let db = server.backend.database.write();
    let row = tag_row(&server, id, "v1.0").await;
    let manifest = registry_manifests::Entity::find_by_id(row.manifest_id).one(db).await;
    let manifest = manifest.expect("the database").expect("a manifest");
    let revision = manifest.config_digest.clone().expect("a digest").split_off(7);
    let host = server.base.strip_prefix("http://").expect("an address").to_owned();
    let shown = json!({
        "name": "v1.0", "path": "root/work/web:v1.0", "location": format!("{host}/root/work/web:v1.0"),
        "revision": revision, "short_revision": &revision[..9], "digest": manifest.digest,
        "created_at": "2024-05-06T07:08:09.123Z", "total_size": 2_048,
    });
    assert_eq!(root.get(&format!("{tags}/v1.0")).await.expect(200).json(), shown);

    // An image index has neither a configuration nor a creation time.
    let mut list = manifest.clone().into_active_model();
    list.config_digest = Set(None);
    list.image_created_at = Set(None);
    list.update(db).await.expect("a change");
    server.backend.database.invalidate();
    let shown = root.get(&format!("{tags}/v1.0")).await.expect(200).json();
    for field in ["revision", "short_revision", "created_at"] {
        assert_eq!(shown[field], json!(null), "{field}");
    }
    label(&server, id, "V1.0", manifest.id).await;
    assert_eq!(root.get(&format!("{tags}/V1.0")).await.expect(200).json()["digest"], shown["digest"]);
    for name in ["v1", "V1.0%20", "a%2Fb", "%00", "%27%3B--"] {
        let response = root.get(&format!("{tags}/{name}")).await;
        assert!(response.status == 404 || name == "%00" && response.status == 400, "{name}: {}", response.status);
    }
    assert_eq!(root.get(&format!("{tags}/none")).await.expect(404).message(), "404 Tag Not Found");
    assert_eq!(registry_tags::Entity::find().all(db).await.expect("rows").len(), 2);
}

async fn registry_reads_require_pull_access(server: TestServer) {
    let root = server.root();
    let ann = server.create_user("ann").await;
    let eve = server.create_user("eve").await;
    let mut paths = Vec::new();
    for visibility in ["private", "internal", "public"] {
        let work = project(&root, visibility, json!({ "visibility": visibility })).await;
        let id = image(&server, work, "web", "v1", None).await;
        join(&root, &format!("/projects/{work}"), ann.id, 10).await;
        let all = format!("/projects/{work}/registry/repositories");
        paths.push([
            all.clone(),
            format!("{all}/{id}/tags"),
            format!("{all}/{id}/tags/v1"),
            format!("/registry/repositories/{id}"),
        ]);
    }
    let anonymous = server.anonymous();
    for (client, expected) in [
        (&ann.client, [403, 200, 200]),
        (&eve.client, [404, 200, 200]),
        (&anonymous, [404, 404, 200]),
        (&root, [200; 3]),
    ] {
        for (paths, status) in paths.iter().zip(expected) {
            for path in paths {
                assert_eq!(client.get(path).await.status, status, "{path}");
            }
        }
    }
    let response = anonymous.get(&paths[0][0]).await;
    assert_eq!(response.message(), "404 Project Not Found");
    assert_eq!(anonymous.get(&paths[0][3]).await.message(), "404 Not found");
    // Permissions are checked before parameters.
    eve.client.get(&format!("{}?tags=perhaps", paths[0][0])).await.expect(404);
    ann.client.get(&format!("{}?tags=perhaps", paths[0][0])).await.expect(403);
    root.get(&format!("{}?tags=perhaps", paths[0][0])).await.expect(400);
}

async fn hidden_repository_returns_same_404_as_missing_one(server: TestServer) {
    let root = server.root();
    let work =
        project(&root, "work", json!({ "visibility": "public", "container_registry_access_level": "private" })).await;
    let id = image(&server, work, "web", "v1", None).await;
    let guest = server.create_user("guest").await;
    let eve = server.create_user("eve").await;
    join(&root, &format!("/projects/{work}"), guest.id, 10).await;
    let path = |id: i64| format!("/registry/repositories/{id}");
    for client in [&eve.client, &server.anonymous()] {
        let (hidden, absent) = (client.get(&path(id)).await, client.get(&path(999_999)).await);
        assert_eq!((hidden.status, hidden.body), (absent.status, absent.body));
        assert_eq!(absent.status, 404);
    }
    for client in [&root, &guest.client] {
        client.get(&path(id)).await.expect(200);
    }
    root.put(&format!("/projects/{work}"), json!({ "visibility": "private" })).await.expect(200);
    // A member gets 403, as for paths that name the project.
    guest.client.get(&path(id)).await.expect(403);
    eve.client.get(&path(id)).await.expect(404);
}

async fn disabled_registry_returns_403(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({ "visibility": "public" })).await;
    let id = image(&server, work, "web", "v1", None).await;
    root.put(&format!("/projects/{work}"), json!({ "container_registry_enabled": false })).await.expect(200);
    let all = format!("/projects/{work}/registry/repositories");
    for client in [&root, &server.anonymous()] {
        for path in [all.clone(), format!("{all}/{id}/tags"), format!("{all}/{id}/tags/v1")] {
            assert_eq!(client.get(&path).await.expect(403).message(), "403 Forbidden", "{path}");
        }
    }
    // If the path does not name the project, only its members get 403.
    root.get(&format!("/registry/repositories/{id}")).await.expect(403);
    assert_eq!(
        server.anonymous().get(&format!("/registry/repositories/{id}")).await.expect(404).message(),
        "404 Not found"
    );
    for path in [format!("{all}/{id}"), format!("{all}/{id}/tags/v1"), format!("{all}/{id}/tags?name_regex_delete=.*")]
    {
        root.delete(&path).await.expect(403);
    }
    root.put(&format!("/projects/{work}"), json!({ "container_registry_enabled": true })).await.expect(200);
    assert_eq!(root.get(&format!("{all}/{id}/tags")).await.expect(200).pluck("name"), ["v1"]);
}

async fn transferred_project_changes_repository_path(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let engines = group(&root, "engines", json!({})).await;
    let id = image(&server, work, "web", "v1", None).await;
    let path = async || root.get(&format!("/registry/repositories/{id}?tags=true")).await.expect(200).json();
    assert_eq!(path().await["path"], "root/work/web");
    root.put(&format!("/projects/{work}"), json!({ "path": "Play" })).await.expect(200);
    root.put(&format!("/projects/{work}/transfer"), json!({ "namespace": engines })).await.expect(200);
    let moved = path().await;
    assert_eq!(
        (&moved["path"], &moved["tags"][0]["path"]),
        (&json!("engines/play/web"), &json!("engines/play/web:v1"))
    );
    // Deleting the project deletes its repositories.
    root.delete(&format!("/projects/{work}")).await.expect(202);
    server.finish_jobs().await;
    root.get(&format!("/registry/repositories/{id}")).await.expect(404);
    assert_eq!(count(&server, registry_repositories::Entity).await, 0);
    assert_eq!(count(&server, registry_tags::Entity).await, 0);
}

on_every_database![
    list_repositories_returns_all_fields,
    list_tags_orders_by_byte_value,
    get_tag_returns_image_details,
    registry_reads_require_pull_access,
    hidden_repository_returns_same_404_as_missing_one,
    disabled_registry_returns_403,
    transferred_project_changes_repository_path,
];
