//! Test databases. The migrated schema is created once per run and copied.

use std::path::{Path, PathBuf};

use sea_orm::{ConnectionTrait, DatabaseConnection};
use storage::database::{Database, Options};
use tokio::sync::OnceCell;

/// Prefix of the names of all PostgreSQL test databases. The ID of the creating process follows.
const PREFIX: &str = "holdfast_it_";

/// A PostgreSQL database for one test.
pub struct PostgresqlDatabase {
    /// URL of the database.
    pub url: String,
    admin: String,
    name: String,
}

impl PostgresqlDatabase {
    /// Creates an empty database on the server of this URL.
    pub async fn create(admin: &str) -> Self {
        Self::like(admin, "template1").await
    }

    /// Creates a database with the migrated schema.
    pub async fn migrated(admin: &str) -> Self {
        static TEMPLATE: OnceCell<String> = OnceCell::const_new();
        let template = TEMPLATE.get_or_init(async || {
            remove_abandoned(admin).await;
            let template = Self::create(admin).await;
            migrate(&template.url).await;
            template.name
        });
        Self::like(admin, template.await).await
    }

    async fn like(admin: &str, template: &str) -> Self {
        let unique = hex::encode(rand::random::<[u8; 8]>());
        let name = format!("{PREFIX}{}_{unique}", std::process::id());
        let connection = connect(admin).await;
        connection
            .execute_unprepared(&format!("CREATE DATABASE {name} TEMPLATE {template}"))
            .await
            .expect("a database");
        connection.close().await.expect("closing");
        let (server, _) = admin.rsplit_once('/').expect("a database in the URL");
        Self { url: format!("{server}/{name}"), admin: admin.to_owned(), name }
    }

    /// Drops the database.
    pub async fn remove(&self) {
        let connection = connect(&self.admin).await;
        drop_database(&connection, &self.name).await;
        connection.close().await.expect("closing");
    }
}

/// Creates an SQLite database with the migrated schema at this path.
pub async fn migrated_file(path: &Path) {
    static TEMPLATE: OnceCell<Vec<u8>> = OnceCell::const_new();
    let template = TEMPLATE.get_or_init(async || {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("template.db");
        migrate(&format!("sqlite://{}", path.display())).await;
        tokio::fs::read(&path).await.expect("the template")
    });
    tokio::fs::write(path, template.await).await.expect("a database");
}

async fn migrate(url: &str) {
    let database = Database::connect(url, &Options::default()).await.expect("a database");
    database.migrate().await.expect("the schema");
    database.close().await.expect("closing");
}

async fn connect(url: &str) -> DatabaseConnection {
    sea_orm::Database::connect(url).await.expect("PostgreSQL")
}

async fn drop_database(connection: &DatabaseConnection, name: &str) {
    let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
    connection.execute_unprepared(&drop).await.expect("dropping");
}

/// Drops the databases of earlier runs: their templates and the databases of killed tests.
async fn remove_abandoned(admin: &str) {
    let connection = connect(admin).await;
    let all = "SELECT datname FROM pg_database WHERE datname LIKE 'holdfast\\_it\\_%'";
    let statement = sea_orm::Statement::from_string(sea_orm::DbBackend::Postgres, all);
    for row in connection.query_all_raw(statement).await.expect("databases") {
        let name: String = row.try_get("", "datname").expect("a name");
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('_').next());
        let running = process.is_some_and(|process| PathBuf::from("/proc").join(process).exists());
        if !running {
            drop_database(&connection, &name).await;
        }
    }
    connection.close().await.expect("closing");
}
