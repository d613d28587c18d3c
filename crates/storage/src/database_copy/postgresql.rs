//! Rows and schema of PostgreSQL.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use sea_orm::sqlx::postgres::PgRow;
use sea_orm::sqlx::{
    self, AssertSqlSafe, Connection, Decode, PgConnection, Postgres, Row as _, Type, ValueRef,
};

use super::schema::{Column, ColumnKind, IntegerWidth, OWN_TABLES, Table, quote};
use super::value::{Row, TableDigest, Value};
use super::{Error, Observer, Result, mark};

/// Size of the data that one message transmits, in bytes.
const MESSAGE: usize = 256 << 10;
/// Rows between two calls of the observer.
const ROWS_PER_CALL: u64 = 5_000;
/// Start of data in the binary format of `COPY`: a signature, and two empty fields of four bytes.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// The date where the dates of PostgreSQL start.
const EPOCH_DATE: NaiveDate = match NaiveDate::from_ymd_opt(2000, 1, 1) {
    Some(date) => date,
    None => NaiveDate::MIN,
};
/// Microseconds from 1970 to 2000, where the times of PostgreSQL start.
const EPOCH_MICROSECONDS: i64 = 946_684_800_000_000;

/// Reason why a time or a date cannot be copied.
const OUT_OF_RANGE: &str = "the time is out of range";

/// Reads the tables of the current schema.
pub(super) async fn tables(connection: &mut PgConnection) -> Result<Vec<Table>> {
    let rows = sqlx::query(
        "SELECT t.relname::text, \
           array(SELECT attname::text FROM pg_attribute WHERE attrelid = t.oid AND attnum > 0 \
                 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum), \
           array(SELECT typname::text FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid \
                 WHERE attrelid = t.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum), \
           array(SELECT a.attname::text FROM pg_index i CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k (number, position) \
                 JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.number \
                 WHERE i.indrelid = t.oid AND i.indisprimary ORDER BY k.position), \
           array(SELECT DISTINCT r.relname::text FROM pg_constraint c JOIN pg_class r ON r.oid = c.confrelid \
                 WHERE c.conrelid = t.oid AND c.contype = 'f' AND c.confrelid <> t.oid), \
           (SELECT pg_get_serial_sequence(t.oid::regclass::text, attname) FROM pg_attribute \
            WHERE attrelid = t.oid AND attnum > 0 AND NOT attisdropped \
            AND pg_get_serial_sequence(t.oid::regclass::text, attname) IS NOT NULL LIMIT 1) \
         FROM pg_class t WHERE t.relkind IN ('r', 'p') AND t.relnamespace = current_schema()::regnamespace \
         ORDER BY t.relname",
    )
    .fetch_all(connection)
    .await?;
    let mut tables = Vec::new();
    for row in rows {
        let name: String = row.try_get(0)?;
        if OWN_TABLES.contains(&name.as_str()) {
            continue;
        }
        let (names, types): (Vec<String>, Vec<String>) = (row.try_get(1)?, row.try_get(2)?);
        let columns = names.into_iter().zip(types).map(|(column, declared)| {
            let kind = kind(&declared).ok_or_else(|| Error::unknown_type(&name, &column, &declared))?;
            Ok(Column { name: column, kind })
        });
        tables.push(Table {
            columns: columns.collect::<Result<_>>()?,
            primary_key: row.try_get(3)?,
            references: row.try_get(4)?,
            sequence: row.try_get(5)?,
            name,
        });
    }
    Ok(tables)
}

/// Returns the kind of a type: those that migrations use.
fn kind(name: &str) -> Option<ColumnKind> {
    Some(match name {
        "bool" => ColumnKind::Boolean,
        "int2" => ColumnKind::Integer(IntegerWidth::Two),
        "int4" => ColumnKind::Integer(IntegerWidth::Four),
        "int8" => ColumnKind::Integer(IntegerWidth::Eight),
        "float8" => ColumnKind::Real,
        "text" | "varchar" => ColumnKind::Text,
        "bytea" => ColumnKind::Bytes,
        "timestamptz" => ColumnKind::Time,
        "date" => ColumnKind::Date,
        _ => return None,
    })
}

/// Reads all rows of a table.
pub(super) fn rows<'c>(connection: &'c mut PgConnection, table: &'c Table) -> BoxStream<'c, Result<Row>> {
    let rows = sqlx::query(AssertSqlSafe(table.select())).fetch(connection);
    super::read_rows(rows, table, value)
}

fn value(row: &PgRow, index: usize, kind: ColumnKind) -> Result<Value, String> {
    fn get<'r, T: Decode<'r, Postgres> + Type<Postgres>>(
        row: &'r PgRow,
        index: usize,
        form: impl FnOnce(T) -> Value,
    ) -> Result<Value, String> {
        let decoded = row.try_get::<Option<T>, _>(index);
        Ok(decoded
            .map_err(|error| error.to_string())?
            .map_or(Value::Null, form))
    }
    match kind {
        ColumnKind::Boolean => get(row, index, Value::Boolean),
        ColumnKind::Integer(IntegerWidth::Two) => {
            get(row, index, |number: i16| Value::Integer(number.into()))
        }
        ColumnKind::Integer(IntegerWidth::Four) => {
            get(row, index, |number: i32| Value::Integer(number.into()))
        }
        ColumnKind::Integer(IntegerWidth::Eight) => get(row, index, Value::Integer),
        ColumnKind::Real => get(row, index, Value::Real),
        ColumnKind::Text => get(row, index, Value::Text),
        ColumnKind::Bytes => get(row, index, Value::Bytes),
        // The library panics for times and dates that it cannot represent, such as infinity.
        ColumnKind::Time => match binary(row, index)? {
            Some(bytes) => time(bytes)
                .map(Value::Time)
                .ok_or_else(|| OUT_OF_RANGE.to_owned()),
            None => Ok(Value::Null),
        },
        ColumnKind::Date => match binary(row, index)? {
            Some(bytes) => date(bytes)
                .map(Value::Date)
                .ok_or_else(|| OUT_OF_RANGE.to_owned()),
            None => Ok(Value::Null),
        },
    }
}

/// Returns the bytes of a value in the binary format.
fn binary(row: &PgRow, index: usize) -> Result<Option<&[u8]>, String> {
    let raw = row.try_get_raw(index).map_err(|error| error.to_string())?;
    match raw.is_null() {
        true => Ok(None),
        false => raw.as_bytes().map(Some).map_err(|error| error.to_string()),
    }
}

/// Returns the time of a number of microseconds since the year 2000.
fn time(bytes: &[u8]) -> Option<DateTime<Utc>> {
    let number = i64::from_be_bytes(bytes.try_into().ok()?);
    DateTime::from_timestamp_micros(number.checked_add(EPOCH_MICROSECONDS)?)
}

/// Returns the date of a number of days since the year 2000.
fn date(bytes: &[u8]) -> Option<NaiveDate> {
    let days = i32::from_be_bytes(bytes.try_into().ok()?);
    EPOCH_DATE.checked_add_signed(TimeDelta::try_days(days.into())?)
}

/// Copies rows into an empty table, and records that the table is copied. Both happen in one transaction.
pub(super) async fn insert(
    connection: &mut PgConnection,
    table: &Table,
    mut rows: BoxStream<'_, Result<Row>>,
    observe: &mut Observer<'_>,
) -> Result<TableDigest> {
    let failed = |cause| Error::of_table(table, cause);
    let mut transaction = connection.begin().await.map_err(failed)?;
    let name = quote(&table.name);
    // Triggers of users would change or reject copied rows. Foreign keys are still checked, when the statement ends.
    run(
        &mut transaction,
        &format!("ALTER TABLE {name} DISABLE TRIGGER USER"),
    )
    .await?;
    let statement = format!("COPY {name} ({}) FROM STDIN (FORMAT binary)", table.column_list());
    let mut copy = transaction.copy_in_raw(&statement).await.map_err(failed)?;
    let mut digest = TableDigest::default();
    let mut buffer = HEADER.to_vec();
    while let Some(row) = rows.next().await {
        let encoded = row.and_then(|row| {
            digest.add(&row);
            encode(table, &row, &mut buffer)
        });
        if let Err(error) = encoded {
            // PostgreSQL responds to the end of the data with an error, which has no more information.
            let _ = copy.abort("the source could not be read").await;
            return Err(error);
        }
        if buffer.len() >= MESSAGE {
            copy.send(std::mem::take(&mut buffer)).await.map_err(failed)?;
        }
        if digest.rows.is_multiple_of(ROWS_PER_CALL) {
            observe(digest.rows);
        }
    }
    // The end of the data.
    buffer.extend((-1_i16).to_be_bytes());
    copy.send(buffer).await.map_err(failed)?;
    copy.finish().await.map_err(failed)?;
    run(
        &mut transaction,
        &format!("ALTER TABLE {name} ENABLE TRIGGER USER"),
    )
    .await?;
    let recorded = sqlx::query(mark::RECORD)
        .bind(&table.name)
        .bind(mark::signed(digest.rows))
        .bind(digest.checksum());
    recorded.execute(&mut *transaction).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    Ok(digest)
}

/// Adds a row in the binary format of `COPY`.
fn encode(table: &Table, row: &[Value], buffer: &mut Vec<u8>) -> Result<()> {
    let fault = |column: &Column, reason: &str| Error::Value {
        table: table.name.clone(),
        column: column.name.clone(),
        row: identify(table, row),
        reason: reason.to_owned(),
    };
    let count = i16::try_from(row.len()).unwrap_or(i16::MAX);
    buffer.extend(count.to_be_bytes());
    for (value, column) in row.iter().zip(&table.columns) {
        let start = buffer.len();
        buffer.extend([0; 4]);
        match (value, column.kind) {
            (Value::Null, _) => {
                buffer.truncate(start);
                buffer.extend((-1_i32).to_be_bytes());
                continue;
            }
            (Value::Boolean(value), ColumnKind::Boolean) => buffer.push(u8::from(*value)),
            (Value::Integer(number), ColumnKind::Integer(width)) => {
                let is_in_range = match width {
                    IntegerWidth::Two => i16::try_from(*number)
                        .map(|n| buffer.extend(n.to_be_bytes()))
                        .is_ok(),
                    IntegerWidth::Four => i32::try_from(*number)
                        .map(|n| buffer.extend(n.to_be_bytes()))
                        .is_ok(),
                    IntegerWidth::Eight => {
                        buffer.extend(number.to_be_bytes());
                        true
                    }
                };
                if !is_in_range {
                    return Err(fault(column, "the number is too large for PostgreSQL"));
                }
            }
            (Value::Real(number), ColumnKind::Real) => buffer.extend(number.to_bits().to_be_bytes()),
            (Value::Text(text), ColumnKind::Text) => {
                if text.contains('\0') {
                    return Err(fault(
                        column,
                        "PostgreSQL cannot store the character with the code 0",
                    ));
                }
                buffer.extend(text.as_bytes());
            }
            (Value::Bytes(bytes), ColumnKind::Bytes) => buffer.extend(bytes),
            (Value::Time(time), ColumnKind::Time) => match microseconds(*time) {
                Some(number) => buffer.extend(number.to_be_bytes()),
                None => return Err(fault(column, OUT_OF_RANGE)),
            },
            (Value::Date(date), ColumnKind::Date) => match days(*date) {
                Some(number) => buffer.extend(number.to_be_bytes()),
                None => return Err(fault(column, OUT_OF_RANGE)),
            },
            _ => return Err(fault(column, "the value has another type")),
        }
        let length = i32::try_from(buffer.len() - start - 4);
        let length = length.map_err(|_| fault(column, "the value is too large for PostgreSQL"))?;
        if let Some(field) = buffer.get_mut(start..start + 4) {
            field.copy_from_slice(&length.to_be_bytes());
        }
    }
    Ok(())
}

/// Returns the primary key of a row, for errors. It does not return text, which can be secret.
fn identify(table: &Table, row: &[Value]) -> String {
    let values = row.iter().zip(&table.columns);
    let key = values.filter(|(_, column)| table.primary_key.contains(&column.name));
    let key = key.map(|(value, _)| match value {
        Value::Integer(number) => number.to_string(),
        _ => "?".to_owned(),
    });
    key.collect::<Vec<_>>().join(", ")
}

/// Returns the microseconds since the year 2000.
fn microseconds(time: DateTime<Utc>) -> Option<i64> {
    time.timestamp_micros().checked_sub(EPOCH_MICROSECONDS)
}

/// Returns the days since the year 2000.
fn days(date: NaiveDate) -> Option<i32> {
    let days = date.signed_duration_since(EPOCH_DATE).num_days();
    days.try_into().ok()
}

/// Deletes all rows of all tables, and the record of the copied tables.
pub(super) async fn clear(connection: &mut PgConnection, tables: &[Table]) -> Result<()> {
    let names = tables.iter().map(|table| table.name.as_str());
    let names: Vec<String> = names.chain([mark::COPIED_TABLES]).map(quote).collect();
    // PostgreSQL runs the statements as one transaction.
    run(connection, &truncation(&names, true)).await
}

/// Returns the statements that delete all rows of tables, which have these quoted names. Must run in one transaction, as
/// the owner of the tables: a trigger of the audit events refuses `TRUNCATE`, so the triggers are disabled meanwhile.
#[must_use]
pub fn truncation(tables: &[String], restart_identity: bool) -> String {
    let set_triggers = |state: &str| -> String {
        let statements = tables
            .iter()
            .map(|table| format!("ALTER TABLE {table} {state} TRIGGER USER; "));
        statements.collect::<Vec<_>>().concat()
    };
    let identity = match restart_identity {
        true => " RESTART IDENTITY",
        false => "",
    };
    format!(
        "{}TRUNCATE {}{identity}; {}",
        set_triggers("DISABLE"),
        tables.join(", "),
        set_triggers("ENABLE")
    )
}

/// Waits until the transaction of a killed process has ended: PostgreSQL may still commit its last table.
pub(super) async fn wait_for_commit(connection: &mut PgConnection) -> Result<()> {
    let name = mark::COPIED_TABLES;
    run(
        connection,
        &format!("BEGIN; LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE; COMMIT"),
    )
    .await
}

/// Returns the last ID that was assigned to a row of a table; 0 if none was.
pub(super) async fn last_id(connection: &mut PgConnection, table: &Table) -> Result<i64> {
    let Some(sequence) = &table.sequence else {
        return Ok(0);
    };
    // PostgreSQL returns the name of a sequence quoted.
    let statement =
        format!("SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM {sequence}");
    sqlx::query_scalar(AssertSqlSafe(statement))
        .fetch_one(connection)
        .await
        .map_err(|cause| Error::of_table(table, cause))
}

/// Sets the last ID that was assigned to a row of a table.
pub(super) async fn set_last_id(connection: &mut PgConnection, table: &Table, last: i64) -> Result<()> {
    let Some(sequence) = &table.sequence else {
        return Ok(());
    };
    sqlx::query("SELECT setval($1::regclass, greatest($2, 1), $2 > 0)")
        .bind(sequence)
        .bind(last)
        .execute(connection)
        .await
        .map_err(|cause| Error::of_table(table, cause))?;
    Ok(())
}

/// Runs a statement that contains only names of the schema.
pub(super) async fn run(connection: &mut PgConnection, statement: &str) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
        .execute(connection)
        .await?;
    Ok(())
}
