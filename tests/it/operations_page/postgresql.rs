//! The role, the database and the settings for PostgreSQL.

use harness::postgresql::PrivateServer;
use sea_orm::{ConnectionTrait, Database, Statement};
use serde_json::json;

use super::blocks::block;
use crate::support::Client;
use crate::support::process::{Site, TOKEN};

/// Runs the statements of a block as the administrator of the server. `CREATE DATABASE` must be a statement of its own.
pub async fn execute(url: &str, name: &str) {
    let database = Database::connect(url).await.expect("PostgreSQL");
    for statement in block(name).split(";\n").map(str::trim).filter(|statement| !statement.is_empty()) {
        database.execute_unprepared(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    database.close().await.expect("closing");
}

/// Returns a value of the database of the URL.
pub async fn value(url: &str, query: &str) -> String {
    let database = Database::connect(url).await.expect("PostgreSQL");
    let statement = Statement::from_string(database.get_database_backend(), query);
    let row = database.query_one_raw(statement).await.expect("a query").expect("a row");
    database.close().await.expect("closing");
    row.try_get_by_index(0).expect("a text")
}

/// Returns the database URL of the settings file, for the socket of a private server.
pub fn role_url(administrator: &str) -> String {
    let settings = block("postgresql.toml");
    let line = settings.lines().find_map(|line| line.strip_prefix("database_url = ")).expect("a URL");
    let url = line.trim_matches('"');
    let (host, _) = administrator.split_once('@').expect("a user").1.split_once('/').expect("a database");
    assert!(url.contains("@127.0.0.1:5432/"), "{url}");
    url.replace("127.0.0.1:5432", host)
}

async fn role_and_database_run_an_instance() {
    let postgresql = PrivateServer::start("setup").expect("PostgreSQL");
    execute(&postgresql.url(), "postgresql.sql").await;
    let url = role_url(&postgresql.url());
    let site = Site::on_database(&url);
    let server = site.serve(&[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    client.post("/projects", json!({"name": "p", "initialize_with_readme": true})).await.expect(201);
    let owner = "SELECT tableowner::text FROM pg_tables WHERE tablename = 'projects'";
    assert_eq!(value(&url, owner).await, "holdfast");
    assert_eq!(value(&url, "SELECT rolsuper::text FROM pg_roles WHERE rolname = current_user").await, "false");
    server.stop().await;
    site.assert_sound(1).await;
}

harness::tests![requires harness::postgresql::missing; role_and_database_run_an_instance];
