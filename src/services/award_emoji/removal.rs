//! What a user awarded, when the user goes.

use sea_orm::sea_query::{Asterisk, Expr, ExprTrait, Func, Query, SubQueryStatement};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::award_emoji::{Column, Entity};

use super::names::{THUMBS_DOWN, THUMBS_UP};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::notes::lock_all;

/// What shows its votes: the table, and the column of the awards that belong to it.
const VOTED: [(&str, Column); 3] = [
    ("issues", Column::IssueId),
    ("merge_requests", Column::MergeRequestId),
    ("epics", Column::EpicId),
];

/// How many things one statement names at most.
const AT_ONCE: usize = 1000;

/// Takes back what a user awarded, with the votes among it.
///
/// # Errors
/// Whatever the database reports.
pub async fn remove_all_of(backend: &Backend, user_id: i64) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let mut concerned = Vec::new();
            for (table, column) in VOTED {
                let voted = Query::select()
                    .column(column)
                    .from(Entity)
                    .and_where(Column::UserId.eq(user_id))
                    .and_where(Column::Name.is_in([THUMBS_UP, THUMBS_DOWN]))
                    .and_where(column.is_not_null())
                    .take();
                // As for every award, what it belongs to is locked first.
                concerned.push((table, column, lock_all(transaction, table, voted).await?));
            }
            Entity::delete_many()
                .filter(Column::UserId.eq(user_id))
                .exec(transaction)
                .await?;
            for (table, column, ids) in concerned {
                for some in ids.chunks(AT_ONCE) {
                    let update = Query::update()
                        .table(table)
                        .value("upvotes", votes(table, column, THUMBS_UP))
                        .value("downvotes", votes(table, column, THUMBS_DOWN))
                        .and_where(Expr::col("id").is_in(some.iter().copied()))
                        .take();
                    transaction.execute(&update).await?;
                }
            }
            Ok::<_, Error>(())
        })
        .await
}

/// How many votes of a kind a thing has, looked at row by row.
fn votes(table: &'static str, column: Column, name: &str) -> Expr {
    let all = Query::select()
        .expr(Func::count(Expr::col(Asterisk)))
        .from(Entity)
        .and_where(Expr::col((Entity, column)).eq(Expr::col((table, "id"))))
        .and_where(Expr::col((Entity, Column::Name)).eq(name))
        .take();
    Expr::from(SubQueryStatement::from(all))
}
