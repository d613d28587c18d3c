//! Content of snippets in a separate table: it is long, and lists that do not return it would still read past
//! it.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("snippet_contents")
                .col(big_integer("snippet_id"))
                .col(text("content"))
                .foreign_key(&mut reference(
                    "snippet_contents",
                    "snippet_id",
                    "snippets",
                    ForeignKeyAction::Cascade,
                )),
            [unique("snippet_contents", &["snippet_id"])],
        )
        .await?;
        let former = Query::select().columns(["id", "content"]).from("snippets").take();
        let mut copy = Query::insert();
        copy.into_table("snippet_contents")
            .columns(["snippet_id", "content"])
            .select_from(former)
            .map_err(|error| DbErr::Migration(error.to_string()))?;
        manager.get_connection().execute(&copy).await?;
        let apart = Table::alter().table("snippets").drop_column("content").to_owned();
        manager.alter_table(apart).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let back = Table::alter()
            .table("snippets")
            .add_column(text("content").default(""))
            .to_owned();
        manager.alter_table(back).await?;
        let own = Query::select()
            .column("content")
            .from("snippet_contents")
            .and_where(Expr::col(("snippet_contents", "snippet_id")).equals(("snippets", "id")))
            .take();
        let fill = Query::update()
            .table("snippets")
            .value(
                "content",
                Func::coalesce([SubQueryStatement::from(own).into(), Expr::val("")]),
            )
            .take();
        manager.get_connection().execute(&fill).await?;
        drop(manager, &["snippet_contents"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
