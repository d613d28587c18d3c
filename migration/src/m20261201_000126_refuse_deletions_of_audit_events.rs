//! Triggers that refuse to delete or replace audit events before the end of their retention.
//!
//! The triggers compare the events with the setting `audit_event_retention_days`, so servers of the previous version can
//! still delete old events. They accept an event one hour earlier than the setting, because the clocks of the server and
//! of PostgreSQL can differ. On SQLite, another trigger refuses to replace an event, because `INSERT OR REPLACE` runs no
//! trigger of deletions.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DatabaseBackend;

#[derive(DeriveMigrationName)]
pub struct Migration;

// A text that is not a number is 0 in SQLite, and the comparison with NULL is not true.
const SQLITE_UP: &str = "
CREATE TRIGGER tr_audit_events_delete BEFORE DELETE ON audit_events
WHEN coalesce(
    julianday(old.created_at) < julianday('now') + 1.0 / 24
        - (SELECT nullif(max(CAST(value AS INTEGER), 0), 0) FROM settings WHERE key = 'audit_event_retention_days'),
    0
) = 0 BEGIN
    SELECT RAISE(ABORT, 'audit events cannot be deleted before the end of their retention');
END;
CREATE TRIGGER tr_audit_events_replace BEFORE INSERT ON audit_events
WHEN EXISTS (SELECT 1 FROM audit_events WHERE id = new.id) BEGIN
    SELECT RAISE(ABORT, 'audit events cannot be updated');
END;
";

const SQLITE_DOWN: &str = "
DROP TRIGGER tr_audit_events_replace;
DROP TRIGGER tr_audit_events_delete;
";

// The table of settings is qualified, because a session could have a temporary table with its name. The retention is
// converted to hours, because a day of an interval depends on the time zone of the session.
const POSTGRESQL_UP: &str = "
CREATE FUNCTION refuse_deletion_of_audit_events() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    days text;
BEGIN
    IF TG_OP = 'DELETE' THEN
        EXECUTE format('SELECT value FROM %I.settings WHERE key = $1', TG_TABLE_SCHEMA)
            INTO days USING 'audit_event_retention_days'::text;
        IF days ~ '^[1-9][0-9]{0,4}$' THEN
            IF OLD.created_at < clock_timestamp() - make_interval(hours => days::integer * 24 - 1) THEN
                RETURN OLD;
            END IF;
        END IF;
    END IF;
    RAISE EXCEPTION 'audit events cannot be deleted before the end of their retention';
END
$$;
CREATE TRIGGER tr_audit_events_delete BEFORE DELETE ON audit_events
FOR EACH ROW EXECUTE FUNCTION refuse_deletion_of_audit_events();
CREATE TRIGGER tr_audit_events_truncate BEFORE TRUNCATE ON audit_events
FOR EACH STATEMENT EXECUTE FUNCTION refuse_deletion_of_audit_events();
";

const POSTGRESQL_DOWN: &str = "
DROP TRIGGER tr_audit_events_truncate ON audit_events;
DROP TRIGGER tr_audit_events_delete ON audit_events;
DROP FUNCTION refuse_deletion_of_audit_events();
";

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
