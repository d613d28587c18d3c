//! The encrypted values of the database: which key they use, and their encryption with the current key.

use std::collections::BTreeSet;
use std::fmt::Display;

use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr, Statement};

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::secrets::{self, EncryptedColumn, EncryptionContext, KEY_PREFIX_LENGTH};

/// Values read per statement and written per transaction. A transaction blocks other writers on SQLite.
pub(super) const BATCH: usize = 100;

/// An encrypted value in its row.
struct StoredValue {
    id: i64,
    key: Vec<String>,
    value: String,
}

impl StoredValue {
    fn context(&self, column: EncryptedColumn) -> EncryptionContext {
        let key: Vec<&dyn Display> = self.key.iter().map(|value| value as &dyn Display).collect();
        column.context(&key)
    }
}

/// A value that no key of the key file can decrypt.
#[derive(Debug)]
pub struct UnreadableValue {
    /// The column.
    pub column: EncryptedColumn,
    /// The ID of the row.
    pub id: i64,
    /// Why it cannot be decrypted.
    pub cause: secrets::Error,
    /// The stored text, which is deleted only if it is unchanged.
    pub(super) stored: String,
}

/// The values of a column that do not use the current key.
#[derive(Debug)]
pub struct ColumnSurvey {
    /// The column.
    pub column: EncryptedColumn,
    /// Number of values that use a former key of the key file.
    pub former: u64,
    /// The values that no key decrypts.
    pub unreadable: Vec<UnreadableValue>,
}

/// Returns the values of all columns that do not use the current key.
///
/// # Errors
/// Returns an error if the database or the key file cannot be read.
pub async fn survey(backend: &Backend) -> Result<Vec<ColumnSurvey>> {
    let prefix = backend.keyring.refreshed(&backend.database).await?.prefix();
    let mut surveys = Vec::new();
    for column in EncryptedColumn::all() {
        let mut survey = ColumnSurvey {
            column,
            former: 0,
            unreadable: Vec::new(),
        };
        let mut after = 0;
        loop {
            let rows = read_batch(backend.database.read(), column, after, None).await?;
            let Some(last) = rows.last() else { break };
            after = last.id;
            for row in rows {
                match decrypted(backend, column, row)? {
                    Ok((row, _)) => survey.former += u64::from(!row.value.starts_with(&prefix)),
                    Err(unreadable) => survey.unreadable.push(unreadable),
                }
            }
        }
        surveys.push(survey);
    }
    Ok(surveys)
}

/// The result of one pass over a column.
#[derive(Debug, Default)]
pub(super) struct EncryptionPass {
    /// Number of values that were encrypted with the current key.
    pub(super) encrypted: u64,
    /// Number of values that another transaction changed in the meantime.
    pub(super) changed: u64,
    /// The values that no key decrypts.
    pub(super) unreadable: Vec<UnreadableValue>,
}

/// Encrypts the values of a column that use a former key with the current one. Returns the number of these values and
/// the values that no key decrypts.
pub(super) async fn encrypt_column(
    backend: &Backend,
    column: EncryptedColumn,
) -> Result<(u64, Vec<UnreadableValue>)> {
    let mut encrypted = 0;
    loop {
        let pass = encrypt_once(backend, column).await?;
        encrypted += pass.encrypted;
        // No transaction writes values with a former key, so the passes end.
        if pass.changed == 0 {
            return Ok((encrypted, pass.unreadable));
        }
    }
}

async fn encrypt_once(backend: &Backend, column: EncryptedColumn) -> Result<EncryptionPass> {
    let prefix = backend.keyring.refreshed(&backend.database).await?.prefix();
    let mut pass = EncryptionPass::default();
    let mut after = 0;
    loop {
        let rows = read_batch(backend.database.read(), column, after, Some(&prefix)).await?;
        let Some(last) = rows.last() else { break };
        after = last.id;
        let count = rows.len() as u64;
        let done = backend
            .database
            .transaction(async |transaction| encrypt_batch(backend, transaction, column, rows).await)
            .await;
        match done {
            Ok(batch) => {
                pass.encrypted += batch.encrypted;
                pass.changed += batch.changed;
                pass.unreadable.extend(batch.unreadable);
            }
            // Requests may lock the same rows in another order.
            Err(Error::Contention) => pass.changed += count,
            Err(error) => return Err(error),
        }
    }
    Ok(pass)
}

async fn encrypt_batch(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    column: EncryptedColumn,
    rows: Vec<StoredValue>,
) -> Result<EncryptionPass> {
    let encryptor = backend.keyring.encryptor(transaction).await?;
    let (table, name) = (column.table(), column.column());
    let sql = format!("UPDATE {table} SET {name} = $1 WHERE id = $2 AND {name} = $3");
    let mut batch = EncryptionPass::default();
    for row in rows {
        let (row, value) = match decrypted(backend, column, row)? {
            Ok(opened) => opened,
            Err(unreadable) => {
                batch.unreadable.push(unreadable);
                continue;
            }
        };
        let new = encryptor.encrypt(value.expose(), &row.context(column))?;
        let values = [new.into(), row.id.into(), row.value.into()];
        let statement = Statement::from_sql_and_values(transaction.get_database_backend(), &sql, values);
        match transaction.execute_raw(statement).await?.rows_affected() {
            0 => batch.changed += 1,
            _ => batch.encrypted += 1,
        }
    }
    Ok(batch)
}

/// Returns the prefixes of all values of the database, which contain the IDs of their keys.
pub(super) async fn key_prefixes(db: &impl ConnectionTrait) -> Result<BTreeSet<String>, DbErr> {
    let mut prefixes = BTreeSet::new();
    for column in EncryptedColumn::all() {
        let (table, name) = (column.table(), column.column());
        let sql = format!(
            "SELECT DISTINCT substr({name}, 1, {KEY_PREFIX_LENGTH}) AS prefix FROM {table} WHERE {name} IS NOT NULL"
        );
        let statement = Statement::from_string(db.get_database_backend(), sql);
        for row in db.query_all_raw(statement).await? {
            prefixes.insert(row.try_get("", "prefix")?);
        }
    }
    Ok(prefixes)
}

/// Reads the next values of a column, sorted by ID, except values that start with `known`.
async fn read_batch(
    db: &impl ConnectionTrait,
    column: EncryptedColumn,
    after: i64,
    known: Option<&str>,
) -> Result<Vec<StoredValue>, DbErr> {
    let (table, name) = (column.table(), column.column());
    let key: String = (0..)
        .zip(column.key())
        .fold(String::new(), |text, (number, key)| {
            format!("{text}, CAST(\"{key}\" AS TEXT) AS key_{number}")
        });
    // Without a prefix, no value is excluded.
    let sql = format!(
        "SELECT id, {name} AS value{key} FROM {table} WHERE id > $1 AND {name} IS NOT NULL \
         AND substr({name}, 1, {KEY_PREFIX_LENGTH}) <> $2 ORDER BY id LIMIT {BATCH}"
    );
    let values = [after.into(), known.unwrap_or_default().into()];
    let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
    let rows = db.query_all_raw(statement).await?;
    let stored = rows.iter().map(|row| {
        let key = (0..column.key().len()).map(|number| row.try_get("", &format!("key_{number}")));
        Ok(StoredValue {
            id: row.try_get("", "id")?,
            key: key.collect::<Result<_, DbErr>>()?,
            value: row.try_get("", "value")?,
        })
    });
    stored.collect()
}

/// Decrypts a value. The inner error concerns the value, and the outer error concerns the key file.
fn decrypted(
    backend: &Backend,
    column: EncryptedColumn,
    row: StoredValue,
) -> Result<std::result::Result<(StoredValue, secrets::Secret<String>), UnreadableValue>> {
    match backend.keyring.decrypt(&row.value, &row.context(column)) {
        Ok(value) => Ok(Ok((row, value))),
        Err(
            cause @ (secrets::Error::Malformed
            | secrets::Error::UnknownKey(_)
            | secrets::Error::Authentication),
        ) => Ok(Err(UnreadableValue {
            column,
            id: row.id,
            cause,
            stored: row.value,
        })),
        Err(error) => Err(error.into()),
    }
}
