//! Trigram indexes to search projects by name, path or description.
//!
//! In SQLite the index is a separate table, updated by triggers; it reads the texts from `projects`. A
//! migration that recreates `projects` must recreate the triggers. In PostgreSQL it is an index of the
//! extension `pg_trgm`, if that exists or can be created; otherwise searches read all projects.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DatabaseBackend;

#[derive(DeriveMigrationName)]
pub struct Migration;

const SQLITE_UP: &str = "
CREATE VIRTUAL TABLE project_texts USING fts5(
    name_key, path_key, description, content='projects', content_rowid='id', tokenize='trigram'
);
INSERT INTO project_texts (project_texts) VALUES ('rebuild');
CREATE TRIGGER tr_projects_texts_insert AFTER INSERT ON projects BEGIN
    INSERT INTO project_texts (rowid, name_key, path_key, description)
    VALUES (new.id, new.name_key, new.path_key, new.description);
END;
CREATE TRIGGER tr_projects_texts_delete AFTER DELETE ON projects BEGIN
    INSERT INTO project_texts (project_texts, rowid, name_key, path_key, description)
    VALUES ('delete', old.id, old.name_key, old.path_key, old.description);
END;
CREATE TRIGGER tr_projects_texts_update AFTER UPDATE OF name_key, path_key, description ON projects BEGIN
    INSERT INTO project_texts (project_texts, rowid, name_key, path_key, description)
    VALUES ('delete', old.id, old.name_key, old.path_key, old.description);
    INSERT INTO project_texts (rowid, name_key, path_key, description)
    VALUES (new.id, new.name_key, new.path_key, new.description);
END;
";

const SQLITE_DOWN: &str = "
DROP TRIGGER tr_projects_texts_insert;
DROP TRIGGER tr_projects_texts_delete;
DROP TRIGGER tr_projects_texts_update;
DROP TABLE project_texts;
";

/// The extension is created in a schema that outlives this one. Two concurrent migrations would both create
/// it, so they take a lock.
const POSTGRESQL_UP: &str = "
DO $$
DECLARE
    place text;
BEGIN
    PERFORM pg_advisory_xact_lock(5072404372031824755);
    BEGIN
        IF EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_trgm') THEN
            IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'public') THEN
                CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA public;
            ELSE
                CREATE EXTENSION IF NOT EXISTS pg_trgm;
            END IF;
        END IF;
    EXCEPTION WHEN insufficient_privilege THEN
        NULL;
    END;
    SELECT nspname INTO place FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
    WHERE extname = 'pg_trgm';
    IF place IS NOT NULL THEN
        EXECUTE format(
            'CREATE INDEX ix_projects_texts ON projects USING gin (name_key %1$I.gin_trgm_ops, '
            'path_key %1$I.gin_trgm_ops, lower(description) %1$I.gin_trgm_ops) WHERE deletion_started_at IS NULL',
            place
        );
    END IF;
END
$$;
";

/// The extension stays, because it may have existed before or serve other schemas.
const POSTGRESQL_DOWN: &str = "DROP INDEX IF EXISTS ix_projects_texts;";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, SQLITE_UP, POSTGRESQL_UP).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, SQLITE_DOWN, POSTGRESQL_DOWN).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

async fn run(manager: &SchemaManager<'_>, sqlite: &str, postgresql: &str) -> Result<(), DbErr> {
    let sql = match manager.get_database_backend() {
        DatabaseBackend::Sqlite => sqlite,
        _ => postgresql,
    };
    manager.get_connection().execute_unprepared(sql).await?;
    Ok(())
}
