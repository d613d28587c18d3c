//! What lists have in common: totals that stop counting, search in texts, and dates of conditional requests.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{Asterisk, Expr, Func, IntoColumnRef, LikeExpr, Query, SelectStatement};
use sea_orm::{ConnectionTrait, ExprTrait};

use crate::api::types::MAX_COUNTED;
use crate::error::{Error, Result};

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

/// Refuses to go on when a thing changed after the date in `If-Unmodified-Since`; a text that is no date is
/// ignored, as the protocol wants it.
///
/// # Errors
/// [`Error::PreconditionFailed`].
pub fn unmodified_since(header: Option<&str>, changed: DateTime<Utc>) -> Result<()> {
    let date = header.and_then(|text| DateTime::parse_from_rfc2822(text).ok());
    match date {
        Some(date) if changed.timestamp() > date.timestamp() => Err(Error::PreconditionFailed),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_after_the_date_fails_and_other_texts_are_ignored() {
        let changed = DateTime::from_timestamp(1_445_412_480, 999_000_000).expect("a time");
        let refused = |header| unmodified_since(Some(header), changed).is_err();
        assert!(!refused("Wed, 21 Oct 2015 07:28:00 GMT"));
        assert!(refused("Wed, 21 Oct 2015 07:27:59 GMT"));
        assert!(!refused("yesterday"));
        assert!(unmodified_since(None, changed).is_ok());
    }
}
