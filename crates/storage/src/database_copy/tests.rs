//! Copies between migrated databases of both kinds.

use std::collections::BTreeSet;

use chrono::{DateTime, NaiveDate};
use futures_util::{StreamExt, stream};
use sea_orm::{ConnectionTrait, DatabaseBackend, Statement};

use super::schema::{ColumnKind, IntegerWidth, Table};
use super::value::{Row, TableDigest, Value};
use super::{CopyConnection, Error, Mark, Side, common_tables, mark, postgresql, sqlite};
use crate::database::testing::{DatabaseKind, on_migrated, on_postgresql};
use crate::database::{Database, DatabaseOptions};

/// Rows of each table in the tests of values.
const ROWS: i64 = 3;

/// Runs a test with a database of each kind and a second SQLite database.
async fn on_three(kind: DatabaseKind, test: impl AsyncFn(Database, Database, Database)) {
    on_migrated(kind, async |postgresql| {
        on_migrated(DatabaseKind::Sqlite, async |sqlite| {
            on_migrated(DatabaseKind::Sqlite, async |other| {
                for database in [&postgresql, &sqlite, &other] {
                    mark::begin(database, "an-instance").await.unwrap();
                }
                test(postgresql.clone(), sqlite.clone(), other).await;
            })
            .await;
        })
        .await;
    })
    .await;
}

async fn strings(database: &Database, sql: &str) -> Vec<String> {
    let statement = Statement::from_string(database.backend(), sql);
    let rows = database.read().query_all_raw(statement).await.unwrap();
    rows.iter().map(|row| row.try_get_by_index(0).unwrap()).collect()
}

async fn execute(database: &Database, sql: &str) {
    database.write().execute_unprepared(sql).await.unwrap();
}

/// Returns whether a column contains texts of any length.
fn is_unindexed(column: &str) -> bool {
    matches!(column, "details" | "payload" | "note" | "body")
}

/// Returns the value of a column in one of the rows. Together, the rows have the limits of each type.
fn sample(table: &Table, column: &str, kind: ColumnKind, row: i64, is_nullable: bool) -> Value {
    if table.primary_key.iter().any(|key| key == column) && matches!(kind, ColumnKind::Integer(_)) {
        return Value::Integer(row * 1000);
    }
    if is_nullable && row == ROWS {
        return Value::Null;
    }
    match kind {
        ColumnKind::Boolean => Value::Boolean(row % 2 == 1),
        ColumnKind::Integer(width) => {
            let (least, greatest) = match width {
                IntegerWidth::Two => (i16::MIN.into(), i16::MAX.into()),
                IntegerWidth::Four => (i32::MIN.into(), i32::MAX.into()),
                IntegerWidth::Eight => (i64::MIN, i64::MAX),
            };
            Value::Integer(
                *[least, greatest, 0]
                    .get(usize::try_from(row - 1).unwrap())
                    .unwrap(),
            )
        }
        ColumnKind::Real => Value::Real(
            *[1.5e-300, f64::MAX, 0.1]
                .get(usize::try_from(row - 1).unwrap())
                .unwrap(),
        ),
        ColumnKind::Text => Value::Text(match row {
            1 => String::new(),
            2 => "'\"\\ \\N \t\r\n\u{1}\u{7f} é 日本 🙂 \u{200d} \u{10ffff}".to_owned(),
            // PostgreSQL does not index longer texts.
            _ if is_unindexed(column) => "long ".repeat(200_000),
            _ => "long ".repeat(100),
        }),
        ColumnKind::Bytes => Value::Bytes(match row {
            1 => Vec::new(),
            2 => (0..=255).collect(),
            _ => vec![0xff; 100_000],
        }),
        ColumnKind::Time => {
            let text = match row {
                1 => "1969-12-31T23:59:59.999999Z",
                2 => "2026-11-24T10:00:00Z",
                _ => "9999-12-31T23:59:59.120000Z",
            };
            Value::Time(DateTime::parse_from_rfc3339(text).unwrap().to_utc())
        }
        ColumnKind::Date => {
            let (year, month, day) =
                [(1, 1, 1), (2024, 2, 29), (9999, 12, 31)][usize::try_from(row - 1).unwrap()];
            Value::Date(NaiveDate::from_ymd_opt(year, month, day).unwrap())
        }
    }
}

/// Fills each column of each table, without regard to foreign keys and checks.
async fn fill(connection: &mut CopyConnection, tables: &[Table]) -> Vec<TableDigest> {
    without_constraints(connection).await;
    let Side::Sqlite(sqlite) = &mut connection.0 else {
        panic!("not SQLite");
    };
    let mut digests = Vec::new();
    for table in tables {
        let nullable: BTreeSet<String> =
            sea_orm::sqlx::query_scalar("SELECT name FROM pragma_table_info(?) WHERE \"notnull\" = 0")
                .bind(&table.name)
                .fetch_all(&mut **sqlite)
                .await
                .unwrap()
                .into_iter()
                .collect();
        let row = |number: i64| -> super::Result<Row> {
            let values = table.columns.iter().map(|column| {
                sample(
                    table,
                    &column.name,
                    column.kind,
                    number,
                    nullable.contains(&column.name),
                )
            });
            Ok(values.collect())
        };
        let rows: Vec<_> = (1..=ROWS).map(row).collect();
        let inserted = sqlite::insert(sqlite, table, stream::iter(rows).boxed(), &mut |_| {}).await;
        digests.push(inserted.unwrap_or_else(|error| panic!("{error}")));
    }
    digests
}

async fn without_constraints(connection: &mut CopyConnection) {
    for pragma in [
        "PRAGMA foreign_keys = OFF",
        "PRAGMA ignore_check_constraints = ON",
    ] {
        connection.run(pragma).await.unwrap();
    }
}

async fn drop_constraints(database: &Database) {
    let constraints = strings(
        database,
        "SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) FROM pg_constraint \
         WHERE contype IN ('c', 'f') AND connamespace = current_schema()::regnamespace",
    )
    .await;
    execute(database, &constraints.join(";")).await;
}

/// Returns all values of a table as SQLite stores them.
async fn stored(database: &Database, table: &Table) -> Vec<String> {
    let columns = table.columns.iter().map(|column| {
        let name = super::schema::quote(&column.name);
        format!("typeof({name}) || ' ' || quote({name})")
    });
    let columns = columns.collect::<Vec<_>>().join(" || ', ' || ");
    let mut rows = strings(
        database,
        &format!("SELECT {columns} FROM {}", super::schema::quote(&table.name)),
    )
    .await;
    rows.sort_unstable();
    rows
}

async fn every_column_is_copied_both_ways_without_change(kind: DatabaseKind) {
    on_three(kind, async |postgresql, sqlite, other| {
        let mut original = CopyConnection::to_copy(&sqlite).await.unwrap();
        let mut copy = CopyConnection::to_copy(&postgresql).await.unwrap();
        let tables = common_tables(&mut original, &mut copy).await.unwrap();
        assert!(tables.len() > 90, "{}", tables.len());
        drop(copy);
        let filled = fill(&mut original, &tables).await;
        drop_constraints(&postgresql).await;
        let mut copy = CopyConnection::to_copy(&postgresql).await.unwrap();
        let mut returned = CopyConnection::to_copy(&other).await.unwrap();
        without_constraints(&mut returned).await;
        for (table, expected) in tables.iter().zip(&filled) {
            let there = original.copy_table(&mut copy, table, &mut |_| {}).await;
            assert_eq!(
                there.unwrap_or_else(|error| panic!("{error}")),
                *expected,
                "{}",
                table.name
            );
            let back = copy.copy_table(&mut returned, table, &mut |_| {}).await;
            assert_eq!(
                back.unwrap_or_else(|error| panic!("{error}")),
                *expected,
                "{}",
                table.name
            );
            assert_eq!(
                copy.digest(table, &mut |_| {}).await.unwrap(),
                *expected,
                "{}",
                table.name
            );
            assert_eq!(expected.rows, u64::try_from(ROWS).unwrap());
        }
        assert_eq!(copy.copied_tables().await.unwrap().len(), tables.len());
        drop((original, copy, returned));
        for table in &tables {
            assert_eq!(
                stored(&sqlite, table).await,
                stored(&other, table).await,
                "{}",
                table.name
            );
        }
    })
    .await;
}

async fn tables_are_those_of_the_schema_in_reference_order(kind: DatabaseKind) {
    on_three(kind, async |postgresql, sqlite, _| {
        let mut one = CopyConnection::to_copy(&sqlite).await.unwrap();
        let mut other = CopyConnection::to_copy(&postgresql).await.unwrap();
        let tables = common_tables(&mut other, &mut one).await.unwrap();
        assert_eq!(common_tables(&mut one, &mut other).await.unwrap(), tables);
        drop((one, other));
        let own = ["database_copy", "database_copy_tables", "seaql_migrations", "sqlite_sequence"];
        let names: BTreeSet<&str> = tables.iter().map(|table| table.name.as_str()).chain(own).collect();
        // Full-text indexes store their data in tables whose names start with the name of the index.
        let indexes = strings(&sqlite, "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'").await;
        assert_eq!(indexes, ["project_texts", "issue_texts", "merge_request_texts"].map(str::to_owned));
        let all = strings(&sqlite, "SELECT name FROM sqlite_master WHERE type = 'table'").await;
        let expected: BTreeSet<&str> = all
            .iter()
            .map(String::as_str)
            .filter(|name| !indexes.iter().any(|index| name.starts_with(index.as_str())))
            .collect();
        assert_eq!(names, expected);
        // An index without a table that it reads could not be derived.
        let without = "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%' AND sql NOT LIKE '%content=''%'";
        assert_eq!(strings(&sqlite, without).await, Vec::<String>::new());
        for (position, table) in tables.iter().enumerate() {
            let before: BTreeSet<&str> = tables.iter().take(position).map(|table| table.name.as_str()).collect();
            assert!(table.references.iter().all(|name| before.contains(name.as_str())), "{}", table.name);
            assert!(!table.primary_key.is_empty(), "{}", table.name);
        }
    })
    .await;
}

async fn unknown_tables_and_columns_are_errors(kind: DatabaseKind) {
    on_three(kind, async |postgresql, sqlite, _| {
        let error = async || {
            let mut one = CopyConnection::to_copy(&sqlite).await.unwrap();
            let mut other = CopyConnection::to_copy(&postgresql).await.unwrap();
            common_tables(&mut one, &mut other).await.unwrap_err().to_string()
        };
        execute(&sqlite, "CREATE TABLE extra (id integer PRIMARY KEY)").await;
        assert!(
            error()
                .await
                .contains("the PostgreSQL database has no table extra")
        );
        execute(&sqlite, "DROP TABLE extra").await;
        execute(&postgresql, "CREATE TABLE extra (id bigint PRIMARY KEY)").await;
        assert!(error().await.contains("the SQLite database has no table extra"));
        execute(&postgresql, "ALTER TABLE extra ADD place point").await;
        assert!(
            error()
                .await
                .contains("the column extra.place has the type point")
        );
        execute(&postgresql, "DROP TABLE extra").await;
        execute(&postgresql, "ALTER TABLE settings ADD note text").await;
        assert!(error().await.contains("the column settings.note is not the same"));
        execute(&postgresql, "ALTER TABLE settings DROP note").await;
        execute(
            &postgresql,
            "ALTER TABLE users ALTER admin DROP DEFAULT, ALTER admin TYPE text",
        )
        .await;
        assert!(error().await.contains("the column users.admin is not the same"));
    })
    .await;
}

/// Returns the error of a copy of the settings.
async fn error_of(from: &Database, to: &Database, name: &str) -> Error {
    let mut original = CopyConnection::to_copy(from).await.unwrap();
    let mut copy = CopyConnection::to_copy(to).await.unwrap();
    let tables = common_tables(&mut original, &mut copy).await.unwrap();
    let table = tables.iter().find(|table| table.name == name).unwrap();
    let error = original
        .copy_table(&mut copy, table, &mut |_| {})
        .await
        .unwrap_err();
    assert_eq!(copy.count(table).await.unwrap_or_default(), 0);
    error
}

async fn values_that_cannot_be_stored_are_named_without_their_text(kind: DatabaseKind) {
    on_three(kind, async |postgresql, sqlite, _| {
        // The cases delete their row.
        execute(&sqlite, "DROP TRIGGER tr_audit_events_delete").await;
        let insert = "INSERT INTO audit_events (id, author_id, entity_type, entity_id, event_name, details, created_at) VALUES";
        for (values, column, reason) in [
            ("7, 1, 'User', 1, 'secret' || char(0), '{}', '2026-01-01T00:00:00+00:00'", "event_name", "the code 0"),
            ("7, 1, 'User', 1, 'secret', x'73656372657400', '2026-01-01T00:00:00+00:00'", "details", "BLOB instead of TEXT"),
            ("7, 1, 'User', 1, 'secret', '{}', 'secret'", "created_at", "cannot be read"),
            ("7, 1, 'User', 'secret', 'secret', '{}', '2026-01-01T00:00:00+00:00'", "entity_id", "TEXT instead of INTEGER"),
            ("7, 1, 'User', 1, CAST(x'73656372657aff' AS TEXT), '{}', '2026-01-01T00:00:00+00:00'", "event_name", "cannot be read"),
        ] {
            execute(&sqlite, &format!("{insert} ({values})")).await;
            let error = error_of(&sqlite, &postgresql, "audit_events").await.to_string();
            let place = format!("table audit_events, row 7, column {column}: ");
            assert!(error.starts_with(&place) && error.contains(reason), "{error}");
            assert!(!error.contains("secret"), "{error}");
            execute(&sqlite, "DELETE FROM audit_events").await;
        }
        let insert = "INSERT INTO jobs (id, kind, payload, run_at, attempts, max_attempts, created_at) VALUES \
                      (7, 'k', '{}', '2026-01-01T00:00:00+00:00', 0, 5000000000, '2026-01-01T00:00:00+00:00')";
        execute(&sqlite, insert).await;
        let error = error_of(&sqlite, &postgresql, "jobs").await.to_string();
        assert!(error.contains("column max_attempts: the number is too large"), "{error}");
    })
    .await;
}

async fn triggers_neither_change_nor_reject_copied_rows(kind: DatabaseKind) {
    on_three(kind, async |postgresql, sqlite, other| {
        let raise = "CREATE TRIGGER tr_settings BEFORE INSERT ON settings BEGIN SELECT RAISE(ABORT, 'no'); END";
        execute(&sqlite, "INSERT INTO settings (key, value, updated_at) VALUES ('a', '1', '2026-01-01T00:00:00+00:00')").await;
        execute(&sqlite, raise).await;
        execute(&other, raise).await;
        execute(
            &postgresql,
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END'; \
             CREATE TRIGGER tr_settings BEFORE INSERT ON settings FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await;
        let mut connections = Vec::new();
        for database in [&sqlite, &postgresql, &other] {
            connections.push(CopyConnection::to_copy(database).await.unwrap());
        }
        let [original, copy, returned] = &mut connections[..] else {
            panic!("three databases");
        };
        let tables = common_tables(original, copy).await.unwrap();
        let table = tables.iter().find(|table| table.name == "settings").unwrap();
        returned.clear(&tables).await.unwrap();
        let digest = original.copy_table(copy, table, &mut |_| {}).await.unwrap();
        assert_eq!(copy.copy_table(returned, table, &mut |_| {}).await.unwrap(), digest);
        assert_eq!(digest.rows, 1);
        drop(connections);
        for database in [&postgresql, &other] {
            let insert = "INSERT INTO settings (key, value, updated_at) VALUES ('b', '1', '2026-01-01T00:00:00+00:00')";
            let error = database.write().execute_unprepared(insert).await.unwrap_err().to_string();
            assert!(error.contains("no"), "{error}");
        }
    })
    .await;
}

async fn last_ids_survive_deleted_rows(kind: DatabaseKind) {
    on_three(kind, async |postgresql, sqlite, _| {
        let mut one = CopyConnection::to_copy(&sqlite).await.unwrap();
        let mut other = CopyConnection::to_copy(&postgresql).await.unwrap();
        let tables = common_tables(&mut one, &mut other).await.unwrap();
        for table in &tables {
            let has_ids = table.columns.iter().any(|column| column.name == "id");
            for last in [42, 0, 7] {
                one.set_last_id(table, last).await.unwrap();
                other.set_last_id(table, last).await.unwrap();
                let expected = if has_ids { last } else { 0 };
                assert_eq!(other.last_id(table).await.unwrap(), expected, "{}", table.name);
                assert!(!has_ids || one.last_id(table).await.unwrap() == last, "{}", table.name);
            }
        }
        drop((one, other));
        let insert = "INSERT INTO audit_events (author_id, entity_type, entity_id, event_name, details, created_at) \
                      VALUES (1, 'User', 1, 'e', '{}', '2026-01-01T00:00:00+00:00') RETURNING CAST(id AS text)";
        for database in [&sqlite, &postgresql] {
            let statement = Statement::from_string(database.backend(), insert);
            let row = database.write().query_one_raw(statement).await.unwrap().unwrap();
            assert_eq!(row.try_get_by_index::<String>(0).unwrap(), "8");
        }
    })
    .await;
}

async fn clear_deletes_rows_and_keeps_triggers(kind: DatabaseKind) {
    on_three(kind, async |postgresql, sqlite, _| {
        let insert = "INSERT INTO audit_events (author_id, entity_type, entity_id, event_name, details, created_at) \
                      VALUES (1, 'User', 1, 'e', '{}', '2026-01-01T00:00:00+00:00')";
        let mut one = CopyConnection::to_copy(&sqlite).await.unwrap();
        let mut other = CopyConnection::to_copy(&postgresql).await.unwrap();
        let tables = common_tables(&mut one, &mut other).await.unwrap();
        for connection in [&mut one, &mut other] {
            connection.run(insert).await.unwrap();
            connection.run(&mark::RECORD.replace("$1, $2, $3", "'users', 1, 'x'")).await.unwrap();
            connection.clear(&tables).await.unwrap();
            for table in &tables {
                assert_eq!(connection.count(table).await.unwrap(), 0, "{}", table.name);
                assert_eq!(connection.last_id(table).await.unwrap(), 0, "{}", table.name);
            }
            assert!(connection.copied_tables().await.unwrap().is_empty());
            connection.run(insert).await.unwrap();
            let error = connection.run("UPDATE audit_events SET event_name = 'f'").await.unwrap_err().to_string();
            assert!(error.contains("audit events cannot be updated"), "{error}");
            let error = connection.run("DELETE FROM audit_events").await.unwrap_err().to_string();
            assert!(error.contains("audit events cannot be deleted"), "{error}");
        }
    })
    .await;
}

async fn interrupted_table_leaves_no_rows(kind: DatabaseKind) {
    on_three(kind, async |postgresql, sqlite, other| {
        let mut original = CopyConnection::to_copy(&sqlite).await.unwrap();
        let mut copy = CopyConnection::to_copy(&postgresql).await.unwrap();
        let mut returned = CopyConnection::to_copy(&other).await.unwrap();
        let tables = common_tables(&mut original, &mut copy).await.unwrap();
        let table = tables.iter().find(|table| table.name == "settings").unwrap();
        let row = |number: usize| -> super::Result<Row> {
            if number == 2_000 {
                return Err(Error::Schema("interrupted".to_owned()));
            }
            let time = DateTime::parse_from_rfc3339("2026-01-01T00:00:00Z")
                .unwrap()
                .to_utc();
            Ok(vec![
                Value::Text(number.to_string()),
                Value::Text("1".to_owned()),
                Value::Time(time),
            ])
        };
        assert_eq!(table.columns.len(), 3);
        let rows = || stream::iter(0..3_000).map(row).boxed();
        let (Side::Postgresql(there), Side::Sqlite(here)) = (&mut copy.0, &mut returned.0) else {
            panic!("other kinds");
        };
        let failed = [
            postgresql::insert(there, table, rows(), &mut |_| {}).await,
            sqlite::insert(here, table, rows(), &mut |_| {}).await,
        ];
        for failed in failed {
            assert_eq!(failed.unwrap_err().to_string(), "interrupted");
        }
        for connection in [&mut copy, &mut returned] {
            assert_eq!(connection.count(table).await.unwrap(), 0);
            assert!(connection.copied_tables().await.unwrap().is_empty());
        }
    })
    .await;
}

async fn marks_are_found_in_both_databases(kind: DatabaseKind) {
    on_three(kind, async |postgresql, sqlite, _| {
        for database in [&postgresql, &sqlite] {
            let unfinished = Mark::Unfinished {
                instance_id: "an-instance".to_owned(),
            };
            assert_eq!(mark::get(database).await.unwrap(), Some(unfinished));
            mark::complete(database).await.unwrap();
            assert_eq!(mark::get(database).await.unwrap(), None);
            mark::set_moved(database, "SQLite").await.unwrap();
            let found = mark::get(database).await.unwrap();
            assert!(
                matches!(&found, Some(Mark::Moved { to, .. }) if to == "SQLite"),
                "{found:?}"
            );
        }
    })
    .await;
}

async fn original_is_opened_read_only(kind: DatabaseKind) {
    on_three(kind, async |postgresql, sqlite, _| {
        let url = match postgresql.backend() {
            DatabaseBackend::Postgres => strings(&postgresql, "SELECT current_database()::text")
                .await
                .remove(0),
            _ => panic!("not PostgreSQL"),
        };
        let (server, _) = harness::postgresql::url().rsplit_once('/').unwrap();
        let file = strings(
            &sqlite,
            "SELECT file FROM pragma_database_list WHERE name = 'main'",
        )
        .await
        .remove(0);
        for url in [format!("{server}/{url}"), format!("sqlite://{file}")] {
            let options = DatabaseOptions {
                must_exist: true,
                read_only: true,
                ..DatabaseOptions::default()
            };
            let database = Database::connect(&url, &options).await.unwrap();
            let error = database
                .write()
                .execute_unprepared("DELETE FROM users")
                .await
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("read-only") || error.contains("readonly"),
                "{error}"
            );
            database.check_schema().await.unwrap();
            let mut connection = CopyConnection::to_original(&database).await.unwrap();
            connection.run("DELETE FROM users").await.unwrap_err();
            drop(connection);
            database.close().await.unwrap();
        }
    })
    .await;
}

on_postgresql![on 1 threads;
    every_column_is_copied_both_ways_without_change,
    tables_are_those_of_the_schema_in_reference_order,
    unknown_tables_and_columns_are_errors,
    values_that_cannot_be_stored_are_named_without_their_text,
    triggers_neither_change_nor_reject_copied_rows,
    last_ids_survive_deleted_rows,
    clear_deletes_rows_and_keeps_triggers,
    interrupted_table_leaves_no_rows,
    marks_are_found_in_both_databases,
    original_is_opened_read_only,
];
