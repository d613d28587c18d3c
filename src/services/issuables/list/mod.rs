//! Lists of issues and of merge requests: what is wanted, in which order, one page of it (specification 4.4).

mod conditions;
mod search;
mod sieve;

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{CommonTableExpression, Expr, NullOrdering, Query, SelectStatement};
use sea_orm::{Condition, ConnectionTrait, EntityTrait, ExprTrait, QueryFilter, QueryTrait};

pub(in crate::services) use conditions::{NO_LABEL, faults, numbered, sieves};
pub(in crate::services) use sieve::{Sieve, Sieves, absent};

use crate::api::types::{Page, PageRequest};
use crate::entities::by_row::finds;
use crate::entities::few::TARGET;
use crate::entities::issuables::Kind;
use crate::error::Result;
use crate::services::listing::{bounded_count, total_of};

/// What issues and merge requests have to do with the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Anything.
    All,
    /// The caller made them.
    CreatedByMe,
    /// They are assigned to the caller.
    AssignedToMe,
}

/// Where they are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Everywhere.
    Everywhere,
    /// In the projects of a group and of all groups below.
    Group(i64),
    /// In a project.
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

/// Conditions that can also be turned round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Labels, by title.
    pub labels: Vec<String>,
    /// The milestone, by title.
    pub milestone: Option<String>,
    /// Who made it.
    pub author_id: Option<i64>,
    /// Who made it, by name.
    pub author_username: Option<String>,
    /// To whom it is assigned.
    pub assignee_id: Option<String>,
    /// To whom it is assigned, by name.
    pub assignee_usernames: Vec<String>,
    /// What the caller awarded it.
    pub my_reaction_emoji: Option<String>,
    /// Numbers within projects.
    pub iids: Option<Vec<i64>>,
    /// Words in it.
    pub search: Option<String>,
    /// Where these are looked for.
    pub fields: Option<Vec<String>>,
}

/// What lists of both are asked; all conditions hold together. The names are those of the contract.
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
    /// Leaves out those of archived projects.
    pub non_archived: bool,
    /// Only those of this milestone.
    pub milestone_id: Option<i64>,
    pub ascending: bool,
}

/// The order of a list: what has no value comes last either way, and of equals the newer first.
#[derive(Debug, Clone, Copy)]
pub(in crate::services) struct Ordering {
    /// The columns.
    pub columns: &'static [&'static str],
    /// They may be null.
    pub nullable: bool,
    /// From the lowest to the highest.
    pub ascending: bool,
}

/// The rows of a list, in its order, before it is told who may see which.
const ORDERED: &str = "ordered";
/// The ids that conditions find, in no order.
const FOUND: &str = "found";
/// How far a list is read in its order before what its conditions find is looked up: of rows that meet none of them.
const NEAR: u64 = 4_000;

impl Ordering {
    /// Orders rows whose columns are told by their names.
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

/// A list of which a page is wanted.
struct List<'a> {
    kind: Kind,
    visible: Condition,
    sieves: &'a Sieves,
    order: Ordering,
    page: &'a PageRequest,
}

impl List<'_> {
    fn ids(&self, condition: Condition) -> SelectStatement {
        Query::select()
            .expr_as(self.kind.column("id"), TARGET)
            .from(self.kind.table())
            .cond_where(condition)
            .take()
    }

    /// The page, and one row more where the list goes on.
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

    /// All rows of the list, for counting.
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
        // Asked for all at once, PostgreSQL takes the tests of what is visible for so costly that nothing else seems to cost
        // anything: it reads whole tables and indexes, again and again, to spare itself some.
        let found = CommonTableExpression::new()
            .table_name(FOUND)
            .query(ids)
            .materialized(true)
            .to_owned();
        Query::select()
            .expr(Expr::val(1))
            .from(FOUND)
            .and_where(self.meets(Expr::col((FOUND, TARGET)), tests))
            .with_cte(found)
            .take()
    }

    /// Whether the row of an id meets a condition, looked at row by row.
    fn meets(&self, id: Expr, condition: Condition) -> Expr {
        let mut row = Query::select()
            .expr(Expr::val(1))
            .from(self.kind.table())
            .and_where(self.kind.column("id").eq(id))
            .cond_where(condition)
            .take();
        finds(&mut row)
    }

    /// The ids with the columns of the order, in the order.
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

    /// Those of ordered rows that meet a condition, which is tried one by one until the page is full.
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

/// One page of what the sieves let through of what the caller may see. `E` is the table of the kind.
///
/// # Errors
/// Returns an error if the database fails.
pub(in crate::services) async fn page_of<E: EntityTrait>(
    db: &impl ConnectionTrait,
    kind: Kind,
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
        // Either takes long, and neither needs the other.
        true => {
            let (ids, total) = tokio::try_join!(list.page(db), bounded_count(db, list.counted()))?;
            (ids, Some(total))
        }
        false => (list.page(db).await?, None),
    };
    // The rows are asked for by their ids: were they asked for together, PostgreSQL would read the whole table in the order
    // of the list, and compare each row with those of the page.
    let mut rows = E::find().filter(kind.column("id").is_in(ids));
    order.apply(|name| kind.column(name), QueryTrait::query(&mut rows));
    let found = rows.all(db).await?;
    let total = match counted {
        Some(total) => total,
        None => total_of(db, page, found.len(), list.counted()).await?,
    };
    Ok(Page::new(page, found, total))
}
