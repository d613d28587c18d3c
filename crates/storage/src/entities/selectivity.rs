//! Selectivity of conditions, which the databases cannot estimate. Few matches are selected by ID; otherwise a
//! list is read in its order and filtered.

use std::collections::BTreeSet;

use sea_orm::{
    ConnectionTrait, DbErr,
    sea_query::{Query, SelectStatement},
};

/// Name of the ID column.
pub const TARGET: &str = "target_id";

/// Maximum number of IDs that are selected individually.
const FEW: u64 = 500;

/// Returns the values of a one-column statement, whose column is called [`TARGET`], or none if there are too
/// many.
///
/// # Errors
/// Any database error.
pub async fn few(db: &impl ConnectionTrait, ids: SelectStatement) -> Result<Option<BTreeSet<i64>>, DbErr> {
    let some = Query::select()
        .column(TARGET)
        .from_subquery(ids, "few")
        .limit(FEW + 1)
        .take();
    let rows = db.query_all(&some).await?;
    if rows.len() as u64 > FEW {
        return Ok(None);
    }
    let ids = rows.iter().map(|row| row.try_get("", TARGET));
    ids.collect::<Result<_, _>>().map(Some)
}
