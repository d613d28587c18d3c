//! Participants of an issue or merge request.

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder};
use storage::entities::users;

use super::Issuable;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_of;

/// Returns a page of the author, the assignees and the commenters, without duplicates.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn participants<T: Issuable>(
    db: &impl ConnectionTrait,
    of: &T,
    page: &PageRequest,
) -> Result<Page<users::Model>> {
    let (table, key) = (T::KIND.assignees(), T::KIND.key());
    let assigned = Query::select()
        .column("user_id")
        .from(table)
        .and_where(Expr::col(key).eq(of.id()))
        .take();
    let commented = Query::select()
        .column("author_id")
        .from("notes")
        .and_where(Expr::col(key).eq(of.id()))
        .and_where(Expr::col("system").eq(false))
        .and_where(Expr::col("confidential").eq(false))
        .and_where(Expr::col("author_id").is_not_null())
        .take();
    let taking_part = Condition::any()
        .add_option(of.author_id().map(|id| users::Column::Id.eq(id)))
        .add(users::Column::Id.in_subquery(assigned))
        .add(users::Column::Id.in_subquery(commented));
    let wanted = users::Entity::find()
        .filter(taking_part)
        .order_by_asc(users::Column::Id);
    page_of(db, wanted, page).await
}
