//! What a user wrote, when it goes with the user.

use sea_orm::sea_query::{Asterisk, Expr, ExprTrait, Func, Query, SubQueryStatement};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait};

use crate::entities::issues;
use crate::entities::notes::{Column, Entity};
use crate::error::{Error, Result};
use crate::services::Backend;

/// How many issues one statement names at most.
const AT_ONCE: usize = 1000;

/// Removes the notes that a user wrote; those that tell of a change the user made stay.
///
/// # Errors
/// Whatever the database reports.
pub async fn remove_all_of(backend: &Backend, user_id: i64) -> Result<()> {
    let written = Column::AuthorId.eq(user_id).and(Column::System.eq(false));
    let on = Entity::find()
        .select_only()
        .column(Column::IssueId)
        .filter(written.clone())
        .filter(Column::IssueId.is_not_null())
        .into_query();
    backend
        .database
        .transaction(async |transaction| {
            // As for every change of notes, what they stand on is locked first.
            let issues: Vec<i64> = issues::Entity::find()
                .select_only()
                .column(issues::Column::Id)
                .filter(issues::Column::Id.in_subquery(on))
                .order_by_asc(issues::Column::Id)
                .lock_exclusive()
                .into_tuple()
                .all(transaction)
                .await?;
            Entity::delete_many().filter(written).exec(transaction).await?;
            for some in issues.chunks(AT_ONCE) {
                issues::Entity::update_many()
                    .col_expr(issues::Column::UserNotesCount, count())
                    .filter(issues::Column::Id.is_in(some.iter().copied()))
                    .exec(transaction)
                    .await?;
            }
            Ok::<_, Error>(())
        })
        .await
}

/// How many notes everybody sees on an issue, looked at row by row.
fn count() -> Expr {
    let all = Query::select()
        .expr(Func::count(Expr::col(Asterisk)))
        .from(Entity)
        .and_where(Expr::col((Entity, Column::IssueId)).eq(Expr::col((issues::Entity, issues::Column::Id))))
        .and_where(Expr::col((Entity, Column::System)).eq(false))
        .and_where(Expr::col((Entity, Column::Confidential)).eq(false))
        .take();
    Expr::from(SubQueryStatement::from(all))
}
