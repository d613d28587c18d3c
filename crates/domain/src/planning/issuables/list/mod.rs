//! Lists of issues and merge requests: filter, order and pagination.

mod conditions;
mod indexed;
mod search;

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{
    Asterisk, CommonTableExpression, Expr, Func, NullOrdering, Query, SelectStatement, SubQueryStatement,
};
use sea_orm::{Condition, ConnectionTrait, ExprTrait, QueryFilter, QueryTrait, Related};

pub(crate) use conditions::{
    NO_LABEL, between_times, condition_set, filter_errors, parse_number, parse_presence, projects_of,
    users_named,
};
pub(crate) use indexed::{ConditionSet, IndexedCondition, is_null};

use storage::entities::columns::ReadColumns;
use storage::entities::issuables::IssuableKind;
use storage::entities::large_texts::{LargeTexts, SizedRow, read_sized};
use storage::entities::milestones;
use storage::entities::row_conditions::{has_rows, is_among};
use storage::entities::selectivity::TARGET_ID;

use super::WithMilestone;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::page::PageRequest;
use crate::kernel::query::{PageTotal, bounded_count, with_texts};

/// Relation of listed issuables to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IssuableScope {
    /// All issuables.
    All,
    /// Created by the caller.
    CreatedByMe,
    /// Assigned to the caller.
    AssignedToMe,
}

/// Part of the instance that is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListScope {
    /// The whole instance.
    Instance,
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
pub struct IssuableConditions {
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
pub struct IssuableFilter {
    pub scope: Option<IssuableScope>,
    pub include: IssuableConditions,
    pub exclude: IssuableConditions,
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

/// Sort attribute of issues and merge requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IssuableOrder {
    /// Time of creation.
    #[default]
    CreatedAt,
    /// Time of the last update.
    UpdatedAt,
    /// Due date of the milestone, then label priority.
    Priority,
    /// Label priority.
    LabelPriority,
    /// Due date of the milestone.
    MilestoneDue,
    /// Number of `thumbsup` award emoji.
    Popularity,
}

impl IssuableOrder {
    /// Returns the sort order by this attribute.
    pub(crate) fn sort(self, ascending: bool) -> SortOrder {
        SortOrder {
            columns: match self {
                Self::CreatedAt => &["created_at"],
                Self::UpdatedAt => &["updated_at"],
                // The order within the same due date is unspecified, and this order has an index.
                Self::Priority | Self::MilestoneDue => &["milestone_due_on", "label_priority"],
                Self::LabelPriority => &["label_priority"],
                Self::Popularity => &["upvotes"],
            },
            nullable: !matches!(self, Self::CreatedAt | Self::UpdatedAt),
            ascending,
        }
    }
}

/// Sort order. Null values come last in both directions, and ties are sorted newest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SortOrder {
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
const MAX_NEAR_ROWS: u64 = 4_000;
/// Limit on sorted matches. All of them are sorted: SQLite ignores the order of a subquery without a limit.
const MAX_SORTED_ROWS: u64 = i64::MAX.unsigned_abs();

impl SortOrder {
    /// The default order.
    pub const BY_CREATION: Self = Self {
        columns: &["created_at"],
        nullable: false,
        ascending: false,
    };

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
struct ListQuery<'a> {
    kind: IssuableKind,
    visible: Condition,
    conditions: &'a ConditionSet,
    order: SortOrder,
    page: &'a PageRequest,
}

impl ListQuery<'_> {
    fn ids(&self, condition: Condition) -> SelectStatement {
        Query::select()
            .expr_as(self.kind.column("id"), TARGET_ID)
            .from(self.kind.table())
            .cond_where(condition)
            .take()
    }

    /// Returns the page, with one more row if the list continues.
    async fn page(&self, db: &impl ConnectionTrait) -> Result<Vec<i64>> {
        if self.conditions.needs_deep_scan() {
            let mut near = self.ordered(self.conditions.covered());
            near.limit(MAX_NEAR_ROWS);
            let tests = || self.conditions.tests().add(self.visible.clone());
            let found = self.read_ids(db, self.filter_ordered(near, tests())).await?;
            if found.len() as u64 > self.page.limit() {
                return Ok(found);
            }
            if self.conditions.assumes_few_matches() {
                let Some(ids) = self.conditions.sortable_ids(db).await? else {
                    return self.page_in_list_order(db).await;
                };
                let matching = self.kind.column("id").in_subquery(ids);
                let mut all = self.ordered(self.conditions.covered().add(matching));
                all.limit(MAX_SORTED_ROWS);
                return self.read_ids(db, self.filter_ordered(all, tests())).await;
            }
            let scan = self.conditions.deep_scan();
            let matching = scan.ids.map(|ids| self.kind.column("id").in_subquery(ids));
            let all = self.ordered(scan.own.add_option(matching)).offset(0).take();
            let tests = scan.row_tests.add(self.visible.clone());
            return self.read_ids(db, self.filter_ordered(all, tests)).await;
        }
        self.page_in_list_order(db).await
    }

    /// Returns the page, read in the order of the list until it is full.
    async fn page_in_list_order(&self, db: &impl ConnectionTrait) -> Result<Vec<i64>> {
        let mut ids = self.ids(self.conditions.in_list_order(self.visible.clone()));
        self.order.apply(|name| self.kind.column(name), &mut ids);
        self.read_ids(db, ids).await
    }

    async fn read_ids(&self, db: &impl ConnectionTrait, mut ids: SelectStatement) -> Result<Vec<i64>> {
        ids.offset(self.page.offset()).limit(self.page.limit() + 1);
        let rows = db.query_all(&ids).await?;
        let ids = rows.iter().map(|row| row.try_get_by_index::<i64>(0));
        Ok(ids.collect::<std::result::Result<_, _>>()?)
    }

    /// Returns the query for all rows of the list, for counting.
    fn count_query(&self) -> SelectStatement {
        if self.conditions.assumes_few_matches()
            && let Some(ids) = self.conditions.countable_ids()
        {
            return self.count_while_reading(ids);
        }
        if self.conditions.assumes_few_matches() || !self.conditions.needs_deep_scan() {
            return self.ids(self.conditions.lookup().add(self.visible.clone()));
        }
        let scan = self.conditions.deep_scan();
        let tests = scan.row_tests.add(self.visible.clone());
        let (ids, tests) = match scan.ids {
            Some(ids) => (ids, scan.own_tests.add(tests)),
            None => (self.ids(scan.own), tests),
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
            .and_where(self.row_meets(Expr::col((FOUND, TARGET_ID)), tests))
            .with_cte(found)
            .take()
    }

    /// Returns the query for all rows of the list that begins with distinct IDs. SQLite follows the order of a cross
    /// join, and would otherwise first read all IDs, of which a count needs at most 10,001.
    fn count_while_reading(&self, ids: SelectStatement) -> SelectStatement {
        let tests = self.conditions.tests().add(self.visible.clone());
        Query::select()
            .expr(Expr::val(1))
            .from_subquery(ids, FOUND)
            .cross_join(self.kind.table())
            .and_where(self.kind.column("id").eq(Expr::col((FOUND, TARGET_ID))))
            .cond_where(self.conditions.covered().add(tests))
            .take()
    }

    /// Returns whether the row with an ID meets a condition, checked row by row.
    fn row_meets(&self, id: Expr, condition: Condition) -> Expr {
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
    fn filter_ordered(&self, ordered: SelectStatement, condition: Condition) -> SelectStatement {
        let mut rows = Query::select()
            .expr(Expr::col((ORDERED, "id")))
            .from_subquery(ordered, ORDERED)
            .and_where(self.row_meets(Expr::col((ORDERED, "id")), condition))
            .take();
        // SQLite would test all rows and then sort them again. It reads a subquery with a limit in its order.
        if !self.conditions.assumes_few_matches() {
            self.order.apply(|name| Expr::col((ORDERED, name)), &mut rows);
        }
        rows
    }
}

/// Returns the exact numbers of visible rows that meet each set of conditions, counted in one statement.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn count_each<const N: usize>(
    db: &impl ConnectionTrait,
    kind: IssuableKind,
    visible: &Condition,
    sets: [ConditionSet; N],
    order: SortOrder,
) -> Result<[i64; N]> {
    let mut counts = Query::select();
    for conditions in &sets {
        let list = ListQuery {
            kind,
            visible: visible.clone(),
            conditions,
            order,
            page: &PageRequest::default(),
        };
        let count = Query::select()
            .expr(Func::count(Expr::col(Asterisk)))
            .from_subquery(list.count_query(), "counted")
            .take();
        counts.expr(Expr::from(SubQueryStatement::from(count)));
    }
    let mut numbers = [0; N];
    if let Some(row) = db.query_one(&counts).await? {
        for (at, number) in numbers.iter_mut().enumerate() {
            *number = row.try_get_by_index(at)?;
        }
    }
    Ok(numbers)
}

/// Returns a page of the visible rows that meet the conditions, with their milestones, and the total. `E` is the table
/// of the kind.
///
/// # Errors
/// Returns the errors of [`with_texts`].
pub(crate) async fn page_of<E: LargeTexts + Related<milestones::Entity>>(
    db: &impl ConnectionTrait,
    caller: &Caller,
    kind: IssuableKind,
    visible: Condition,
    mut conditions: ConditionSet,
    order: SortOrder,
    page: &PageRequest,
) -> Result<(Vec<WithMilestone<E::Model>>, PageTotal)> {
    conditions.find_few(db).await?;
    if conditions.match_nothing() {
        let nothing = PageTotal::of_page::<()>(page, &mut Vec::new(), Some(0), SelectStatement::new);
        return Ok((Vec::new(), nothing));
    }
    let list = ListQuery {
        kind,
        visible,
        conditions: &conditions,
        order,
        page,
    };
    let select = |condition: Condition| {
        let rows = E::find().find_also_related(milestones::Entity).filter(condition);
        let mut rows = rows.into_query();
        order.apply(|name| kind.column(name), &mut rows);
        rows
    };
    if conditions.has_few_matches() {
        let mut rows = select(conditions.in_list_order(list.visible.clone()));
        rows.offset(page.offset()).limit(page.limit() + 1);
        let mut rows = read_with_milestones::<E>(db, rows).await?;
        let total = PageTotal::of_page(page, &mut rows, None, || list.count_query());
        return Ok((with_texts::<E, _>(db, caller, rows).await?, total));
    }
    let (ids, total) = match conditions.needs_deep_scan() && !conditions.assumes_few_matches() {
        // Both queries are slow and independent of each other.
        true => {
            let (ids, total) = tokio::try_join!(list.page(db), bounded_count(db, list.count_query()))?;
            (ids, Some(total))
        }
        false => (list.page(db).await?, None),
    };
    // Rows are loaded by ID in a separate statement. In a combined query, PostgreSQL reads the whole table in
    // list order and compares each row with the page.
    let mut rows = match ids.is_empty() {
        true => Vec::new(),
        false => {
            let on_page = is_among(db.get_database_backend(), kind.column("id"), ids);
            read_with_milestones::<E>(db, select(Condition::all().add(on_page))).await?
        }
    };
    let total = PageTotal::of_page(page, &mut rows, total, || list.count_query());
    Ok((with_texts::<E, _>(db, caller, rows).await?, total))
}

/// Returns all rows of a statement that joins milestones. Their descriptions are read with the other related rows.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn read_with_milestones<E: LargeTexts>(
    db: &impl ConnectionTrait,
    statement: SelectStatement,
) -> Result<Vec<SizedRow<E::Model, Option<milestones::Model>>>> {
    let milestones = milestones::columns_without_description().collect();
    let read_milestone = milestones::Model::read_joined_columns;
    Ok(read_sized::<E, _>(db, statement, milestones, read_milestone).await?)
}
