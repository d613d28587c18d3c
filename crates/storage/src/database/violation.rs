//! Constraint violations in a common form for both databases.

use sea_orm::{ConnAcquireErr, DbErr, RuntimeErr, sqlx};

use crate::fault::Fault;

/// A violated constraint.
///
/// The names are those of the `migration` crate: `uq_<table>_<columns>`, `fk_<table>_<column>`,
/// `ck_<table>_<check>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// Another row has the same values; contains the name of the unique constraint.
    Unique(String),
    /// A referenced row is missing, or a referenced row cannot be deleted. SQLite does not report the
    /// constraint.
    ForeignKey(Option<String>),
    /// A value is out of range; contains the name of the check.
    Check(String),
}

impl Violation {
    /// Returns the violation that caused an error, if any.
    pub fn of(error: &DbErr) -> Option<Self> {
        let cause = reported(error)?;
        if cause.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
            return from_sqlite(cause.message());
        }
        let name = cause.constraint().map(str::to_owned);
        // Newer versions of PostgreSQL report 23001 for a restricting foreign key.
        match cause.code()?.as_ref() {
            "23505" => Some(Self::Unique(name?)),
            "23503" | "23001" => Some(Self::ForeignKey(name)),
            "23514" => Some(Self::Check(name?)),
            _ => None,
        }
    }

    /// Returns whether `error` is a violation of the unique constraint `name`.
    pub fn is_unique(error: &DbErr, name: &str) -> bool {
        matches!(Self::of(error), Some(Self::Unique(violated)) if violated == name)
    }
}

/// Returns whether PostgreSQL rolled back a transaction because of a deadlock.
#[must_use]
pub fn is_deadlock(error: &DbErr) -> bool {
    has_sqlstate(error, "40P01")
}

/// Returns whether a statement on SQLite waited too long for another process that writes.
#[must_use]
pub fn is_busy(error: &DbErr) -> bool {
    let Some(cause) = reported(error) else {
        return false;
    };
    if cause.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_none() {
        return false;
    }
    let code: Option<u32> = cause.code().and_then(|code| code.parse().ok());
    // SQLITE_BUSY and SQLITE_LOCKED. The lowest byte is the primary code.
    code.is_some_and(|code| matches!(code & 0xff, 5 | 6))
}

/// Returns whether PostgreSQL canceled a statement because it waited too long for a lock.
pub(super) fn is_lock_timeout(error: &DbErr) -> bool {
    has_sqlstate(error, "55P03")
}

/// Returns the fault of the database server or its disk that caused an error, if any.
#[must_use]
pub fn fault(error: &DbErr) -> Option<Fault> {
    if matches!(error, DbErr::ConnectionAcquire(ConnAcquireErr::ConnectionClosed)) {
        return Some(Fault::DatabaseUnavailable);
    }
    match sqlx_error(error)? {
        sqlx::Error::Io(error) => crate::fault::fault(error).or(Some(Fault::DatabaseUnavailable)),
        sqlx::Error::Database(cause) => {
            let code = cause.code()?;
            match cause.try_downcast_ref::<sqlx::sqlite::SqliteError>() {
                Some(_) => sqlite_fault(code.parse().ok()?),
                None => postgresql_fault(&code),
            }
        }
        _ => None,
    }
}

/// Returns the fault for an extended result code of SQLite.
fn sqlite_fault(code: u32) -> Option<Fault> {
    // The lowest byte is the primary code.
    match (code, code & 0xff) {
        // SQLITE_FULL, and SQLITE_IOERR_SHMSIZE for the index of the log.
        (13 | 4874, _) => Some(Fault::DiskFull),
        // SQLITE_IOERR and SQLITE_CANTOPEN.
        (_, 10 | 14) => Some(Fault::DatabaseUnavailable),
        _ => None,
    }
}

/// Returns the fault for an SQLSTATE of PostgreSQL.
fn postgresql_fault(code: &str) -> Option<Fault> {
    match code {
        "53100" => Some(Fault::DiskFull),
        // Shutdown by an administrator, crash, start or recovery, a dropped database; too many connections; a
        // standby after a change of the primary server.
        "57P01" | "57P02" | "57P03" | "57P04" | "53300" | "25006" => Some(Fault::DatabaseUnavailable),
        _ => code.starts_with("08").then_some(Fault::DatabaseUnavailable),
    }
}

/// Returns whether PostgreSQL canceled a statement because it took too long.
pub(super) fn is_canceled(error: &DbErr) -> bool {
    has_sqlstate(error, "57014")
}

/// Returns whether PostgreSQL reported this error code.
fn has_sqlstate(error: &DbErr, code: &str) -> bool {
    reported(error).is_some_and(|cause| {
        cause
            .try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
            .is_some()
            && cause.code().as_deref() == Some(code)
    })
}

/// Returns the error reported by the database itself, if any.
fn reported(error: &DbErr) -> Option<&dyn sqlx::error::DatabaseError> {
    match sqlx_error(error)? {
        sqlx::Error::Database(cause) => Some(cause.as_ref()),
        _ => None,
    }
}

/// Returns the error of the driver, if any.
fn sqlx_error(error: &DbErr) -> Option<&sqlx::Error> {
    match error {
        DbErr::Exec(RuntimeErr::SqlxError(cause))
        | DbErr::Query(RuntimeErr::SqlxError(cause))
        | DbErr::Conn(RuntimeErr::SqlxError(cause)) => Some(cause.as_ref()),
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
