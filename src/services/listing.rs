//! What lists have in common: pages, totals that stop counting, and search in texts.

use sea_orm::sea_query::{Asterisk, Expr, Func, IntoColumnRef, LikeExpr, Query, SelectStatement};
use sea_orm::{ConnectionTrait, EntityTrait, ExprTrait, QuerySelect, QueryTrait, Select};

use crate::api::types::{MAX_COUNTED, Page, PageRequest};
use crate::error::Result;

/// The character that takes wildcards their meaning.
const ESCAPE: char = '!';

/// How many rows a statement finds, counted to one more than [`MAX_COUNTED`] (specification 8).
///
/// # Errors
/// Whatever the database reports.
pub async fn bounded_count(db: &impl ConnectionTrait, mut rows: SelectStatement) -> Result<u64> {
    rows.clear_order_by().limit(MAX_COUNTED + 1).reset_offset();
    let statement = Query::select()
        .expr_as(Func::count(Expr::col(Asterisk)), "total")
        .from_subquery(rows, "counted")
        .take();
    let row = db.query_one(&statement).await?;
    let total: i64 = match row {
        Some(row) => row.try_get("", "total")?,
        None => 0,
    };
    Ok(u64::try_from(total).unwrap_or(0))
}

/// One page of what a query finds, in its order, with the total.
///
/// # Errors
/// Whatever the database reports.
pub async fn page_of<E: EntityTrait>(
    db: &impl ConnectionTrait,
    wanted: Select<E>,
    page: &PageRequest,
) -> Result<Page<E::Model>> {
    let total = bounded_count(db, wanted.clone().into_query()).await?;
    let found = wanted
        .offset(page.offset())
        .limit(page.limit() + 1)
        .all(db)
        .await?;
    Ok(Page::new(page, found, total))
}

/// The pattern of texts that contain `text`.
pub fn containing(text: &str) -> LikeExpr {
    let mut pattern = String::from("%");
    for character in text.chars() {
        if ['%', '_', ESCAPE].contains(&character) {
            pattern.push(ESCAPE);
        }
        pattern.push(character);
    }
    pattern.push('%');
    LikeExpr::new(pattern).escape(ESCAPE)
}

/// Whether a column that is not kept folded contains a folded text.
pub fn lower_contains(column: impl IntoColumnRef, folded: &str) -> Expr {
    Expr::expr(Func::lower(Expr::col(column))).like(containing(folded))
}
