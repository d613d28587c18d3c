//! Promotion of project milestones to group milestones.

use sea_orm::sea_query::{Expr, ExprTrait, LockType, Query, SelectStatement};
use sea_orm::{ActiveValue::Set, ColumnTrait, DatabaseTransaction, QueryFilter, QuerySelect};
use storage::entities::Scope;
use storage::entities::issuables::{IssuableKind, lock_rows};
use storage::entities::milestones::{self, ActiveModel, Column, Model};

use super::changes::{insert, update_due_date_of_items};
use super::{MilestoneDetail, find_own, lock, own_detail};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::policy::Role;
use crate::planning::promotion::{Promotion, ReferencingTable};

/// Promotion of milestones.
const PROMOTION: Promotion = Promotion {
    table: "milestones",
    reference: "milestone_id",
    referencing: &[
        referencing("issues"),
        referencing("merge_requests"),
        referencing("boards"),
        referencing("resource_events"),
        assigned_once("board_lists", "board_id"),
        assigned_once("release_milestones", "release_id"),
    ],
    minimum_role: Role::Developer,
    no_group: "Failed to promote project milestone to group milestone",
};

const fn referencing(name: &'static str) -> ReferencingTable {
    ReferencingTable { name, owner: None }
}

const fn assigned_once(name: &'static str, owner: &'static str) -> ReferencingTable {
    ReferencingTable {
        name,
        owner: Some(owner),
    }
}

/// Turns a project milestone into a milestone of the project's group. Milestones of the same title in all
/// projects of the group and its subgroups are merged into it.
///
/// # Errors
/// Returns `Error::NotFound` if the milestone does not exist. Returns `Error::Rejected` if the project is not
/// in a group. Returns `Error::Forbidden` if the caller is not a Developer of the group.
pub async fn promote(backend: &Backend, space: &SpaceAccess, id: i64) -> Result<MilestoneDetail> {
    space.check_planning()?;
    backend
        .database
        .transaction(async |transaction| {
            let space = &space.lock_location(transaction).await?;
            find_own(transaction, space, id).await?;
            let group = PROMOTION.lock_group(transaction, space).await?;
            let milestone = lock(transaction, space, id).await?;
            let promoted = find_or_create_group_milestone(transaction, &group, &milestone).await?;
            merge(transaction, group.namespace.id, &promoted).await?;
            Ok(own_detail(&group, promoted))
        })
        .await
}

/// Returns the group milestone with the title of a project milestone, locked against changes of its due date. Creates a
/// copy of the project milestone if the group has none.
async fn find_or_create_group_milestone(
    transaction: &DatabaseTransaction,
    group: &SpaceAccess,
    milestone: &Model,
) -> Result<Model> {
    let existing = milestones::within(Scope::Group(group.namespace.id))
        .filter(Column::Title.eq(&milestone.title))
        .lock(LockType::NoKeyUpdate);
    if let Some(existing) = existing.one(transaction).await? {
        return Ok(existing);
    }
    let row = ActiveModel {
        title: Set(milestone.title.clone()),
        description: Set(milestone.description.clone()),
        start_date: Set(milestone.start_date),
        due_date: Set(milestone.due_date),
        state: Set(milestone.state),
        ..Default::default()
    };
    insert(transaction, group, row).await
}

/// Replaces milestones of this title of all projects in the group and its subgroups by the group milestone.
async fn merge(transaction: &DatabaseTransaction, group_id: i64, promoted: &Model) -> Result<()> {
    let former = PROMOTION.project_items(group_id, &promoted.title);
    lock_with_items(transaction, &former, promoted.id).await?;
    PROMOTION
        .replace_references(transaction, &former, promoted.id)
        .await?;
    update_due_date_of_items(transaction, promoted.id, promoted.due_date).await?;
    PROMOTION.delete_former(transaction, former).await
}

/// Locks the former milestones first, as in the assignment of milestones, and then the issues and merge requests that
/// will have the promoted milestone.
async fn lock_with_items(
    transaction: &DatabaseTransaction,
    former: &SelectStatement,
    promoted: i64,
) -> Result<()> {
    PROMOTION.lock_former(transaction, former).await?;
    for kind in IssuableKind::ALL {
        let milestone = || Expr::col("milestone_id");
        let assigned = Query::select()
            .column("id")
            .from(kind.table())
            .and_where(
                milestone()
                    .in_subquery(former.clone())
                    .or(milestone().eq(promoted)),
            )
            .take();
        lock_rows(transaction, kind.table(), assigned).await?;
    }
    Ok(())
}
