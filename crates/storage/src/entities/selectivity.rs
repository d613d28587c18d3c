//! Selectivity of conditions, which the databases cannot estimate. Few matches are selected by ID; otherwise a
//! list is read in its order and filtered.

use std::collections::BTreeSet;

use sea_orm::{
    ConnectionTrait, DbErr,
    sea_query::{Query, SelectStatement},
};

/// Name of the ID column.
pub const TARGET_ID: &str = "target_id";

/// Maximum number of IDs that are selected individually.
const MAX_SELECTED: u64 = 500;

/// Returns the values of a one-column statement, whose column is called [`TARGET_ID`], or none if there are too
/// many.
///
/// # Errors
/// Any database error.
pub async fn if_few(db: &impl ConnectionTrait, ids: SelectStatement) -> Result<Option<BTreeSet<i64>>, DbErr> {
    let some = Query::select()
        .column(TARGET_ID)
        .from_subquery(ids, "few")
        .limit(MAX_SELECTED + 1)
        .take();
    let rows = db.query_all(&some).await?;
    if rows.len() as u64 > MAX_SELECTED {
        return Ok(None);
    }
    let ids = rows.iter().map(|row| row.try_get("", TARGET_ID));
    ids.collect::<Result<_, _>>().map(Some)
}
