//! Versions of merge requests, and the commits of their newest versions. The current commits of an existing merge request
//! become its first version.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const VERSIONS: &str = "merge_request_versions";
const COMMITS: &str = "merge_request_commits";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let cascade = |table| {
            reference(
                table,
                "merge_request_id",
                "merge_requests",
                ForeignKeyAction::Cascade,
            )
        };
        create(
            manager,
            table(VERSIONS)
                .col(big_integer("merge_request_id"))
                .col(text("head_sha"))
                .col(text("base_sha"))
                .col(text("start_sha"))
                .col(text_null("real_size"))
                .col(boolean("collected").default(false))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut cascade(VERSIONS)),
            [
                index(VERSIONS, &["merge_request_id"]),
                index(VERSIONS, &["collected", "id"]),
            ],
        )
        .await?;
        create(
            manager,
            table(COMMITS)
                .col(big_integer("merge_request_id"))
                .col(text("sha"))
                .foreign_key(&mut cascade(COMMITS)),
            [
                unique(COMMITS, &["merge_request_id", "sha"]),
                index(COMMITS, &["sha"]),
            ],
        )
        .await?;
        create_first_versions(manager).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[VERSIONS, COMMITS]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

/// Creates a version of each merge request. Its files are counted later, because this needs the repository.
async fn create_first_versions(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let columns = ["head_sha", "base_sha", "start_sha", "created_at"];
    let current = Query::select()
        .column("id")
        .columns(columns)
        .from("merge_requests")
        .order_by("id", Order::Asc)
        .take();
    let mut insert = Query::insert();
    let target = std::iter::once("merge_request_id").chain(columns);
    insert.into_table(VERSIONS).columns(target);
    insert
        .select_from(current)
        .map_err(|error| DbErr::Custom(error.to_string()))?;
    manager.get_connection().execute(&insert).await.map(|_| ())
}
