//! Conditions that are evaluated for each row, for lists that are read in their order, conditions on IDs, and the order
//! of texts.

use std::collections::BTreeSet;

use sea_orm::DbBackend;
use sea_orm::sea_query::extension::postgres::PgFunc;
use sea_orm::sea_query::{Expr, ExprTrait, Func, Query, SelectStatement};

/// Returns a condition that a subquery has rows, evaluated for each row.
///
/// Without `LIMIT` and `OFFSET`, PostgreSQL converts the subquery to a join or evaluates it first. It then
/// orders the list by a wrong estimate: for a page of twenty it reads a hundred thousand rows. An explicit
/// `OFFSET 0` prevents both.
pub fn has_rows(row: &mut SelectStatement) -> Expr {
    Expr::exists(row.limit(1).offset(0).take())
}

/// Returns a condition that a column is one of these IDs, which are one parameter: the text of the statement is the same
/// for any number of IDs, so connections prepare it once.
pub fn is_among(database: DbBackend, column: Expr, ids: impl IntoIterator<Item = i64>) -> Expr {
    let ids: BTreeSet<i64> = ids.into_iter().collect();
    if database == DbBackend::Postgres {
        let ids: Vec<i64> = ids.into_iter().collect();
        return column.eq(PgFunc::any(Expr::val(ids)));
    }
    let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
    let ids = format!("[{}]", ids.join(","));
    let listed = Query::select()
        .column("value")
        .from_function(Func::cust("json_each").arg(ids), "listed")
        .take();
    column.in_subquery(listed)
}

/// Returns a text that is compared and sorted by code points, independent of the locale of the database. SQLite compares
/// bytes, which have the same order.
///
/// The statement names the collation, because a migration cannot change that of a column: PostgreSQL then rejects the
/// prepared statements of running servers that return the column.
pub fn by_code_points(database: DbBackend, text: Expr) -> Expr {
    match database {
        DbBackend::Postgres => Expr::cust_with_expr("$1 COLLATE \"C\"", text),
        _ => text,
    }
}

/// Returns a condition like [`is_among`], for texts.
pub fn is_among_texts(database: DbBackend, column: Expr, texts: Vec<String>) -> Expr {
    if database == DbBackend::Postgres {
        return column.eq(PgFunc::any(Expr::val(texts)));
    }
    let texts = serde_json::Value::from(texts).to_string();
    let listed = Query::select()
        .column("value")
        .from_function(Func::cust("json_each").arg(texts), "listed")
        .take();
    column.in_subquery(listed)
}
