//! Related rows of a page, from several tables in one statement.
//!
//! Each part of the statement selects from one table. All parts return the same columns, so that `UNION ALL` can combine
//! them. A column that a part does not use is null. The text of the statement depends on its parts only, not on the
//! number of IDs ([`is_among`]), so connections prepare it once.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query, SelectStatement, UnionType};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult};

use super::columns::text_bytes;
use super::row_conditions::is_among;

/// Size in bytes up to which a large text is read in the same statement. A page can have thousands of labels.
const MAX_SHORT_BYTES: u32 = 1 << 10;
/// Number of text columns.
const TEXTS: usize = 4;
/// Names of the text columns.
const TEXT_NAMES: [&str; TEXTS] = ["text_1", "text_2", "text_3", "text_4"];

/// A row of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelatedRow {
    /// ID of the row of the page to which this row is related.
    pub owner_id: i64,
    /// ID of this row, or a second number, if the part returns one.
    pub id: i64,
    /// A number: a count, a role or a flag.
    pub number: Option<i64>,
    /// A time.
    pub time: Option<DateTime<Utc>>,
    /// Texts.
    pub texts: [Option<String>; TEXTS],
}

impl RelatedRow {
    fn read(row: &QueryResult) -> Result<(usize, Self), DbErr> {
        // The order of `RelatedPart::select`.
        let part: i32 = row.try_get_by_index(1)?;
        let id: Option<i64> = row.try_get_by_index(4)?;
        let mut texts = [const { None }; TEXTS];
        for (position, text) in texts.iter_mut().enumerate() {
            *text = row.try_get_by_index(6 + position)?;
        }
        let related = Self {
            owner_id: row.try_get_by_index(2)?,
            id: id.unwrap_or_default(),
            number: row.try_get_by_index(0)?,
            time: row.try_get_by_index(5)?,
            texts,
        };
        Ok((usize::try_from(part).unwrap_or_default(), related))
    }
}

/// A table that links the rows of a page to rows of another table.
#[derive(Debug, Clone, Copy)]
pub struct LinkTable {
    /// The name of the table.
    pub name: &'static str,
    /// The column with the ID of the row of the page.
    pub owner_column: &'static str,
    /// The column with the ID of the other row.
    pub column: &'static str,
    /// The table of the other rows.
    pub target: &'static str,
}

/// A part of a statement: the rows of one table, and the values that it returns of them.
#[derive(Debug, Clone)]
pub struct RelatedPart {
    rows: SelectStatement,
    owner_id: Expr,
    sort: Expr,
    id: Expr,
    number: Expr,
    time: Expr,
    texts: [Expr; TEXTS],
    large_text: Option<LargeText>,
}

/// Table and column of a text that can be large.
#[derive(Debug, Clone, Copy)]
struct LargeText {
    table: &'static str,
    column: &'static str,
}

impl RelatedPart {
    /// Creates a part from a statement with tables and conditions, but without columns. `owner_id` is the ID of the row of
    /// the page.
    #[must_use]
    pub fn new(rows: SelectStatement, owner_id: Expr) -> Self {
        let no_text = || null("text");
        Self {
            rows,
            owner_id,
            sort: null("bigint"),
            id: null("bigint"),
            number: null("bigint"),
            time: null("timestamptz"),
            texts: [no_text(), no_text(), no_text(), no_text()],
            large_text: None,
        }
    }

    /// Creates a part like [`Self::new`], limited to the rows with these owners; none without IDs.
    #[must_use]
    pub fn of_owners(
        database: DbBackend,
        mut rows: SelectStatement,
        owner_id: Expr,
        ids: &[i64],
    ) -> Option<Self> {
        if ids.is_empty() {
            return None;
        }
        rows.and_where(is_among(database, owner_id.clone(), ids.iter().copied()));
        Some(Self::new(rows, owner_id))
    }

    /// Creates a part with the rows that a table links to the rows of a page; none without rows of a page.
    #[must_use]
    pub fn linked(database: DbBackend, link: LinkTable, ids: &[i64]) -> Option<Self> {
        let is_linked = Expr::col((link.name, link.column)).eq(Expr::col((link.target, "id")));
        // SQLite joins in this order: few rows of the link table have these owners.
        let rows = Query::select()
            .from(link.name)
            .cross_join(link.target)
            .and_where(is_linked)
            .take();
        Self::of_owners(database, rows, Expr::col((link.name, link.owner_column)), ids)
    }

    /// Creates a part that returns one row if a statement without columns returns any.
    #[must_use]
    pub fn exists(mut rows: SelectStatement, owner_id: i64) -> Self {
        rows.expr(Expr::Constant(1.into()));
        let found = Query::select().and_where(Expr::exists(rows)).take();
        Self::new(found, bigint(Expr::val(owner_id)))
    }

    /// Sorts the rows by a number, then by the first text and the ID.
    #[must_use]
    pub fn sorted_by(self, sort: Expr) -> Self {
        Self { sort, ..self }
    }

    /// Returns the ID of each row, or a second number.
    #[must_use]
    pub fn with_id(self, id: Expr) -> Self {
        Self { id, ..self }
    }

    /// Returns a number of type `bigint`.
    #[must_use]
    pub fn with_number(self, number: Expr) -> Self {
        Self { number, ..self }
    }

    /// Returns a time.
    #[must_use]
    pub fn with_time(self, time: Expr) -> Self {
        Self { time, ..self }
    }

    /// Returns up to four texts.
    #[must_use]
    pub fn with_texts(mut self, texts: impl IntoIterator<Item = Expr>) -> Self {
        for (column, text) in self.texts.iter_mut().zip(texts) {
            *column = text;
        }
        self
    }

    /// Returns a column that can have large texts as the first text, and the size of the text as the number. The owner is
    /// the row of the table with this column. Texts that are not short are read in a second statement.
    #[must_use]
    pub fn with_large_text(self, table: &'static str, column: &'static str) -> Self {
        let text = Expr::col((table, column));
        let size = text_bytes(text.clone());
        let is_long = size.clone().gt(Expr::Constant(MAX_SHORT_BYTES.into()));
        let short = Expr::case(is_long, null("text")).finally(text);
        Self {
            large_text: Some(LargeText { table, column }),
            ..self.with_number(size).with_texts([short.into()])
        }
    }

    fn select(self, part: usize) -> SelectStatement {
        let mut rows = self.rows;
        let part = i32::try_from(part).unwrap_or(i32::MAX);
        rows.expr_as(self.number, "number")
            .expr_as(Expr::Constant(part.into()), "part")
            .expr_as(self.owner_id, "owner_id")
            .expr_as(self.sort, "sort")
            .expr_as(self.id, "related_id")
            .expr_as(self.time, "time");
        for (text, name) in self.texts.into_iter().zip(TEXT_NAMES) {
            rows.expr_as(text, name);
        }
        rows
    }
}

/// Converts an expression to the type of IDs and numbers.
pub fn bigint(value: impl Into<Expr>) -> Expr {
    value.into().cast_as("bigint")
}

/// Returns a null of a type. PostgreSQL would otherwise assume that it is a text.
pub(super) fn null(kind: &'static str) -> Expr {
    Expr::cust("NULL").cast_as(kind)
}

/// Identifies a part of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartKey(usize);

/// The parts of a statement.
#[derive(Debug, Default)]
pub struct RelatedRows {
    count: usize,
    parts: Vec<SelectStatement>,
    large_texts: Vec<(PartKey, LargeText)>,
}

impl RelatedRows {
    /// Adds a part. Parts that cannot return rows are `None` and are left out of the statement.
    pub fn add(&mut self, part: Option<RelatedPart>) -> PartKey {
        let key = PartKey(self.count);
        self.count += 1;
        if let Some(part) = part {
            self.large_texts.extend(part.large_text.map(|text| (key, text)));
            self.parts.push(part.select(key.0));
        }
        key
    }

    /// Runs the statement, if it has a part.
    ///
    /// # Errors
    /// Any database error.
    pub async fn load(self, db: &impl ConnectionTrait) -> Result<RelatedRowSets, DbErr> {
        self.load_reserving(db, |_| Ok(())).await
    }

    /// As [`Self::load`]. Calls `reserve` with the total size of the large texts in bytes before it reads those that are
    /// not short.
    ///
    /// # Errors
    /// The error of `reserve`, or any database error.
    pub async fn load_reserving<E: From<DbErr>>(
        self,
        db: &impl ConnectionTrait,
        reserve: impl FnOnce(u64) -> Result<(), E>,
    ) -> Result<RelatedRowSets, E> {
        let statement = self.parts.into_iter().reduce(|mut all, part| {
            all.union(UnionType::All, part);
            all
        });
        let mut parts: HashMap<PartKey, Vec<RelatedRow>> = HashMap::new();
        if let Some(mut statement) = statement {
            // Some parts are sorted by a text. If one part has a collation, PostgreSQL uses it for all parts.
            for column in ["part", "sort", TEXT_NAMES[0], "related_id"] {
                statement.order_by(column, Order::Asc);
            }
            for row in db.query_all(&statement).await? {
                let (part, row) = RelatedRow::read(&row)?;
                parts.entry(PartKey(part)).or_default().push(row);
            }
        }
        let mut rows = RelatedRowSets { parts };
        let sizes = self.large_texts.iter().map(|(part, _)| rows.text_bytes(*part));
        reserve(sizes.sum())?;
        for (part, text) in self.large_texts {
            rows.load_long_texts(db, part, text).await?;
        }
        Ok(rows)
    }
}

/// The rows of all parts.
#[derive(Debug, Default)]
pub struct RelatedRowSets {
    parts: HashMap<PartKey, Vec<RelatedRow>>,
}

impl RelatedRowSets {
    /// Returns the total size of the large texts of a part in bytes.
    fn text_bytes(&self, part: PartKey) -> u64 {
        let sizes = self.parts.get(&part).into_iter().flatten().map(|row| row.number);
        sizes
            .map(|size| size.and_then(|size| u64::try_from(size).ok()).unwrap_or_default())
            .sum()
    }

    /// Reads the large texts of a part that are not short, if there are any.
    async fn load_long_texts(
        &mut self,
        db: &impl ConnectionTrait,
        part: PartKey,
        text: LargeText,
    ) -> Result<(), DbErr> {
        let Some(rows) = self.parts.get_mut(&part) else {
            return Ok(());
        };
        let is_long =
            |row: &&mut RelatedRow| row.number.is_some_and(|size| size > i64::from(MAX_SHORT_BYTES));
        let long = rows.iter_mut().filter(is_long);
        let mut long: HashMap<i64, &mut RelatedRow> = long.map(|row| (row.owner_id, row)).collect();
        if long.is_empty() {
            return Ok(());
        }
        let ids = long.keys().copied();
        let statement = Query::select()
            .column("id")
            .column(text.column)
            .from(text.table)
            .and_where(is_among(db.get_database_backend(), Expr::col("id"), ids))
            .take();
        for found in db.query_all(&statement).await? {
            let id: i64 = found.try_get_by_index(0)?;
            if let Some(row) = long.get_mut(&id) {
                row.texts[0] = found.try_get_by_index(1)?;
            }
        }
        Ok(())
    }

    /// Removes and returns the rows of a part.
    pub fn take(&mut self, part: PartKey) -> Vec<RelatedRow> {
        self.parts.remove(&part).unwrap_or_default()
    }

    /// Removes and returns the rows of a part by the ID of their owner.
    ///
    /// # Errors
    /// The error of `convert`.
    pub fn take_grouped<T>(
        &mut self,
        part: PartKey,
        convert: impl Fn(RelatedRow) -> Result<T, DbErr>,
    ) -> Result<HashMap<i64, Vec<T>>, DbErr> {
        let mut grouped: HashMap<i64, Vec<T>> = HashMap::new();
        for row in self.take(part) {
            grouped.entry(row.owner_id).or_default().push(convert(row)?);
        }
        Ok(grouped)
    }

    /// Removes and returns the rows of a part by their own ID.
    pub fn take_by_id<T>(&mut self, part: PartKey, convert: impl Fn(RelatedRow) -> T) -> HashMap<i64, T> {
        let rows = self.take(part).into_iter();
        rows.map(|row| (row.id, convert(row))).collect()
    }

    /// Removes and returns the rows of a part with one row for each owner, by the ID of the owner.
    ///
    /// # Errors
    /// The error of `convert`.
    pub fn take_by_owner<T>(
        &mut self,
        part: PartKey,
        convert: impl Fn(RelatedRow) -> Result<T, DbErr>,
    ) -> Result<HashMap<i64, T>, DbErr> {
        let rows = self.take(part).into_iter();
        rows.map(|row| Ok((row.owner_id, convert(row)?))).collect()
    }
}
