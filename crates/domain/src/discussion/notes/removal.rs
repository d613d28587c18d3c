//! Deletes the content of a user who is deleted.

use sea_orm::sea_query::{Asterisk, Expr, ExprTrait, Func, Query, SubQueryStatement};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::issuables::lock_rows;
use storage::entities::notes::{Column, Entity};

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Tables with a note count, and the column of their notes.
const COUNTED: [(&str, Column); 3] = [
    ("issues", Column::IssueId),
    ("merge_requests", Column::MergeRequestId),
    ("epics", Column::EpicId),
];

/// Maximum number of IDs in one statement.
const AT_ONCE: usize = 1000;

/// Deletes the notes of a user, except system notes.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn remove_all_of(backend: &Backend, user_id: i64) -> Result<()> {
    let written = || Column::AuthorId.eq(user_id).and(Column::System.eq(false));
    backend
        .database
        .transaction(async |transaction| {
            let mut concerned = Vec::new();
            for (table, column) in COUNTED {
                let on = Query::select()
                    .column(column)
                    .from(Entity)
                    .and_where(written())
                    .and_where(column.is_not_null())
                    .take();
                // As in every change of notes, the noteables are locked first.
                concerned.push((table, column, lock_rows(transaction, table, on).await?));
            }
            Entity::delete_many().filter(written()).exec(transaction).await?;
            for (table, column, ids) in concerned {
                for some in ids.chunks(AT_ONCE) {
                    let update = Query::update()
                        .table(table)
                        .value("user_notes_count", count(table, column))
                        .and_where(Expr::col("id").is_in(some.iter().copied()))
                        .take();
                    transaction.execute(&update).await?;
                }
            }
            Ok::<_, Error>(())
        })
        .await
}

/// Counts the public notes of a noteable, row by row.
fn count(table: &'static str, column: Column) -> Expr {
    let all = Query::select()
        .expr(Func::count(Expr::col(Asterisk)))
        .from(Entity)
        .and_where(Expr::col((Entity, column)).eq(Expr::col((table, "id"))))
        .and_where(Expr::col((Entity, Column::System)).eq(false))
        .and_where(Expr::col((Entity, Column::Confidential)).eq(false))
        .take();
    Expr::from(SubQueryStatement::from(all))
}
