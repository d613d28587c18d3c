//! Copy of all tables, and the comparison of both databases.

use std::collections::BTreeMap;

use storage::database_copy::{self, CopyConnection, Table, TableDigest};

use super::{MoveError, MoveEvent, MoveObserver, TableProgress};

/// The tables of a copy that equals the original, in the order of the copy.
type CopiedTables = Vec<(String, TableDigest)>;

/// Copies all tables that an unfinished copy does not have, and compares the result with the original.
pub(super) async fn copy(
    original: &mut CopyConnection,
    copy: &mut CopyConnection,
    observe: &mut MoveObserver<'_>,
) -> Result<CopiedTables, MoveError> {
    let tables = database_copy::common_tables(original, copy).await?;
    let total = count(original, &tables).await?;
    let mut copied = unchanged_tables(original, copy, &tables, observe).await?;
    if copied.is_empty() {
        // Migrations may have inserted rows.
        copy.clear(&tables).await?;
    }
    let mut done: u64 = copied.values().map(|digest| digest.rows).sum();
    let mut digests = Vec::new();
    for table in &tables {
        let digest = match copied.remove(&table.name) {
            Some(digest) => digest,
            None => {
                let mut report = |rows| observe(MoveEvent::Copied(progress(table, rows, done, total, false)));
                let digest = original.copy_table(copy, table, &mut report).await?;
                observe(MoveEvent::Copied(progress(table, digest.rows, done, total, true)));
                done += digest.rows;
                digest
            }
        };
        digests.push((table, digest));
    }
    for table in &tables {
        let last = original.last_id(table).await?;
        copy.set_last_id(table, last).await?;
    }
    copy.derive().await?;
    match verify(original, copy, &digests, observe).await {
        Ok(()) => {}
        Err(error) => {
            // The next run must not trust the rows of any table.
            copy.forget_copied_tables().await?;
            return Err(error);
        }
    }
    Ok(named(digests))
}

/// Compares a complete copy with the original.
pub(super) async fn verify_complete(
    original: &mut CopyConnection,
    copy: &mut CopyConnection,
    observe: &mut MoveObserver<'_>,
) -> Result<CopiedTables, MoveError> {
    let tables = database_copy::common_tables(original, copy).await?;
    let mut digests = Vec::new();
    for table in &tables {
        digests.push((table, original.digest(table, &mut |_| {}).await?));
    }
    match verify(original, copy, &digests, observe).await {
        Ok(()) => Ok(named(digests)),
        Err(MoveError::Different { table, .. }) => Err(MoveError::Outdated(table)),
        Err(error) => Err(error),
    }
}

fn named(digests: Vec<(&Table, TableDigest)>) -> CopiedTables {
    let named = digests
        .into_iter()
        .map(|(table, digest)| (table.name.clone(), digest));
    named.collect()
}

async fn count(original: &mut CopyConnection, tables: &[Table]) -> Result<u64, MoveError> {
    let mut total = 0;
    for table in tables {
        total += original.count(table).await?;
    }
    Ok(total)
}

/// Returns the tables that an unfinished copy has. Returns none if one of them has changed in the original: tables refer to
/// each other, so a table cannot be replaced alone.
async fn unchanged_tables(
    original: &mut CopyConnection,
    copy: &mut CopyConnection,
    tables: &[Table],
    observe: &mut MoveObserver<'_>,
) -> Result<BTreeMap<String, TableDigest>, MoveError> {
    let copied = copy.copied_tables().await?;
    for table in tables {
        let Some(recorded) = copied.get(&table.name) else {
            continue;
        };
        if original.digest(table, &mut |_| {}).await? != *recorded {
            observe(MoveEvent::StartedOver { table: &table.name });
            return Ok(BTreeMap::new());
        }
    }
    if !copied.is_empty() {
        observe(MoveEvent::Continued { tables: copied.len() });
    }
    Ok(copied)
}

/// Compares the rows and the last IDs of all tables.
async fn verify(
    original: &mut CopyConnection,
    copy: &mut CopyConnection,
    digests: &[(&Table, TableDigest)],
    observe: &mut MoveObserver<'_>,
) -> Result<(), MoveError> {
    let total: u64 = digests.iter().map(|(_, digest)| digest.rows).sum();
    let mut done = 0;
    for (table, expected) in digests {
        let mut report = |rows| observe(MoveEvent::Verified(progress(table, rows, done, total, false)));
        let found = copy.digest(table, &mut report).await?;
        let ids = (original.last_id(table).await?, copy.last_id(table).await?);
        let (original, copy) = match ids {
            _ if found != *expected => (expected.to_string(), found.to_string()),
            (original, copy) if original != copy => {
                (format!("the last ID {original}"), format!("the last ID {copy}"))
            }
            _ => {
                observe(MoveEvent::Verified(progress(
                    table, found.rows, done, total, true,
                )));
                done += found.rows;
                continue;
            }
        };
        return Err(MoveError::Different {
            table: table.name.clone(),
            original,
            copy,
        });
    }
    Ok(())
}

fn progress(table: &Table, rows: u64, done: u64, total: u64, is_complete: bool) -> TableProgress<'_> {
    TableProgress {
        table: &table.name,
        rows,
        all_rows: done + rows,
        total,
        is_complete,
    }
}
