//! Tables and columns that two databases have in common.

use std::collections::BTreeMap;

use super::{Error, Result};

/// Tables that are not copied: migrations fill the first one, and the others mark a database.
pub(super) const OWN_TABLES: [&str; 4] = [
    "seaql_migrations",
    super::mark::UNFINISHED,
    super::mark::COPIED_TABLES,
    super::mark::MOVED,
];

/// A table with its columns, as one database describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Name of the table.
    pub name: String,
    /// Columns with stored values. Generated columns are not among them.
    pub(super) columns: Vec<Column>,
    /// Columns of the primary key.
    pub(super) primary_key: Vec<String>,
    /// Other tables that foreign keys of this table refer to.
    pub(super) references: Vec<String>,
    /// Name of the sequence that numbers the rows. SQLite has no names of sequences.
    pub(super) sequence: Option<String>,
}

/// A column with stored values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: ColumnKind,
}

/// The type of a column, as far as the databases distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Boolean,
    Integer(IntegerWidth),
    Real,
    Text,
    Bytes,
    /// Time in UTC, in microseconds.
    Time,
    Date,
}

/// Bytes of an integer in PostgreSQL. In SQLite, all integers have eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IntegerWidth {
    Two,
    Four,
    Eight,
}

impl ColumnKind {
    /// Returns whether columns of both kinds can have the same values, except for the range of integers.
    fn is_comparable(self, other: Self) -> bool {
        match (self, other) {
            (Self::Integer(_), Self::Integer(_)) => true,
            (one, other) => one == other,
        }
    }
}

impl Table {
    /// Returns the quoted columns, separated by commas.
    pub(super) fn column_list(&self) -> String {
        list(self.columns.iter().map(|column| column.name.as_str()))
    }

    /// Returns the statement that reads all rows, sorted by primary key.
    pub(super) fn select(&self) -> String {
        let order = match self.primary_key.is_empty() {
            true => String::new(),
            false => format!(" ORDER BY {}", list(self.primary_key.iter().map(String::as_str))),
        };
        format!("SELECT {} FROM {}{order}", self.column_list(), quote(&self.name))
    }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(quote).collect::<Vec<_>>().join(", ")
}

/// Returns a name of the schema as an identifier of SQL.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns the tables of PostgreSQL in the order in which they are copied: each after the tables that it refers to. Compares
/// them with the tables of SQLite.
///
/// # Errors
/// [`Error::Schema`] if one database has a table or a column that the other one does not have, a column has different
/// types, or tables refer to each other in a circle.
pub(super) fn common(postgresql: Vec<Table>, sqlite: &[Table]) -> Result<Vec<Table>> {
    let mut unmatched: BTreeMap<&str, &Table> =
        sqlite.iter().map(|table| (table.name.as_str(), table)).collect();
    for table in &postgresql {
        match unmatched.remove(table.name.as_str()) {
            Some(other) => check_columns(table, other)?,
            None => return Err(missing(&table.name, "SQLite")),
        }
    }
    if let Some(name) = unmatched.keys().next() {
        return Err(missing(name, "PostgreSQL"));
    }
    in_reference_order(postgresql)
}

fn missing(table: &str, database: &str) -> Error {
    Error::Schema(format!(
        "the {database} database has no table {table}; remove the table from the other database if it does not belong to \
         Holdfast"
    ))
}

fn check_columns(postgresql: &Table, sqlite: &Table) -> Result<()> {
    let mut others: BTreeMap<&str, ColumnKind> = sqlite
        .columns
        .iter()
        .map(|column| (column.name.as_str(), column.kind))
        .collect();
    for column in &postgresql.columns {
        let other = others.remove(column.name.as_str());
        if !other.is_some_and(|other| column.kind.is_comparable(other)) {
            return Err(differs(&postgresql.name, &column.name));
        }
    }
    match others.keys().next() {
        Some(name) => Err(differs(&postgresql.name, name)),
        None => Ok(()),
    }
}

fn differs(table: &str, column: &str) -> Error {
    Error::Schema(format!(
        "the column {table}.{column} is not the same in both databases; a column that does not belong to Holdfast must be \
         removed"
    ))
}

/// Sorts tables so that each is after the tables that it refers to. References of a table to itself are not in the list.
fn in_reference_order(mut waiting: Vec<Table>) -> Result<Vec<Table>> {
    let mut sorted: Vec<Table> = Vec::new();
    while !waiting.is_empty() {
        let is_copied = |name: &String| sorted.iter().any(|table| table.name == *name);
        let (ready, rest): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|table| table.references.iter().all(is_copied));
        if ready.is_empty() {
            let names: Vec<_> = rest.iter().map(|table| table.name.as_str()).collect();
            return Err(Error::Schema(format!(
                "these tables refer to each other: {}",
                names.join(", ")
            )));
        }
        sorted.extend(ready);
        waiting = rest;
    }
    Ok(sorted)
}
