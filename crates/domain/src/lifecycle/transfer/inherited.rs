//! Items that a project or group inherited from former ancestors.

use std::collections::HashSet;
use storage::entities::issuables::lock_rows;

use sea_orm::sea_query::{Expr, ExprTrait, Query, SelectStatement, UnionType};
use sea_orm::{ConnectionTrait, DatabaseTransaction};
use storage::entities::issuables::IssuableKind;
use storage::entities::{Scope, namespace_ancestors};

use crate::kernel::error::Result;
use crate::lifecycle::transfer::by_title::ids;

/// The transfer of a project or group with its content.
pub(crate) struct InheritedItems {
    scope: Scope,
    /// IDs of the groups that are no longer ancestors.
    former_ancestors: Vec<i64>,
}

impl InheritedItems {
    /// Creates the transfer from the ancestors before and after it. The caller has called
    /// [`storage::entities::namespaces::lock_trees`].
    pub fn new(
        scope: Scope,
        before: &[namespace_ancestors::Model],
        after: &[namespace_ancestors::Model],
    ) -> Self {
        let ancestors: HashSet<i64> = after.iter().map(|row| row.ancestor_id).collect();
        let former = before.iter().map(|row| row.ancestor_id);
        Self {
            scope,
            former_ancestors: former.filter(|id| !ancestors.contains(id)).collect(),
        }
    }

    /// Replaces items that are not available in the new location. The caller has updated the hierarchy.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    pub async fn reassign(&self, transaction: &DatabaseTransaction) -> Result<()> {
        if self.former_ancestors.is_empty() {
            return Ok(());
        }
        self.clear_boards(transaction).await?;
        self.clear_epics(transaction).await?;
        self.replace_labels(transaction).await?;
        self.replace_milestones(transaction).await
    }

    /// Selects the IDs of the projects.
    pub(super) fn projects(&self) -> SelectStatement {
        let condition = match self.scope {
            Scope::Project(id) => Expr::col("id").eq(id),
            Scope::Group(id) => Expr::col("namespace_id").in_subquery(namespace_ancestors::at_or_below(id)),
        };
        ids("projects", condition)
    }

    /// Selects the IDs of their issues or merge requests.
    pub(super) fn issuables(&self, kind: IssuableKind) -> SelectStatement {
        ids(
            kind.table(),
            Expr::col(kind.project()).in_subquery(self.projects()),
        )
    }

    /// Selects the IDs of labels, milestones or epics that are no longer available.
    pub(super) fn unavailable(&self, table: &'static str) -> SelectStatement {
        ids(
            table,
            Expr::col("namespace_id").is_in(self.former_ancestors.iter().copied()),
        )
    }

    /// Locks the affected issues and merge requests in ascending order. As in every change of them, this
    /// precedes the lock of the project.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    pub async fn lock(&self, transaction: &DatabaseTransaction) -> Result<()> {
        if self.former_ancestors.is_empty() {
            return Ok(());
        }
        for kind in IssuableKind::ALL {
            let mut affected = ids(
                kind.table(),
                Expr::col("milestone_id").in_subquery(self.unavailable("milestones")),
            );
            let labeled = Query::select()
                .column(kind.key())
                .from(kind.labels())
                .and_where(Expr::col("label_id").in_subquery(self.unavailable("labels")))
                .take();
            affected.union(UnionType::Distinct, labeled);
            let affected = ids(kind.table(), Expr::col("id").in_subquery(affected))
                .and_where(Expr::col(kind.project()).in_subquery(self.projects()))
                .take();
            lock_rows(transaction, kind.table(), affected).await?;
        }
        Ok(())
    }

    /// Removes lists and filters from boards that are no longer valid.
    async fn clear_boards(&self, transaction: &DatabaseTransaction) -> Result<()> {
        let mut affected = Expr::col("project_id").in_subquery(self.projects());
        if let Scope::Group(id) = self.scope {
            let groups = namespace_ancestors::at_or_below(id);
            affected = affected.or(Expr::col("namespace_id").in_subquery(groups));
        }
        let boards = || ids("boards", affected.clone());
        let label = || Expr::col("label_id").in_subquery(self.unavailable("labels"));
        let milestone = || Expr::col("milestone_id").in_subquery(self.unavailable("milestones"));
        for (table, unavailable) in [
            ("board_lists", label().or(milestone())),
            ("board_labels", label()),
        ] {
            let delete = Query::delete()
                .from_table(table)
                .and_where(Expr::col("board_id").in_subquery(boards()))
                .and_where(unavailable)
                .take();
            transaction.execute(&delete).await?;
        }
        let update = Query::update()
            .table("boards")
            .value("milestone_id", Option::<i64>::None)
            .and_where(affected)
            .and_where(milestone())
            .take();
        transaction.execute(&update).await?;
        Ok(())
    }

    /// Removes issues from epics of former ancestors, and epics from such parents.
    async fn clear_epics(&self, transaction: &DatabaseTransaction) -> Result<()> {
        let delete = Query::delete()
            .from_table("epic_issues")
            .and_where(Expr::col("epic_id").in_subquery(self.unavailable("epics")))
            .and_where(Expr::col("issue_id").in_subquery(self.issuables(IssuableKind::Issue)))
            .take();
        transaction.execute(&delete).await?;
        let Scope::Group(id) = self.scope else {
            return Ok(());
        };
        let update = Query::update()
            .table("epics")
            .value("parent_id", Option::<i64>::None)
            .and_where(Expr::col("namespace_id").in_subquery(namespace_ancestors::at_or_below(id)))
            .and_where(Expr::col("parent_id").in_subquery(self.unavailable("epics")))
            .take();
        transaction.execute(&update).await?;
        self.replace_epic_labels(transaction, id).await
    }
}
