//! Deletion of single tags and repositories.

use futures_util::future::join_all;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use serde_json::json;
use storage::entities::{
    now, registry_blobs, registry_manifest_references as references, registry_manifests, registry_repositories,
    registry_repository_blobs as links, registry_tags, registry_uploads,
};

use super::{count, image, insert_images, label, repository, tag_row, tags};
use crate::support::spaces::{join, project};
use crate::support::{TestServer, on_every_database};

/// Inserts a reference from each manifest to the next, and a blob and an upload per manifest.
async fn fill_repository(server: &TestServer, repository: i64) {
    let db = server.backend.database.write();
    let ids: Vec<i64> = registry_manifests::Entity::find()
        .select_only()
        .column(registry_manifests::Column::Id)
        .filter(registry_manifests::Column::RepositoryId.eq(repository))
        .order_by_asc(registry_manifests::Column::Id)
        .into_tuple()
        .all(db)
        .await
        .expect("ids");
    let named = ids.iter().zip(ids.iter().cycle().skip(1));
    let rows = named.map(|(manifest, child)| references::ActiveModel {
        repository_id: Set(repository),
        manifest_id: Set(*manifest),
        child_id: Set(Some(*child)),
        ..Default::default()
    });
    let rows = references::Entity::insert_many(rows);
    rows.exec_without_returning(db).await.expect("references");
    let rows = ids.iter().map(|id| registry_blobs::ActiveModel {
        digest: Set(format!("sha256:{id:064}")),
        size: Set(1),
        created_at: Set(now()),
        ..Default::default()
    });
    let rows = registry_blobs::Entity::insert_many(rows);
    rows.exec_without_returning(db).await.expect("blobs");
    let blobs = registry_blobs::Entity::find()
        .filter(registry_blobs::Column::Digest.is_in(ids.iter().map(|id| format!("sha256:{id:064}"))))
        .all(db)
        .await
        .expect("blobs");
    let rows = blobs.iter().map(|blob| links::ActiveModel {
        repository_id: Set(repository),
        blob_id: Set(blob.id),
        touched_at: Set(now()),
        ..Default::default()
    });
    let rows = links::Entity::insert_many(rows);
    rows.exec_without_returning(db).await.expect("links");
    let rows = ids.iter().map(|id| registry_uploads::ActiveModel {
        uuid: Set(format!("upload {id}")),
        repository_id: Set(repository),
        received: Set(0),
        pieces: Set(0),
        hash_state: Set(String::new()),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    });
    let rows = registry_uploads::Entity::insert_many(rows);
    rows.exec_without_returning(db).await.expect("uploads");
}

async fn delete_tag_keeps_manifest_and_other_tags(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let id = image(&server, work, "web", "v1", None).await;
    let manifest = tag_row(&server, id, "v1").await.manifest_id;
    label(&server, id, "latest", manifest).await;
    let one = format!("/projects/{work}/registry/repositories/{id}/tags/latest");
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&one).await.expect(412);
    let late = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 2099 00:00:00 GMT");
    assert_eq!(late.delete(&one).await.expect(200).json(), json!({ "message": "200 OK" }));
    assert_eq!(root.delete(&one).await.expect(404).message(), "404 Tag Not Found");
    assert_eq!(tags(&root, work, id).await, ["v1"]);
    let row = async || registry_manifests::Entity::find_by_id(manifest).one(server.backend.database.read()).await;
    assert_eq!(row().await.expect("the database").expect("a manifest").untagged_since, None);
    root.delete(&one.replace("latest", "v1")).await.expect(200);
    // The image stays readable by digest until garbage collection.
    assert!(row().await.expect("the database").expect("a manifest").untagged_since.is_some());
    assert_eq!(
        root.get(&format!("/projects/{work}/registry/repositories?tags_count=true"))
            .await
            .expect(200)
            .pluck("tags_count"),
        [0]
    );
    let other = project(&root, "other", json!({})).await;
    for path in [
        format!("/projects/{other}/registry/repositories/{id}/tags/v1"),
        format!("/projects/{work}/registry/repositories/999/tags/v1"),
    ] {
        assert_eq!(root.delete(&path).await.expect(404).message(), "404 Not found");
    }
}

async fn deleted_repository_returns_404_at_once(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let id = image(&server, work, "web", "v1", None).await;
    let remaining = image(&server, work, "", "v1", None).await;
    let all = format!("/projects/{work}/registry/repositories");
    let one = format!("{all}/{id}");
    assert_eq!(root.delete(&one).await.expect(202).json(), json!({ "message": "202 Accepted" }));
    for path in [format!("{one}/tags"), format!("{one}/tags/v1"), format!("/registry/repositories/{id}")] {
        assert_eq!(root.get(&path).await.expect(404).message(), "404 Not found");
    }
    for path in [one.clone(), format!("{one}/tags/v1"), format!("{one}/tags?name_regex_delete=.*")] {
        assert_eq!(root.delete(&path).await.expect(404).message(), "404 Not found");
    }
    assert_eq!(root.get(&all).await.expect(200).pluck("id"), [remaining]);
    // A push during the deletion creates a new repository.
    let next = image(&server, work, "web", "v2", None).await;
    assert_ne!(next, id);
    server.finish_jobs().await;
    assert_eq!(root.get(&all).await.expect(200).pluck("id"), [remaining, next]);
    assert_eq!(tags(&root, work, next).await, ["v2"]);
    assert_eq!(count(&server, registry_repositories::Entity).await, 2);
    assert_eq!(count(&server, registry_tags::Entity).await, 2);
    assert_eq!(count(&server, registry_manifests::Entity).await, 2);
}

async fn repository_and_project_deletion_runs_in_batches(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let one = repository(&server, work, "one").await;
    let other = repository(&server, work, "other").await;
    for id in [one, other] {
        insert_images(server.backend.database.write(), id, 1_000).await;
        fill_repository(&server, id).await;
    }
    server.backend.database.invalidate();
    server.finish_jobs().await;
    for path in [format!("/projects/{work}/registry/repositories/{one}"), format!("/projects/{work}")] {
        root.delete(&path).await.expect(202);
        let before = server.statements();
        server.finish_jobs().await;
        let texts = server.statement_texts(before);
        for (table, rows) in [
            ("registry_tags", 1_001),
            ("registry_manifest_references", 1_000),
            ("registry_manifests", 1_000),
            ("registry_repository_blobs", 1_000),
            ("registry_uploads", 1_000),
        ] {
            let erasing = format!("DELETE FROM \"{table}\"");
            let parts = texts.iter().filter(|text| text.starts_with(&erasing)).count();
            assert_eq!(parts, usize::div_ceil(rows, 200), "{path}: {table}");
        }
    }
    assert_eq!(count(&server, registry_repositories::Entity).await, 0);
    assert_eq!(count(&server, registry_manifests::Entity).await, 0);
    assert_eq!(count(&server, references::Entity).await, 0);
    assert_eq!(count(&server, links::Entity).await, 0);
}

async fn concurrent_deletes_succeed_once(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let id = image(&server, work, "web", "v1", None).await;
    let all = format!("/projects/{work}/registry/repositories");
    for (path, done) in [(format!("{all}/{id}/tags/v1"), 200), (format!("{all}/{id}"), 202)] {
        let responses = join_all((0..8).map(|_| root.delete(&path))).await;
        let mut statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [&[done][..], &[404; 7]].concat());
    }
    server.finish_jobs().await;
    assert_eq!(count(&server, registry_repositories::Entity).await, 0);
}

async fn registry_deletion_checks_roles_and_archive(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({ "visibility": "public" })).await;
    let id = repository(&server, work, "web").await;
    for tag in ["a", "b", "c"] {
        image(&server, work, "web", tag, None).await;
    }
    let one = format!("/projects/{work}/registry/repositories/{id}");
    let bulk = format!("{one}/tags?name_regex_delete=none");
    let reporter = server.create_user("reporter").await;
    let developer = server.create_user("developer").await;
    let maintainer = server.create_user("maintainer").await;
    let non_member = server.create_user("stranger").await;
    for (user, level) in [(&reporter, 20), (&developer, 30), (&maintainer, 40)] {
        join(&root, &format!("/projects/{work}"), user.id, level).await;
    }
    for client in [&reporter.client, &non_member.client] {
        for path in [&one, &bulk, &format!("{one}/tags/a")] {
            client.delete(path).await.expect(403);
        }
    }
    for path in [&one, &bulk, &format!("{one}/tags/a")] {
        server.anonymous().delete(path).await.expect(401);
    }
    developer.client.delete(&format!("{one}/tags/a")).await.expect(200);
    developer.client.delete(&one).await.expect(403);
    developer.client.delete(&bulk).await.expect(403);
    // Permissions are checked before parameters.
    developer.client.delete(&format!("{one}/tags?keep_n=x")).await.expect(403);
    maintainer.client.delete(&format!("{one}/tags?keep_n=x")).await.expect(400);
    root.post(&format!("/projects/{work}/archive"), json!({})).await.expect(201);
    for path in [&one, &bulk, &format!("{one}/tags/b")] {
        maintainer.client.delete(path).await.expect(403);
    }
    assert_eq!(tags(&server.anonymous(), work, id).await, ["b", "c"]);
    root.post(&format!("/projects/{work}/unarchive"), json!({})).await.expect(201);
    maintainer.client.delete(&bulk).await.expect(202);
    maintainer.client.delete(&one).await.expect(202);
}

on_every_database![
    delete_tag_keeps_manifest_and_other_tags,
    deleted_repository_returns_404_at_once,
    repository_and_project_deletion_runs_in_batches,
    concurrent_deletes_succeed_once,
    registry_deletion_checks_roles_and_archive,
];
