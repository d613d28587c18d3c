//! Conditions on lists of issues, each in two forms. No database can tell how much a condition finds; where that is
//! little, the list is looked up by the ids of it, and otherwise read in its order, and each issue tried until the page is
//! full. Totals are counted from what the conditions find.

use std::collections::BTreeSet;

use sea_orm::sea_query::{Expr, Query, SelectStatement};
use sea_orm::{ColumnTrait, Condition, ConnectionTrait, DbErr, ExprTrait};

use crate::entities::few::{TARGET, few};
use crate::entities::issues::Column;

/// A condition in both forms.
#[derive(Debug, Clone)]
pub(super) struct Sieve {
    /// The ids of what it finds, as a column called [`TARGET`].
    pub ids: SelectStatement,
    /// What it asks of an issue, tried row by row: no index is to be chosen for it.
    pub test: Condition,
}

/// The conditions of a list.
#[derive(Debug)]
pub(super) struct Sieves {
    all: Vec<Sieve>,
    found: Option<BTreeSet<i64>>,
    rest: Condition,
}

impl Sieve {
    /// The rows of a table that name issues in `column`, and meet a condition.
    pub fn rows(table: &'static str, column: &'static str, condition: Condition) -> Self {
        let ids = Query::select()
            .expr_as(Expr::col((table, column)), TARGET)
            .from(table)
            .cond_where(condition.clone())
            .take();
        let row = Query::select()
            .expr(Expr::val(1))
            .from(table)
            .and_where(Expr::col((table, column)).eq(Expr::col(("issues", "id"))))
            .cond_where(condition)
            .take();
        Self {
            ids,
            test: Condition::all().add(Expr::exists(row)),
        }
    }

    /// Issues that meet a condition, and the same as it is tried row by row.
    pub fn of_issues(condition: Condition, test: Condition) -> Self {
        let ids = Query::select()
            .expr_as(Expr::col(("issues", "id")), TARGET)
            .from("issues")
            .cond_where(condition)
            .take();
        Self { ids, test }
    }

    /// What the columns of the issue itself say: `condition` is made for each form, of the column or of something like it
    /// that no index is chosen for.
    pub fn of_column(column: Column, condition: impl Fn(Expr) -> Expr) -> Self {
        let all = |expr: Expr| Condition::all().add(expr);
        let tried = condition(column.into_expr().add(0));
        Self::of_issues(all(condition(column.into_expr())), all(tried))
    }
}

impl Sieves {
    /// No conditions yet.
    pub fn new() -> Self {
        Self {
            all: Vec::new(),
            found: None,
            rest: Condition::all(),
        }
    }

    /// Adds a condition.
    pub fn add(&mut self, sieve: Sieve) {
        self.all.push(sieve);
    }

    /// Adds what is tried row by row in any case.
    pub fn test(&mut self, condition: Condition) {
        self.rest = self.rest.clone().add(condition);
    }

    /// Looks for a condition that finds little; at most one statement for each until there is one.
    ///
    /// # Errors
    /// Whatever the database reports.
    pub async fn look(&mut self, db: &impl ConnectionTrait) -> Result<(), DbErr> {
        for sieve in &self.all {
            self.found = few(db, sieve.ids.clone()).await?;
            if self.found.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The conditions for reading a page in the order of the list.
    pub fn in_order(&self) -> Condition {
        self.with(|sieve| sieve.test.clone())
    }

    /// The conditions for counting.
    pub fn counted(&self) -> Condition {
        self.with(|sieve| Condition::all().add(Column::Id.in_subquery(sieve.ids.clone())))
    }

    fn with(&self, form: impl Fn(&Sieve) -> Condition) -> Condition {
        let all = self.rest.clone();
        match &self.found {
            // What is little is tried, whatever else is asked of it.
            Some(ids) => {
                let all = all.add(Column::Id.is_in(ids.iter().copied()));
                self.all
                    .iter()
                    .fold(all, |all, sieve| all.add(sieve.test.clone()))
            }
            None => self.all.iter().fold(all, |all, sieve| all.add(form(sieve))),
        }
    }
}
