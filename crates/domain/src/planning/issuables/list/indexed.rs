//! List conditions, each in two forms. No database can estimate how many rows a condition matches. If a
//! condition matches few rows, the list is looked up by their IDs. Otherwise the list is read in its order,
//! and each row is checked until the page is full. Totals are counted from the matches.

use std::collections::BTreeSet;

use sea_orm::sea_query::extension::postgres::PgFunc;
use sea_orm::sea_query::{Asterisk, Expr, Func, Query, SelectStatement, SubQueryStatement, UnionType};
use sea_orm::{Condition, ConnectionTrait, DbBackend, DbErr, ExprTrait};
use storage::entities::issuables::IssuableKind;
use storage::entities::row_conditions::{has_rows, is_among};
use storage::entities::selectivity::{TARGET_ID, if_few};

use super::SortOrder;

/// A condition in both forms.
#[derive(Debug, Clone)]
pub(crate) struct IndexedCondition {
    /// Query for the matching IDs, as a column named [`TARGET_ID`].
    pub ids: SelectStatement,
    /// Condition on a row, checked row by row. Written so that the planner uses no index.
    pub test: Condition,
    /// Condition on a row that can use an index of its own table. `None` if the condition depends on other
    /// tables.
    pub own: Option<Condition>,
    /// For a search in the full-text table of SQLite, the condition that a row is among the matches. They are read once
    /// for a statement.
    pub in_matches: Option<Condition>,
}

/// Maximum number of matches that SQLite sorts, or stores in memory, for one statement.
const MAX_MATCHES: u64 = 50_000;

/// Wraps a condition so that the planner neither estimates it nor turns it into a join.
fn hide_from_planner(condition: impl Into<Expr>) -> Expr {
    Func::coalesce([condition.into(), Expr::val(false)]).into()
}

/// Returns the IDs that both statements match. Their columns are named [`TARGET_ID`].
fn intersect(ids: SelectStatement, others: SelectStatement) -> SelectStatement {
    Query::select()
        .column(TARGET_ID)
        .from_subquery(ids, "some")
        .and_where(Expr::col(("some", TARGET_ID)).in_subquery(others))
        .offset(0)
        .take()
}

/// Returns the distinct IDs that one statement matches and the others do not. Their columns are named
/// [`TARGET_ID`].
fn subtract(ids: SelectStatement, others: Vec<SelectStatement>) -> SelectStatement {
    let mut rest = Query::select();
    if others.is_empty() {
        rest.distinct();
    }
    let others = others.into_iter().map(|ids| (UnionType::Except, ids));
    rest.column(TARGET_ID)
        .from_subquery(ids, "some")
        .unions(others)
        .take()
}

/// Returns the position of the statement with the fewest rows, unless all have too many. Rows are counted up to the
/// limit, in a single statement.
async fn smallest<'a>(
    db: &impl ConnectionTrait,
    ids: impl IntoIterator<Item = &'a SelectStatement>,
) -> Result<Option<usize>, DbErr> {
    let mut counts = Query::select();
    let mut length = 0;
    for ids in ids {
        let some = Query::select()
            .column(TARGET_ID)
            .from_subquery(ids.clone(), "some")
            .limit(MAX_MATCHES + 1)
            .take();
        let count = Query::select()
            .expr(Func::count(Expr::col(Asterisk)))
            .from_subquery(some, "counted")
            .take();
        counts.expr(Expr::from(SubQueryStatement::from(count)));
        length += 1;
    }
    let Some(row) = db.query_one(&counts).await? else {
        return Ok(None);
    };
    let mut smallest = None;
    for at in 0..length {
        let count: i64 = row.try_get_by_index(at)?;
        if count.unsigned_abs() <= MAX_MATCHES && smallest.is_none_or(|(fewest, _)| count < fewest) {
            smallest = Some((count, at));
        }
    }
    Ok(smallest.map(|(_, at)| at))
}

/// Matches rows where a column is null, checked row by row. For a plain condition, databases expect few
/// matches and read the whole table.
pub(crate) fn is_null(column: Expr) -> Condition {
    let not_null = Query::select()
        .expr(Expr::val(1))
        .and_where(column.is_not_null())
        .take();
    Condition::all().add(Expr::exists(not_null)).not()
}

/// Parts of the queries for conditions that [need a deep scan](ConditionSet::needs_deep_scan).
pub(super) struct DeepScan {
    /// Query for the distinct IDs that match several conditions, named [`TARGET_ID`], if there are such
    /// conditions.
    pub ids: Option<SelectStatement>,
    /// Conditions that use an index of the own table.
    pub own: Condition,
    /// The same, checked row by row.
    pub own_tests: Condition,
    /// Conditions that are always checked row by row.
    pub row_tests: Condition,
}

/// The conditions of a list.
#[derive(Debug)]
pub(crate) struct ConditionSet {
    kind: IssuableKind,
    database: DbBackend,
    included: Vec<IndexedCondition>,
    excluded: Vec<IndexedCondition>,
    /// The matches of a condition that has few.
    found_ids: Option<BTreeSet<i64>>,
    /// Conditions that the indexes of the sort orders cover.
    covered: Condition,
    /// Conditions that are always checked row by row.
    row_tests: Condition,
}

impl IndexedCondition {
    /// Matches issuables that are referenced by rows of a table that meet a condition.
    pub fn on_related_rows(kind: IssuableKind, table: &'static str, condition: Condition) -> Self {
        let ids = Query::select()
            .expr_as(Expr::col((table, kind.key())), TARGET_ID)
            .from(table)
            .cond_where(condition.clone())
            .take();
        let mut row = Query::select()
            .expr(Expr::val(1))
            .from(table)
            .and_where(Expr::col((table, kind.key())).eq(kind.column("id")))
            .cond_where(condition)
            .take();
        Self {
            ids,
            test: Condition::all().add(has_rows(&mut row)),
            own: None,
            in_matches: None,
        }
    }

    /// Matches issuables of a kind by a condition and its form for row-by-row checks.
    pub fn on_row(kind: IssuableKind, condition: Condition, test: Condition) -> Self {
        let ids = Query::select()
            .expr_as(kind.column("id"), TARGET_ID)
            .from(kind.table())
            .cond_where(condition.clone())
            .take();
        Self {
            ids,
            test,
            own: Some(condition),
            in_matches: None,
        }
    }

    /// Matches issuables by a numeric column of their own. `condition` builds each form, from the column or
    /// from an expression for which the planner uses no index.
    pub fn on_number(kind: IssuableKind, name: &'static str, condition: impl Fn(Expr) -> Expr) -> Self {
        let all = |expr: Expr| Condition::all().add(expr);
        let test = all(hide_from_planner(condition(kind.column(name).add(0))));
        Self::on_row(kind, all(condition(kind.column(name))), test)
    }
}

impl ConditionSet {
    /// Creates an empty set of conditions.
    pub fn new(kind: IssuableKind, database: DbBackend) -> Self {
        Self {
            kind,
            database,
            included: Vec::new(),
            excluded: Vec::new(),
            found_ids: None,
            covered: Condition::all(),
            row_tests: Condition::all(),
        }
    }

    /// Adds a condition.
    pub fn add(&mut self, condition: IndexedCondition) {
        self.included.push(condition);
    }

    /// Adds the condition that an own column is one of the IDs of a statement.
    pub fn add_id_in(&mut self, name: &'static str, ids: SelectStatement) {
        let test = hide_from_planner(self.kind.column(name).add(0).in_subquery(ids.clone()));
        let own = self.id_in(self.kind.column(name), ids);
        let [own, test] = [own, test].map(|expr| Condition::all().add(expr));
        self.add(IndexedCondition::on_row(self.kind, own, test));
    }

    /// Matches a column that is one of the IDs of a statement, each looked up in an index of the column. This
    /// avoids a join in PostgreSQL, which would compare each row of the table with all IDs to find a few.
    pub fn id_in(&self, column: Expr, ids: SelectStatement) -> Expr {
        if self.assumes_few_matches() {
            return column.in_subquery(ids);
        }
        let ids = Func::cust("ARRAY").arg(Expr::from(SubQueryStatement::from(ids)));
        column.eq(PgFunc::any(ids))
    }

    /// Adds a negated condition.
    pub fn exclude(&mut self, condition: IndexedCondition) {
        self.excluded.push(condition);
    }

    /// Adds a condition that the indexes of the sort orders cover besides the sort columns.
    pub fn add_covered(&mut self, condition: Condition) {
        self.covered = self.covered.clone().add(condition);
    }

    /// Adds the condition on the state. Only issues have an index that begins with the state, in the order of creation: other
    /// orders look up its matches.
    pub fn add_state(&mut self, condition: Condition, order: SortOrder) {
        let can_look_up = self.assumes_few_matches() && self.kind == IssuableKind::Issue;
        if can_look_up && order.columns != ["created_at"] {
            let test = Condition::all().add(hide_from_planner(condition.clone()));
            self.add(IndexedCondition::on_row(self.kind, condition, test));
        } else {
            self.add_covered(condition);
        }
    }

    /// Adds a condition that is always checked row by row.
    pub fn add_test(&mut self, condition: Condition) {
        self.row_tests = self.row_tests.clone().add(condition);
    }

    /// Looks for a condition with few matches. Runs at most one statement per condition and stops at the
    /// first. Without such a condition, decides in which form excluded texts are searched.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn find_few(&mut self, db: &impl ConnectionTrait) -> Result<(), DbErr> {
        for condition in &self.included {
            self.found_ids = if_few(db, condition.ids.clone()).await?;
            if self.found_ids.is_some() {
                return Ok(());
            }
        }
        for condition in &mut self.excluded {
            if let Some(in_matches) = condition.in_matches.take()
                && smallest(db, [&condition.ids]).await?.is_some()
            {
                condition.test = in_matches;
            }
        }
        Ok(())
    }

    /// Returns the query for the matches of the condition that has the fewest, if they can be sorted.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub(super) async fn sortable_ids(
        &self,
        db: &impl ConnectionTrait,
    ) -> Result<Option<SelectStatement>, DbErr> {
        let ids = || self.included.iter().map(|condition| &condition.ids);
        let at = smallest(db, ids()).await?;
        Ok(at.and_then(|at| ids().nth(at)).cloned())
    }

    /// Returns the query for the matches of a search, if no other condition has an index. They are distinct, so rows
    /// can be counted while matches are read.
    pub(super) fn countable_ids(&self) -> Option<SelectStatement> {
        match self.included.as_slice() {
            [search] if self.found_ids.is_none() && search.in_matches.is_some() => Some(search.ids.clone()),
            _ => None,
        }
    }

    /// Returns whether a condition has no match at all.
    #[must_use]
    pub fn match_nothing(&self) -> bool {
        self.found_ids.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// Returns the conditions for reading a page in list order, including visibility.
    pub fn in_list_order(&self, visible: Condition) -> Condition {
        let all = self.tests().add(visible);
        // SQLite assumes that every condition reduces the number of rows. With several, it reads and sorts
        // the whole table instead of following the index until the page is full. It assumes nothing about a
        // single expression.
        let all = match self.assumes_few_matches() && self.found_ids.is_none() {
            true => Condition::all().add(hide_from_planner(all)),
            false => all,
        };
        self.covered.clone().add(all)
    }

    /// Returns all conditions, except those covered by the indexes of the sort orders, for row-by-row checks.
    pub fn tests(&self) -> Condition {
        self.combine(|condition| condition.test.clone())
    }

    /// Returns the conditions that the indexes of the sort orders cover.
    pub fn covered(&self) -> Condition {
        self.covered.clone()
    }

    /// Returns the conditions for looking up matches, for example for counting.
    pub fn lookup(&self) -> Condition {
        let id = || self.kind.column("id");
        let all = self.combine(|condition| match &condition.own {
            Some(own) => own.clone(),
            None => Condition::all().add(id().in_subquery(condition.ids.clone())),
        });
        self.covered.clone().add(all)
    }

    /// Returns the query parts for conditions that [need a deep scan](Self::needs_deep_scan). Matches of
    /// several conditions are intersected first and excluded IDs subtracted, which reads fewer rows.
    pub(super) fn deep_scan(&self) -> DeepScan {
        let on_others = self.included.iter().filter(|condition| condition.own.is_none());
        let on_own = || self.included.iter().filter(|condition| condition.own.is_some());
        let add = |all: Condition, condition: Option<Condition>| all.add_option(condition);
        let excluded = self
            .excluded
            .iter()
            .map(|condition| condition.ids.clone())
            .collect();
        let ids = on_others.map(|condition| condition.ids.clone()).reduce(intersect);
        let ids = ids.map(|ids| subtract(ids, excluded));
        DeepScan {
            own: on_own()
                .map(|condition| condition.own.clone())
                .fold(self.covered.clone(), add),
            own_tests: on_own()
                .map(|condition| Some(condition.test.clone()))
                .fold(self.covered.clone(), add),
            row_tests: match ids {
                Some(_) => self.row_tests.clone(),
                None => self.all_row_tests(),
            },
            ids,
        }
    }

    /// Returns whether matches may be far down the list, so that they can be looked up instead.
    pub fn needs_deep_scan(&self) -> bool {
        self.found_ids.is_none() && !self.included.is_empty()
    }

    /// Returns whether a condition has few matches, by which the list is looked up.
    pub fn has_few_matches(&self) -> bool {
        self.found_ids.is_some()
    }

    /// Returns whether the database assumes that every condition has few matches.
    pub fn assumes_few_matches(&self) -> bool {
        self.database == DbBackend::Sqlite
    }

    /// Returns the conditions that are always checked row by row.
    fn all_row_tests(&self) -> Condition {
        let excluded = self.excluded.iter().map(|condition| condition.test.clone().not());
        excluded.fold(self.row_tests.clone(), Condition::add)
    }

    fn combine(&self, form: impl Fn(&IndexedCondition) -> Condition) -> Condition {
        let all = self.all_row_tests();
        match &self.found_ids {
            // With few matches, all other conditions are checked row by row.
            Some(ids) => {
                let id = self.kind.column("id");
                let all = all.add(is_among(self.database, id, ids.iter().copied()));
                self.included
                    .iter()
                    .fold(all, |all, condition| all.add(condition.test.clone()))
            }
            None => self
                .included
                .iter()
                .fold(all, |all, condition| all.add(form(condition))),
        }
    }
}
