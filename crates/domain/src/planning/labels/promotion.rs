//! Promotion of project labels to group labels.

use sea_orm::sea_query::{Expr, ExprTrait, Query, SelectStatement};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    QueryFilter, QuerySelect, QueryTrait,
};
use storage::entities::issuables::IssuableKind;
use storage::entities::issuables::lock_rows;
use storage::entities::labels::{self, ActiveModel, Column, Entity, Model};
use storage::entities::{Scope, label_priorities, namespaces, now};

use super::{Row, lock_own, row};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
use crate::planning::promotion::{projects_in, replace_references};

/// Tables that reference labels, with the column of the owner of the reference. Each owner references a label
/// once.
const CARRIERS: [(&str, &str); 6] = [
    ("issue_labels", "issue_id"),
    ("merge_request_labels", "merge_request_id"),
    ("label_priorities", "project_id"),
    ("subscriptions", "user_id"),
    ("board_labels", "board_id"),
    ("board_lists", "board_id"),
];

/// Turns a project label into a label of the project's group. Labels of the same title in all projects of the
/// group and its subgroups are merged into it.
///
/// # Errors
/// Returns `Error::NotFound` if the label does not exist. Returns `Error::Rejected` if the project is not in a
/// group. Returns `Error::Forbidden` if the caller is not a Reporter of the group.
pub async fn promote(backend: &Backend, place: &SpaceAccess, reference: &str) -> Result<Row> {
    place.check_planning()?;
    backend
        .database
        .transaction(async |transaction| {
            let label = lock_own(transaction, place, reference).await?;
            let group = place
                .promotion_target(transaction, Role::Reporter)
                .await?
                .ok_or_else(|| Error::Rejected("Failed to promote project label to group label".into()))?;
            // The lock serializes promotions, so that concurrent ones do not create the same label.
            namespaces::lock(transaction, group.namespace.id).await?;
            let promoted = of_group(transaction, group.namespace.id, &label).await?;
            merge(transaction, group.namespace.id, &promoted).await?;
            row(transaction, &group, promoted).await
        })
        .await
}

/// Returns the group label with the title of another label, and creates it with the same attributes if
/// needed.
async fn of_group(transaction: &DatabaseTransaction, group_id: i64, like: &Model) -> Result<Model> {
    let known = labels::within(Scope::Group(group_id)).filter(Column::Title.eq(&like.title));
    if let Some(known) = known.one(transaction).await? {
        return Ok(known);
    }
    let at = now();
    let made = ActiveModel {
        namespace_id: Set(Some(group_id)),
        title: Set(like.title.clone()),
        color: Set(like.color.clone()),
        description: Set(like.description.clone()),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    Ok(made.insert(transaction).await?)
}

/// Replaces labels of this title of all projects in the group and its subgroups by the group label.
async fn merge(transaction: &DatabaseTransaction, group_id: i64, into: &Model) -> Result<()> {
    let former = Entity::find()
        .filter(Column::Title.eq(&into.title))
        .filter(Column::ProjectId.in_subquery(projects_in(group_id)));
    let ids = || former.clone().select_only().column(Column::Id).into_query();
    // Labels are locked first, as in the assignment of labels, and then the rows with them.
    lock_rows(transaction, "labels", ids()).await?;
    for kind in IssuableKind::ALL {
        let carriers = Query::select()
            .column(kind.key())
            .from(kind.labels())
            .and_where(Expr::col("label_id").in_subquery(ids()))
            .take();
        lock_rows(transaction, kind.table(), carriers).await?;
    }
    for (table, key) in CARRIERS {
        remove_repeated(transaction, (table, key), ids(), into.id).await?;
        replace_references(transaction, (table, "label_id"), ids(), into.id).await?;
    }
    label_priorities::refresh(transaction, label_priorities::LabeledItems::With(into.id)).await?;
    Entity::delete_many()
        .filter(Column::Id.in_subquery(ids()))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Deletes rows that would be duplicates after their labels are merged.
async fn remove_repeated(
    transaction: &DatabaseTransaction,
    (table, key): (&'static str, &'static str),
    former: SelectStatement,
    label_id: i64,
) -> Result<()> {
    const OTHER: &str = "other";
    let other = |column: &'static str| Expr::col((OTHER, column));
    let earlier = other("label_id")
        .in_subquery(former.clone())
        .and(other("id").lt(Expr::col((table, "id"))));
    let same = Query::select()
        .expr(Expr::val(1))
        .from_as(table, OTHER)
        .and_where(other(key).eq(Expr::col((table, key))))
        .and_where(other("label_id").eq(label_id).or(earlier))
        .take();
    let delete = Query::delete()
        .from_table(table)
        .and_where(Expr::col((table, "label_id")).in_subquery(former))
        .and_where(Expr::exists(same))
        .take();
    transaction.execute(&delete).await?;
    Ok(())
}
