//! Deletion of the notes of a deleted user.

use sea_orm::sea_query::{Asterisk, Expr, ExprTrait, Func, Query, SubQueryStatement};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::issuables::lock_rows;
use storage::entities::notes::{Column, Entity};

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Tables with a note count, and the column of their notes.
const COUNTED_TABLES: [(&str, Column); 3] = [
    ("issues", Column::IssueId),
    ("merge_requests", Column::MergeRequestId),
    ("epics", Column::EpicId),
];

/// Maximum IDs in one statement.
const MAX_IDS: usize = 1000;

/// Deletes the notes of a user, except system notes.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn delete_all_of_user(backend: &Backend, user_id: i64) -> Result<()> {
    let user_notes = || Column::AuthorId.eq(user_id).and(Column::System.eq(false));
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
            for (table, column, ids) in locked {
                for chunk in ids.chunks(MAX_IDS) {
                    let update = Query::update()
                        .table(table)
                        .value("user_notes_count", note_count(table, column))
                        .and_where(Expr::col("id").is_in(chunk.iter().copied()))
                        .take();
                    transaction.execute(&update).await?;
                }
            }
            Ok::<_, Error>(())
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
