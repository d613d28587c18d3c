//! Audit events. They refer to nothing, because they outlive the resources. A trigger refuses updates.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::*;
use sea_orm_migration::sea_orm::DatabaseBackend;

use crate::naming::{create, drop, index, one_of, table};

#[derive(DeriveMigrationName)]
pub struct Migration;

const SQLITE_UP: &str = "
CREATE TRIGGER tr_audit_events_update BEFORE UPDATE ON audit_events BEGIN
    SELECT RAISE(ABORT, 'audit events cannot be updated');
END;
";

const POSTGRESQL_UP: &str = "
CREATE FUNCTION refuse_update_of_audit_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit events cannot be updated';
END
$$;
CREATE TRIGGER tr_audit_events_update BEFORE UPDATE ON audit_events
FOR EACH ROW EXECUTE FUNCTION refuse_update_of_audit_events();
";

const POSTGRESQL_DOWN: &str = "DROP FUNCTION refuse_update_of_audit_events();";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let name = "audit_events";
        create(
            manager,
            table(name)
                .col(big_integer("author_id"))
                .col(text("entity_type"))
                .col(big_integer("entity_id"))
                .col(text("event_name"))
                .col(text("details"))
                .col(timestamp_with_time_zone("created_at"))
                .check(one_of(
                    name,
                    "entity_type",
                    &["User", "Group", "Project", "Instance"],
                )),
            [
                index(name, &["entity_type", "entity_id", "id"]),
                index(name, &["created_at"]),
            ],
        )
        .await?;
        run(manager, SQLITE_UP, POSTGRESQL_UP).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Dropping the table drops its trigger.
        drop(manager, &["audit_events"]).await?;
        run(manager, "", POSTGRESQL_DOWN).await
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
    if !sql.is_empty() {
        manager.get_connection().execute_unprepared(sql).await?;
    }
    Ok(())
}
