//! Indexes for lists of merge requests: sort orders, in which rows without a value are last in both directions,
//! and trigram indexes of titles and descriptions, as for issues.
//!
//! In SQLite the trigram index is a separate table, updated by triggers, which reads the texts from
//! `merge_requests`. A migration that recreates `merge_requests` must recreate the triggers. In PostgreSQL it
//! is an index of the extension `pg_trgm`, if that exists.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DatabaseBackend;

#[derive(DeriveMigrationName)]
pub struct Migration;

/// Sort orders: the suffix of the index name, and its columns.
const ORDERS: [(&str, &[&str]); 3] = [
    ("priority", &["milestone_due_on", "label_priority"]),
    ("label_priority", &["label_priority"]),
    ("popularity", &["upvotes"]),
];

const SQLITE_UP: &str = "
CREATE VIRTUAL TABLE merge_request_texts USING fts5(
    title, description, content='merge_requests', content_rowid='id', tokenize='trigram'
);
INSERT INTO merge_request_texts (merge_request_texts) VALUES ('rebuild');
CREATE TRIGGER tr_merge_requests_texts_insert AFTER INSERT ON merge_requests BEGIN
    INSERT INTO merge_request_texts (rowid, title, description) VALUES (new.id, new.title, new.description);
END;
CREATE TRIGGER tr_merge_requests_texts_delete AFTER DELETE ON merge_requests BEGIN
    INSERT INTO merge_request_texts (merge_request_texts, rowid, title, description)
    VALUES ('delete', old.id, old.title, old.description);
END;
CREATE TRIGGER tr_merge_requests_texts_update AFTER UPDATE OF title, description ON merge_requests BEGIN
    INSERT INTO merge_request_texts (merge_request_texts, rowid, title, description)
    VALUES ('delete', old.id, old.title, old.description);
    INSERT INTO merge_request_texts (rowid, title, description) VALUES (new.id, new.title, new.description);
END;
";

const SQLITE_DOWN: &str = "
DROP TRIGGER tr_merge_requests_texts_insert;
DROP TRIGGER tr_merge_requests_texts_delete;
DROP TRIGGER tr_merge_requests_texts_update;
DROP TABLE merge_request_texts;
";

/// The extension exists if the texts of projects could be indexed.
const POSTGRESQL_UP: &str = "
DO $$
DECLARE
    place text;
BEGIN
    SELECT nspname INTO place FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
    WHERE extname = 'pg_trgm';
    IF place IS NOT NULL THEN
        EXECUTE format(
            'CREATE INDEX ix_merge_requests_title ON merge_requests USING gin (lower(title) %I.gin_trgm_ops)', place
        );
        EXECUTE format(
            'CREATE INDEX ix_merge_requests_description ON merge_requests '
            'USING gin (lower(description) %I.gin_trgm_ops)', place
        );
    END IF;
END
$$;
";

const POSTGRESQL_DOWN: &str =
    "DROP INDEX IF EXISTS ix_merge_requests_title; DROP INDEX IF EXISTS ix_merge_requests_description;";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let connection = manager.get_connection();
        let (texts, last) = match manager.get_database_backend() {
            // SQLite sorts NULL first, so it is last in descending order, and has no syntax for it in
            // indexes.
            DatabaseBackend::Sqlite => (SQLITE_UP, ""),
            _ => (POSTGRESQL_UP, " NULLS LAST"),
        };
        connection.execute_unprepared(texts).await?;
        for (name, columns) in ORDERS {
            let up = columns.join(", ");
            let down = columns.join(&format!(" DESC{last}, "));
            for sql in [
                format!("CREATE INDEX ix_merge_requests_{name}_up ON merge_requests ({up}, id DESC)"),
                format!(
                    "CREATE INDEX ix_merge_requests_{name}_down ON merge_requests ({down} DESC{last}, id DESC)"
                ),
            ] {
                connection.execute_unprepared(&sql).await?;
            }
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let connection = manager.get_connection();
        let texts = match manager.get_database_backend() {
            DatabaseBackend::Sqlite => SQLITE_DOWN,
            _ => POSTGRESQL_DOWN,
        };
        connection.execute_unprepared(texts).await?;
        for (name, _) in ORDERS {
            for direction in ["up", "down"] {
                connection
                    .execute_unprepared(&format!("DROP INDEX ix_merge_requests_{name}_{direction}"))
                    .await?;
            }
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
