//! What things of a project or group do not reach any more once it lies elsewhere: labels, milestones and epics of groups
//! that were above it. What carries such a label gets the one of the same title that it does reach, and what belongs to such
//! a milestone likewise; where there is none, the project gets one that is alike. Epics do not follow, and boards lose what
//! they cannot show.
//!
//! Everything is said of all projects at once: the number of statements does not depend on how much is moved, but for one
//! milestone that a project lacks.

mod labels;
mod milestones;
mod nearest;

use std::collections::HashSet;

use nearest::ids;
use sea_orm::sea_query::{Expr, ExprTrait, Query, SelectStatement, UnionType};
use sea_orm::{ConnectionTrait, DatabaseTransaction};
use storage::entities::issuables::Kind;
use storage::entities::{Scope, namespace_ancestors};

use crate::error::Result;
use crate::services::notes::lock_all;

/// A project or group that is moved elsewhere, with all below it.
pub(in crate::services) struct Moved {
    what: Scope,
    /// The groups that are not above it any more.
    lost: Vec<i64>,
}

impl Moved {
    /// What is moved, by the lines of groups from where it lies and from where it is to lie upwards. To be made under
    /// [`storage::entities::namespaces::lock_shape`].
    pub fn new(
        what: Scope,
        before: &[namespace_ancestors::Model],
        after: &[namespace_ancestors::Model],
    ) -> Self {
        let kept: HashSet<i64> = after.iter().map(|row| row.ancestor_id).collect();
        let lost = before.iter().map(|row| row.ancestor_id);
        Self {
            what,
            lost: lost.filter(|id| !kept.contains(id)).collect(),
        }
    }

    /// Lets everything in it have what it reaches in its new place; to be called when the tree is as it is to be.
    ///
    /// # Errors
    /// Whatever the database reports.
    pub async fn settle(&self, transaction: &DatabaseTransaction) -> Result<()> {
        if self.lost.is_empty() {
            return Ok(());
        }
        self.clear_boards(transaction).await?;
        self.leave_epics(transaction).await?;
        self.relabel(transaction).await?;
        self.replan(transaction).await
    }

    /// The ids of the projects.
    fn projects(&self) -> SelectStatement {
        let condition = match self.what {
            Scope::Project(id) => Expr::col("id").eq(id),
            Scope::Group(id) => Expr::col("namespace_id").in_subquery(namespace_ancestors::at_or_below(id)),
        };
        ids("projects", condition)
    }

    /// The ids of their issues or merge requests.
    fn things(&self, kind: Kind) -> SelectStatement {
        ids(
            kind.table(),
            Expr::col(kind.project()).in_subquery(self.projects()),
        )
    }

    /// The ids of labels, milestones or epics that are not reached any more.
    fn out_of_reach(&self, table: &'static str) -> SelectStatement {
        ids(table, Expr::col("namespace_id").is_in(self.lost.iter().copied()))
    }

    /// Locks the issues and merge requests that are going to change, in their order, and before the project, as every
    /// change of them does.
    ///
    /// # Errors
    /// Whatever the database reports.
    pub async fn lock(&self, transaction: &DatabaseTransaction) -> Result<()> {
        if self.lost.is_empty() {
            return Ok(());
        }
        for kind in Kind::ALL {
            let mut concerned = ids(
                kind.table(),
                Expr::col("milestone_id").in_subquery(self.out_of_reach("milestones")),
            );
            let labelled = Query::select()
                .column(kind.key())
                .from(kind.labels())
                .and_where(Expr::col("label_id").in_subquery(self.out_of_reach("labels")))
                .take();
            concerned.union(UnionType::Distinct, labelled);
            let concerned = ids(kind.table(), Expr::col("id").in_subquery(concerned))
                .and_where(Expr::col(kind.project()).in_subquery(self.projects()))
                .take();
            lock_all(transaction, kind.table(), concerned).await?;
        }
        Ok(())
    }

    /// Takes lists and conditions off boards that cannot be met there.
    async fn clear_boards(&self, transaction: &DatabaseTransaction) -> Result<()> {
        let mut here = Expr::col("project_id").in_subquery(self.projects());
        if let Scope::Group(id) = self.what {
            let groups = namespace_ancestors::at_or_below(id);
            here = here.or(Expr::col("namespace_id").in_subquery(groups));
        }
        let boards = || ids("boards", here.clone());
        let label = || Expr::col("label_id").in_subquery(self.out_of_reach("labels"));
        let milestone = || Expr::col("milestone_id").in_subquery(self.out_of_reach("milestones"));
        for (table, gone) in [
            ("board_lists", label().or(milestone())),
            ("board_labels", label()),
        ] {
            let delete = Query::delete()
                .from_table(table)
                .and_where(Expr::col("board_id").in_subquery(boards()))
                .and_where(gone)
                .take();
            transaction.execute(&delete).await?;
        }
        let update = Query::update()
            .table("boards")
            .value("milestone_id", Option::<i64>::None)
            .and_where(here)
            .and_where(milestone())
            .take();
        transaction.execute(&update).await?;
        Ok(())
    }

    /// Takes issues out of epics that they do not lie below any more, and epics out of such parents.
    async fn leave_epics(&self, transaction: &DatabaseTransaction) -> Result<()> {
        let delete = Query::delete()
            .from_table("epic_issues")
            .and_where(Expr::col("epic_id").in_subquery(self.out_of_reach("epics")))
            .and_where(Expr::col("issue_id").in_subquery(self.things(Kind::Issue)))
            .take();
        transaction.execute(&delete).await?;
        let Scope::Group(id) = self.what else {
            return Ok(());
        };
        let update = Query::update()
            .table("epics")
            .value("parent_id", Option::<i64>::None)
            .and_where(Expr::col("namespace_id").in_subquery(namespace_ancestors::at_or_below(id)))
            .and_where(Expr::col("parent_id").in_subquery(self.out_of_reach("epics")))
            .take();
        transaction.execute(&update).await?;
        self.relabel_epics(transaction, id).await
    }
}
