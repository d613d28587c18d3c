//! Promotion of project milestones to group milestones.

use sea_orm::{
    ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect, QueryTrait,
};
use storage::entities::milestones::{self, ActiveModel, Column, Entity, Model};
use storage::entities::{Scope, namespaces};

use super::changes::{insert, note_due_date};
use super::{Row, here, lock};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
use crate::planning::promotion::{projects_in, replace_references};

/// Tables that refer to milestones.
const BELONGING: [&str; 4] = ["issues", "merge_requests", "boards", "board_lists"];

/// Promotes a project milestone to its group, and merges milestones with the same title from all other
/// projects of that group.
///
/// # Errors
/// Returns `NotFound` if the milestone does not exist, a validation error for a project outside a group, and
/// `Forbidden` below Developer in the group.
pub async fn promote(backend: &Backend, place: &SpaceAccess, id: i64) -> Result<Row> {
    place.check_planning()?;
    backend
        .database
        .transaction(async |transaction| {
            let milestone = lock(transaction, place, id).await?;
            let group = place.promotion_target(transaction, Role::Developer).await?;
            let group = group.ok_or_else(|| {
                Error::Rejected("Failed to promote project milestone to group milestone".into())
            })?;
            // Serialize promotions, so that two requests do not create the same milestone.
            namespaces::lock(transaction, group.namespace.id).await?;
            let promoted = of_group(transaction, &group, &milestone).await?;
            merge(transaction, group.namespace.id, &promoted).await?;
            Ok(here(&group, promoted))
        })
        .await
}

/// Returns the group milestone with the same title, creating it if needed.
async fn of_group(transaction: &DatabaseTransaction, group: &SpaceAccess, like: &Model) -> Result<Model> {
    let known = milestones::within(Scope::Group(group.namespace.id)).filter(Column::Title.eq(&like.title));
    if let Some(known) = known.one(transaction).await? {
        return Ok(known);
    }
    let made = ActiveModel {
        title: Set(like.title.clone()),
        description: Set(like.description.clone()),
        start_date: Set(like.start_date),
        due_date: Set(like.due_date),
        state: Set(like.state),
        ..Default::default()
    };
    insert(transaction, group, made).await
}

/// Replaces project milestones with this title by the group milestone in all references.
async fn merge(transaction: &DatabaseTransaction, group_id: i64, into: &Model) -> Result<()> {
    let former = Entity::find()
        .filter(Column::Title.eq(&into.title))
        .filter(Column::ProjectId.in_subquery(projects_in(group_id)));
    let ids = || former.clone().select_only().column(Column::Id).into_query();
    for table in BELONGING {
        replace_references(transaction, (table, "milestone_id"), ids(), into.id).await?;
    }
    note_due_date(transaction, into.id, into.due_date).await?;
    Entity::delete_many()
        .filter(Column::Id.in_subquery(ids()))
        .exec(transaction)
        .await?;
    Ok(())
}
