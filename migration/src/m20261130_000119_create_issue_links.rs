//! Links between two issues.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const LINKS: &str = "issue_links";
const TYPES: &[&str] = &["relates_to", "blocks", "is_blocked_by"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let issue = |column| reference(LINKS, column, "issues", ForeignKeyAction::Cascade);
        create(
            manager,
            table(LINKS)
                .col(big_integer("source_id"))
                .col(big_integer("target_id"))
                .col(text("link_type").check(one_of(LINKS, "link_type", TYPES)))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut issue("source_id"))
                .foreign_key(&mut issue("target_id")),
            [
                unique(LINKS, &["source_id", "target_id"]),
                index(LINKS, &["target_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[LINKS]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
