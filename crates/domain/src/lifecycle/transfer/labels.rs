//! Labels that became unavailable by a transfer.

use sea_orm::sea_query::{Expr, ExprTrait, JoinType, OnConflict, Query, SelectStatement, UnionType};
use sea_orm::{ConnectionTrait, DatabaseTransaction};
use storage::entities::issuables::IssuableKind;
use storage::entities::label_priorities::{self, LabeledItems};
use storage::entities::{namespace_ancestors, now};

use super::by_title::{
    FORMER, FOUND, OTHER, PROJECT, ids, in_nearest_group, in_project, project_of, replacement, scalar,
};
use super::inherited::InheritedItems;
use crate::kernel::error::{Error, Result};

/// Tables that reference labels, with the column of the labeled row.
const LABELED_TABLES: [(&str, &str); 3] = [
    ("issue_labels", "issue_id"),
    ("merge_request_labels", "merge_request_id"),
    ("label_priorities", "project_id"),
];

impl InheritedItems {
    /// Replaces unavailable labels of epics, which can have only group labels. The transferred group gets copies of
    /// missing labels.
    pub(super) async fn replace_epic_labels(
        &self,
        transaction: &DatabaseTransaction,
        group_id: i64,
    ) -> Result<()> {
        let epics = ids(
            "epics",
            Expr::col("namespace_id").in_subquery(namespace_ancestors::at_or_below(group_id)),
        );
        let assigned = Query::select()
            .distinct()
            .column("label_id")
            .from("epic_labels")
            .and_where(Expr::col("label_id").in_subquery(self.unavailable("labels")))
            .and_where(Expr::col("epic_id").in_subquery(epics.clone()))
            .take();
        let copies = copies_of_former(Expr::val(group_id))
            .from_as("labels", FORMER)
            .and_where(Expr::col((FORMER, "id")).in_subquery(assigned))
            .and_where(Expr::exists(in_nearest_group("labels", Expr::val(group_id))).not())
            .take();
        insert_labels(transaction, "namespace_id", copies).await?;
        let table = ("epic_labels", "epic_id");
        self.delete_duplicates(transaction, table, epics.clone()).await?;
        let group = scalar(
            Query::select()
                .column("namespace_id")
                .from("epics")
                .and_where(Expr::col(("epics", "id")).eq(Expr::col(table)))
                .take(),
        );
        let replacement = Query::select()
            .expr(scalar(in_nearest_group("labels", group)))
            .from_as("labels", FORMER)
            .and_where(Expr::col((FORMER, "id")).eq(Expr::col((table.0, "label_id"))))
            .take();
        self.replace_references(transaction, table, epics, replacement)
            .await?;
        Ok(())
    }

    /// Replaces unavailable labels by available ones with the same title.
    pub(super) async fn replace_labels(&self, transaction: &DatabaseTransaction) -> Result<()> {
        let mut assigned = Query::select()
            .column("project_id")
            .column("label_id")
            .from("label_priorities")
            .and_where(Expr::col("label_id").in_subquery(self.unavailable("labels")))
            .and_where(Expr::col("project_id").in_subquery(self.projects()))
            .take();
        for kind in IssuableKind::ALL {
            let of_issuables = Query::select()
                .expr_as(kind.column(kind.project()), "project_id")
                .column((kind.labels(), "label_id"))
                .from(kind.labels())
                .join(
                    JoinType::InnerJoin,
                    kind.table(),
                    kind.column("id").eq(Expr::col((kind.labels(), kind.key()))),
                )
                .and_where(Expr::col((kind.labels(), "label_id")).in_subquery(self.unavailable("labels")))
                .and_where(kind.column(kind.project()).in_subquery(self.projects()))
                .take();
            assigned.union(UnionType::Distinct, of_issuables);
        }
        let copies = copies_of_former(Expr::col((PROJECT, "id")))
            .from_subquery(assigned, "assigned")
            .join_as(
                JoinType::InnerJoin,
                "labels",
                FORMER,
                Expr::col((FORMER, "id")).eq(Expr::col(("assigned", "label_id"))),
            )
            .join_as(
                JoinType::InnerJoin,
                "projects",
                PROJECT,
                Expr::col((PROJECT, "id")).eq(Expr::col(("assigned", "project_id"))),
            )
            .and_where(Expr::exists(in_project("labels")).not())
            .and_where(Expr::exists(in_nearest_group("labels", Expr::col((PROJECT, "namespace_id")))).not())
            .take();
        insert_labels(transaction, "project_id", copies).await?;
        let mut changed = 0;
        for (table, key) in LABELED_TABLES {
            let (owners, project) = match IssuableKind::ALL.into_iter().find(|kind| kind.labels() == table) {
                Some(kind) => (self.issuables(kind), project_of(kind, Expr::col((table, key)))),
                None => (self.projects(), Expr::col((table, key))),
            };
            changed += self
                .delete_duplicates(transaction, (table, key), owners.clone())
                .await?;
            let replacement = replacement("labels", Expr::col((table, "label_id")), project);
            changed += self
                .replace_references(transaction, (table, key), owners, replacement)
                .await?;
        }
        if changed > 0 {
            label_priorities::refresh(transaction, LabeledItems::Of(&self.projects())).await?;
        }
        Ok(())
    }

    /// Deletes rows of a table that would become duplicates when two labels of the same title are merged.
    async fn delete_duplicates(
        &self,
        transaction: &DatabaseTransaction,
        (table, key): (&'static str, &'static str),
        owners: SelectStatement,
    ) -> Result<u64> {
        let other = |column: &'static str| Expr::col((OTHER, column));
        let available = other("label_id").in_subquery(self.unavailable("labels")).not();
        let duplicate = Query::select()
            .expr(Expr::val(1))
            .from_as(table, OTHER)
            .join_as(
                JoinType::InnerJoin,
                "labels",
                FOUND,
                Expr::col((FOUND, "id")).eq(other("label_id")),
            )
            .join_as(
                JoinType::InnerJoin,
                "labels",
                FORMER,
                Expr::col((FORMER, "title")).eq(Expr::col((FOUND, "title"))),
            )
            .and_where(other(key).eq(Expr::col((table, key))))
            .and_where(Expr::col((FORMER, "id")).eq(Expr::col((table, "label_id"))))
            .and_where(other("id").ne(Expr::col((table, "id"))))
            .and_where(available.or(other("id").lt(Expr::col((table, "id")))))
            .take();
        let delete = Query::delete()
            .from_table(table)
            .and_where(Expr::col((table, "label_id")).in_subquery(self.unavailable("labels")))
            .and_where(Expr::col((table, key)).in_subquery(owners))
            .and_where(Expr::exists(duplicate))
            .take();
        Ok(transaction.execute(&delete).await?.rows_affected())
    }

    /// Replaces the label in the rows of a table.
    async fn replace_references(
        &self,
        transaction: &DatabaseTransaction,
        (table, key): (&'static str, &'static str),
        owners: SelectStatement,
        replacement: SelectStatement,
    ) -> Result<u64> {
        let update = Query::update()
            .table(table)
            .value("label_id", scalar(replacement))
            .and_where(Expr::col((table, "label_id")).in_subquery(self.unavailable("labels")))
            .and_where(Expr::col((table, key)).in_subquery(owners))
            .take();
        Ok(transaction.execute(&update).await?.rows_affected())
    }
}

/// Selects the columns of [`insert_labels`] for copies of `former`.
fn copies_of_former(owner: Expr) -> SelectStatement {
    let former = |column: &'static str| Expr::col((FORMER, column));
    Query::select()
        .expr(owner)
        .expr(former("title"))
        .expr(former("title_key"))
        .expr(former("color"))
        .expr(former("description"))
        .expr(Expr::val(now()))
        .expr(Expr::val(now()))
        .take()
}

/// Inserts labels, one for each title.
async fn insert_labels(
    transaction: &DatabaseTransaction,
    owner: &'static str,
    copies: SelectStatement,
) -> Result<()> {
    let insert = Query::insert()
        .into_table("labels")
        .columns([
            owner,
            "title",
            "title_key",
            "color",
            "description",
            "created_at",
            "updated_at",
        ])
        .select_from(copies)
        .map_err(Error::internal)?
        .on_conflict(OnConflict::columns([owner, "title"]).do_nothing().to_owned())
        .take();
    transaction.execute(&insert).await?;
    Ok(())
}
