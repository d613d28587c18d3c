//! Conditions that are looked at row by row, as lists read in their order have them.

use sea_orm::sea_query::{Expr, SelectStatement};

/// Whether a statement finds something, tried for each row that it is asked of.
///
/// Said plainly, PostgreSQL takes it for a join, or collects beforehand all that the statement might find, and orders the list
/// by what it guesses of that: for a page of twenty it reads a hundred thousand rows. Of a statement that skips no rows,
/// in so many words, it makes neither.
pub fn finds(row: &mut SelectStatement) -> Expr {
    Expr::exists(row.limit(1).offset(0).take())
}
