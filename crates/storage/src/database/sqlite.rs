//! Options of SQLite connections.

use std::{fs::OpenOptions, io::ErrorKind, path::PathBuf, str::FromStr};

use sea_orm::{
    ConnectOptions,
    sqlx::{
        Connection as _,
        sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
    },
};

use super::{DatabaseOptions, Error};

/// Size of the page cache of a connection in negative kibibytes: the default of SQLite.
const DEFAULT_CACHE: &str = "-2000";
/// The same for a database that is not durable.
const SMALL_CACHE: &str = "-256";

/// Returns the file that the URL of a SQLite database names. Returns `None` for other URLs.
#[must_use]
pub fn sqlite_file(url: &str) -> Option<PathBuf> {
    let options = SqliteConnectOptions::from_str(url).ok()?;
    url.starts_with("sqlite:")
        .then(|| options.get_filename().to_path_buf())
}

/// Creates the file, unless it must exist, readable only by its owner because it contains password hashes, and its parent
/// directory.
pub(super) fn prepare_file(url: &str, must_exist: bool) -> Result<PathBuf, Error> {
    let parsed = SqliteConnectOptions::from_str(url).map_err(|_| Error::UnsupportedUrl)?;
    let path = parsed.get_filename().to_path_buf();
    // Each connection would open a separate in-memory database.
    let in_memory = url.contains(":memory:") || url.contains("mode=memory");
    if in_memory || path.as_os_str().is_empty() {
        return Err(Error::UnsupportedUrl);
    }
    if must_exist {
        return match path.is_file() {
            true => Ok(path),
            false => Err(Error::Missing(path)),
        };
    }
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut file = OpenOptions::new();
    file.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    match file.open(&path) {
        Ok(_) => Ok(path),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(path),
        Err(error) => Err(error.into()),
    }
}

/// Returns the options of the reading connections.
pub(super) fn reader(mut connect: ConnectOptions, options: &DatabaseOptions) -> ConnectOptions {
    let configured = options.clone();
    connect
        .max_connections(options.max_connections)
        .map_sqlx_sqlite_opts(move |sqlite| configure(sqlite, &configured).pragma("query_only", "ON"));
    connect
}

/// Returns the options of the single writing connection.
pub(super) fn writer(mut connect: ConnectOptions, options: &DatabaseOptions) -> ConnectOptions {
    let configured = options.clone();
    connect
        .max_connections(1)
        .map_sqlx_sqlite_opts(move |sqlite| configure(sqlite, &configured))
        .map_sqlx_sqlite_pool_opts(|pool| {
            pool.after_release(|connection, _| {
                Box::pin(async move {
                    if connection.is_in_transaction() {
                        // Waits for the rollback of a dropped transaction.
                        connection.ping().await?;
                    }
                    // SQLite itself rolls back if the disk is full. The driver then counts the transaction as open, and never
                    // commits later ones, so the connection is closed.
                    Ok(!connection.is_in_transaction())
                })
            })
        });
    connect
}

fn configure(sqlite: SqliteConnectOptions, options: &DatabaseOptions) -> SqliteConnectOptions {
    let sqlite = sqlite.busy_timeout(options.acquire_timeout);
    if options.read_only {
        return sqlite.read_only(true);
    }
    sqlite
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(match options.durable {
            true => SqliteSynchronous::Full,
            false => SqliteSynchronous::Off,
        })
        .foreign_keys(true)
        // Without a disk to wait for, a page is read as fast from the file system as from the cache of the connection.
        .pragma(
            "cache_size",
            if options.durable {
                DEFAULT_CACHE
            } else {
                SMALL_CACHE
            },
        )
        // After a burst, the log is truncated to this size in bytes.
        .pragma("journal_size_limit", "67108864")
}
