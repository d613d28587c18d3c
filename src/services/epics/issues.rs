//! The issues that epics gather: those of projects below the group, in an order of the epic's own.

use std::collections::HashMap;

use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, QueryFilter, QuerySelect, QueryTrait, SelectTwo,
};
use storage::database::Violation;
use storage::entities::epic_issues::{self, ActiveModel, Column, Entity, Model};
use storage::entities::{epics, issues, namespace_ancestors, now, projects};

use super::{Row, find, lock, of_one};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::issues::{self as issues_service, decorate};
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::listing::bounded_count;
use crate::services::places::Place;

/// How many issues an epic gathers at most.
const MOST: usize = 1000;

/// How far from one another issues are put, so that there is room between them.
const STEP: i64 = 1 << 20;

/// An issue of an epic.
#[derive(Debug, Clone)]
pub struct Gathered {
    /// That it is one, and where it stands.
    pub link: Model,
    /// The issue.
    pub issue: issues_service::Row,
}

/// A link, and the issue it leads to.
type Found = (Model, Option<issues::Model>);

/// Between which issues of the epic one is to stand, by the ids of their links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// The one that comes right before it.
    pub before: Option<i64>,
    /// The one that comes right after it; overlooked beside the other.
    pub after: Option<i64>,
}

/// A page of the issues of an epic that the caller may see, in their order.
///
/// # Errors
/// 404, also where the caller may not see the epic.
pub async fn list(backend: &Backend, place: &Place, iid: i64, page: &PageRequest) -> Result<Page<Gathered>> {
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

/// Puts an issue at the end of an epic, and takes it out of the one it was in.
///
/// # Errors
/// 404, also for an issue of a project that is not below the group or that the caller may not see; 409 for one that is in
/// the epic, and 400 where there are as many as there may be.
pub async fn add(backend: &Backend, place: &Place, iid: i64, issue_id: i64) -> Result<(Row, Gathered)> {
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
                return Err(Error::Refused(
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

/// Puts an issue of an epic elsewhere in its order; the issues of the epic that the caller may see, in the new order.
///
/// # Errors
/// 404, also for neighbours that are not in the epic, and 400 without any.
pub async fn reorder(
    backend: &Backend,
    place: &Place,
    iid: i64,
    link_id: i64,
    between: Neighbours,
) -> Result<Vec<Gathered>> {
    if between == Neighbours::default() {
        return Err(Error::nothing_sent(&["move_before_id", "move_after_id"]));
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

/// Takes an issue out of an epic.
///
/// # Errors
/// 404, also where the caller may not see the issue.
pub async fn remove(backend: &Backend, place: &Place, iid: i64, link_id: i64) -> Result<(Row, Gathered)> {
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

/// Puts the issue that another went on as where that was in its epic, if its project is below the group of the epic; the old
/// one is in none any more.
///
/// # Errors
/// Whatever the database reports.
pub(in crate::services) async fn hand_on(
    transaction: &DatabaseTransaction,
    to: &ProjectAccess,
    old: i64,
    new: i64,
) -> Result<()> {
    let former = Entity::find()
        .filter(Column::IssueId.eq(old))
        .one(transaction)
        .await?;
    let Some(former) = former else {
        return Ok(());
    };
    let above = namespace_ancestors::at_or_above(to.namespace.id);
    let epic = epics::Entity::find_by_id(former.epic_id)
        .filter(epics::Column::NamespaceId.in_subquery(above))
        .one(transaction)
        .await?;
    match epic {
        Some(_) => {
            Entity::update_many()
                .col_expr(Column::IssueId, Expr::value(new))
                .filter(Column::Id.eq(former.id))
                .exec(transaction)
                .await?;
        }
        None => {
            Entity::delete_by_id(former.id).exec(transaction).await?;
        }
    }
    Ok(())
}

/// The issues of an epic that the caller may see, in their order, and that they are.
fn seen(place: &Place, epic_id: i64) -> SelectTwo<Entity, issues::Entity> {
    epic_issues::of(epic_id)
        .find_also_related(issues::Entity)
        .filter(issues::visible(place.caller.viewer(), now().date_naive()))
}

async fn find_link(db: &impl ConnectionTrait, place: &Place, epic_id: i64, id: i64) -> Result<Found> {
    let found = seen(place, epic_id).filter(Column::Id.eq(id)).one(db).await?;
    found.ok_or_else(missing)
}

/// Enters where the issue at this place of the order stands: between its neighbours, if need be after making room.
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

/// Adds what belongs to issues, for the whole page at once.
async fn with_issues(db: &impl ConnectionTrait, place: &Place, found: Vec<Found>) -> Result<Vec<Gathered>> {
    let (links, found): (Vec<Model>, Vec<Option<issues::Model>>) = found.into_iter().unzip();
    let found = found.into_iter().flatten().collect();
    let rows = decorate(db, place.caller.viewer(), found).await?;
    let mut rows: HashMap<i64, issues_service::Row> =
        rows.into_iter().map(|row| (row.issue.id, row)).collect();
    let gathered = links.into_iter().filter_map(|link| {
        // What went away since the page was read is not shown.
        let issue = rows.remove(&link.issue_id)?;
        Some(Gathered { link, issue })
    });
    Ok(gathered.collect())
}

async fn with_issue(db: &impl ConnectionTrait, place: &Place, found: Found) -> Result<Gathered> {
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

/// Why a row was not written.
fn refused(error: DbErr) -> Error {
    match Violation::of(&error) {
        // Somebody else put it into an epic at the same time.
        Some(Violation::Unique(_)) => taken(),
        Some(Violation::ForeignKey(_)) => Error::not_found("Issue"),
        _ => error.into(),
    }
}
