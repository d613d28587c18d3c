//! List conditions, each in two forms. No database can estimate how many rows a condition matches. If a
//! condition matches few rows, the list is looked up by their IDs. Otherwise the list is read in its order,
//! and each row is checked until the page is full. Totals are counted from the matches.

use std::collections::BTreeSet;

use sea_orm::sea_query::extension::postgres::PgFunc;
use sea_orm::sea_query::{Expr, Func, Query, SelectStatement, SubQueryStatement, UnionType};
use sea_orm::{Condition, ConnectionTrait, DbBackend, DbErr, ExprTrait};
use storage::entities::issuables::IssuableKind;
use storage::entities::row_conditions::has_rows;
use storage::entities::selectivity::{TARGET_ID, if_few};

/// A condition in both forms.
#[derive(Debug, Clone)]
pub(crate) struct Sieve {
    /// Query for the matching IDs, as a column named [`TARGET_ID`].
    pub ids: SelectStatement,
    /// Condition on a row, checked row by row. Written so that the planner uses no index.
    pub test: Condition,
    /// Condition on a row that can use an index of its own table. `None` if the condition depends on other
    /// tables.
    pub own: Option<Condition>,
}

/// Wraps a condition so that the planner neither estimates it nor turns it into a join.
fn tried(condition: impl Into<Expr>) -> Expr {
    Func::coalesce([condition.into(), Expr::val(false)]).into()
}

/// Returns the IDs that both statements match. Their columns are named [`TARGET_ID`].
fn both(some: SelectStatement, others: SelectStatement) -> SelectStatement {
    Query::select()
        .column(TARGET_ID)
        .from_subquery(some, "some")
        .and_where(Expr::col(("some", TARGET_ID)).in_subquery(others))
        .offset(0)
        .take()
}

/// Returns the distinct IDs that one statement matches and the others do not. Their columns are named
/// [`TARGET_ID`].
fn less(some: SelectStatement, others: Vec<SelectStatement>) -> SelectStatement {
    let mut all = Query::select();
    if others.is_empty() {
        all.distinct();
    }
    let others = others.into_iter().map(|ids| (UnionType::Except, ids));
    all.column(TARGET_ID)
        .from_subquery(some, "some")
        .unions(others)
        .take()
}

/// Matches rows where a column is null, checked row by row. For a plain condition, databases expect few
/// matches and read the whole table.
pub(crate) fn absent(column: Expr) -> Condition {
    let present = Query::select()
        .expr(Expr::val(1))
        .and_where(column.is_not_null())
        .take();
    Condition::all().add(Expr::exists(present)).not()
}

/// Parts of the query for conditions that [need a deep scan](Sieves::may_lie_far).
pub(super) struct Parts {
    /// Query for the distinct IDs that match several conditions, named [`TARGET_ID`], if there are such
    /// conditions.
    pub ids: Option<SelectStatement>,
    /// Conditions that use an index of the own table.
    pub own: Condition,
    /// The same, checked row by row.
    pub tests: Condition,
    /// Conditions that are always checked row by row.
    pub left: Condition,
}

/// The conditions of a list.
#[derive(Debug)]
pub(crate) struct Sieves {
    kind: IssuableKind,
    database: DbBackend,
    all: Vec<Sieve>,
    unwanted: Vec<Sieve>,
    found: Option<BTreeSet<i64>>,
    narrow: Condition,
    rest: Condition,
}

impl Sieve {
    /// Matches issuables that are referenced by rows of a table that meet a condition.
    pub fn rows(kind: IssuableKind, table: &'static str, condition: Condition) -> Self {
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
        }
    }

    /// Matches issuables of a kind by a condition and its form for row-by-row checks.
    pub fn of_things(kind: IssuableKind, condition: Condition, test: Condition) -> Self {
        let ids = Query::select()
            .expr_as(kind.column("id"), TARGET_ID)
            .from(kind.table())
            .cond_where(condition.clone())
            .take();
        Self {
            ids,
            test,
            own: Some(condition),
        }
    }

    /// Matches issuables by a numeric column of their own. `condition` builds each form, from the column or
    /// from an expression for which the planner uses no index.
    pub fn of_number(kind: IssuableKind, name: &'static str, condition: impl Fn(Expr) -> Expr) -> Self {
        let all = |expr: Expr| Condition::all().add(expr);
        let test = all(tried(condition(kind.column(name).add(0))));
        Self::of_things(kind, all(condition(kind.column(name))), test)
    }
}

impl Sieves {
    /// Creates an empty set of conditions.
    pub fn new(kind: IssuableKind, database: DbBackend) -> Self {
        Self {
            kind,
            database,
            all: Vec::new(),
            unwanted: Vec::new(),
            found: None,
            narrow: Condition::all(),
            rest: Condition::all(),
        }
    }

    /// Adds a condition.
    pub fn add(&mut self, sieve: Sieve) {
        self.all.push(sieve);
    }

    /// Adds the condition that an own column is one of the IDs of a statement.
    pub fn add_one_of(&mut self, name: &'static str, ids: SelectStatement) {
        let test = tried(self.kind.column(name).add(0).in_subquery(ids.clone()));
        let own = self.one_of(self.kind.column(name), ids);
        let [own, test] = [own, test].map(|expr| Condition::all().add(expr));
        self.add(Sieve::of_things(self.kind, own, test));
    }

    /// Matches a column that is one of the IDs of a statement, each looked up in an index of the column. This
    /// avoids a join in PostgreSQL, which would compare each row of the table with all IDs to find a few.
    pub fn one_of(&self, column: Expr, ids: SelectStatement) -> Expr {
        if self.guesses() {
            return column.in_subquery(ids);
        }
        let ids = Func::cust("ARRAY").arg(Expr::from(SubQueryStatement::from(ids)));
        column.eq(PgFunc::any(ids))
    }

    /// Adds a negated condition.
    pub fn leave_out(&mut self, sieve: Sieve) {
        self.unwanted.push(sieve);
    }

    /// Adds a condition that the indexes of the sort orders cover besides the sort columns.
    pub fn narrow(&mut self, condition: Condition) {
        self.narrow = self.narrow.clone().add(condition);
    }

    /// Adds a condition that is always checked row by row.
    pub fn test(&mut self, condition: Condition) {
        self.rest = self.rest.clone().add(condition);
    }

    /// Looks for a condition with few matches. Runs at most one statement per condition and stops at the
    /// first.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn look(&mut self, db: &impl ConnectionTrait) -> Result<(), DbErr> {
        for sieve in &self.all {
            self.found = if_few(db, sieve.ids.clone()).await?;
            if self.found.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns whether a condition has no match at all.
    #[must_use]
    pub fn let_nothing_through(&self) -> bool {
        self.found.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// Returns the conditions for reading a page in list order, including visibility.
    pub fn in_order(&self, visible: Condition) -> Condition {
        let all = self.tests().add(visible);
        // SQLite assumes that every condition reduces the number of rows. With several, it reads and sorts
        // the whole table instead of following the index until the page is full. It assumes nothing about a
        // single expression.
        let all = match self.guesses() && self.found.is_none() {
            true => Condition::all().add(tried(all)),
            false => all,
        };
        self.narrow.clone().add(all)
    }

    /// Returns all conditions, except those covered by the indexes of the sort orders, for row-by-row checks.
    pub fn tests(&self) -> Condition {
        self.with(|sieve| sieve.test.clone())
    }

    /// Returns the conditions that the indexes of the sort orders cover.
    pub fn narrowed(&self) -> Condition {
        self.narrow.clone()
    }

    /// Returns the conditions for looking up matches, for example for counting.
    pub fn looked_up(&self) -> Condition {
        let id = || self.kind.column("id");
        let all = self.with(|sieve| match &sieve.own {
            Some(own) => own.clone(),
            None => Condition::all().add(id().in_subquery(sieve.ids.clone())),
        });
        self.narrow.clone().add(all)
    }

    /// Returns the query parts for conditions that [need a deep scan](Self::may_lie_far). Matches of several
    /// conditions are intersected first and excluded IDs subtracted, which reads fewer rows.
    pub(super) fn parts(&self) -> Parts {
        let sets = self.all.iter().filter(|sieve| sieve.own.is_none());
        let others = || self.all.iter().filter(|sieve| sieve.own.is_some());
        let all = |some: Condition, sieve: Option<Condition>| some.add_option(sieve);
        let unwanted = self.unwanted.iter().map(|sieve| sieve.ids.clone()).collect();
        let ids = sets.map(|sieve| sieve.ids.clone()).reduce(both);
        let ids = ids.map(|ids| less(ids, unwanted));
        Parts {
            own: others()
                .map(|sieve| sieve.own.clone())
                .fold(self.narrow.clone(), all),
            tests: others()
                .map(|sieve| Some(sieve.test.clone()))
                .fold(self.narrow.clone(), all),
            left: match ids {
                Some(_) => self.rest.clone(),
                None => self.left_over(),
            },
            ids,
        }
    }

    /// Returns whether matches may be far down the list, so that they can be looked up instead. SQLite always
    /// reads in list order.
    pub fn may_lie_far(&self) -> bool {
        !self.guesses() && self.found.is_none() && !self.all.is_empty()
    }

    /// Returns whether the database assumes that every condition has few matches.
    fn guesses(&self) -> bool {
        self.database == DbBackend::Sqlite
    }

    /// Returns the conditions that are always checked row by row.
    fn left_over(&self) -> Condition {
        let unwanted = self.unwanted.iter().map(|sieve| sieve.test.clone().not());
        unwanted.fold(self.rest.clone(), Condition::add)
    }

    fn with(&self, form: impl Fn(&Sieve) -> Condition) -> Condition {
        let all = self.left_over();
        match &self.found {
            // With few matches, all other conditions are checked row by row.
            Some(ids) => {
                let all = all.add(self.kind.column("id").is_in(ids.iter().copied()));
                self.all
                    .iter()
                    .fold(all, |all, sieve| all.add(sieve.test.clone()))
            }
            None => self.all.iter().fold(all, |all, sieve| all.add(form(sieve))),
        }
    }
}
