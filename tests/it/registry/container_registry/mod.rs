//! Repositories and tags of the container registry.

mod bulk_delete;
mod delete;
mod expiration;
mod get;
mod groups;
mod large;
mod pushed_images;

use chrono::{DateTime, TimeDelta, Utc};
use domain::secrets;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};
use storage::entities::{now, registry_manifests, registry_repositories, registry_tags};

use crate::support::{Client, TestServer};

/// Inserts an image and returns the ID of its repository, which is created if it does not exist.
/// `created` is the creation time of the image, if known.
pub async fn image(server: &TestServer, project: i64, name: &str, tag: &str, created: Option<&str>) -> i64 {
    let db = server.backend.database.write();
    let repository = repository(server, project, name).await;
    let digits = secrets::digest(&format!("{repository} {tag} {created:?}"));
    let created: Option<DateTime<Utc>> = created.map(|created| created.parse().expect("a time"));
    let manifest = registry_manifests::ActiveModel {
        repository_id: Set(repository),
        digest: Set(format!("sha256:{digits}")),
        media_type: Set("application/vnd.oci.image.manifest.v1+json".to_owned()),
        config_digest: Set(Some(format!("sha256:c0{}", &digits[2..]))),
        size: Set(500),
        total_size: Set(2_048),
        image_created_at: Set(created),
        created_at: Set(now()),
        ..Default::default()
    };
    let manifest = manifest.insert(db).await.expect("a manifest");
    label(server, repository, tag, manifest.id).await;
    repository
}

/// Adds a tag to a manifest.
pub async fn label(server: &TestServer, repository: i64, tag: &str, manifest: i64) {
    let tag = registry_tags::ActiveModel {
        repository_id: Set(repository),
        name: Set(tag.to_owned()),
        manifest_id: Set(manifest),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    };
    tag.insert(server.backend.database.write()).await.expect("a tag");
    server.backend.database.invalidate();
}

/// Returns the ID of a repository of a project, which is created if it does not exist.
pub async fn repository(server: &TestServer, project: i64, name: &str) -> i64 {
    let db = server.backend.database.write();
    let found = registry_repositories::of_project(project)
        .filter(registry_repositories::Column::Name.eq(name))
        .one(db)
        .await
        .expect("a lookup");
    if let Some(found) = found {
        return found.id;
    }
    let row = registry_repositories::ActiveModel {
        project_id: Set(project),
        name: Set(name.to_owned()),
        created_at: Set(now()),
        ..Default::default()
    };
    let row = row.insert(db).await.expect("a repository");
    server.backend.database.invalidate();
    row.id
}

/// Returns the database row of a tag.
async fn tag_row(server: &TestServer, repository: i64, name: &str) -> registry_tags::Model {
    let found = registry_tags::of_repository(repository).filter(registry_tags::Column::Name.eq(name));
    let row = found.one(server.backend.database.read()).await;
    row.expect("the database").expect("the tag")
}

/// Returns the names of a repository's tags in list order.
async fn tags(client: &Client, project: i64, repository: i64) -> Vec<String> {
    let path = format!("/projects/{project}/registry/repositories/{repository}/tags?per_page=100");
    let names = client.get(&path).await.expect(200).pluck("name");
    names.iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
}

/// Returns the number of rows of a table.
async fn count<E: EntityTrait>(server: &TestServer, _: E) -> usize {
    let rows = E::find().all(server.backend.database.read()).await;
    rows.expect("rows").len()
}

/// Inserts images `v0`, `v1` and so on, each an hour older than the one before. `latest` points to the last one.
pub async fn insert_images(db: &impl ConnectionTrait, repository: i64, many: u32) {
    const AT_ONCE: usize = 500;
    let newest = now();
    let numbers: Vec<u32> = (0..many).collect();
    for numbers in numbers.chunks(AT_ONCE) {
        let rows = numbers.iter().map(|number| registry_manifests::ActiveModel {
            repository_id: Set(repository),
            digest: Set(format!("sha256:{number:064}")),
            media_type: Set("application/vnd.oci.image.manifest.v1+json".to_owned()),
            config_digest: Set(Some(format!("sha256:{number:064}"))),
            size: Set(500),
            total_size: Set(2_048),
            image_created_at: Set(Some(newest - TimeDelta::hours(i64::from(*number)))),
            created_at: Set(newest),
            ..Default::default()
        });
        registry_manifests::Entity::insert_many(rows).exec_without_returning(db).await.expect("manifests");
    }
    let ids: Vec<i64> = registry_manifests::Entity::find()
        .select_only()
        .column(registry_manifests::Column::Id)
        .filter(registry_manifests::Column::RepositoryId.eq(repository))
        .order_by_asc(registry_manifests::Column::Digest)
        .into_tuple()
        .all(db)
        .await
        .expect("ids");
    let last = ids.last().map(|id| ("latest".to_owned(), *id));
    let named = ids.iter().enumerate().map(|(number, id)| (format!("v{number}"), *id));
    let named: Vec<(String, i64)> = named.chain(last).collect();
    for named in named.chunks(AT_ONCE) {
        let rows = named.iter().map(|(name, id)| registry_tags::ActiveModel {
            repository_id: Set(repository),
            name: Set(name.clone()),
            manifest_id: Set(*id),
            created_at: Set(newest),
            updated_at: Set(newest),
            ..Default::default()
        });
        registry_tags::Entity::insert_many(rows).exec_without_returning(db).await.expect("tags");
    }
    db.execute_unprepared("ANALYZE").await.expect("figures");
}
