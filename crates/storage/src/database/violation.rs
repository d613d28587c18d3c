//! Violated constraints, in one form for both databases.

use sea_orm::{DbErr, RuntimeErr, sqlx};

/// A constraint that a statement ran against.
///
/// The names are those of the `migration` crate: `uq_<table>_<columns>`, `fk_<table>_<column>`,
/// `ck_<table>_<what>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// Another row has these values; the name of the unique constraint.
    Unique(String),
    /// A row that is referred to is missing, or one that is referred to was to be deleted. SQLite does not
    /// say which constraint it was.
    ForeignKey(Option<String>),
    /// A value is out of its range; the name of the check.
    Check(String),
}

impl Violation {
    /// The violation behind an error, if it is one.
    pub fn of(error: &DbErr) -> Option<Self> {
        let cause = reported(error)?;
        if cause.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
            return from_sqlite(cause.message());
        }
        let name = cause.constraint().map(str::to_owned);
        // 23001 is what a restricting foreign key answers with in later versions of PostgreSQL.
        match cause.code()?.as_ref() {
            "23505" => Some(Self::Unique(name?)),
            "23503" | "23001" => Some(Self::ForeignKey(name)),
            "23514" => Some(Self::Check(name?)),
            _ => None,
        }
    }

    /// Whether `error` says that the unique constraint `name` was violated.
    pub fn is_unique(error: &DbErr, name: &str) -> bool {
        matches!(Self::of(error), Some(Self::Unique(violated)) if violated == name)
    }
}

/// Whether the database undid a transaction because it and others waited for each other in a circle; PostgreSQL only.
#[must_use]
pub fn is_deadlock(error: &DbErr) -> bool {
    let Some(cause) = reported(error) else {
        return false;
    };
    cause
        .try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
        .is_some()
        && cause.code().as_deref() == Some("40P01")
}

/// What the database itself reported, if it did.
fn reported(error: &DbErr) -> Option<&dyn sqlx::error::DatabaseError> {
    let (DbErr::Exec(RuntimeErr::SqlxError(cause)) | DbErr::Query(RuntimeErr::SqlxError(cause))) = error
    else {
        return None;
    };
    match cause.as_ref() {
        sqlx::Error::Database(cause) => Some(cause.as_ref()),
        _ => None,
    }
}

fn from_sqlite(message: &str) -> Option<Violation> {
    if let Some(columns) = message.strip_prefix("UNIQUE constraint failed: ") {
        // "users.name, users.path": every column is qualified by the same table.
        let mut names = columns.split(", ");
        let (table, first) = names.next()?.split_once('.')?;
        let rest = names.filter_map(|name| Some(name.split_once('.')?.1));
        let columns: Vec<_> = std::iter::once(first).chain(rest).collect();
        return Some(Violation::Unique(format!("uq_{table}_{}", columns.join("_"))));
    }
    if let Some(name) = message.strip_prefix("CHECK constraint failed: ") {
        return Some(Violation::Check(name.to_owned()));
    }
    message
        .starts_with("FOREIGN KEY constraint failed")
        .then_some(Violation::ForeignKey(None))
}
