//! Conditions that are evaluated for each row, for lists that are read in their order.

use sea_orm::sea_query::{Expr, SelectStatement};

/// Returns a condition that a subquery has rows, evaluated for each row.
///
/// Without `LIMIT` and `OFFSET`, PostgreSQL converts the subquery to a join or evaluates it first. It then
/// orders the list by a wrong estimate: for a page of twenty it reads a hundred thousand rows. An explicit
/// `OFFSET 0` prevents both.
pub fn has_rows(row: &mut SelectStatement) -> Expr {
    Expr::exists(row.limit(1).offset(0).take())
}
