//! Queries for lists (pages, bounded totals and text search), and the deletion of expired rows and of batches.

use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, DurationRound, NaiveDate, TimeDelta, Utc};
use sea_orm::sea_query::{Asterisk, BinOper, Expr, Func, LikeExpr, LockType, Order, Query, SelectStatement};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait, ExprTrait, QueryFilter,
    QueryOrder, QuerySelect, QueryTrait, Select,
};
use storage::database::Database;
use storage::entities::columns::{self, ReadColumns};
use storage::entities::large_texts::{LargeTexts, SizedRow, load_texts, read_sized};
use storage::entities::related_rows::{RelatedPart, RelatedRow, RelatedRowSets, RelatedRows, bigint};

pub(crate) use storage::entities::columns::text_bytes;

use crate::kernel::budgets::UNCOUNTED_RESPONSE_BYTES;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::page::{MAX_COUNTED, Page, PagePosition, PageRequest};

/// Character that escapes wildcards.
const ESCAPE: char = '!';
/// Number of rows whose sizes a statement reads.
const SIZES_PER_STATEMENT: usize = 1_000;

/// Counts the rows of a statement up to one more than [`MAX_COUNTED`]. The statement must not use `GROUP BY`
/// or `DISTINCT`.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn bounded_count(db: &impl ConnectionTrait, rows: SelectStatement) -> Result<u64> {
    let mut statement = counted(rows);
    statement.expr_as(Func::count(Expr::col(Asterisk)), "total");
    let row = db.query_one(&statement).await?;
    let total: i64 = match row {
        Some(row) => row.try_get("", "total")?,
        None => 0,
    };
    Ok(u64::try_from(total).unwrap_or(0))
}

/// Returns a statement without columns that selects as many rows as the given one, up to one more than
/// [`MAX_COUNTED`].
fn counted(mut rows: SelectStatement) -> SelectStatement {
    // Only the existence of rows is relevant. An index can contain the result without the columns of the rows.
    rows.clear_selects()
        .expr_as(Expr::val(1), "found")
        .clear_order_by()
        .limit(MAX_COUNTED + 1)
        .reset_offset();
    Query::select().from_subquery(rows, "counted").take()
}

/// The total of a list of which a page was read. A list that ends on the page is not counted. Others are counted in the
/// statement that reads the related rows of the page.
#[derive(Debug)]
pub struct PageTotal {
    more: bool,
    beyond: bool,
    total: Total,
}

#[derive(Debug)]
enum Total {
    Known(u64),
    /// The list that has to be counted.
    Uncounted(Box<SelectStatement>),
}

impl PageTotal {
    /// Cuts the page out of rows that were read with one row more than the page size. `known` is the total, if it was
    /// counted already. `rows` returns the query for all rows of the list, with the restrictions of [`bounded_count`].
    pub fn of_page<T>(
        page: &PageRequest,
        found: &mut Vec<T>,
        known: Option<u64>,
        rows: impl FnOnce() -> SelectStatement,
    ) -> Self {
        let read = found.len();
        found.truncate(usize::try_from(page.limit()).unwrap_or(usize::MAX));
        Self {
            more: read > found.len(),
            beyond: found.is_empty(),
            total: match known.or_else(|| total_on_page(page, read)) {
                Some(total) => Total::Known(total),
                None => Total::Uncounted(Box::new(rows())),
            },
        }
    }

    /// Returns the part of a statement that counts the list, or `None` if the total is known. It is the first part of
    /// the statement.
    #[must_use]
    pub fn part(&self) -> Option<RelatedPart> {
        let Total::Uncounted(rows) = &self.total else {
            return None;
        };
        let part = RelatedPart::new(counted((**rows).clone()), bigint(Expr::Constant(0.into())));
        Some(part.with_number(Func::count(Expr::col(Asterisk)).into()))
    }

    /// Returns the position of the page, from the row of [`Self::part`].
    #[must_use]
    pub fn position(&self, counted: &[RelatedRow]) -> PagePosition {
        let total = match self.total {
            Total::Known(total) => total,
            Total::Uncounted(_) => {
                let total = counted.first().and_then(|row| row.number);
                total
                    .and_then(|total| u64::try_from(total).ok())
                    .unwrap_or_default()
            }
        };
        PagePosition::of_total(total, self.more, self.beyond)
    }
}

/// Returns the total of a list that ends on the page, of which a page plus one row was read.
fn total_on_page(page: &PageRequest, read: usize) -> Option<u64> {
    let read = read as u64;
    let begins = read > 0 || page.offset() == 0;
    (begins && read <= page.limit()).then(|| page.offset().saturating_add(read))
}

/// Returns the total of a list of which a page plus one row was read. If the list ends on the page, the page
/// determines the total. Otherwise it is counted like in [`bounded_count`]. For lists that are slow to count.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn count_for_page(
    db: &impl ConnectionTrait,
    page: &PageRequest,
    read: usize,
    rows: SelectStatement,
) -> Result<u64> {
    match total_on_page(page, read) {
        Some(total) => Ok(total),
        None => bounded_count(db, rows).await,
    }
}

/// Returns a page of a query, in its order, with the total. A list that ends on the page is not counted. Tables with
/// large texts need `page_with_texts`.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn page_of<E: EntityTrait<Model: ReadColumns>>(
    db: &impl ConnectionTrait,
    query: Select<E>,
    page: &PageRequest,
) -> Result<Page<E::Model>> {
    let rows = query.clone().offset(page.offset()).limit(page.limit() + 1);
    let found = columns::all(db, rows).await?;
    let total = count_for_page(db, page, found.len(), query.into_query()).await?;
    Ok(Page::new(page, found, total))
}

/// As [`page_of`], for a list whose total is counted in the statement that reads the related rows of the page.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn uncounted_page_of<E: EntityTrait<Model: ReadColumns>>(
    db: &impl ConnectionTrait,
    query: Select<E>,
    page: &PageRequest,
) -> Result<(Vec<E::Model>, PageTotal)> {
    let all = query.clone();
    let rows = query.offset(page.offset()).limit(page.limit() + 1);
    let mut found = columns::all(db, rows).await?;
    let total = PageTotal::of_page(page, &mut found, None, || all.into_query());
    Ok((found, total))
}

/// As [`page_of`], for a table with large texts, whose memory is reserved as in [`with_texts`].
///
/// # Errors
/// Returns the errors of [`with_texts`].
pub(crate) async fn page_with_texts<E: LargeTexts>(
    db: &impl ConnectionTrait,
    caller: &Caller,
    query: Select<E>,
    page: &PageRequest,
) -> Result<Page<E::Model>> {
    let rows = query.clone().offset(page.offset()).limit(page.limit() + 1);
    let found = sized(db, rows).await?;
    let total = count_for_page(db, page, found.len(), query.into_query()).await?;
    let Page { items, rest } = Page::new(page, found, total);
    let items = single_with_texts::<E>(db, caller, items).await?;
    Ok(Page { items, rest })
}

/// As [`uncounted_page_of`], for a table with large texts, whose memory is reserved as in [`with_texts`].
///
/// # Errors
/// Returns the errors of [`with_texts`].
pub(crate) async fn uncounted_page_with_texts<E: LargeTexts>(
    db: &impl ConnectionTrait,
    caller: &Caller,
    query: Select<E>,
    page: &PageRequest,
) -> Result<(Vec<E::Model>, PageTotal)> {
    let all = query.clone();
    let rows = query.offset(page.offset()).limit(page.limit() + 1);
    let mut found = sized(db, rows).await?;
    let total = PageTotal::of_page(page, &mut found, None, || all.into_query());
    Ok((single_with_texts::<E>(db, caller, found).await?, total))
}

/// Returns all rows of a query for a table with large texts, whose memory is reserved as in [`with_texts`].
///
/// # Errors
/// Returns the errors of [`with_texts`].
pub(crate) async fn all_with_texts<E: LargeTexts>(
    db: &impl ConnectionTrait,
    caller: &Caller,
    query: Select<E>,
) -> Result<Vec<E::Model>> {
    let found = sized(db, query).await?;
    single_with_texts::<E>(db, caller, found).await
}

/// Returns rows with their large texts. Reserves the memory of the texts before it reads those that are not short, in
/// one more statement. A page of short texts needs no other statement.
///
/// # Errors
/// Returns `Error::Overloaded` if too little memory is left for the texts, or an error if the database fails.
pub(crate) async fn with_texts<E: LargeTexts, T>(
    db: &impl ConnectionTrait,
    caller: &Caller,
    rows: Vec<SizedRow<E::Model, T>>,
) -> Result<Vec<(E::Model, T)>> {
    let size = counted_bytes(rows.iter().map(|row| row.text_bytes).sum());
    // While texts are read, they exist twice.
    caller.reserve_memory(size.saturating_mul(2))?;
    let rows = load_texts::<E, T>(db, rows).await?;
    caller.release_memory(size);
    Ok(rows)
}

/// Returns the part of a size that is reserved. Texts that are not counted as a response need no reservation.
fn counted_bytes(size: u64) -> u64 {
    match size > UNCOUNTED_RESPONSE_BYTES as u64 {
        true => size,
        false => 0,
    }
}

async fn sized<E: LargeTexts>(
    db: &impl ConnectionTrait,
    query: Select<E>,
) -> Result<Vec<SizedRow<E::Model, ()>>> {
    Ok(read_sized::<E, ()>(db, query.into_query(), Vec::new(), |_, _| Ok(())).await?)
}

async fn single_with_texts<E: LargeTexts>(
    db: &impl ConnectionTrait,
    caller: &Caller,
    rows: Vec<SizedRow<E::Model, ()>>,
) -> Result<Vec<E::Model>> {
    let rows = with_texts::<E, ()>(db, caller, rows).await?;
    Ok(rows.into_iter().map(|(row, ())| row).collect())
}

/// Loads the related rows of a page. Reserves the memory of the large texts among them, as [`with_texts`].
///
/// # Errors
/// Returns the errors of [`with_texts`].
pub(crate) async fn load_related(
    db: &impl ConnectionTrait,
    caller: &Caller,
    related: RelatedRows,
) -> Result<RelatedRowSets> {
    let mut size = 0;
    let reserve = |bytes: u64| {
        size = counted_bytes(bytes);
        caller.reserve_memory(size.saturating_mul(2))
    };
    let rows = related.load_reserving(db, reserve).await?;
    caller.release_memory(size);
    Ok(rows)
}

/// Returns up to `limit` rows with IDs above `after`, in the order of their IDs. Reads long lists in parts.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn batch_after<E: EntityTrait>(
    db: &impl ConnectionTrait,
    query: Select<E>,
    id: E::Column,
    after: i64,
    limit: u64,
) -> Result<Vec<E::Model>> {
    let rows = query.filter(id.gt(after)).order_by_asc(id).limit(limit);
    Ok(rows.all(db).await?)
}

/// Matches timestamps up to an instant. Timestamps are shown in milliseconds but stored with more digits, so
/// the whole millisecond of the bound is included.
pub fn at_or_before(column: Expr, instant: DateTime<Utc>) -> Expr {
    let shown = instant.duration_trunc(TimeDelta::milliseconds(1));
    let bound = match shown {
        Ok(shown) if shown == instant => instant + TimeDelta::microseconds(999),
        _ => instant,
    };
    column.lte(bound)
}

/// Matches texts that contain another text. Both are folded: the column is the `*_key` of the searched one,
/// because databases differ in case folding.
pub fn contains(column: impl ColumnTrait, folded: &str) -> Expr {
    contains_in(Expr::col(column.as_column_ref()), folded)
}

/// Like [`contains`], for a column of an aliased table.
pub fn contains_in(key: Expr, folded: &str) -> Expr {
    key.like(pattern("%", folded, "%"))
}

/// Matches folded texts that start with another text.
pub fn starts_with(column: impl ColumnTrait, folded: &str) -> Expr {
    starts_with_in(Expr::col(column.as_column_ref()), folded)
}

/// Like [`starts_with`], for an expression.
pub fn starts_with_in(key: Expr, folded: &str) -> Expr {
    key.like(pattern("", folded, "%"))
}

/// Matches folded texts that end with another text.
pub fn ends_with(column: impl ColumnTrait, folded: &str) -> Expr {
    Expr::col(column.as_column_ref()).like(pattern("%", folded, ""))
}

/// Matches texts, lowercased by the database, that contain another text. The database lowercases that text as
/// well, because it may know different letters.
pub fn contains_in_any_case(lowered: Expr, text: &str) -> Expr {
    let pattern = Func::lower(Expr::val(escaped("%", text, "%")));
    let pattern = Expr::from(pattern).binary(BinOper::Escape, Expr::Constant(ESCAPE.into()));
    lowered.binary(BinOper::Like, pattern)
}

/// Returns the pattern of texts with `text` between `before` and `after`.
fn pattern(before: &str, text: &str, after: &str) -> LikeExpr {
    LikeExpr::new(escaped(before, text, after)).escape(ESCAPE)
}

fn escaped(before: &str, text: &str, after: &str) -> String {
    let mut pattern = String::from(before);
    for character in text.chars() {
        if ['%', '_', ESCAPE].contains(&character) {
            pattern.push(ESCAPE);
        }
        pattern.push(character);
    }
    pattern.push_str(after);
    pattern
}

/// Deletes a batch of expired rows and returns them. `columns` are the ID and the last day. Other nodes sweep as well,
/// and only the node that deletes a row receives it.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn delete_expired<E: EntityTrait>(
    transaction: &DatabaseTransaction,
    columns: [E::Column; 2],
    today: NaiveDate,
    batch: u64,
) -> Result<Vec<E::Model>> {
    let [id, expires_at] = columns;
    let ended = E::find()
        .select_only()
        .column(id)
        .filter(expires_at.lte(today))
        .order_by_asc(expires_at)
        .limit(batch)
        .into_query();
    let removed = E::delete_many().filter(id.in_subquery(ended));
    Ok(removed.exec_with_returning(transaction).await?)
}

/// Returns the total size in bytes of a text of rows, without reading the text. A row counts each time that its ID
/// occurs.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn total_text_bytes<E: EntityTrait>(
    db: &impl ConnectionTrait,
    (id, text): (E::Column, E::Column),
    ids: &[i64],
) -> Result<u64> {
    let distinct: BTreeSet<i64> = ids.iter().copied().collect();
    let distinct: Vec<i64> = distinct.into_iter().collect();
    let mut sizes: HashMap<i64, u64> = HashMap::new();
    for batch in distinct.chunks(SIZES_PER_STATEMENT) {
        let rows: Vec<(i64, Option<i64>)> = E::find()
            .select_only()
            .column(id)
            .column_as(text_bytes(text.into_expr()), "size")
            .filter(id.is_in(batch.iter().copied()))
            .into_tuple()
            .all(db)
            .await?;
        for (id, size) in rows {
            sizes.insert(id, u64::try_from(size.unwrap_or_default()).unwrap_or_default());
        }
    }
    Ok(ids.iter().filter_map(|id| sizes.get(id)).sum())
}

/// Returns the IDs of up to `limit` rows of a table whose `column` contains one of the IDs of their parents.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn batch_of_children(
    database: &Database,
    (table, column): (&'static str, &'static str),
    parents: &[i64],
    limit: u64,
) -> Result<Vec<i64>> {
    // Without a sort order, because the database would otherwise scan the table in this order.
    let batch = Query::select()
        .column("id")
        .from(table)
        .and_where(Expr::col(column).is_in(parents.iter().copied()))
        .limit(limit)
        .take();
    let snapshot = database.indexed_snapshot().await?;
    let rows = snapshot.query_all(&batch).await?;
    snapshot.rollback().await?;
    let ids = rows.iter().map(|row| row.try_get::<i64>("", "id"));
    Ok(ids.collect::<Result<Vec<i64>, DbErr>>()?)
}

/// Deletes the rows of a table with these IDs. Locks them in the order of the IDs, as all transactions that lock
/// several rows of a table.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn delete_batch(
    transaction: &DatabaseTransaction,
    table: &'static str,
    ids: &[i64],
) -> Result<()> {
    let matches = Expr::col("id").is_in(ids.iter().copied());
    lock_batch(transaction, table, matches.clone(), LockType::Update).await?;
    let deletion = Query::delete().from_table(table).and_where(matches).take();
    transaction.execute(&deletion).await?;
    Ok(())
}

/// Sets a column of the rows of a table with these IDs to null, if it still contains one of the IDs of their parents. Locks
/// the rows as [`delete_batch`].
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn detach_batch(
    transaction: &DatabaseTransaction,
    (table, column): (&'static str, &'static str),
    parents: &[i64],
    ids: &[i64],
) -> Result<()> {
    let matches = Expr::col("id").is_in(ids.iter().copied());
    lock_batch(transaction, table, matches.clone(), LockType::NoKeyUpdate).await?;
    let update = Query::update()
        .table(table)
        .value(column, Expr::value(None::<i64>))
        .and_where(matches)
        .and_where(Expr::col(column).is_in(parents.iter().copied()))
        .take();
    transaction.execute(&update).await?;
    Ok(())
}

async fn lock_batch(
    transaction: &DatabaseTransaction,
    table: &'static str,
    matches: Expr,
    lock: LockType,
) -> Result<()> {
    let rows = Query::select()
        .column("id")
        .from(table)
        .and_where(matches)
        .order_by("id", Order::Asc)
        .lock(lock)
        .take();
    transaction.query_all(&rows).await?;
    Ok(())
}
