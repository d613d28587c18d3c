//! Milestones that became unavailable by a transfer.

use std::collections::HashSet;

use sea_orm::sea_query::{
    Asterisk, Expr, ExprTrait, JoinType, OnConflict, Order, Query, SelectStatement, UnionType,
};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    FromQueryResult, QueryFilter,
};
use storage::entities::iid_counters::{self, IidKind};
use storage::entities::issuables::IssuableKind;
use storage::entities::{Scope, milestones, now, release_milestones};

use super::by_title::{FORMER, OTHER, PROJECT, in_nearest_group, in_project, replacement, scalar};
use super::inherited::InheritedItems;
use crate::kernel::error::Result;

/// Name of the table with the milestones of releases.
const RELEASE_MILESTONES: &str = "release_milestones";
/// Maximum number of rows of a statement.
const BATCH: usize = 500;

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
        assigned
            .union(UnionType::Distinct, second)
            .union(UnionType::Distinct, self.release_milestones());
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
        self.replace_release_milestones(transaction).await
    }

    /// Selects the unavailable milestones of releases, with the project of the release.
    fn release_milestones(&self) -> SelectStatement {
        Query::select()
            .column(("releases", "project_id"))
            .column((RELEASE_MILESTONES, "milestone_id"))
            .from(RELEASE_MILESTONES)
            .inner_join(
                "releases",
                Expr::col(("releases", "id")).eq(Expr::col((RELEASE_MILESTONES, "release_id"))),
            )
            .and_where(
                Expr::col((RELEASE_MILESTONES, "milestone_id")).in_subquery(self.unavailable("milestones")),
            )
            .and_where(Expr::col(("releases", "project_id")).in_subquery(self.projects()))
            .take()
    }

    /// Replaces the unavailable milestones of releases. A release may have the replacement already.
    async fn replace_release_milestones(&self, transaction: &DatabaseTransaction) -> Result<()> {
        const REPLACEMENT: &str = "replacement";
        let replacement = replacement(
            "milestones",
            Expr::col((RELEASE_MILESTONES, "milestone_id")),
            Expr::col(("releases", "project_id")),
        );
        let pairs = self
            .release_milestones()
            .clear_selects()
            .expr_as(Expr::col((RELEASE_MILESTONES, "id")), "id")
            .column((RELEASE_MILESTONES, "release_id"))
            .expr_as(scalar(replacement), REPLACEMENT)
            .take();
        let (mut former, mut rows) = (Vec::new(), Vec::new());
        for row in transaction.query_all(&pairs).await? {
            former.push(row.try_get::<i64>("", "id")?);
            let milestone_id: Option<i64> = row.try_get("", REPLACEMENT)?;
            if let Some(milestone_id) = milestone_id {
                rows.push(release_milestones::ActiveModel {
                    release_id: Set(row.try_get("", "release_id")?),
                    milestone_id: Set(milestone_id),
                    ..Default::default()
                });
            }
        }
        for ids in former.chunks(BATCH) {
            release_milestones::Entity::delete_many()
                .filter(release_milestones::Column::Id.is_in(ids.iter().copied()))
                .exec(transaction)
                .await?;
        }
        let mut existing = OnConflict::columns([
            release_milestones::Column::ReleaseId,
            release_milestones::Column::MilestoneId,
        ]);
        existing.do_nothing();
        for rows in rows.chunks(BATCH) {
            release_milestones::Entity::insert_many(rows.to_vec())
                .on_conflict(existing.clone())
                .exec_without_returning(transaction)
                .await?;
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
