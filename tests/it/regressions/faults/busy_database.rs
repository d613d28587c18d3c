//! A process that writes to an SQLite file for longer than the others wait.

use std::time::Duration;

use domain::kernel::error::Error;
use storage::database::{Database, DatabaseOptions, is_busy};

async fn wait_for_another_process_ends_as_busy_database() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite://{}", directory.path().join("busy.sqlite3").display());
    let options = DatabaseOptions { acquire_timeout: Duration::from_millis(100), ..DatabaseOptions::default() };
    let first = Database::connect(&url, &options).await.expect("a database");
    let second = Database::connect(&url, &options).await.expect("a database");
    let writing = first.begin().await.expect("a transaction");
    let error = second.begin().await.expect_err("the file is locked");
    assert!(is_busy(&error), "{error:?}");
    assert!(matches!(Error::from(error), Error::DatabaseBusy));
    writing.rollback().await.expect("the end");
    second.begin().await.expect("a transaction");
}

harness::tests![wait_for_another_process_ends_as_busy_database];
