//! Checks that every migration can be applied, reverted and applied again on both databases.
#![allow(clippy::unwrap_used)]

use migration::{Migrator, MigratorTrait};
use sea_orm_migration::sea_orm::{ConnectionTrait, Database, DatabaseConnection, Statement};

/// Returns the definitions of all tables and indexes, in a fixed order.
async fn schema(db: &DatabaseConnection) -> Vec<String> {
    let sql = if db.get_database_backend() == sea_orm_migration::sea_orm::DatabaseBackend::Sqlite {
        "SELECT coalesce(sql, name) AS line FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1"
    } else {
        "SELECT indexdef AS line FROM pg_indexes WHERE schemaname = current_schema()
         UNION ALL
         SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
         WHERE connamespace = current_schema()::regnamespace
         ORDER BY 1"
    };
    db.query_all_raw(Statement::from_string(db.get_database_backend(), sql))
        .await
        .unwrap()
        .iter()
        .map(|row| row.try_get("", "line").unwrap())
        .collect()
}

async fn up_down_up(db: &DatabaseConnection) {
    Migrator::up(db, None).await.unwrap();
    let first = schema(db).await;
    let all = Migrator::migrations().len();
    assert!(first.len() > all, "the migrations create tables and indexes");
    for _ in 0..all {
        Migrator::down(db, Some(1)).await.unwrap();
    }
    let emptied = schema(db).await;
    assert!(
        emptied.iter().all(|line| line.contains("seaql_migrations")),
        "left behind: {emptied:?}"
    );
    Migrator::up(db, None).await.unwrap();
    assert_eq!(schema(db).await, first);
}

async fn every_migration_is_reversible_on_sqlite() {
    let directory = tempfile::tempdir_in(harness::directory::shared()).unwrap();
    let url = format!(
        "sqlite://{}?mode=rwc",
        directory.path().join("db.sqlite3").display()
    );
    up_down_up(&Database::connect(url).await.unwrap()).await;
}

async fn every_migration_is_reversible_on_postgresql() {
    let url = harness::postgresql::url();
    let admin = Database::connect(url).await.unwrap();
    let name = format!("migration_{}", std::process::id());
    admin
        .execute_unprepared(&format!("CREATE SCHEMA {name}"))
        .await
        .unwrap();
    let separator = if url.contains('?') { '&' } else { '?' };
    let scoped = format!("{url}{separator}options[search_path]={name}");
    let outcome =
        tokio::spawn(async move { up_down_up(&Database::connect(scoped).await.unwrap()).await }).await;
    admin
        .execute_unprepared(&format!("DROP SCHEMA {name} CASCADE"))
        .await
        .unwrap();
    outcome.unwrap();
}

harness::tests![every_migration_is_reversible_on_sqlite];
harness::tests![requires harness::postgresql::missing; every_migration_is_reversible_on_postgresql];

fn main() -> std::process::ExitCode {
    harness::main()
}
