//! What a user wrote, when it goes with the user.

use sea_orm::sea_query::{
    Asterisk, Expr, ExprTrait, Func, LockType, Order, Query, SelectStatement, SubQueryStatement,
};
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter};
use storage::entities::notes::{Column, Entity};

use crate::error::{Error, Result};
use crate::services::Backend;

/// What shows how many notes it has: the table, and the column of the notes that stand on it.
const COUNTED: [(&str, Column); 3] = [
    ("issues", Column::IssueId),
    ("merge_requests", Column::MergeRequestId),
    ("epics", Column::EpicId),
];

/// How many things one statement names at most.
const AT_ONCE: usize = 1000;

/// Removes the notes that a user wrote; those that tell of a change the user made stay.
///
/// # Errors
/// Whatever the database reports.
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
                // As for every change of notes, what they stand on is locked first.
                concerned.push((table, column, lock_all(transaction, table, on).await?));
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

/// The rows of a table with these ids, locked one after another in their order until the transaction ends.
///
/// # Errors
/// Whatever the database reports.
pub(in crate::services) async fn lock_all(
    transaction: &DatabaseTransaction,
    table: &'static str,
    ids: SelectStatement,
) -> Result<Vec<i64>> {
    let all = Query::select()
        .column("id")
        .from(table)
        .and_where(Expr::col("id").in_subquery(ids))
        .order_by("id", Order::Asc)
        .lock(LockType::NoKeyUpdate)
        .take();
    let rows = transaction.query_all(&all).await?;
    let ids = rows.iter().map(|row| row.try_get::<i64>("", "id"));
    Ok(ids.collect::<Result<_, _>>()?)
}

/// How many notes everybody sees on a thing, looked at row by row.
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
