//! Promotion of project labels to group labels.

use sea_orm::sea_query::{Expr, ExprTrait, Query, SelectStatement};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, QueryFilter};
use storage::entities::issuables::IssuableKind;
use storage::entities::issuables::lock_rows;
use storage::entities::labels::{self, ActiveModel, Column, Model};
use storage::entities::{Scope, label_priorities, now};

use super::{LabelDetail, detail, find_own, lock_own};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::policy::Role;
use crate::planning::promotion::{Promotion, ReferencingTable};

/// Promotion of labels. Each owner references a label once.
const PROMOTION: Promotion = Promotion {
    table: "labels",
    reference: "label_id",
    referencing: &[
        assignments("issue_labels", "issue_id"),
        assignments("merge_request_labels", "merge_request_id"),
        assignments("label_priorities", "project_id"),
        assignments("subscriptions", "user_id"),
        assignments("board_labels", "board_id"),
        assignments("board_lists", "board_id"),
        ReferencingTable {
            name: "resource_events",
            owner: None,
        },
    ],
    minimum_role: Role::Reporter,
    no_group: "Failed to promote project label to group label",
};

const fn assignments(name: &'static str, owner: &'static str) -> ReferencingTable {
    ReferencingTable {
        name,
        owner: Some(owner),
    }
}

/// Turns a project label into a label of the project's group. Labels of the same title in all projects of the
/// group and its subgroups are merged into it.
///
/// # Errors
/// Returns `Error::NotFound` if the label does not exist. Returns `Error::Rejected` if the project is not in a
/// group. Returns `Error::Forbidden` if the caller is not a Reporter of the group.
pub async fn promote(backend: &Backend, space: &SpaceAccess, reference: &str) -> Result<LabelDetail> {
    space.check_planning()?;
    backend
        .database
        .transaction(async |transaction| {
            let space = &space.lock_location(transaction).await?;
            find_own(transaction, space, reference).await?;
            let group = PROMOTION.lock_group(transaction, space).await?;
            let label = lock_own(transaction, space, reference).await?;
            let promoted = find_or_create_group_label(transaction, group.namespace.id, &label).await?;
            merge(transaction, group.namespace.id, &promoted).await?;
            detail(transaction, &group, promoted).await
        })
        .await
}

/// Returns the group label with the title of a project label. Creates a copy of the project label if the group
/// has none.
async fn find_or_create_group_label(
    transaction: &DatabaseTransaction,
    group_id: i64,
    label: &Model,
) -> Result<Model> {
    let existing = labels::within(Scope::Group(group_id)).filter(Column::Title.eq(&label.title));
    if let Some(existing) = existing.one(transaction).await? {
        return Ok(existing);
    }
    let at = now();
    let row = ActiveModel {
        namespace_id: Set(Some(group_id)),
        title: Set(label.title.clone()),
        color: Set(label.color.clone()),
        description: Set(label.description.clone()),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    Ok(row.insert(transaction).await?)
}

/// Replaces labels of this title of all projects in the group and its subgroups by the group label.
async fn merge(transaction: &DatabaseTransaction, group_id: i64, promoted: &Model) -> Result<()> {
    let former = PROMOTION.project_items(group_id, &promoted.title);
    lock(transaction, &former).await?;
    PROMOTION
        .replace_references(transaction, &former, promoted.id)
        .await?;
    label_priorities::refresh(transaction, label_priorities::LabeledItems::With(promoted.id)).await?;
    PROMOTION.delete_former(transaction, former).await
}

/// Locks labels first, as in the assignment of labels, and then the issues and merge requests with them.
async fn lock(transaction: &DatabaseTransaction, labels: &SelectStatement) -> Result<()> {
    PROMOTION.lock_former(transaction, labels).await?;
    for kind in IssuableKind::ALL {
        let labeled = Query::select()
            .column(kind.key())
            .from(kind.labels())
            .and_where(Expr::col("label_id").in_subquery(labels.clone()))
            .take();
        lock_rows(transaction, kind.table(), labeled).await?;
    }
    Ok(())
}
