//! Trigram index of project names, paths and descriptions, in databases that store it in a separate table.

use std::collections::BTreeSet;

use sea_orm::{
    ConnectionTrait, DatabaseBackend, DbErr, ExprTrait,
    sea_query::{BinOper, Expr, Query},
};

use super::selectivity::{TARGET_ID, if_few};

const TABLE: &str = "project_texts";

/// Minimum number of characters of a word that the index supports.
const SHORTEST: usize = 3;

/// Returns whether the database has the table. PostgreSQL uses an index of the projects table instead.
pub fn is_supported(db: &impl ConnectionTrait) -> bool {
    db.get_database_backend() == DatabaseBackend::Sqlite
}

/// Returns a small set of projects that includes all that contain a folded word, and possibly other
/// candidates. Returns none if there are too many or the index does not support the word.
///
/// # Errors
/// Any database error.
pub async fn candidates(db: &impl ConnectionTrait, word: &str) -> Result<Option<BTreeSet<i64>>, DbErr> {
    if !is_supported(db) || word.chars().count() < SHORTEST {
        return Ok(None);
    }
    let phrase = format!("\"{}\"", word.replace('"', "\"\""));
    let holders = Query::select()
        .expr_as(Expr::col("rowid"), TARGET_ID)
        .from(TABLE)
        .and_where(Expr::col(TABLE).binary(BinOper::Custom("MATCH"), phrase))
        .take();
    if_few(db, holders).await
}
