//! What SQLite needs to be told.

use std::{fs::OpenOptions, io::ErrorKind, path::PathBuf, str::FromStr};

use sea_orm::{
    ConnectOptions,
    sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use super::{Error, Options};

/// Makes the file unless it must exist, readable by its owner only (it holds password hashes), and the directory above it.
pub(super) fn prepare_file(url: &str, must_exist: bool) -> Result<PathBuf, Error> {
    let parsed = SqliteConnectOptions::from_str(url).map_err(|_| Error::UnsupportedUrl)?;
    let path = parsed.get_filename().to_path_buf();
    // What SQLite keeps in memory would be another database for each connection.
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

/// The connections that read, of which there may be several.
pub(super) fn reader(mut connect: ConnectOptions, options: &Options) -> ConnectOptions {
    let wait = options.acquire_timeout;
    connect
        .max_connections(options.max_connections)
        .map_sqlx_sqlite_opts(move |sqlite| configure(sqlite, wait).pragma("query_only", "ON"));
    connect
}

/// The one connection that writes.
pub(super) fn writer(mut connect: ConnectOptions, options: &Options) -> ConnectOptions {
    let wait = options.acquire_timeout;
    connect
        .max_connections(1)
        .map_sqlx_sqlite_opts(move |sqlite| configure(sqlite, wait));
    connect
}

fn configure(sqlite: SqliteConnectOptions, wait: std::time::Duration) -> SqliteConnectOptions {
    sqlite
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(wait)
        // After a burst the log is cut back to this many bytes rather than kept at its largest.
        .pragma("journal_size_limit", "67108864")
}
