//! Events of the labels, the state and the milestone of issues and merge requests, recorded in the transaction of the
//! change.

use std::collections::HashMap;
use std::sync::Arc;

use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter,
};
use storage::entities::labels::LabelSummary;
use storage::entities::resource_events::{self, ActiveModel, Column, Entity, Model};
use storage::entities::{issues, labels, merge_requests, now, users};

use super::{Issuable, IssuableKind, IssuableRow, find};
use crate::identity::access::ProjectAccess;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{page_of, total_text_bytes};
use crate::planning::milestones::{self, MilestoneDetail};

pub use storage::entities::resource_events::{ResourceEventAction, ResourceEventKind};

/// Number of rows that a statement inserts.
const BATCH_SIZE: usize = 1_000;

/// An event with its related rows.
#[derive(Debug, Clone)]
pub struct ResourceEvent {
    /// The event.
    pub event: Model,
    /// The user who made the change, unless deleted.
    pub user: Option<users::Model>,
    /// The label, unless deleted. Events with the same label share its description.
    pub label: Option<LabelSummary>,
    /// The milestone. Events with the same milestone share it.
    pub milestone: Option<Arc<MilestoneDetail>>,
}

/// Returns a page of the events of an issue or merge request, oldest first.
///
/// # Errors
/// Returns `Error::NotFound` if the issue or merge request does not exist or the caller cannot see it. Returns
/// `Error::Overloaded` if too little memory is left for the descriptions of the labels or milestones.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    issuable: (IssuableKind, i64),
    kind: ResourceEventKind,
    page: &PageRequest,
) -> Result<Page<ResourceEvent>> {
    let db = backend.database.read();
    let id = id_of(db, access, issuable).await?;
    let space = SpaceAccess::from(access.clone());
    let events = resource_events::of_issuable((issuable.0, id), kind, space.scope(), space.namespace.id);
    let Page { items, rest } = page_of(db, events, page).await?;
    let items = with_related(db, &space, items).await?;
    Ok(Page { items, rest })
}

/// Returns an event of an issue or merge request.
///
/// # Errors
/// Returns `Error::NotFound` if the issue or merge request has no such event, or if the caller cannot see the issue or
/// merge request. Returns `Error::Overloaded` as [`list`] does.
pub async fn get(
    backend: &Backend,
    access: &ProjectAccess,
    issuable: (IssuableKind, i64),
    kind: ResourceEventKind,
    event_id: i64,
) -> Result<ResourceEvent> {
    let db = backend.database.read();
    let id = id_of(db, access, issuable).await?;
    let space = SpaceAccess::from(access.clone());
    let found = resource_events::of_issuable((issuable.0, id), kind, space.scope(), space.namespace.id)
        .filter(Column::Id.eq(event_id))
        .one(db)
        .await?;
    let events = with_related(db, &space, found.into_iter().collect()).await?;
    events.into_iter().next().ok_or_else(|| Error::not_found(""))
}

/// Returns the ID of the issue or merge request with an IID.
async fn id_of(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    (kind, iid): (IssuableKind, i64),
) -> Result<i64> {
    match kind {
        IssuableKind::Issue => Ok(find::<issues::Model>(db, access, iid).await?.id),
        IssuableKind::MergeRequest => Ok(find::<merge_requests::Model>(db, access, iid).await?.id),
    }
}

/// Reserves the memory of the descriptions in the response, and then loads the related rows of a page. A milestone that
/// was deleted meanwhile is absent.
async fn with_related(
    db: &impl ConnectionTrait,
    space: &SpaceAccess,
    events: Vec<Model>,
) -> Result<Vec<ResourceEvent>> {
    let ids = |of: fn(&Model) -> Option<i64>| events.iter().filter_map(of).collect::<Vec<i64>>();
    let (user_ids, label_ids) = (ids(|event| event.user_id), ids(|event| event.label_id));
    let milestone_ids = ids(|event| event.milestone_id);
    let mut found_users = HashMap::new();
    if !user_ids.is_empty() {
        let found = users::Entity::find().filter(users::Column::Id.is_in(user_ids));
        found_users.extend(found.all(db).await?.into_iter().map(|user| (user.id, user)));
    }
    let mut found_labels = HashMap::new();
    if !label_ids.is_empty() {
        use labels::{Column, Entity};
        let size = total_text_bytes::<Entity>(db, (Column::Id, Column::Description), &label_ids).await?;
        // The response contains two copies for each event, one of them as HTML.
        space.caller.reserve_memory(size.saturating_mul(2))?;
        let found = Entity::find().filter(Column::Id.is_in(label_ids));
        let found = found.all(db).await?.into_iter().map(LabelSummary::from);
        found_labels.extend(found.map(|label| (label.id, label)));
    }
    let mut found_milestones = HashMap::new();
    if !milestone_ids.is_empty() {
        use storage::entities::milestones::{Column, Entity};
        let size = total_text_bytes::<Entity>(db, (Column::Id, Column::Description), &milestone_ids).await?;
        // The response contains a copy for each event.
        space.caller.reserve_memory(size)?;
        let found = Entity::find()
            .filter(Column::Id.is_in(milestone_ids))
            .all(db)
            .await?;
        let found = milestones::details(db, space, found).await?.into_iter();
        found_milestones.extend(found.map(|detail| (detail.milestone.id, Arc::new(detail))));
    }
    let events = events.into_iter().map(|event| ResourceEvent {
        user: event.user_id.and_then(|id| found_users.get(&id).cloned()),
        label: event.label_id.and_then(|id| found_labels.get(&id).cloned()),
        milestone: event
            .milestone_id
            .and_then(|id| found_milestones.get(&id).cloned()),
        event,
    });
    Ok(events.collect())
}

/// Records the labels that a user added to an issuable and removed from it, in this order.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn record_labels(
    transaction: &DatabaseTransaction,
    issuable: (IssuableKind, i64),
    user_id: Option<i64>,
    added: &[i64],
    removed: &[i64],
) -> Result<()> {
    let at = now();
    let row = |action: ResourceEventAction, label_id: i64| ActiveModel {
        kind: Set(ResourceEventKind::Label),
        action: Set(action),
        user_id: Set(user_id),
        label_id: Set(Some(label_id)),
        created_at: Set(at),
        ..of(issuable)
    };
    let added = added.iter().map(|id| row(ResourceEventAction::Add, *id));
    let removed = removed.iter().map(|id| row(ResourceEventAction::Remove, *id));
    insert(transaction, added.chain(removed).collect()).await
}

/// Records changes of the state and of the milestone. A milestone that replaces another one is a single event. `action`
/// is the name of the change in webhook data.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn record_change<T: IssuableRow>(
    transaction: &DatabaseTransaction,
    user_id: Option<i64>,
    (before, after): (Option<&T>, &T),
    action: &str,
) -> Result<()> {
    let at = now();
    let row = |kind: ResourceEventKind, action: ResourceEventAction| ActiveModel {
        kind: Set(kind),
        action: Set(action),
        user_id: Set(user_id),
        created_at: Set(at),
        ..of((T::KIND, after.id()))
    };
    let state = match action {
        "close" => Some(ResourceEventAction::Closed),
        "reopen" => Some(ResourceEventAction::Reopened),
        "merge" => Some(ResourceEventAction::Merged),
        _ => None,
    };
    let former = before.and_then(Issuable::milestone_id);
    let milestone = match (former, after.milestone_id()) {
        (former, current) if former == current => None,
        (_, Some(current)) => Some((ResourceEventAction::Add, current)),
        (former, None) => former.map(|id| (ResourceEventAction::Remove, id)),
    };
    let state = state.map(|action| row(ResourceEventKind::State, action));
    let milestone = milestone.map(|(action, id)| ActiveModel {
        milestone_id: Set(Some(id)),
        ..row(ResourceEventKind::Milestone, action)
    });
    insert(transaction, state.into_iter().chain(milestone).collect()).await
}

/// Returns a row with its issuable.
fn of((kind, id): (IssuableKind, i64)) -> ActiveModel {
    let (issue_id, merge_request_id) = match kind {
        IssuableKind::Issue => (Some(id), None),
        IssuableKind::MergeRequest => (None, Some(id)),
    };
    // Each row of a statement has the same columns.
    ActiveModel {
        issue_id: Set(issue_id),
        merge_request_id: Set(merge_request_id),
        label_id: Set(None),
        milestone_id: Set(None),
        ..Default::default()
    }
}

/// Inserts rows in batches. A statement has a maximum number of values.
async fn insert(transaction: &DatabaseTransaction, rows: Vec<ActiveModel>) -> Result<()> {
    for rows in rows.chunks(BATCH_SIZE) {
        Entity::insert_many(rows.iter().cloned())
            .exec_without_returning(transaction)
            .await?;
    }
    Ok(())
}
