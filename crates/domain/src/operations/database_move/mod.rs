//! Move of an instance to a database of the other kind (ADR 46).
//!
//! A move copies all rows, compares both databases, and then changes the kind of the database in the data directory. This
//! change is atomic and decides which database the instance uses: before it, only the original, and after it, only the
//! copy. The original is read only until then.

mod copying;
mod preparation;

use std::path::{Path, PathBuf};
use std::time::Instant;

use sea_orm::DbErr;
use serde::Serialize;
use storage::database::{self, Database, DatabaseOptions};
use storage::database_copy::{self, CopyConnection, TableDigest};

use crate::operations::instance_identity::{self, DatabaseKind};

use preparation::{CopyState, Exclusion};

/// The databases of a move.
#[derive(Debug, Clone)]
pub struct MoveRequest {
    /// The data directory of the instance.
    pub data_dir: PathBuf,
    /// URL of the database that the instance uses.
    pub from: String,
    /// URL of the database that the instance is moved to: an empty database, or an unfinished copy of the instance.
    pub to: String,
}

/// A step of a move.
#[derive(Debug)]
pub enum MoveEvent<'a> {
    /// An unfinished copy is continued.
    Continued {
        /// Number of tables that the copy already has.
        tables: usize,
    },
    /// An unfinished copy starts over, because a table of the original has changed.
    StartedOver {
        /// The table.
        table: &'a str,
    },
    /// The target is a complete copy, so the move only verifies it.
    AlreadyCopied,
    /// Rows were copied.
    Copied(TableProgress<'a>),
    /// Rows of the copy were compared with the original.
    Verified(TableProgress<'a>),
    /// The move is complete, but the original could not be marked.
    OriginalNotMarked {
        /// The reason.
        cause: String,
    },
}

/// Progress of a step.
#[derive(Debug, Clone, Copy)]
pub struct TableProgress<'a> {
    /// The table.
    pub table: &'a str,
    /// Rows of the table that are done.
    pub rows: u64,
    /// Rows of all tables that are done.
    pub all_rows: u64,
    /// Rows of all tables.
    pub total: u64,
    /// Whether all rows of the table are done.
    pub is_complete: bool,
}

/// Result of a move.
#[derive(Debug, Serialize)]
pub struct MoveReport {
    /// Kind of the former database.
    pub from: DatabaseKind,
    /// Kind of the new database.
    pub to: DatabaseKind,
    /// ID of the instance, which does not change.
    pub instance_id: String,
    /// The tables, in the order of the copy.
    pub tables: Vec<MovedTable>,
    /// Number of all rows.
    pub rows: u64,
    /// Duration of the move, in seconds.
    pub seconds: f64,
}

/// A table that is the same in both databases.
#[derive(Debug, Serialize)]
pub struct MovedTable {
    /// Name of the table.
    pub name: String,
    /// Number of rows.
    pub rows: u64,
    /// Checksum of the rows, in hexadecimal digits.
    pub checksum: String,
}

/// Reason why an instance was not moved. The instance continues to use its database.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The data directory and the database do not belong together, or a server runs.
    #[error(transparent)]
    Instance(#[from] instance_identity::Error),
    /// The instance is from a version that did not record its identity.
    #[error("the data directory {} does not name its instance; start the server once", .0.display())]
    Unnamed(PathBuf),
    /// Both URLs name the same kind of database.
    #[error(
        "the instance already uses {0}; the target must be of the other kind (sqlite://PATH or postgres://...). Databases of the \
         same kind are copied by `holdfast backup` and `holdfast restore`"
    )]
    SameKind(DatabaseKind),
    /// The target has other tables.
    #[error("the target database is not empty; name an empty database, or remove all tables of this one")]
    NotEmpty,
    /// The target is the unfinished copy of another instance.
    #[error("the target database is an unfinished copy of the instance {0}; name an empty database")]
    ForeignCopy(String),
    /// The target is a database from which an instance was moved away.
    #[error(
        "the target database is the one from which an instance was moved; name an empty database, or remove this one if its \
         data is not needed any more"
    )]
    FormerOriginal,
    /// A complete copy differs from the original.
    #[error(
        "the target database is a complete copy of this instance, but the instance has changed since: the table {0} differs; \
         name an empty database, or remove all tables of this one"
    )]
    Outdated(String),
    /// A table of the copy differs from the original.
    #[error(
        "the table {table} of the copy differs from the original: {copy} instead of {original}; the instance was not moved. Run \
         the command again, which copies all tables again"
    )]
    Different {
        /// The table.
        table: String,
        /// The original.
        original: String,
        /// The copy.
        copy: String,
    },
    /// The original cannot be opened.
    #[error("original database: {0}")]
    Original(#[source] database::Error),
    /// The target cannot be opened.
    #[error("target database: {0}")]
    Target(#[source] database::Error),
    /// Rows cannot be copied.
    #[error("the copy failed: {0}; the instance was not moved. Run the command again to continue the copy")]
    Copy(#[from] database_copy::Error),
    /// A statement failed.
    #[error("database: {0}")]
    Database(#[from] DbErr),
    /// A file cannot be written.
    #[error("{}: {cause}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: std::io::Error,
    },
}

/// Receives the steps of a move.
pub type MoveObserver<'o> = dyn FnMut(MoveEvent<'_>) + Send + 'o;

/// Moves an instance to a database of the other kind, or continues an interrupted move. No process may use the instance
/// during the move.
///
/// # Errors
/// [`MoveError`]. The instance then uses its database as before, and the target is not accepted by servers.
pub async fn move_database(
    request: &MoveRequest,
    observe: &mut MoveObserver<'_>,
) -> Result<MoveReport, MoveError> {
    let start = Instant::now();
    let (from, to) = (
        DatabaseKind::of_url(&request.from),
        DatabaseKind::of_url(&request.to),
    );
    if from == to {
        return Err(MoveError::SameKind(from));
    }
    let exclusion = Exclusion::acquire(&request.data_dir, &request.from).await?;
    let options = DatabaseOptions {
        max_connections: 2,
        must_exist: true,
        read_only: true,
        ..DatabaseOptions::default()
    };
    let opened = Database::connect(&request.from, &options).await;
    let original = opened.map_err(MoveError::Original)?;
    exclusion.directory.check(&original).await?;
    original.check_schema().await.map_err(MoveError::Original)?;
    let copy = preparation::open_target(&request.to, &request.data_dir).await?;
    let state = preparation::prepare(&copy, &exclusion.instance_id).await?;
    let mut original_rows = CopyConnection::to_original(&original).await?;
    let mut copy_rows = CopyConnection::to_copy(&copy).await?;
    let tables = match state {
        CopyState::Unfinished => copying::copy(&mut original_rows, &mut copy_rows, observe).await?,
        CopyState::Complete => {
            observe(MoveEvent::AlreadyCopied);
            copying::verify_complete(&mut original_rows, &mut copy_rows, observe).await?
        }
    };
    // The last connection to SQLite writes the log into the file.
    drop((original_rows, copy_rows));
    if state == CopyState::Unfinished {
        database_copy::complete(&copy).await?;
    }
    copy.close().await?;
    original.close().await?;
    preparation::sync(&request.to).await?;
    preparation::switch(&request.data_dir, &exclusion.instance_id, to).await?;
    if let Err(cause) = mark_original(&request.from, to).await {
        observe(MoveEvent::OriginalNotMarked {
            cause: cause.to_string(),
        });
    }
    Ok(MoveReport {
        from,
        to,
        instance_id: exclusion.instance_id,
        rows: tables.iter().map(|(_, digest)| digest.rows).sum(),
        tables: tables.into_iter().map(moved_table).collect(),
        seconds: start.elapsed().as_secs_f64(),
    })
}

fn moved_table((name, digest): (String, TableDigest)) -> MovedTable {
    MovedTable {
        name,
        rows: digest.rows,
        checksum: digest.checksum(),
    }
}

/// Marks the original, so that no server accepts it without the data directory of the copy either.
async fn mark_original(url: &str, to: DatabaseKind) -> Result<(), database::Error> {
    let options = DatabaseOptions {
        must_exist: true,
        ..DatabaseOptions::default()
    };
    let original = Database::connect(url, &options).await?;
    database_copy::set_moved(&original, &to.to_string()).await?;
    Ok(original.close().await?)
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> MoveError + use<> {
    let path = path.to_owned();
    move |cause| MoveError::Io { path, cause }
}
