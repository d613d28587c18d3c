//! Lists of issues and merge requests: filter, order and pagination.

mod conditions;
mod indexed;
mod search;

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{CommonTableExpression, Expr, NullOrdering, Query, SelectStatement};
use sea_orm::{Condition, ConnectionTrait, EntityTrait, ExprTrait, QueryFilter, QueryTrait};

pub(crate) use conditions::{NO_LABEL, faults, numbered, sieves};
pub(crate) use indexed::{Sieve, Sieves, absent};

use storage::entities::issuables::IssuableKind;
use storage::entities::row_conditions::has_rows;
use storage::entities::selectivity::TARGET_ID;

use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{bounded_count, count_for_page};

/// Relation to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All issuables.
    All,
    /// Created by the caller.
    CreatedByMe,
    /// Assigned to the caller.
    AssignedToMe,
}

/// Part of the instance that is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The whole instance.
    Everywhere,
    /// The projects of a group and its subgroups.
    Group(i64),
    /// A single project.
    Project(i64),
}

/// None at all, at least one, or a particular one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence<T> {
    /// None.
    None,
    /// At least one.
    Any,
    /// This one.
    Is(T),
}

/// Conditions that can be negated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Titles of labels.
    pub labels: Vec<String>,
    /// Title of the milestone.
    pub milestone: Option<String>,
    /// ID of the author.
    pub author_id: Option<i64>,
    /// Username of the author.
    pub author_username: Option<String>,
    /// ID of the assignee, or a keyword.
    pub assignee_id: Option<String>,
    /// Usernames of the assignees.
    pub assignee_usernames: Vec<String>,
    /// Award emoji of the caller.
    pub my_reaction_emoji: Option<String>,
    /// IIDs of the issuables.
    pub iids: Option<Vec<i64>>,
    /// Search text.
    pub search: Option<String>,
    /// Columns that are searched.
    pub fields: Option<Vec<String>>,
}

/// Filter of both kinds, combined with AND. The field names are those of the contract.
#[allow(missing_docs)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub scope: Option<Scope>,
    pub wanted: Conditions,
    pub unwanted: Conditions,
    pub created_after: Option<DateTime<Utc>>,
    pub created_before: Option<DateTime<Utc>>,
    pub updated_after: Option<DateTime<Utc>>,
    pub updated_before: Option<DateTime<Utc>>,
    /// Whether issuables of archived projects are excluded.
    pub non_archived: bool,
    /// ID of the milestone.
    pub milestone_id: Option<i64>,
    pub ascending: bool,
}

/// Sort order. Null values come last in both directions, and ties are sorted newest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ordering {
    /// The columns.
    pub columns: &'static [&'static str],
    /// Whether the columns are nullable.
    pub nullable: bool,
    /// Whether the order is ascending.
    pub ascending: bool,
}

/// Name of the subquery with the rows in list order, before visibility is checked.
const ORDERED: &str = "ordered";
/// Name of the subquery with the IDs that match the conditions, unordered.
const FOUND: &str = "found";
/// Number of rows that are read in list order before matches are looked up instead.
const NEAR: u64 = 4_000;

impl Ordering {
    /// Orders rows whose columns are given by name.
    fn apply(self, column: impl Fn(&'static str) -> Expr, rows: &mut SelectStatement) {
        let direction = match self.ascending {
            true => sea_orm::Order::Asc,
            false => sea_orm::Order::Desc,
        };
        for column_name in self.columns {
            let column = column(column_name);
            match self.nullable {
                true => rows.order_by_expr_with_nulls(column, direction.clone(), NullOrdering::Last),
                false => rows.order_by_expr(column, direction.clone()),
            };
        }
        rows.order_by_expr(column("id"), sea_orm::Order::Desc);
    }
}

/// A list of which a page is requested.
struct List<'a> {
    kind: IssuableKind,
    visible: Condition,
    sieves: &'a Sieves,
    order: Ordering,
    page: &'a PageRequest,
}

impl List<'_> {
    fn ids(&self, condition: Condition) -> SelectStatement {
        Query::select()
            .expr_as(self.kind.column("id"), TARGET_ID)
            .from(self.kind.table())
            .cond_where(condition)
            .take()
    }

    /// Returns the page, with one more row if the list continues.
    async fn page(&self, db: &impl ConnectionTrait) -> Result<Vec<i64>> {
        if self.sieves.may_lie_far() {
            let mut near = self.ordered(self.sieves.narrowed());
            near.limit(NEAR);
            let tests = self.sieves.tests().add(self.visible.clone());
            let found = self.read(db, self.of_ordered(near, tests)).await?;
            if found.len() as u64 > self.page.limit() {
                return Ok(found);
            }
            let parts = self.sieves.parts();
            let found = parts.ids.map(|ids| self.kind.column("id").in_subquery(ids));
            let all = self.ordered(parts.own.add_option(found)).offset(0).take();
            let left = parts.left.add(self.visible.clone());
            return self.read(db, self.of_ordered(all, left)).await;
        }
        let mut wanted = self.ids(self.sieves.in_order(self.visible.clone()));
        self.order.apply(|name| self.kind.column(name), &mut wanted);
        self.read(db, wanted).await
    }

    async fn read(&self, db: &impl ConnectionTrait, mut ids: SelectStatement) -> Result<Vec<i64>> {
        ids.offset(self.page.offset()).limit(self.page.limit() + 1);
        let rows = db.query_all(&ids).await?;
        let ids = rows.iter().map(|row| row.try_get_by_index::<i64>(0));
        Ok(ids.collect::<std::result::Result<_, _>>()?)
    }

    /// Returns the query for all rows of the list, for counting.
    fn counted(&self) -> SelectStatement {
        if !self.sieves.may_lie_far() {
            return self.ids(self.sieves.looked_up().add(self.visible.clone()));
        }
        let parts = self.sieves.parts();
        let left = parts.left.add(self.visible.clone());
        let (ids, tests) = match parts.ids {
            Some(ids) => (ids, parts.tests.add(left)),
            None => (self.ids(parts.own), left),
        };
        // In a single query, PostgreSQL estimates the visibility checks as very expensive and everything else
        // as negligible. It then repeatedly reads whole tables and indexes to avoid a few checks.
        let found = CommonTableExpression::new()
            .table_name(FOUND)
            .query(ids)
            .materialized(true)
            .to_owned();
        Query::select()
            .expr(Expr::val(1))
            .from(FOUND)
            .and_where(self.meets(Expr::col((FOUND, TARGET_ID)), tests))
            .with_cte(found)
            .take()
    }

    /// Returns whether the row with an ID meets a condition, checked row by row.
    fn meets(&self, id: Expr, condition: Condition) -> Expr {
        let mut row = Query::select()
            .expr(Expr::val(1))
            .from(self.kind.table())
            .and_where(self.kind.column("id").eq(id))
            .cond_where(condition)
            .take();
        has_rows(&mut row)
    }

    /// Returns the query for the IDs and the sort columns, in order.
    fn ordered(&self, condition: Condition) -> SelectStatement {
        let mut rows = Query::select()
            .expr_as(self.kind.column("id"), "id")
            .from(self.kind.table())
            .cond_where(condition)
            .take();
        for name in self.order.columns.iter().filter(|name| **name != "id") {
            rows.expr_as(self.kind.column(name), *name);
        }
        self.order.apply(|name| self.kind.column(name), &mut rows);
        rows
    }

    /// Returns the ordered rows that meet a condition, which is checked one by one until the page is full.
    fn of_ordered(&self, ordered: SelectStatement, condition: Condition) -> SelectStatement {
        let mut rows = Query::select()
            .expr(Expr::col((ORDERED, "id")))
            .from_subquery(ordered, ORDERED)
            .and_where(self.meets(Expr::col((ORDERED, "id")), condition))
            .take();
        self.order.apply(|name| Expr::col((ORDERED, name)), &mut rows);
        rows
    }
}

/// Returns a page of the visible rows that meet the conditions. `E` is the table of the kind.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn page_of<E: EntityTrait>(
    db: &impl ConnectionTrait,
    kind: IssuableKind,
    visible: Condition,
    mut sieves: Sieves,
    order: Ordering,
    page: &PageRequest,
) -> Result<Page<E::Model>> {
    sieves.look(db).await?;
    if sieves.let_nothing_through() {
        return Ok(Page::new(page, Vec::new(), 0));
    }
    let list = List {
        kind,
        visible,
        sieves: &sieves,
        order,
        page,
    };
    let (ids, counted) = match list.sieves.may_lie_far() {
        // Both queries are slow and independent of each other.
        true => {
            let (ids, total) = tokio::try_join!(list.page(db), bounded_count(db, list.counted()))?;
            (ids, Some(total))
        }
        false => (list.page(db).await?, None),
    };
    // Rows are loaded by ID in a separate statement. In a combined query, PostgreSQL reads the whole table in
    // list order and compares each row with the page.
    let mut rows = E::find().filter(kind.column("id").is_in(ids));
    order.apply(|name| kind.column(name), QueryTrait::query(&mut rows));
    let found = rows.all(db).await?;
    let total = match counted {
        Some(total) => total,
        None => count_for_page(db, page, found.len(), list.counted()).await?,
    };
    Ok(Page::new(page, found, total))
}
