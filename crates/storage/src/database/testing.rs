//! Databases for unit tests.

use std::panic::AssertUnwindSafe;
use std::path::Path;

use futures_util::FutureExt;
use harness::{Run, TestFuture, directory};
use sea_orm::ConnectionTrait;

use super::{Database, DatabaseOptions};

/// Prefix of the names of all PostgreSQL test databases. The process ID of the supervisor of the run follows. The
/// integration tests remove abandoned databases.
const PREFIX: &str = "holdfast_test_";

/// DatabaseKind of the database of a test.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DatabaseKind {
    Sqlite,
    Postgresql,
}

/// Registers test functions for each database.
///
/// `async fn name(kind: DatabaseKind)` becomes the tests `name::on_sqlite` and `name::on_postgresql`.
macro_rules! on_every_database {
    (on $threads:literal threads; $($name:ident),* $(,)?) => {
        $crate::database::testing::on_databases![harness::EVERY_DATABASE; $threads; $($name),*];
    };
    ($($name:ident),* $(,)?) => {
        $crate::database::testing::on_every_database![on 1 threads; $($name),*];
    };
}
pub(crate) use on_every_database;

/// Registers test functions for PostgreSQL.
macro_rules! on_postgresql {
    (on $threads:literal threads; $($name:ident),* $(,)?) => {
        $crate::database::testing::on_databases![harness::POSTGRESQL; $threads; $($name),*];
    };
}
pub(crate) use on_postgresql;

/// Registers test functions with variants for databases.
macro_rules! on_databases {
    ($variants:expr; $threads:literal; $($name:ident),*) => {
        harness::register![$(
            $name: $variants, $crate::database::testing::DatabaseTest {
                threads: $threads,
                test: |kind| ::std::boxed::Box::pin($name(kind)),
            };
        )*];
    };
}
pub(crate) use on_databases;

/// A test function for databases.
#[derive(Debug)]
pub(crate) struct DatabaseTest {
    /// Number of threads of the runtime.
    pub(crate) threads: usize,
    pub(crate) test: fn(DatabaseKind) -> TestFuture,
}

impl Run for DatabaseTest {
    fn run(&self, variant: &'static str) {
        let kind = match variant {
            harness::ON_SQLITE => DatabaseKind::Sqlite,
            harness::ON_POSTGRESQL => DatabaseKind::Postgresql,
            other => panic!("unknown variant {other}"),
        };
        harness::run_on_threads(self.threads, (self.test)(kind));
    }
}

/// Runs a test on a new, migrated database. It is removed afterwards, even after a panic.
pub(crate) async fn on_migrated(kind: DatabaseKind, test: impl AsyncFn(Database)) {
    let template = template(kind);
    on_copy(kind, Some(&template), async |url| {
        let database = Database::connect(&url, &DatabaseOptions::default())
            .await
            .unwrap();
        test(database.clone()).await;
        database.close().await.unwrap();
    })
    .await;
}

/// As above with the URL of an empty database, for tests that open it themselves.
pub(crate) async fn on_empty(kind: DatabaseKind, test: impl AsyncFn(String)) {
    on_copy(kind, None, test).await;
}

async fn on_copy(kind: DatabaseKind, template: Option<&str>, test: impl AsyncFn(String)) {
    match kind {
        DatabaseKind::Sqlite => {
            let directory = tempfile::tempdir_in(directory::shared()).unwrap();
            let path = directory.path().join("test.sqlite3");
            if let Some(template) = template {
                std::fs::copy(template, &path).unwrap();
            }
            test(sqlite_url(&path)).await;
        }
        DatabaseKind::Postgresql => {
            let name = create_database(template.unwrap_or("template1")).await;
            let outcome = AssertUnwindSafe(test(postgresql_url(&name))).catch_unwind().await;
            execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await;
            if let Err(panic) = outcome {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Returns the path or the name of a migrated database, which the first process of a test run creates.
fn template(kind: DatabaseKind) -> String {
    let file = match kind {
        DatabaseKind::Sqlite => "template.sqlite3",
        DatabaseKind::Postgresql => "template-name",
    };
    let directory = directory::create_template(&format!("storage-{kind:?}"), async |directory: &Path| {
        let path = directory.join(file);
        let url = match kind {
            DatabaseKind::Sqlite => sqlite_url(&path),
            DatabaseKind::Postgresql => {
                let name = create_database("template1").await;
                std::fs::write(&path, &name).unwrap();
                postgresql_url(&name)
            }
        };
        let database = Database::connect(&url, &DatabaseOptions::default())
            .await
            .unwrap();
        database.migrate().await.unwrap();
        database.close().await.unwrap();
    });
    let path = directory.join(file);
    match kind {
        DatabaseKind::Sqlite => path.to_str().unwrap().to_owned(),
        DatabaseKind::Postgresql => std::fs::read_to_string(path).unwrap(),
    }
}

async fn create_database(template: &str) -> String {
    let unique = hex::encode(rand::random::<[u8; 8]>());
    let name = format!("{PREFIX}{}_{unique}", directory::supervisor_id());
    execute(&format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
    name
}

async fn execute(sql: &str) {
    let admin = sea_orm::Database::connect(harness::postgresql::url())
        .await
        .unwrap();
    admin.execute_unprepared(sql).await.unwrap();
    admin.close().await.unwrap();
}

fn sqlite_url(path: &Path) -> String {
    format!("sqlite://{}", path.display())
}

fn postgresql_url(name: &str) -> String {
    let (server, _) = harness::postgresql::url().rsplit_once('/').unwrap();
    format!("{server}/{name}")
}
