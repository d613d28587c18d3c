//! Whether what a condition finds is few, which no database can tell before: then it is looked up by its ids, and
//! otherwise a list is read in its order, and what does not belong into it left out.

use std::collections::BTreeSet;

use sea_orm::{
    ConnectionTrait, DbErr,
    sea_query::{Query, SelectStatement},
};

/// What the column of ids is called.
pub const TARGET: &str = "target_id";

/// The most ids that are told one by one.
const FEW: u64 = 500;

/// What a statement of one column, called [`TARGET`], finds, unless it is more than a few.
///
/// # Errors
/// Whatever the database reports.
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
