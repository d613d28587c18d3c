//! Counting for pages: never further than totals are told (specification 8).

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ConnectionTrait, EntityTrait, QuerySelect, QueryTrait, Select};

use crate::api::types::MAX_COUNTED;
use crate::error::Result;

/// How many rows a query has, counted to [`MAX_COUNTED`] + 1 at most, however large the table is.
///
/// # Errors
/// Whatever the database reports.
pub async fn bounded<E: EntityTrait>(db: &impl ConnectionTrait, wanted: &Select<E>) -> Result<u64> {
    const ROWS: &str = "counted_rows";
    const ROW: &str = "counted_row";
    let rows = wanted
        .clone()
        .select_only()
        .expr_as(Expr::val(1), ROW)
        .limit(MAX_COUNTED + 1);
    let count = Query::select()
        .expr(Expr::col(ROW).count())
        .from_subquery(rows.into_query(), ROWS)
        .to_owned();
    let Some(row) = db.query_one(&count).await? else {
        return Ok(0);
    };
    let number: i64 = row.try_get_by_index(0)?;
    Ok(u64::try_from(number).unwrap_or(0))
}
