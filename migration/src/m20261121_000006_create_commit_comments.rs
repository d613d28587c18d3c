//! Comments on commits.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("commit_comments")
                .col(big_integer("project_id"))
                .col(text("sha"))
                .col(big_integer_null("author_id"))
                .col(text("note"))
                .col(text_null("path"))
                .col(integer_null("line"))
                .col(text_null("line_type"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut reference(
                    "commit_comments",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "commit_comments",
                    "author_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .check(Check::named(
                    "ck_commit_comments_line_type",
                    Expr::col("line_type")
                        .is_null()
                        .or(Expr::col("line_type").is_in(["new", "old"])),
                ))
                .check(Check::named(
                    "ck_commit_comments_sha",
                    Expr::expr(Func::char_length(Expr::col("sha"))).eq(40),
                )),
            [
                index("commit_comments", &["project_id", "sha", "id"]),
                index("commit_comments", &["author_id"]),
            ],
        )
        .await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["commit_comments"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
