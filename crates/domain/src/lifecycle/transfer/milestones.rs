//! Milestones that became unavailable by a transfer.

use std::collections::HashSet;

use sea_orm::sea_query::{Asterisk, Expr, ExprTrait, JoinType, Order, Query, SelectStatement, UnionType};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ConnectionTrait, DatabaseTransaction, FromQueryResult};
use storage::entities::iid_counters::{self, IidKind};
use storage::entities::issuables::IssuableKind;
use storage::entities::{Scope, milestones, now};

use super::by_title::{FORMER, OTHER, PROJECT, in_nearest_group, in_project, replacement, scalar};
use super::inherited::InheritedItems;
use crate::kernel::error::Result;

impl InheritedItems {
    /// Replaces unavailable milestones by available ones with the same title.
    pub(super) async fn replace_milestones(&self, transaction: &DatabaseTransaction) -> Result<()> {
        let affected = |kind: IssuableKind| {
            kind.column("milestone_id")
                .in_subquery(self.unavailable("milestones"))
                .and(kind.column(kind.project()).in_subquery(self.projects()))
        };
        let assigned = |kind: IssuableKind| {
            Query::select()
                .expr_as(kind.column(kind.project()), "project_id")
                .column((kind.table(), "milestone_id"))
                .from(kind.table())
                .and_where(affected(kind))
                .take()
        };
        let [first, second] = IssuableKind::ALL.map(assigned);
        let mut assigned = first;
        assigned.union(UnionType::Distinct, second);
        self.insert_milestones(transaction, assigned).await?;
        for kind in IssuableKind::ALL {
            let replacement = replacement(
                "milestones",
                kind.column("milestone_id"),
                kind.column(kind.project()),
            );
            // Update the due date first, while the former milestone still identifies the rows.
            let due = Query::select()
                .column((OTHER, "due_date"))
                .from_as("milestones", OTHER)
                .and_where(Expr::col((OTHER, "id")).eq(scalar(replacement.clone())))
                .take();
            for (column, value) in [("milestone_due_on", due), ("milestone_id", replacement)] {
                let update = Query::update()
                    .table(kind.table())
                    .value(column, scalar(value))
                    .and_where(affected(kind))
                    .take();
                transaction.execute(&update).await?;
            }
        }
        Ok(())
    }

    /// Inserts the milestones that projects lack, each with a new IID.
    async fn insert_milestones(
        &self,
        transaction: &DatabaseTransaction,
        assigned: SelectStatement,
    ) -> Result<()> {
        const FOR_PROJECT: &str = "for_project";
        let missing = Query::select()
            .expr_as(Expr::col((PROJECT, "id")), FOR_PROJECT)
            .column((FORMER, Asterisk))
            .from_subquery(assigned, "assigned")
            .join_as(
                JoinType::InnerJoin,
                "milestones",
                FORMER,
                Expr::col((FORMER, "id")).eq(Expr::col(("assigned", "milestone_id"))),
            )
            .join_as(
                JoinType::InnerJoin,
                "projects",
                PROJECT,
                Expr::col((PROJECT, "id")).eq(Expr::col(("assigned", "project_id"))),
            )
            .and_where(Expr::exists(in_project("milestones")).not())
            .and_where(
                Expr::exists(in_nearest_group(
                    "milestones",
                    Expr::col((PROJECT, "namespace_id")),
                ))
                .not(),
            )
            .order_by((PROJECT, "id"), Order::Asc)
            .order_by((FORMER, "id"), Order::Asc)
            .take();
        let mut inserted = HashSet::new();
        for row in transaction.query_all(&missing).await? {
            let project_id: i64 = row.try_get("", FOR_PROJECT)?;
            let former = milestones::Model::from_query_result(&row, "")?;
            if !inserted.insert((project_id, former.title.clone())) {
                continue;
            }
            let scope = Scope::Project(project_id);
            let at = now();
            let copy = milestones::ActiveModel {
                project_id: Set(Some(project_id)),
                iid: Set(iid_counters::next(transaction, scope, IidKind::Milestones).await?),
                title: Set(former.title),
                description: Set(former.description),
                state: Set(former.state),
                start_date: Set(former.start_date),
                due_date: Set(former.due_date),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            copy.insert(transaction).await?;
        }
        Ok(())
    }
}
