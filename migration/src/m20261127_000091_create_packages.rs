//! Packages of projects, and their files (`docs/adr/0064-store-each-package-file-as-an-object-of-its-own.md`).
//!
//! Only `package_blobs` describes the objects in the object storage. A blob is attached to one file. When the file is
//! deleted, the blob is garbage.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const PACKAGES: &str = "packages";
const METADATA: &str = "package_metadata";
const TAGS: &str = "package_tags";
const FILES: &str = "package_files";
const BLOBS: &str = "package_blobs";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        packages(manager).await?;
        metadata(manager).await?;
        tags(manager).await?;
        files(manager).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[PACKAGES, METADATA, TAGS, FILES, BLOBS]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

/// Returns the foreign key from a table to the package of a row.
fn of_package(name: &'static str) -> ForeignKeyCreateStatement {
    reference(name, "package_id", PACKAGES, ForeignKeyAction::Cascade)
}

async fn packages(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    const TYPES: &[&str] = &["generic", "npm", "pypi"];
    const STATUSES: &[&str] = &["default", "hidden"];
    let name = PACKAGES;
    create(
        manager,
        table(name)
            .col(big_integer("project_id"))
            .col(big_integer_null("creator_id"))
            .col(text("package_type"))
            .col(text("name"))
            .col(text("name_key"))
            .col(text("lookup_name"))
            .col(text("version"))
            .col(text("status"))
            .col(timestamp_with_time_zone_null("last_downloaded_at"))
            .col(timestamp_with_time_zone("created_at"))
            .col(timestamp_with_time_zone("updated_at"))
            .foreign_key(&mut reference(
                name,
                "project_id",
                "projects",
                ForeignKeyAction::Cascade,
            ))
            .foreign_key(&mut reference(
                name,
                "creator_id",
                "users",
                ForeignKeyAction::SetNull,
            ))
            .check(one_of(name, "package_type", TYPES))
            .check(one_of(name, "status", STATUSES)),
        [
            unique(name, &["project_id", "package_type", "lookup_name", "version"]),
            index(name, &["project_id", "created_at", "id"]),
            index(name, &["package_type", "lookup_name"]),
            index(name, &["creator_id"]),
        ],
    )
    .await
}

async fn metadata(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let name = METADATA;
    create(
        manager,
        table(name)
            .col(big_integer("package_id"))
            .col(text("content"))
            .foreign_key(&mut of_package(name)),
        [unique(name, &["package_id"])],
    )
    .await
}

async fn tags(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let name = TAGS;
    create(
        manager,
        table(name)
            .col(big_integer("project_id"))
            .col(text("lookup_name"))
            .col(text("tag"))
            .col(big_integer("package_id"))
            .col(timestamp_with_time_zone("created_at"))
            .col(timestamp_with_time_zone("updated_at"))
            .foreign_key(&mut reference(
                name,
                "project_id",
                "projects",
                ForeignKeyAction::Cascade,
            ))
            .foreign_key(&mut of_package(name)),
        [
            unique(name, &["project_id", "lookup_name", "tag"]),
            index(name, &["package_id"]),
        ],
    )
    .await
}

async fn files(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let name = FILES;
    create(
        manager,
        table(name)
            .col(big_integer("package_id"))
            .col(text("file_name"))
            // The name of the file if the package can have only one file with this name.
            .col(text_null("distinct_name"))
            .col(big_integer("size"))
            .col(text("md5"))
            .col(text("sha1"))
            .col(text("sha256"))
            .col(text_null("requires_python"))
            .col(timestamp_with_time_zone("created_at"))
            .foreign_key(&mut of_package(name)),
        [
            unique(name, &["package_id", "distinct_name"]),
            index(name, &["package_id", "id"]),
        ],
    )
    .await?;
    let name = BLOBS;
    create(
        manager,
        table(name)
            .col(big_integer_null("file_id"))
            .col(text("key"))
            .col(timestamp_with_time_zone_null("attached_at"))
            .col(timestamp_with_time_zone("created_at"))
            .foreign_key(&mut reference(name, "file_id", FILES, ForeignKeyAction::SetNull)),
        [unique(name, &["file_id"]), unique(name, &["key"])],
    )
    .await
}
