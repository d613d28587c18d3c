//! Issues of epics. They belong to projects in the group or its subgroups, and each epic orders its own
//! issues.

use std::collections::HashMap;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, QueryFilter, QuerySelect, QueryTrait, SelectTwo,
};
use storage::database::Violation;
use storage::entities::epic_issues::{self, ActiveModel, Column, Entity, Model};
use storage::entities::{issues, namespace_ancestors, now, projects};

use super::{Row, find, lock, of_one};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::bounded_count;
use crate::planning::issues as issues_service;
use crate::planning::issues::decorate;

/// Maximum issues of an epic.
const MOST: usize = 1000;

/// Distance between the positions of adjacent issues, which leaves space for inserts.
const STEP: i64 = 1 << 20;

/// An issue of an epic.
#[derive(Debug, Clone)]
pub struct Gathered {
    /// The row that links it to the epic, with its position.
    pub link: Model,
    /// The issue.
    pub issue: issues_service::Row,
}

/// A link and its issue.
type Found = (Model, Option<issues::Model>);

/// Target position of an issue, by the IDs of the links of adjacent issues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Link of the issue directly before it.
    pub before: Option<i64>,
    /// Link of the issue directly after it. Ignored if `before` is given.
    pub after: Option<i64>,
}

/// Returns a page of the issues of an epic that are visible to the caller, in their order.
///
/// # Errors
/// Returns `Error::NotFound` if the epic does not exist or the caller cannot see it.
pub async fn list(
    backend: &Backend,
    place: &SpaceAccess,
    iid: i64,
    page: &PageRequest,
) -> Result<Page<Gathered>> {
    let db = backend.database.read();
    let epic = find(db, place, iid).await?;
    let wanted = seen(place, epic.id);
    let total = bounded_count(db, wanted.clone().into_query()).await?;
    let found = wanted
        .offset(page.offset())
        .limit(page.limit() + 1)
        .all(db)
        .await?;
    let found = Page::new(page, found, total);
    Ok(Page {
        items: with_issues(db, place, found.items).await?,
        rest: found.rest,
    })
}

/// Appends an issue to an epic and removes it from its previous epic.
///
/// # Errors
/// Returns `Error::NotFound` if the epic or issue is not visible to the caller, or the issue is outside of
/// the group. Returns `Error::Conflict` if the issue is in the epic already. Returns `Error::Rejected` if the
/// epic has `MOST` issues.
pub async fn add(backend: &Backend, place: &SpaceAccess, iid: i64, issue_id: i64) -> Result<(Row, Gathered)> {
    backend
        .database
        .transaction(async |transaction| {
            let epic = lock(transaction, place, iid).await?;
            let below = namespace_ancestors::at_or_below(place.namespace.id);
            let inside = Condition::all().add(projects::Column::NamespaceId.in_subquery(below));
            let issue = issues::Entity::find_by_id(issue_id)
                .filter(issues::in_projects(inside))
                .filter(issues::visible(place.caller.viewer(), now().date_naive()))
                .one(transaction)
                .await?;
            let issue = issue.ok_or_else(|| Error::not_found("Issue"))?;
            let former = Entity::find().filter(Column::IssueId.eq(issue.id));
            let former = former.one(transaction).await?;
            if former.as_ref().is_some_and(|former| former.epic_id == epic.id) {
                return Err(taken());
            }
            let there = epic_issues::of(epic.id).all(transaction).await?;
            if there.len() >= MOST {
                return Err(Error::Rejected(
                    format!("The maximum number of issues in the epic ({MOST}) is reached").into(),
                ));
            }
            let row = ActiveModel {
                epic_id: Set(epic.id),
                issue_id: Set(issue.id),
                relative_position: Set(Some(there.last().map_or(0, position) + STEP)),
                ..Default::default()
            };
            let link = match former {
                Some(former) => {
                    let id = Set(former.id);
                    ActiveModel { id, ..row }.update(transaction).await
                }
                None => row.insert(transaction).await,
            };
            let link = link.map_err(refused)?;
            Ok((
                of_one(transaction, place.caller.viewer(), epic).await?,
                with_issue(transaction, place, (link, Some(issue))).await?,
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
    place: &SpaceAccess,
    iid: i64,
    link_id: i64,
    between: Neighbours,
) -> Result<Vec<Gathered>> {
    if between == Neighbours::default() {
        return Err(Error::no_parameters(&["move_before_id", "move_after_id"]));
    }
    backend
        .database
        .transaction(async |transaction| {
            let epic = lock(transaction, place, iid).await?;
            let (link, _) = find_link(transaction, place, epic.id, link_id).await?;
            let mut order = epic_issues::of(epic.id).all(transaction).await?;
            order.retain(|other| other.id != link.id);
            let index = |id: i64| order.iter().position(|other| other.id == id).ok_or_else(missing);
            let at = match (between.before, between.after) {
                (Some(id), _) => index(id)? + 1,
                (None, Some(id)) => index(id)?,
                (None, None) => order.len(),
            };
            order.insert(at, link);
            put(transaction, &order, at).await?;
            let all = seen(place, epic.id).all(transaction).await?;
            with_issues(transaction, place, all).await
        })
        .await
}

/// Removes an issue from an epic.
///
/// # Errors
/// Returns `Error::NotFound` if the epic or issue does not exist or the caller cannot see the issue.
pub async fn remove(
    backend: &Backend,
    place: &SpaceAccess,
    iid: i64,
    link_id: i64,
) -> Result<(Row, Gathered)> {
    backend
        .database
        .transaction(async |transaction| {
            let epic = lock(transaction, place, iid).await?;
            let found = find_link(transaction, place, epic.id, link_id).await?;
            Entity::delete_by_id(link_id).exec(transaction).await?;
            Ok((
                of_one(transaction, place.caller.viewer(), epic).await?,
                with_issue(transaction, place, found).await?,
            ))
        })
        .await
}

/// Returns the query for the visible issues of an epic, in their order.
fn seen(place: &SpaceAccess, epic_id: i64) -> SelectTwo<Entity, issues::Entity> {
    epic_issues::of(epic_id)
        .find_also_related(issues::Entity)
        .filter(issues::visible(place.caller.viewer(), now().date_naive()))
}

async fn find_link(db: &impl ConnectionTrait, place: &SpaceAccess, epic_id: i64, id: i64) -> Result<Found> {
    let found = seen(place, epic_id).filter(Column::Id.eq(id)).one(db).await?;
    found.ok_or_else(missing)
}

/// Sets the position of one issue between its neighbors. Renumbers all positions if the gap is too small.
async fn put(transaction: &DatabaseTransaction, order: &[Model], at: usize) -> Result<()> {
    let neighbour = |index: Option<usize>| index.and_then(|index| order.get(index)).map(position);
    let wanted = match (neighbour(at.checked_sub(1)), neighbour(at.checked_add(1))) {
        (None, None) => Some(STEP),
        (Some(before), None) => before.checked_add(STEP),
        (None, Some(after)) => after.checked_sub(STEP),
        (Some(before), Some(after)) => (after - before > 1).then(|| before + (after - before) / 2),
    };
    let all: Vec<(i64, i64)> = match (wanted, order.get(at)) {
        (Some(wanted), Some(link)) => vec![(link.id, wanted)],
        _ => (1..)
            .zip(order)
            .map(|(number, link)| (link.id, number * STEP))
            .collect(),
    };
    for (id, position) in all {
        let row = ActiveModel {
            id: Set(id),
            relative_position: Set(Some(position)),
            ..Default::default()
        };
        row.update(transaction).await?;
    }
    Ok(())
}

fn position(link: &Model) -> i64 {
    link.relative_position.unwrap_or(0)
}

/// Loads the related rows of a whole page.
async fn with_issues(
    db: &impl ConnectionTrait,
    place: &SpaceAccess,
    found: Vec<Found>,
) -> Result<Vec<Gathered>> {
    let (links, found): (Vec<Model>, Vec<Option<issues::Model>>) = found.into_iter().unzip();
    let found = found.into_iter().flatten().collect();
    let rows = decorate(db, place.caller.viewer(), found).await?;
    let mut rows: HashMap<i64, issues_service::Row> =
        rows.into_iter().map(|row| (row.issue.id, row)).collect();
    let gathered = links.into_iter().filter_map(|link| {
        // Issues deleted since the page was read are left out.
        let issue = rows.remove(&link.issue_id)?;
        Some(Gathered { link, issue })
    });
    Ok(gathered.collect())
}

async fn with_issue(db: &impl ConnectionTrait, place: &SpaceAccess, found: Found) -> Result<Gathered> {
    with_issues(db, place, vec![found])
        .await?
        .pop()
        .ok_or_else(missing)
}

fn missing() -> Error {
    Error::not_found("")
}

fn taken() -> Error {
    Error::Conflict("Issue(s) already assigned".into())
}

/// Maps a database error of an insert.
fn refused(error: DbErr) -> Error {
    match Violation::of(&error) {
        // A concurrent request added it to an epic.
        Some(Violation::Unique(_)) => taken(),
        Some(Violation::ForeignKey(_)) => Error::not_found("Issue"),
        _ => error.into(),
    }
}
