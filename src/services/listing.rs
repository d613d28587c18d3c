//! What lists have in common: pages, totals that stop counting, and search in texts.

use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use sea_orm::sea_query::{Asterisk, BinOper, Expr, Func, LikeExpr, Query, SelectStatement};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, ExprTrait, QuerySelect, QueryTrait, Select};

use crate::api::types::{MAX_COUNTED, Page, PageRequest};
use crate::error::Result;

/// The character that takes wildcards their meaning.
const ESCAPE: char = '!';

/// How many rows a statement finds, counted to one more than [`MAX_COUNTED`] (specification 8). The statement groups
/// nothing and leaves no row out for being like another.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn bounded_count(db: &impl ConnectionTrait, mut rows: SelectStatement) -> Result<u64> {
    // That a row is there is all that counts; what it holds might lie outside the index that tells so.
    rows.clear_selects()
        .expr_as(Expr::val(1), "found")
        .clear_order_by()
        .limit(MAX_COUNTED + 1)
        .reset_offset();
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

/// How long a list is of which a page was read, with one row more than the page holds: where the list ends on the page,
/// the page tells; otherwise it is counted as by [`bounded_count`]. It is for lists that are long to look through.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn total_of(
    db: &impl ConnectionTrait,
    page: &PageRequest,
    read: usize,
    rows: SelectStatement,
) -> Result<u64> {
    let read = read as u64;
    let begins = read > 0 || page.offset() == 0;
    if begins && read <= page.limit() {
        return Ok(page.offset().saturating_add(read));
    }
    bounded_count(db, rows).await
}

/// One page of what a query finds, in its order, with the total.
///
/// # Errors
/// Returns an error if the database fails.
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

/// Whether something happened at an instant or before. Instants are shown by their milliseconds and kept with more: what is
/// shown as the bound is within.
pub fn no_later(column: Expr, instant: DateTime<Utc>) -> Expr {
    let shown = instant.duration_trunc(TimeDelta::milliseconds(1));
    let bound = match shown {
        Ok(shown) if shown == instant => instant + TimeDelta::microseconds(999),
        _ => instant,
    };
    column.lte(bound)
}

/// Whether a text contains another. Both are folded: the column is the `*_key` of the one that is searched, for the
/// databases do not agree on which letters are the same in another case.
pub fn contains(column: impl ColumnTrait, folded: &str) -> Expr {
    contains_in(Expr::col(column.as_column_ref()), folded)
}

/// As [`contains`], of a column of a table by another name.
pub fn contains_in(key: Expr, folded: &str) -> Expr {
    key.like(pattern("%", folded, "%"))
}

/// Whether a folded text begins with another.
pub fn begins_with(column: impl ColumnTrait, folded: &str) -> Expr {
    begins(Expr::col(column.as_column_ref()), folded)
}

/// As [`begins_with`], of what is no column.
pub fn begins(key: Expr, folded: &str) -> Expr {
    key.like(pattern("", folded, "%"))
}

/// Whether a folded text ends with another.
pub fn ends_with(column: impl ColumnTrait, folded: &str) -> Expr {
    Expr::col(column.as_column_ref()).like(pattern("%", folded, ""))
}

/// Whether a text that the database has put into lower case contains another, whose case it changes as well: it may know other
/// letters than we do.
pub fn contains_in_any_case(lowered: Expr, text: &str) -> Expr {
    let pattern = Func::lower(Expr::val(escaped("%", text, "%")));
    let pattern = Expr::from(pattern).binary(BinOper::Escape, Expr::Constant(ESCAPE.into()));
    lowered.binary(BinOper::Like, pattern)
}

/// The pattern of texts that are `text` with something before and after it.
fn pattern(before: &str, text: &str, after: &str) -> LikeExpr {
    LikeExpr::new(escaped(before, text, after)).escape(ESCAPE)
}

fn escaped(before: &str, text: &str, after: &str) -> String {
    let mut pattern = String::from(before);
    for character in text.chars() {
        if ['%', '_', ESCAPE].contains(&character) {
            pattern.push(ESCAPE);
        }
        pattern.push(character);
    }
    pattern.push_str(after);
    pattern
}
