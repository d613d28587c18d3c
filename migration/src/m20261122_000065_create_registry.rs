//! Container registry (`docs/adr/0025-store-registry-blobs-in-pieces.md`): repositories of projects, blobs shared by all
//! repositories, and the manifests and tags of each repository.
//!
//! Only `registry_pieces` describes the objects in the object storage. A piece belongs to an upload and later
//! to a blob. When these are deleted, it belongs to neither and is garbage.

use sea_orm_migration::sea_orm::DatabaseBackend;
use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const REPOSITORIES: &str = "registry_repositories";
const BLOBS: &str = "registry_blobs";
const REPOSITORY_BLOBS: &str = "registry_repository_blobs";
const MANIFESTS: &str = "registry_manifests";
const CONTENTS: &str = "registry_manifest_contents";
const REFERENCES: &str = "registry_manifest_references";
const TAGS: &str = "registry_tags";
const UPLOADS: &str = "registry_uploads";
const PIECES: &str = "registry_pieces";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        repositories(manager).await?;
        blobs(manager).await?;
        manifests(manager).await?;
        tags(manager).await?;
        uploads(manager).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let all = [
            REPOSITORIES,
            BLOBS,
            REPOSITORY_BLOBS,
            MANIFESTS,
            CONTENTS,
            REFERENCES,
            TAGS,
            UPLOADS,
            PIECES,
        ];
        drop(manager, &all).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

async fn repositories(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let name = REPOSITORIES;
    create(
        manager,
        table(name)
            .col(big_integer("project_id"))
            .col(text("name"))
            .col(timestamp_with_time_zone_null("tags_cleared_at"))
            .col(timestamp_with_time_zone_null("deletion_started_at"))
            .col(timestamp_with_time_zone("created_at"))
            .foreign_key(&mut reference(
                name,
                "project_id",
                "projects",
                ForeignKeyAction::Cascade,
            )),
        [
            // A repository that is being deleted does not reserve its name, so a push creates another one.
            unique(name, &["project_id", "name"])
                .and_where(Expr::col("deletion_started_at").is_null())
                .to_owned(),
            index(name, &["project_id", "id"]),
        ],
    )
    .await
}

async fn blobs(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    create(
        manager,
        table(BLOBS)
            .col(text("digest"))
            .col(big_integer("size"))
            .col(timestamp_with_time_zone_null("unreferenced_since"))
            .col(timestamp_with_time_zone("created_at")),
        [unique(BLOBS, &["digest"]), index(BLOBS, &["unreferenced_since"])],
    )
    .await?;
    let name = REPOSITORY_BLOBS;
    create(
        manager,
        table(name)
            .col(big_integer("repository_id"))
            .col(big_integer("blob_id"))
            .col(timestamp_with_time_zone("touched_at"))
            .foreign_key(&mut reference(
                name,
                "repository_id",
                REPOSITORIES,
                ForeignKeyAction::Cascade,
            ))
            .foreign_key(&mut reference(name, "blob_id", BLOBS, ForeignKeyAction::Restrict)),
        [
            unique(name, &["repository_id", "blob_id"]),
            index(name, &["blob_id"]),
        ],
    )
    .await
}

async fn manifests(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let name = MANIFESTS;
    create(
        manager,
        table(name)
            .col(big_integer("repository_id"))
            .col(text("digest"))
            .col(text("media_type"))
            .col(text_null("artifact_type"))
            .col(text_null("subject_digest"))
            .col(text_null("config_digest"))
            .col(text_null("annotations"))
            .col(big_integer("size"))
            .col(big_integer("total_size"))
            .col(timestamp_with_time_zone_null("image_created_at"))
            .col(timestamp_with_time_zone_null("untagged_since"))
            .col(timestamp_with_time_zone("created_at"))
            .foreign_key(&mut reference(
                name,
                "repository_id",
                REPOSITORIES,
                ForeignKeyAction::Cascade,
            )),
        [
            unique(name, &["repository_id", "digest"]),
            index(name, &["repository_id", "subject_digest", "id"]),
            index(name, &["untagged_since"]),
        ],
    )
    .await?;
    let own = &mut reference(CONTENTS, "manifest_id", MANIFESTS, ForeignKeyAction::Cascade);
    create(
        manager,
        table(CONTENTS)
            .col(big_integer("manifest_id"))
            .col(blob("content"))
            .foreign_key(own),
        [unique(CONTENTS, &["manifest_id"])],
    )
    .await?;
    let name = REFERENCES;
    create(
        manager,
        table(name)
            .col(big_integer("repository_id"))
            .col(big_integer("manifest_id"))
            .col(big_integer_null("blob_id"))
            .col(big_integer_null("child_id"))
            .check(exactly_one(name, &["blob_id", "child_id"]))
            .foreign_key(&mut reference(
                name,
                "repository_id",
                REPOSITORIES,
                ForeignKeyAction::Cascade,
            ))
            .foreign_key(&mut reference(
                name,
                "manifest_id",
                MANIFESTS,
                ForeignKeyAction::Cascade,
            ))
            .foreign_key(&mut reference(name, "blob_id", BLOBS, ForeignKeyAction::Restrict))
            .foreign_key(&mut reference(
                name,
                "child_id",
                MANIFESTS,
                ForeignKeyAction::Cascade,
            )),
        [
            unique(name, &["manifest_id", "blob_id"]),
            unique(name, &["manifest_id", "child_id"]),
            index(name, &["repository_id", "blob_id"]),
            index(name, &["blob_id"]),
            index(name, &["child_id"]),
        ],
    )
    .await
}

async fn tags(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let name = TAGS;
    create(
        manager,
        table(name)
            .col(big_integer("repository_id"))
            .col(text("name"))
            .col(big_integer("manifest_id"))
            .col(timestamp_with_time_zone("created_at"))
            .col(timestamp_with_time_zone("updated_at"))
            .foreign_key(&mut reference(
                name,
                "repository_id",
                REPOSITORIES,
                ForeignKeyAction::Cascade,
            ))
            .foreign_key(&mut reference(
                name,
                "manifest_id",
                MANIFESTS,
                ForeignKeyAction::Cascade,
            )),
        [],
    )
    .await?;
    if manager.get_database_backend() == DatabaseBackend::Postgres {
        // By bytes, like SQLite.
        let alter = "ALTER TABLE registry_tags ALTER COLUMN name TYPE text COLLATE \"C\"";
        manager.get_connection().execute_unprepared(alter).await?;
    }
    for index in [
        unique(name, &["repository_id", "name"]),
        index(name, &["manifest_id"]),
    ] {
        manager.create_index(index).await?;
    }
    Ok(())
}

async fn uploads(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let name = UPLOADS;
    create(
        manager,
        table(name)
            .col(text("uuid"))
            .col(big_integer("repository_id"))
            .col(big_integer("received").default(0))
            .col(integer("pieces").default(0))
            .col(text("hash_state"))
            .col(timestamp_with_time_zone("created_at"))
            .col(timestamp_with_time_zone("updated_at"))
            .foreign_key(&mut reference(
                name,
                "repository_id",
                REPOSITORIES,
                ForeignKeyAction::Cascade,
            )),
        [
            unique(name, &["uuid"]),
            index(name, &["repository_id"]),
            index(name, &["updated_at"]),
        ],
    )
    .await?;
    let name = PIECES;
    let orphans = index(name, &["created_at"])
        .and_where(Expr::col("upload_id").is_null())
        .and_where(Expr::col("blob_id").is_null())
        .to_owned();
    create(
        manager,
        table(name)
            .col(big_integer_null("upload_id"))
            .col(big_integer_null("blob_id"))
            .col(text("key"))
            .col(big_integer("start"))
            .col(big_integer("size"))
            .col(timestamp_with_time_zone_null("stored_at"))
            .col(timestamp_with_time_zone("created_at"))
            .foreign_key(&mut reference(
                name,
                "upload_id",
                UPLOADS,
                ForeignKeyAction::SetNull,
            ))
            .foreign_key(&mut reference(name, "blob_id", BLOBS, ForeignKeyAction::SetNull)),
        [
            unique(name, &["key"]),
            index(name, &["upload_id", "start"]),
            index(name, &["blob_id", "start"]),
            orphans,
        ],
    )
    .await
}
