//! What a user awarded, when the user goes.

use sea_orm::sea_query::{Asterisk, Expr, ExprTrait, Func, Query, SubQueryStatement};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait};

use super::names::{THUMBS_DOWN, THUMBS_UP};
use crate::entities::award_emoji::{Column, Entity};
use crate::entities::issues;
use crate::error::{Error, Result};
use crate::services::Backend;

/// Takes back what a user awarded, with the votes among it.
///
/// # Errors
/// Whatever the database reports.
pub async fn remove_all_of(backend: &Backend, user_id: i64) -> Result<()> {
    let voted = Entity::find()
        .select_only()
        .column(Column::IssueId)
        .filter(Column::UserId.eq(user_id))
        .filter(Column::Name.is_in([THUMBS_UP, THUMBS_DOWN]))
        .filter(Column::IssueId.is_not_null())
        .into_query();
    backend
        .database
        .transaction(async |transaction| {
            // As for every award, the issues are locked first.
            let issues: Vec<i64> = issues::Entity::find()
                .select_only()
                .column(issues::Column::Id)
                .filter(issues::Column::Id.in_subquery(voted))
                .order_by_asc(issues::Column::Id)
                .lock_exclusive()
                .into_tuple()
                .all(transaction)
                .await?;
            Entity::delete_many()
                .filter(Column::UserId.eq(user_id))
                .exec(transaction)
                .await?;
            for some in issues.chunks(AT_ONCE) {
                issues::Entity::update_many()
                    .col_expr(issues::Column::Upvotes, votes(THUMBS_UP))
                    .col_expr(issues::Column::Downvotes, votes(THUMBS_DOWN))
                    .filter(issues::Column::Id.is_in(some.iter().copied()))
                    .exec(transaction)
                    .await?;
            }
            Ok::<_, Error>(())
        })
        .await
}

/// How many issues one statement names at most.
const AT_ONCE: usize = 1000;

/// How many votes of a kind an issue has, looked at row by row.
fn votes(name: &str) -> Expr {
    let all = Query::select()
        .expr(Func::count(Expr::col(Asterisk)))
        .from(Entity)
        .and_where(Expr::col((Entity, Column::IssueId)).eq(Expr::col((issues::Entity, issues::Column::Id))))
        .and_where(Expr::col((Entity, Column::Name)).eq(name))
        .take();
    Expr::from(SubQueryStatement::from(all))
}
