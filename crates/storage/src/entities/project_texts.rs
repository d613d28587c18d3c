//! The names, paths and descriptions of projects by groups of three characters, where the database keeps them in a table
//! of their own.

use std::collections::BTreeSet;

use sea_orm::{
    ConnectionTrait, DatabaseBackend, DbErr, ExprTrait,
    sea_query::{BinOper, Expr, Query},
};

use super::few::{TARGET, few};

const TABLE: &str = "project_texts";

/// How many characters a word has at least that the table can tell something of.
const SHORTEST: usize = 3;

/// Whether the database keeps them in that table. PostgreSQL has an index instead, which it uses by itself.
pub fn are_kept(db: &impl ConnectionTrait) -> bool {
    db.get_database_backend() == DatabaseBackend::Sqlite
}

/// A few projects with all those among them that hold a folded word, and maybe others that nearly do; none when they are
/// more, or when that is not known.
///
/// # Errors
/// Whatever the database reports.
pub async fn candidates(db: &impl ConnectionTrait, word: &str) -> Result<Option<BTreeSet<i64>>, DbErr> {
    if !are_kept(db) || word.chars().count() < SHORTEST {
        return Ok(None);
    }
    let phrase = format!("\"{}\"", word.replace('"', "\"\""));
    let holders = Query::select()
        .expr_as(Expr::col("rowid"), TARGET)
        .from(TABLE)
        .and_where(Expr::col(TABLE).binary(BinOper::Custom("MATCH"), phrase))
        .take();
    few(db, holders).await
}
