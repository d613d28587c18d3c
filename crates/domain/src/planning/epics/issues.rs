//! Issues of epics. They belong to projects in the group or its subgroups, and each epic orders its own
//! issues.

use std::collections::HashMap;

use sea_orm::sea_query::LockType;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, QueryFilter, QuerySelect, QueryTrait, SelectTwo,
};
use storage::database::Violation;
use storage::entities::epic_issues::{self, ActiveModel, Column, Entity, Model};
use storage::entities::large_texts::read_sized_joined;
use storage::entities::{issues, namespace_ancestors, namespaces, now, projects};

use super::{EpicDetail, find, load_detail, lock};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{count_for_page, with_texts};
use crate::planning::issues as issues_service;
use crate::planning::issues::decorate;

/// Maximum issues of an epic.
const MAX_ISSUES: usize = 1000;

/// Distance between the positions of adjacent issues, which leaves space for inserts.
const STEP: i64 = 1 << 20;

/// An issue of an epic.
#[derive(Debug, Clone)]
pub struct EpicIssue {
    /// The association of the epic and the issue, with its position.
    pub association: Model,
    /// The issue.
    pub issue: issues_service::IssueDetail,
}

/// An association and its issue.
type AssociatedIssue = (Model, Option<issues::Model>);

/// Target position of an issue, by the IDs of the associations of adjacent issues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReorderTarget {
    /// Association of the issue directly before it.
    pub before: Option<i64>,
    /// Association of the issue directly after it. Ignored if `before` is given.
    pub after: Option<i64>,
}

/// Returns a page of the issues of an epic that are visible to the caller, in their order.
///
/// # Errors
/// Returns `Error::NotFound` if the epic does not exist or the caller cannot see it.
pub async fn list(
    backend: &Backend,
    space: &SpaceAccess,
    iid: i64,
    page: &PageRequest,
) -> Result<Page<EpicIssue>> {
    let db = backend.database.read();
    let epic = find(db, space, iid).await?;
    let visible = visible(space, epic.id);
    let all = visible.clone().into_query();
    let rows = visible.offset(page.offset()).limit(page.limit() + 1).into_query();
    let found = read_sized_joined::<issues::Entity, Entity>(db, rows).await?;
    let total = count_for_page(db, page, found.len(), all).await?;
    let Page { items, rest } = Page::new(page, found, total);
    let found = with_texts::<issues::Entity, _>(db, &space.caller, items)
        .await?
        .into_iter();
    let found = found.filter_map(|(issue, association)| Some((association?, Some(issue))));
    Ok(Page {
        items: with_issues(db, space, found.collect()).await?,
        rest,
    })
}

/// Appends an issue to an epic and removes it from its previous epic.
///
/// # Errors
/// Returns `Error::NotFound` if the epic or issue is not visible to the caller, or the issue is outside of
/// the group. Returns `Error::Conflict` if the issue is in the epic already. Returns `Error::Rejected` if the
/// epic has `MAX_ISSUES` issues.
pub async fn add(
    backend: &Backend,
    space: &SpaceAccess,
    iid: i64,
    issue_id: i64,
) -> Result<(EpicDetail, EpicIssue)> {
    backend
        .database
        .transaction(async |transaction| {
            // Blocks transfers, so that the issue remains in the group.
            namespaces::lock_trees_shared(transaction).await?;
            let epic = lock(transaction, space, iid).await?;
            let group_ids = namespace_ancestors::at_or_below(space.namespace.id);
            let in_group = Condition::all().add(projects::Column::NamespaceId.in_subquery(group_ids));
            let issue = issues::Entity::find_by_id(issue_id)
                .filter(issues::in_projects(in_group))
                .filter(issues::visible(space.caller.viewer(), now().date_naive()))
                .one(transaction)
                .await?;
            let issue = issue.ok_or_else(|| Error::not_found("Issue"))?;
            // Locked, because the former epic, which is not locked, may lose the issue at the same moment.
            let former = Entity::find()
                .filter(Column::IssueId.eq(issue.id))
                .lock(LockType::NoKeyUpdate)
                .one(transaction)
                .await?;
            if former.as_ref().is_some_and(|former| former.epic_id == epic.id) {
                return Err(already_assigned());
            }
            let existing = epic_issues::of(epic.id).all(transaction).await?;
            if existing.len() >= MAX_ISSUES {
                return Err(Error::Rejected(
                    format!("The maximum number of issues in the epic ({MAX_ISSUES}) is reached").into(),
                ));
            }
            let row = ActiveModel {
                epic_id: Set(epic.id),
                issue_id: Set(issue.id),
                relative_position: Set(Some(existing.last().map_or(0, position) + STEP)),
                ..Default::default()
            };
            let association = match former {
                Some(former) => {
                    let id = Set(former.id);
                    ActiveModel { id, ..row }.update(transaction).await
                }
                None => row.insert(transaction).await,
            };
            let association = association.map_err(map_insert_error)?;
            Ok((
                load_detail(transaction, space, epic).await?,
                with_issue(transaction, space, (association, Some(issue))).await?,
            ))
        })
        .await
}

/// Moves an issue within an epic. Returns the issues that are visible to the caller in the new order.
///
/// # Errors
/// Returns `Error::NotFound` if the epic, the issue or an adjacent issue does not exist. Returns
/// `Error::InvalidParameters` if no adjacent issue is given.
pub async fn reorder(
    backend: &Backend,
    space: &SpaceAccess,
    iid: i64,
    association_id: i64,
    target: ReorderTarget,
) -> Result<Vec<EpicIssue>> {
    if target == ReorderTarget::default() {
        return Err(Error::no_parameters(&["move_before_id", "move_after_id"]));
    }
    backend
        .database
        .transaction(async |transaction| {
            let epic = lock(transaction, space, iid).await?;
            let (association, _) = find_association(transaction, space, epic.id, association_id).await?;
            // Another epic, which is not locked, may take an issue at the same moment.
            let mut order = epic_issues::of(epic.id)
                .lock(LockType::NoKeyUpdate)
                .all(transaction)
                .await?;
            let from = order.iter().position(|other| other.id == association.id);
            let association = order.remove(from.ok_or_else(not_found)?);
            let index = |id: i64| {
                order
                    .iter()
                    .position(|other| other.id == id)
                    .ok_or_else(not_found)
            };
            let at = match (target.before, target.after) {
                (Some(id), _) => index(id)? + 1,
                (None, Some(id)) => index(id)?,
                (None, None) => order.len(),
            };
            order.insert(at, association);
            set_position(transaction, &order, at).await?;
            let all = visible(space, epic.id).all(transaction).await?;
            with_issues(transaction, space, all).await
        })
        .await
}

/// Removes an issue from an epic.
///
/// # Errors
/// Returns `Error::NotFound` if the epic or issue does not exist or the caller cannot see the issue.
pub async fn remove(
    backend: &Backend,
    space: &SpaceAccess,
    iid: i64,
    association_id: i64,
) -> Result<(EpicDetail, EpicIssue)> {
    backend
        .database
        .transaction(async |transaction| {
            let epic = lock(transaction, space, iid).await?;
            let found = find_association(transaction, space, epic.id, association_id).await?;
            // Another epic, which is not locked, may take the issue at the same moment.
            let deleted = Entity::delete_many()
                .filter(Column::Id.eq(association_id))
                .filter(Column::EpicId.eq(epic.id))
                .exec(transaction)
                .await?;
            if deleted.rows_affected == 0 {
                return Err(not_found());
            }
            Ok((
                load_detail(transaction, space, epic).await?,
                with_issue(transaction, space, found).await?,
            ))
        })
        .await
}

/// Returns the query for the visible issues of an epic, in their order.
fn visible(space: &SpaceAccess, epic_id: i64) -> SelectTwo<Entity, issues::Entity> {
    epic_issues::of(epic_id)
        .find_also_related(issues::Entity)
        .filter(issues::visible(space.caller.viewer(), now().date_naive()))
}

async fn find_association(
    db: &impl ConnectionTrait,
    space: &SpaceAccess,
    epic_id: i64,
    id: i64,
) -> Result<AssociatedIssue> {
    let found = visible(space, epic_id).filter(Column::Id.eq(id)).one(db).await?;
    found.ok_or_else(not_found)
}

/// Sets the position of one issue between its neighbors. Renumbers all positions if the gap is too small.
async fn set_position(transaction: &DatabaseTransaction, order: &[Model], at: usize) -> Result<()> {
    let neighbor = |index: Option<usize>| index.and_then(|index| order.get(index)).map(position);
    let position_between = match (neighbor(at.checked_sub(1)), neighbor(at.checked_add(1))) {
        (None, None) => Some(STEP),
        (Some(before), None) => before.checked_add(STEP),
        (None, Some(after)) => after.checked_sub(STEP),
        (Some(before), Some(after)) => (after - before > 1).then(|| before + (after - before) / 2),
    };
    let positions: Vec<(i64, i64)> = match (position_between, order.get(at)) {
        (Some(position), Some(association)) => vec![(association.id, position)],
        _ => (1..)
            .zip(order)
            .map(|(number, association)| (association.id, number * STEP))
            .collect(),
    };
    for (id, position) in positions {
        let row = ActiveModel {
            id: Set(id),
            relative_position: Set(Some(position)),
            ..Default::default()
        };
        row.update(transaction).await?;
    }
    Ok(())
}

fn position(association: &Model) -> i64 {
    association.relative_position.unwrap_or(0)
}

/// Loads the related rows of a whole page.
async fn with_issues(
    db: &impl ConnectionTrait,
    space: &SpaceAccess,
    found: Vec<AssociatedIssue>,
) -> Result<Vec<EpicIssue>> {
    let (associations, found): (Vec<Model>, Vec<Option<issues::Model>>) = found.into_iter().unzip();
    let found = found.into_iter().flatten().collect();
    let rows = decorate(db, &space.caller, found).await?;
    let mut rows: HashMap<i64, issues_service::IssueDetail> =
        rows.into_iter().map(|row| (row.issue.id, row)).collect();
    let issues = associations.into_iter().filter_map(|association| {
        // Issues deleted since the page was read are left out.
        let issue = rows.remove(&association.issue_id)?;
        Some(EpicIssue { association, issue })
    });
    Ok(issues.collect())
}

async fn with_issue(
    db: &impl ConnectionTrait,
    space: &SpaceAccess,
    found: AssociatedIssue,
) -> Result<EpicIssue> {
    with_issues(db, space, vec![found])
        .await?
        .pop()
        .ok_or_else(not_found)
}

fn not_found() -> Error {
    Error::not_found("")
}

fn already_assigned() -> Error {
    Error::Conflict("Issue(s) already assigned".into())
}

/// Maps a database error of an insert.
fn map_insert_error(error: DbErr) -> Error {
    match Violation::of(&error) {
        // A concurrent request added it to an epic.
        Some(Violation::Unique(_)) => already_assigned(),
        Some(Violation::ForeignKey(_)) => Error::not_found("Issue"),
        _ => error.into(),
    }
}
