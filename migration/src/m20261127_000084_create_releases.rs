//! Releases of projects, with their links, milestones and evidence.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const TABLES: [&str; 4] = [
    "releases",
    "release_links",
    "release_milestones",
    "release_evidences",
];

/// Returns the foreign key from a table to the release of a row.
fn of_release(table: &'static str) -> ForeignKeyCreateStatement {
    reference(table, "release_id", "releases", ForeignKeyAction::Cascade)
}

async fn create_releases(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    create(
        manager,
        table("releases")
            .col(big_integer("project_id"))
            .col(text("tag"))
            .col(text("name"))
            .col(text_null("description"))
            .col(big_integer_null("author_id"))
            .col(timestamp_with_time_zone("released_at"))
            .col(timestamp_with_time_zone("created_at"))
            .col(timestamp_with_time_zone("updated_at"))
            .foreign_key(&mut reference(
                "releases",
                "project_id",
                "projects",
                ForeignKeyAction::Cascade,
            ))
            .foreign_key(&mut reference(
                "releases",
                "author_id",
                "users",
                ForeignKeyAction::SetNull,
            )),
        [
            unique("releases", &["project_id", "tag"]),
            index("releases", &["project_id", "released_at", "id"]),
            index("releases", &["project_id", "created_at", "id"]),
            index("releases", &["author_id"]),
        ],
    )
    .await
}

async fn create_links(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    const KINDS: &[&str] = &["other", "runbook", "image", "package"];
    let name = "release_links";
    create(
        manager,
        table(name)
            .col(big_integer("release_id"))
            .col(text("name"))
            .col(text("url"))
            .col(text_null("filepath"))
            .col(text("link_type"))
            .col(timestamp_with_time_zone("created_at"))
            .col(timestamp_with_time_zone("updated_at"))
            .foreign_key(&mut of_release(name))
            .check(one_of(name, "link_type", KINDS)),
        [
            unique(name, &["release_id", "name"]),
            unique(name, &["release_id", "url"]),
            unique(name, &["release_id", "filepath"]),
        ],
    )
    .await
}

async fn create_milestones(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let name = "release_milestones";
    create(
        manager,
        table(name)
            .col(big_integer("release_id"))
            .col(big_integer("milestone_id"))
            .foreign_key(&mut of_release(name))
            .foreign_key(&mut reference(
                name,
                "milestone_id",
                "milestones",
                ForeignKeyAction::Cascade,
            )),
        [
            unique(name, &["release_id", "milestone_id"]),
            index(name, &["milestone_id"]),
        ],
    )
    .await
}

async fn create_evidences(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let name = "release_evidences";
    create(
        manager,
        table(name)
            .col(big_integer("release_id"))
            .col(text("sha256"))
            .col(text("summary"))
            .col(timestamp_with_time_zone("collected_at"))
            .foreign_key(&mut of_release(name)),
        [index(name, &["release_id", "id"])],
    )
    .await
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create_releases(manager).await?;
        create_links(manager).await?;
        create_milestones(manager).await?;
        create_evidences(manager).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &TABLES).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
