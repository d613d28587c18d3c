//! Milestones that became unavailable by a transfer.

use std::collections::HashSet;

use sea_orm::sea_query::{Asterisk, Expr, ExprTrait, JoinType, Order, Query, SelectStatement, UnionType};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ConnectionTrait, DatabaseTransaction, FromQueryResult};
use storage::entities::iid_counters::{self, IidKind};
use storage::entities::issuables::IssuableKind;
use storage::entities::{Scope, milestones, now};

use super::by_title::{FORMER, HOME, OTHER, above, nearest, own, scalar};
use super::inherited::InheritedItems;
use crate::kernel::error::Result;

impl InheritedItems {
    /// Replaces unavailable milestones by available ones with the same title.
    pub(super) async fn replan(&self, transaction: &DatabaseTransaction) -> Result<()> {
        let concerned = |kind: IssuableKind| {
            kind.column("milestone_id")
                .in_subquery(self.out_of_reach("milestones"))
                .and(kind.column(kind.project()).in_subquery(self.projects()))
        };
        let planned = |kind: IssuableKind| {
            Query::select()
                .expr_as(kind.column(kind.project()), "project_id")
                .column((kind.table(), "milestone_id"))
                .from(kind.table())
                .and_where(concerned(kind))
                .take()
        };
        let [first, second] = IssuableKind::ALL.map(planned);
        let mut planned = first;
        planned.union(UnionType::Distinct, second);
        self.make_milestones(transaction, planned).await?;
        for kind in IssuableKind::ALL {
            let nearest = nearest(
                "milestones",
                kind.column("milestone_id"),
                kind.column(kind.project()),
            );
            // Update the due date first, while the former milestone still identifies the rows.
            let due = Query::select()
                .column((OTHER, "due_date"))
                .from_as("milestones", OTHER)
                .and_where(Expr::col((OTHER, "id")).eq(scalar(nearest.clone())))
                .take();
            for (column, value) in [("milestone_due_on", due), ("milestone_id", nearest)] {
                let update = Query::update()
                    .table(kind.table())
                    .value(column, scalar(value))
                    .and_where(concerned(kind))
                    .take();
                transaction.execute(&update).await?;
            }
        }
        Ok(())
    }

    /// Inserts the milestones that projects lack, each with a new IID.
    async fn make_milestones(
        &self,
        transaction: &DatabaseTransaction,
        planned: SelectStatement,
    ) -> Result<()> {
        const FOR: &str = "for_project";
        let lacking = Query::select()
            .expr_as(Expr::col((HOME, "id")), FOR)
            .column((FORMER, Asterisk))
            .from_subquery(planned, "planned")
            .join_as(
                JoinType::InnerJoin,
                "milestones",
                FORMER,
                Expr::col((FORMER, "id")).eq(Expr::col(("planned", "milestone_id"))),
            )
            .join_as(
                JoinType::InnerJoin,
                "projects",
                HOME,
                Expr::col((HOME, "id")).eq(Expr::col(("planned", "project_id"))),
            )
            .and_where(Expr::exists(own("milestones")).not())
            .and_where(Expr::exists(above("milestones", Expr::col((HOME, "namespace_id")))).not())
            .order_by((HOME, "id"), Order::Asc)
            .order_by((FORMER, "id"), Order::Asc)
            .take();
        let mut made = HashSet::new();
        for row in transaction.query_all(&lacking).await? {
            let project_id: i64 = row.try_get("", FOR)?;
            let like = milestones::Model::from_query_result(&row, "")?;
            if !made.insert((project_id, like.title.clone())) {
                continue;
            }
            let scope = Scope::Project(project_id);
            let at = now();
            let alike = milestones::ActiveModel {
                project_id: Set(Some(project_id)),
                iid: Set(iid_counters::next(transaction, scope, IidKind::Milestones).await?),
                title: Set(like.title),
                description: Set(like.description),
                state: Set(like.state),
                start_date: Set(like.start_date),
                due_date: Set(like.due_date),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            alike.insert(transaction).await?;
        }
        Ok(())
    }
}
