//! Folded copies of all texts that are searched or sorted: names of users, descriptions of projects, last path
//! components of groups. The databases fold different sets of letters, and `lower` of SQLite only ASCII, so the
//! server folds them. PostgreSQL sorts folded columns by code points, like SQLite.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{text, text_null};
use sea_orm_migration::sea_orm::{DatabaseBackend, Statement};

use crate::naming::index;

#[derive(DeriveMigrationName)]
pub struct Migration;

/// Tables with the text and its folded copy.
const TWINS: [(&str, &str, &str); 3] = [
    ("users", "name", "name_key"),
    ("namespaces", "path", "path_key"),
    ("projects", "description", "description_key"),
];

/// Columns by which lists are sorted.
const ORDERED: [(&str, &str); 6] = [
    ("users", "username_key"),
    ("users", "name_key"),
    ("namespaces", "name_key"),
    ("namespaces", "path_key"),
    ("projects", "name_key"),
    ("projects", "path_key"),
];

/// Old and new columns for sorting lists of projects.
const ORDERS: [(&str, &str); 2] = [("name", "name_key"), ("path", "path_key")];

/// Number of rows that are folded at once.
const BATCH: u64 = 1_000;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_texts(manager).await?;
        for (table, from, to) in TWINS {
            let column = match from {
                "description" => text_null(to),
                _ => text(to).default("").to_owned(),
            };
            let add = Table::alter().table(table).add_column(column).to_owned();
            manager.alter_table(add).await?;
            fill(manager, table, from, to).await?;
        }
        order_by_code_points(manager, "\"C\"").await?;
        create_texts(manager, "description_key", "description_key").await?;
        for (former, order) in ORDERS {
            manager.drop_index(dropped(former)).await?;
            manager.create_index(covering(order)).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (former, order) in ORDERS {
            manager.drop_index(dropped(order)).await?;
            manager.create_index(covering(former)).await?;
        }
        drop_texts(manager).await?;
        order_by_code_points(manager, "\"default\"").await?;
        for (table, _, to) in TWINS {
            let drop = Table::alter().table(table).drop_column(to).to_owned();
            manager.alter_table(drop).await?;
        }
        create_texts(manager, "description", "lower(description)").await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

/// Folds existing texts: ASCII in the database, others here.
async fn fill(manager: &SchemaManager<'_>, table: &str, from: &str, to: &str) -> Result<(), DbErr> {
    let db = manager.get_connection();
    let backend = manager.get_database_backend();
    let ascii = match backend {
        DatabaseBackend::Sqlite => format!("lower({from})"),
        // The locale of the database may define another lowercase for I.
        _ => format!("lower({from} COLLATE \"C\")"),
    };
    db.execute_unprepared(&format!(
        "UPDATE {table} SET {to} = {ascii} WHERE {from} IS NOT NULL"
    ))
    .await?;
    let mut last = 0_i64;
    loop {
        let select = format!(
            "SELECT id, {from} AS found FROM {table} WHERE id > {last} AND octet_length({from}) <> length({from}) \
             ORDER BY id LIMIT {BATCH}"
        );
        let rows = db.query_all_raw(Statement::from_string(backend, select)).await?;
        let Some(end) = rows.last() else { break };
        last = end.try_get("", "id")?;
        for row in rows {
            let (id, found): (i64, String) = (row.try_get("", "id")?, row.try_get("", "found")?);
            let update = Query::update()
                .table(table.to_owned())
                .value(to.to_owned(), found.to_lowercase())
                .and_where(Expr::col("id").eq(id))
                .to_owned();
            db.execute(&update).await?;
        }
    }
    Ok(())
}

/// Sets the collation of the folded columns in PostgreSQL; SQLite compares bytes, which is the order of code
/// points.
async fn order_by_code_points(manager: &SchemaManager<'_>, collation: &str) -> Result<(), DbErr> {
    if manager.get_database_backend() == DatabaseBackend::Sqlite {
        return Ok(());
    }
    for (table, column) in ORDERED {
        let alter = format!("ALTER TABLE {table} ALTER COLUMN {column} TYPE text COLLATE {collation}");
        manager.get_connection().execute_unprepared(&alter).await?;
    }
    Ok(())
}

/// Returns an index that covers a list of projects in one order, without projects that are being deleted.
fn covering(order: &'static str) -> IndexCreateStatement {
    index("projects", &[order, "id", "visibility", "namespace_id"])
        .and_where(Expr::col("deletion_started_at").is_null())
        .to_owned()
}

fn dropped(order: &str) -> IndexDropStatement {
    Index::drop()
        .name(format!("ix_projects_{order}_id_visibility_namespace_id"))
        .table("projects")
        .to_owned()
}

/// Drops the trigram index of projects.
async fn drop_texts(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let sql = match manager.get_database_backend() {
        DatabaseBackend::Sqlite => {
            "DROP TRIGGER tr_projects_texts_insert;
             DROP TRIGGER tr_projects_texts_delete;
             DROP TRIGGER tr_projects_texts_update;
             DROP TABLE project_texts;"
        }
        _ => "DROP INDEX IF EXISTS ix_projects_texts;",
    };
    manager.get_connection().execute_unprepared(sql).await?;
    Ok(())
}

/// Creates the trigram index on names, paths and this column or expression.
async fn create_texts(manager: &SchemaManager<'_>, column: &str, expression: &str) -> Result<(), DbErr> {
    let sql = match manager.get_database_backend() {
        DatabaseBackend::Sqlite => texts_of_sqlite(column),
        _ => texts_of_postgresql(expression),
    };
    manager.get_connection().execute_unprepared(&sql).await?;
    Ok(())
}

fn texts_of_sqlite(text: &str) -> String {
    let columns = format!("name_key, path_key, {text}");
    let of = |row: &str| format!("{row}.id, {row}.name_key, {row}.path_key, {row}.{text}");
    let (old, new) = (of("old"), of("new"));
    let forget =
        format!("INSERT INTO project_texts (project_texts, rowid, {columns}) VALUES ('delete', {old});");
    let note = format!("INSERT INTO project_texts (rowid, {columns}) VALUES ({new});");
    format!(
        "CREATE VIRTUAL TABLE project_texts USING fts5(
             {columns}, content='projects', content_rowid='id', tokenize='trigram'
         );
         INSERT INTO project_texts (project_texts) VALUES ('rebuild');
         CREATE TRIGGER tr_projects_texts_insert AFTER INSERT ON projects BEGIN {note} END;
         CREATE TRIGGER tr_projects_texts_delete AFTER DELETE ON projects BEGIN {forget} END;
         CREATE TRIGGER tr_projects_texts_update AFTER UPDATE OF {columns} ON projects BEGIN {forget} {note} END;"
    )
}

/// Only if the extension exists, as when the index was first created.
fn texts_of_postgresql(text: &str) -> String {
    format!(
        "DO $$
         DECLARE
             place text;
         BEGIN
             SELECT nspname INTO place FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
             WHERE extname = 'pg_trgm';
             IF place IS NOT NULL THEN
                 EXECUTE format(
                     'CREATE INDEX ix_projects_texts ON projects USING gin (name_key %1$I.gin_trgm_ops, '
                     'path_key %1$I.gin_trgm_ops, {text} %1$I.gin_trgm_ops) WHERE deletion_started_at IS NULL',
                     place
                 );
             END IF;
         END
         $$;"
    )
}
