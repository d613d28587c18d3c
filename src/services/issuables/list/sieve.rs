//! Conditions on lists, each in two forms. No database can tell how much a condition finds; where that is
//! little, the list is looked up by the ids of it, and otherwise read in its order, and each row tried until the page is
//! full. Totals are counted from what the conditions find.

use std::collections::BTreeSet;

use sea_orm::sea_query::extension::postgres::PgFunc;
use sea_orm::sea_query::{Expr, Func, Query, SelectStatement, SubQueryStatement, UnionType};
use sea_orm::{Condition, ConnectionTrait, DbBackend, DbErr, ExprTrait};

use crate::entities::by_row::finds;
use crate::entities::few::{TARGET, few};
use crate::entities::issuables::Kind;

/// A condition in both forms.
#[derive(Debug, Clone)]
pub(in crate::services) struct Sieve {
    /// The ids of what it finds, as a column called [`TARGET`].
    pub ids: SelectStatement,
    /// What it asks of a row, tried row by row: no index is to be chosen for it.
    pub test: Condition,
    /// What it asks of a row, for an index of the thing's own; none where other rows tell.
    pub own: Option<Condition>,
}

/// A condition of which databases guess nothing, and make no join.
fn tried(condition: impl Into<Expr>) -> Expr {
    Func::coalesce([condition.into(), Expr::val(false)]).into()
}

/// The ids that two statements find, both by the name [`TARGET`].
fn both(some: SelectStatement, others: SelectStatement) -> SelectStatement {
    Query::select()
        .column(TARGET)
        .from_subquery(some, "some")
        .and_where(Expr::col(("some", TARGET)).in_subquery(others))
        .offset(0)
        .take()
}

/// The ids that a statement finds and others do not, all by the name [`TARGET`], each once.
fn less(some: SelectStatement, others: Vec<SelectStatement>) -> SelectStatement {
    let mut all = Query::select();
    if others.is_empty() {
        all.distinct();
    }
    let others = others.into_iter().map(|ids| (UnionType::Except, ids));
    all.column(TARGET)
        .from_subquery(some, "some")
        .unions(others)
        .take()
}

/// That a column says nothing, tried row by row: said plainly, databases take it for something that little meets, and read the
/// whole table for it.
pub(in crate::services) fn absent(column: Expr) -> Condition {
    let present = Query::select()
        .expr(Expr::val(1))
        .and_where(column.is_not_null())
        .take();
    Condition::all().add(Expr::exists(present)).not()
}

/// What [may lie far](Sieves::may_lie_far) is found by, and what is tried of each row that is found.
pub(super) struct Parts {
    /// The ids that several conditions find together, each once and called [`TARGET`], where there are such.
    pub ids: Option<SelectStatement>,
    /// What an index of the thing's own finds.
    pub own: Condition,
    /// The same, tried row by row.
    pub tests: Condition,
    /// What is tried row by row in any case.
    pub left: Condition,
}

/// The conditions of a list.
#[derive(Debug)]
pub(in crate::services) struct Sieves {
    kind: Kind,
    database: DbBackend,
    all: Vec<Sieve>,
    unwanted: Vec<Sieve>,
    found: Option<BTreeSet<i64>>,
    narrow: Condition,
    rest: Condition,
}

impl Sieve {
    /// The rows of a table that name things of a kind, and meet a condition.
    pub fn rows(kind: Kind, table: &'static str, condition: Condition) -> Self {
        let ids = Query::select()
            .expr_as(Expr::col((table, kind.key())), TARGET)
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
            test: Condition::all().add(finds(&mut row)),
            own: None,
        }
    }

    /// Things of a kind that meet a condition, and the same as it is tried row by row.
    pub fn of_things(kind: Kind, condition: Condition, test: Condition) -> Self {
        let ids = Query::select()
            .expr_as(kind.column("id"), TARGET)
            .from(kind.table())
            .cond_where(condition.clone())
            .take();
        Self {
            ids,
            test,
            own: Some(condition),
        }
    }

    /// What a column of the thing itself says, a number: `condition` is made for each form, of the column or of something
    /// like it that no index is chosen for.
    pub fn of_number(kind: Kind, name: &'static str, condition: impl Fn(Expr) -> Expr) -> Self {
        let all = |expr: Expr| Condition::all().add(expr);
        let test = all(tried(condition(kind.column(name).add(0))));
        Self::of_things(kind, all(condition(kind.column(name))), test)
    }
}

impl Sieves {
    /// No conditions yet.
    pub fn new(kind: Kind, database: DbBackend) -> Self {
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

    /// Adds that a column of the thing itself names one of the ids that a statement finds.
    pub fn add_one_of(&mut self, name: &'static str, ids: SelectStatement) {
        let test = tried(self.kind.column(name).add(0).in_subquery(ids.clone()));
        let own = self.one_of(self.kind.column(name), ids);
        let [own, test] = [own, test].map(|expr| Condition::all().add(expr));
        self.add(Sieve::of_things(self.kind, own, test));
    }

    /// That a column names one of the ids that a statement finds, each of which is looked up in an index of the column. PostgreSQL
    /// makes no join of it then: for the sake of a few rows it would compare each of the table with all ids.
    pub fn one_of(&self, column: Expr, ids: SelectStatement) -> Expr {
        if self.guesses() {
            return column.in_subquery(ids);
        }
        let ids = Func::cust("ARRAY").arg(Expr::from(SubQueryStatement::from(ids)));
        column.eq(PgFunc::any(ids))
    }

    /// Adds a condition that is turned round.
    pub fn leave_out(&mut self, sieve: Sieve) {
        self.unwanted.push(sieve);
    }

    /// Adds what the indexes of the orders know of, beside what they order by.
    pub fn narrow(&mut self, condition: Condition) {
        self.narrow = self.narrow.clone().add(condition);
    }

    /// Adds what is tried row by row in any case.
    pub fn test(&mut self, condition: Condition) {
        self.rest = self.rest.clone().add(condition);
    }

    /// Looks for a condition that finds little; at most one statement for each until there is one.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn look(&mut self, db: &impl ConnectionTrait) -> Result<(), DbErr> {
        for sieve in &self.all {
            self.found = few(db, sieve.ids.clone()).await?;
            if self.found.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether a condition finds nothing at all.
    #[must_use]
    pub fn let_nothing_through(&self) -> bool {
        self.found.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// The conditions for reading a page in the order of the list, with what is `visible`.
    pub fn in_order(&self, visible: Condition) -> Condition {
        let all = self.tests().add(visible);
        // SQLite guesses that every further condition lets fewer rows through, and soon reads and sorts the whole table
        // rather than what the index has until the page is full. Of one expression it guesses nothing.
        let all = match self.guesses() && self.found.is_none() {
            true => Condition::all().add(tried(all)),
            false => all,
        };
        self.narrow.clone().add(all)
    }

    /// All conditions but those that the indexes of the orders know of, tried row by row.
    pub fn tests(&self) -> Condition {
        self.with(|sieve| sieve.test.clone())
    }

    /// The conditions that the indexes of the orders know of.
    pub fn narrowed(&self) -> Condition {
        self.narrow.clone()
    }

    /// The conditions for what is looked up by what they find, as for counting.
    pub fn looked_up(&self) -> Condition {
        let id = || self.kind.column("id");
        let all = self.with(|sieve| match &sieve.own {
            Some(own) => own.clone(),
            None => Condition::all().add(id().in_subquery(sieve.ids.clone())),
        });
        self.narrow.clone().add(all)
    }

    /// The conditions for what [may lie far](Self::may_lie_far). What several find is put together first, and what is unwanted taken
    /// from it: fewer rows are read then.
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

    /// Whether what is found may lie far behind in the order of the list, and can be looked up instead. SQLite reads on either
    /// way.
    pub fn may_lie_far(&self) -> bool {
        !self.guesses() && self.found.is_none() && !self.all.is_empty()
    }

    /// Whether the database guesses that every condition lets little through.
    fn guesses(&self) -> bool {
        self.database == DbBackend::Sqlite
    }

    /// What is tried row by row in any case.
    fn left_over(&self) -> Condition {
        let unwanted = self.unwanted.iter().map(|sieve| sieve.test.clone().not());
        unwanted.fold(self.rest.clone(), Condition::add)
    }

    fn with(&self, form: impl Fn(&Sieve) -> Condition) -> Condition {
        let all = self.left_over();
        match &self.found {
            // What is little is tried, whatever else is asked of it.
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
