//! What lists have in common: totals that stop counting, and search in texts.

use sea_orm::sea_query::{Asterisk, Expr, Func, IntoColumnRef, LikeExpr, Query, SelectStatement};
use sea_orm::{ConnectionTrait, ExprTrait};

use crate::api::types::MAX_COUNTED;
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
