//! Deletion of the award emoji of a deleted user.

use sea_orm::sea_query::{Asterisk, Expr, ExprTrait, Func, Query, SubQueryStatement};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::award_emoji::{Column, Entity};
use storage::entities::issuables::lock_rows;

use super::names::{THUMBS_DOWN, THUMBS_UP};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::query::batch_of_children;

/// Tables with vote counts, and the award column that references them.
const VOTED_TABLES: [(&str, Column); 3] = [
    ("issues", Column::IssueId),
    ("merge_requests", Column::MergeRequestId),
    ("epics", Column::EpicId),
];

/// Number of award emoji that one transaction deletes. On SQLite, a long statement blocks all other writers.
const BATCH: u64 = 1_000;

/// Deletes all award emoji of a user and updates the vote counts. It can be interrupted at any point and run again.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn delete_all_of_user(backend: &Backend, user_id: i64) -> Result<()> {
    let giver = ("award_emoji", "user_id");
    loop {
        let ids = batch_of_children(&backend.database, giver, &[user_id], BATCH).await?;
        if ids.is_empty() {
            return Ok(());
        }
        delete_award_emoji(backend, &ids).await?;
    }
}

async fn delete_award_emoji(backend: &Backend, ids: &[i64]) -> Result<()> {
    let batch = || Column::Id.is_in(ids.iter().copied());
    backend
        .database
        .transaction(async |transaction| {
            let mut locked = Vec::new();
            for (table, column) in VOTED_TABLES {
                let targets = Query::select()
                    .column(column)
                    .from(Entity)
                    .and_where(batch())
                    .and_where(Column::Name.is_in([THUMBS_UP, THUMBS_DOWN]))
                    .and_where(column.is_not_null())
                    .take();
                // As in every change of award emoji, the targets are locked first.
                locked.push((table, column, lock_rows(transaction, table, targets).await?));
            }
            Entity::delete_many().filter(batch()).exec(transaction).await?;
            for (table, column, targets) in locked {
                if targets.is_empty() {
                    continue;
                }
                let update = Query::update()
                    .table(table)
                    .value("upvotes", vote_count(table, column, THUMBS_UP))
                    .value("downvotes", vote_count(table, column, THUMBS_DOWN))
                    .and_where(Expr::col("id").is_in(targets))
                    .take();
                transaction.execute(&update).await?;
            }
            Ok::<_, Error>(())
        })
        .await
}

/// Returns a subquery that counts the votes with an emoji for a row.
fn vote_count(table: &'static str, column: Column, name: &str) -> Expr {
    let count = Query::select()
        .expr(Func::count(Expr::col(Asterisk)))
        .from(Entity)
        .and_where(Expr::col((Entity, column)).eq(Expr::col((table, "id"))))
        .and_where(Expr::col((Entity, Column::Name)).eq(name))
        .take();
    Expr::from(SubQueryStatement::from(count))
}
