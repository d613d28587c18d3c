//! Indexes for lists of issues: sort orders, in which rows without a value are last in both directions, and
//! trigram indexes of titles and descriptions.
//!
//! In SQLite the trigram index is a separate table, updated by triggers, which reads the texts from `issues`. A
//! migration that recreates `issues` must recreate the triggers. In PostgreSQL it is an index of the extension
//! `pg_trgm`, if that exists.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DatabaseBackend;

#[derive(DeriveMigrationName)]
pub struct Migration;

/// Sort orders: the suffix of the index name, and its columns.
const ORDERS: [(&str, &[&str]); 6] = [
    ("due_date", &["due_date"]),
    ("weight", &["weight"]),
    ("priority", &["milestone_due_on", "label_priority"]),
    ("label_priority", &["label_priority"]),
    ("popularity", &["upvotes"]),
    ("relative_position", &["relative_position"]),
];

const SQLITE_UP: &str = "
CREATE VIRTUAL TABLE issue_texts USING fts5(
    title, description, content='issues', content_rowid='id', tokenize='trigram'
);
INSERT INTO issue_texts (issue_texts) VALUES ('rebuild');
CREATE TRIGGER tr_issues_texts_insert AFTER INSERT ON issues BEGIN
    INSERT INTO issue_texts (rowid, title, description) VALUES (new.id, new.title, new.description);
END;
CREATE TRIGGER tr_issues_texts_delete AFTER DELETE ON issues BEGIN
    INSERT INTO issue_texts (issue_texts, rowid, title, description)
    VALUES ('delete', old.id, old.title, old.description);
END;
CREATE TRIGGER tr_issues_texts_update AFTER UPDATE OF title, description ON issues BEGIN
    INSERT INTO issue_texts (issue_texts, rowid, title, description)
    VALUES ('delete', old.id, old.title, old.description);
    INSERT INTO issue_texts (rowid, title, description) VALUES (new.id, new.title, new.description);
END;
";

const SQLITE_DOWN: &str = "
DROP TRIGGER tr_issues_texts_insert;
DROP TRIGGER tr_issues_texts_delete;
DROP TRIGGER tr_issues_texts_update;
DROP TABLE issue_texts;
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
        EXECUTE format('CREATE INDEX ix_issues_title ON issues USING gin (lower(title) %I.gin_trgm_ops)', place);
        EXECUTE format(
            'CREATE INDEX ix_issues_description ON issues USING gin (lower(description) %I.gin_trgm_ops)', place
        );
    END IF;
END
$$;
";

const POSTGRESQL_DOWN: &str =
    "DROP INDEX IF EXISTS ix_issues_title; DROP INDEX IF EXISTS ix_issues_description;";

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
                format!("CREATE INDEX ix_issues_{name}_up ON issues ({up}, id DESC)"),
                format!("CREATE INDEX ix_issues_{name}_down ON issues ({down} DESC{last}, id DESC)"),
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
                    .execute_unprepared(&format!("DROP INDEX ix_issues_{name}_{direction}"))
                    .await?;
            }
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
