//! `holdfast admin migrate-database`.

mod interruptions;
mod moves;
mod refusals;

use std::collections::BTreeMap;

use domain::operations::first_start::GivenCredentials;
use domain::secrets::Secret;
use harness::{Run, TestFuture, Variant};
use holdfast::config::ConfigOptions;
use holdfast::server;
use sea_orm::{ConnectionTrait, DatabaseBackend, Statement};
use storage::database::{Database, DatabaseOptions};

use crate::support::DatabaseKind;
use crate::support::process::{Site, TOKEN};

/// Runs test functions for both directions of a move.
///
/// `async fn name(from: Site, to: Site)` becomes the tests `name::to_postgresql` and `name::to_sqlite`. The sites share a
/// data directory.
macro_rules! in_both_directions {
    ($($name:ident),* $(,)?) => {
        harness::register![$(
            $name: $crate::cli::database_move::DIRECTIONS, $crate::cli::database_move::MoveTest {
                test: |from, to| ::std::boxed::Box::pin($name(from, to)),
            };
        )*];
    };
}
use in_both_directions;

const TO_SQLITE: &str = "to_sqlite";
const DIRECTIONS: &[Variant] = &[
    Variant { name: "to_postgresql", requirement: Some(harness::postgresql::missing) },
    Variant { name: TO_SQLITE, requirement: Some(harness::postgresql::missing) },
];

/// A test function for both directions of a move.
#[derive(Debug)]
struct MoveTest {
    test: fn(Site, Site) -> TestFuture,
}

impl Run for MoveTest {
    fn run(&self, variant: &'static str) {
        let test = self.test;
        let (from, to) = match variant {
            TO_SQLITE => (DatabaseKind::postgresql(), DatabaseKind::Sqlite),
            _ => (DatabaseKind::Sqlite, DatabaseKind::postgresql()),
        };
        let run = async move {
            let from = Site::migrated(&from).await;
            let other = Site::new(&to).await;
            test(from.clone(), from.on_database_of(&other)).await;
            from.remove().await;
            other.remove().await;
        };
        harness::run_on_threads(1, Box::pin(run));
    }
}

/// Fills a site with the data of the demo, whose administrator has the token of all sites.
async fn fill(site: &Site) {
    let options = ConfigOptions {
        listen: Some("127.0.0.1:0".parse().expect("an address")),
        data_dir: Some(site.data.clone()),
        database_url: Some(site.database_url()),
        no_worker: Some(true),
        ..ConfigOptions::default()
    };
    let (token, password) = (Secret::new(TOKEN.to_owned()), Secret::new("password of the demo".to_owned()));
    let chosen = GivenCredentials { token: Some(token.clone()), password: Some(password.clone()) };
    let bound = server::bind(options.settings().expect("settings"), chosen, None).await.expect("a server");
    bound.fill(&token, &password).await.expect("sample data");
    bound.serve(async {}).await.expect("an end");
}

async fn open(site: &Site) -> Database {
    Database::connect(&site.database_url(), &DatabaseOptions::default()).await.expect("a database")
}

/// Returns the first column of a query as text.
async fn texts(database: &Database, sql: &str) -> Vec<String> {
    let statement = Statement::from_string(database.backend(), sql);
    let rows = database.read().query_all_raw(statement).await.expect("rows");
    rows.iter().map(|row| row.try_get_by_index(0).expect("a text")).collect()
}

async fn execute(site: &Site, sql: &str) {
    let database = open(site).await;
    database.write().execute_unprepared(sql).await.expect("a statement");
    database.close().await.expect("closing");
}

/// Returns the names of the tables whose rows are copied.
async fn tables(database: &Database) -> Vec<String> {
    let all = match database.backend() {
        DatabaseBackend::Sqlite => {
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%'"
        }
        _ => "SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace",
    };
    let mut tables = texts(database, all).await;
    tables.retain(|table| table != "seaql_migrations" && !table.starts_with("database_"));
    tables
}

/// Returns the number of rows of each table.
async fn counts(site: &Site) -> BTreeMap<String, String> {
    let database = open(site).await;
    let mut counts = BTreeMap::new();
    for table in tables(&database).await {
        let count = texts(&database, &format!("SELECT CAST(count(*) AS text) FROM \"{table}\"")).await.remove(0);
        counts.insert(table, count);
    }
    database.close().await.expect("closing");
    counts
}

/// Returns all rows of each table as the database stores them, and the last IDs of the tables.
async fn contents(site: &Site) -> BTreeMap<String, Vec<String>> {
    let database = open(site).await;
    let mut contents = BTreeMap::new();
    for table in tables(&database).await {
        let select = match database.backend() {
            DatabaseBackend::Sqlite => {
                let columns = texts(&database, &format!("SELECT name FROM pragma_table_info('{table}')")).await;
                let columns: Vec<String> =
                    columns.iter().map(|name| format!("typeof(\"{name}\") || ' ' || quote(\"{name}\")")).collect();
                format!("SELECT {} FROM \"{table}\"", columns.join(" || ', ' || "))
            }
            _ => format!("SELECT t::text FROM \"{table}\" AS t"),
        };
        let mut rows = texts(&database, &select).await;
        rows.sort_unstable();
        contents.insert(table, rows);
    }
    let last = match database.backend() {
        DatabaseBackend::Sqlite => "SELECT name || ' ' || seq FROM sqlite_sequence WHERE seq > 0 ORDER BY name",
        _ => {
            "SELECT sequencename || ' ' || last_value FROM pg_sequences WHERE last_value IS NOT NULL ORDER BY sequencename"
        }
    };
    contents.insert("last IDs".to_owned(), texts(&database, last).await);
    database.close().await.expect("closing");
    contents
}

/// Arguments of a move to the database of a site.
fn arguments(to: &str) -> [&str; 4] {
    ["admin", "migrate-database", "--to", to]
}
