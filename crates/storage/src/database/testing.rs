//! Databases for unit tests.

use std::{
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicU32, Ordering},
};

use futures_util::FutureExt;
use sea_orm::ConnectionTrait;

use super::{Database, Options};

/// Runs a test on a new, migrated SQLite database. If `HOLDFAST_TEST_DATABASE_URL` is set, also runs it on a
/// new schema of that PostgreSQL database. Both are removed afterwards, even after a panic.
pub(crate) async fn on_each_database(test: impl AsyncFn(Database)) {
    on_each_url(async |url| {
        let database = Database::connect(&url, &Options::default()).await.unwrap();
        database.migrate().await.unwrap();
        test(database.clone()).await;
        database.close().await.unwrap();
    })
    .await;
}

/// As above with the URL of an empty database, for tests that open it themselves.
pub(crate) async fn on_each_url(test: impl AsyncFn(String)) {
    let directory = tempfile::tempdir().unwrap();
    test(format!(
        "sqlite://{}",
        directory.path().join("test.sqlite3").display()
    ))
    .await;

    let Ok(url) = std::env::var("HOLDFAST_TEST_DATABASE_URL") else {
        return;
    };
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let schema = format!(
        "holdfast_{}_{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    let admin = sea_orm::Database::connect(&url).await.unwrap();
    admin
        .execute_unprepared(&format!("CREATE SCHEMA {schema}"))
        .await
        .unwrap();
    let separator = if url.contains('?') { '&' } else { '?' };
    let scoped = format!("{url}{separator}options[search_path]={schema}");
    let outcome = AssertUnwindSafe(test(scoped)).catch_unwind().await;
    admin
        .execute_unprepared(&format!("DROP SCHEMA {schema} CASCADE"))
        .await
        .unwrap();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}
