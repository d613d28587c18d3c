//! Deletion of the notes of a deleted user.

use sea_orm::sea_query::{Asterisk, Expr, ExprTrait, Func, Query, SubQueryStatement};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::issuables::lock_rows;
use storage::entities::notes::{Column, Entity};

use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::query::{batch_of_children, detach_batch};

/// Tables with a note count, and the column of their notes.
const COUNTED_TABLES: [(&str, Column); 3] = [
    ("issues", Column::IssueId),
    ("merge_requests", Column::MergeRequestId),
    ("epics", Column::EpicId),
];

/// The column of the authors.
const AUTHOR: (&str, &str) = ("notes", "author_id");

/// Number of notes that one transaction deletes. On SQLite, a long statement blocks all other writers.
const BATCH: u64 = 1_000;

/// Deletes the notes of a user. System notes remain without an author. It can be interrupted at any point and run again.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn delete_all_of_user(backend: &Backend, user_id: i64) -> Result<()> {
    loop {
        let ids = batch_of_children(&backend.database, AUTHOR, &[user_id], BATCH).await?;
        if ids.is_empty() {
            return Ok(());
        }
        delete_notes(backend, user_id, &ids).await?;
    }
}

async fn delete_notes(backend: &Backend, user_id: i64, ids: &[i64]) -> Result<()> {
    let user_notes = || {
        Column::Id
            .is_in(ids.iter().copied())
            .and(Column::System.eq(false))
    };
    backend
        .database
        .transaction(async |transaction| {
            let mut locked = Vec::new();
            for (table, column) in COUNTED_TABLES {
                let noteables = Query::select()
                    .column(column)
                    .from(Entity)
                    .and_where(user_notes())
                    .and_where(column.is_not_null())
                    .take();
                // As in every change of notes, the noteables are locked first.
                locked.push((table, column, lock_rows(transaction, table, noteables).await?));
            }
            Entity::delete_many()
                .filter(user_notes())
                .exec(transaction)
                .await?;
            for (table, column, noteables) in locked {
                if noteables.is_empty() {
                    continue;
                }
                let update = Query::update()
                    .table(table)
                    .value("user_notes_count", note_count(table, column))
                    .and_where(Expr::col("id").is_in(noteables))
                    .take();
                transaction.execute(&update).await?;
            }
            detach_batch(transaction, AUTHOR, &[user_id], ids).await
        })
        .await
}

/// Returns a subquery that counts the public notes of a noteable.
fn note_count(table: &'static str, column: Column) -> Expr {
    let count = Query::select()
        .expr(Func::count(Expr::col(Asterisk)))
        .from(Entity)
        .and_where(Expr::col((Entity, column)).eq(Expr::col((table, "id"))))
        .and_where(Expr::col((Entity, Column::System)).eq(false))
        .and_where(Expr::col((Entity, Column::Confidential)).eq(false))
        .take();
    Expr::from(SubQueryStatement::from(count))
}
