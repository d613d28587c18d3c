//! Attributes of issues and merge requests other than their text, such as assignees, labels and milestone.

use std::collections::BTreeMap;

use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Expr, ExprTrait, LockType, Query};
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect};
use serde_json::json;
use storage::database::Violation;
use storage::entities::issuables::{assignees_of, labels_of};
use storage::entities::label_priorities::{self, LabeledItems};
use storage::entities::projects::FeatureAccess;
use storage::entities::{milestones, users};

use super::columns::IssuableRow;
use super::{Changed, IssuableKind};
use crate::identity::access::ProjectAccess;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::PageRequest;
use crate::kernel::patch::Patch;
use crate::kernel::policy::{InstancePlan, Role, Visibility};
use crate::planning::labels::{find_by_title, resolve_or_create};
use crate::planning::system_notes;
use crate::spaces::members::{self, MemberFilter};

/// Attributes to change. Undefined ones stay; null and 0 remove the value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// Whether only members can comment.
    pub discussion_locked: Option<bool>,
    /// IDs of the assignees.
    pub assignee_ids: Patch<Vec<i64>>,
    /// ID of the milestone.
    pub milestone_id: Patch<i64>,
    /// Titles of all labels; replaces the present ones.
    pub labels: Patch<Vec<String>>,
    /// Titles of labels to add.
    pub add_labels: Vec<String>,
    /// Titles of labels to remove.
    pub remove_labels: Vec<String>,
}

/// Returns the assignees: the list, or else the value of the older single field.
#[must_use]
pub fn assignees(all: Patch<Vec<i64>>, one: Patch<i64>) -> Patch<Vec<i64>> {
    match all {
        Patch::Keep => one.map(|id| vec![id]),
        all => all,
    }
}

/// A change with the rows that were looked up before the transaction.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    said: Metadata,
    assignees: Option<Vec<users::Model>>,
    milestone: Patch<milestones::Model>,
    /// IDs of the labels to add, after they are locked.
    labels: Vec<i64>,
}

/// Effects of a change on other rows.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Texts of system notes.
    pub notes: Vec<String>,
    /// Changed fields, for webhooks.
    pub changes: BTreeMap<String, Changed>,
    /// IDs of the new assignees.
    pub newly_assigned: Vec<i64>,
}

impl Metadata {
    /// Looks up the referenced users and milestone.
    ///
    /// # Errors
    /// Returns `Error::InvalidAttributes` if the milestone does not belong to the project or an ancestor
    /// group.
    pub(crate) async fn prepare(
        self,
        backend: &Backend,
        access: &ProjectAccess,
        kind: IssuableKind,
    ) -> Result<Prepared> {
        let mut said = self;
        // The free plan has one assignee.
        if let (true, Patch::Set(ids)) = (
            backend.instance.plan < InstancePlan::Starter,
            &mut said.assignee_ids,
        ) {
            ids.truncate(1);
        }
        let assignees = match &said.assignee_ids {
            Patch::Keep => None,
            Patch::Clear => Some(Vec::new()),
            Patch::Set(ids) => Some(assignable(backend, access, kind, ids).await?),
        };
        let milestone = match said.milestone_id {
            Patch::Keep => Patch::Keep,
            Patch::Clear | Patch::Set(0) => Patch::Clear,
            Patch::Set(id) => {
                let place = SpaceAccess::from(access.clone());
                let found = milestones::available(place.scope(), place.namespace.id)
                    .filter(milestones::Column::Id.eq(id))
                    .one(backend.database.read())
                    .await?;
                Patch::Set(found.ok_or_else(no_milestone)?)
            }
        };
        Ok(Prepared {
            said,
            assignees,
            milestone,
            labels: Vec::new(),
        })
    }
}

impl Prepared {
    /// Returns the change for an issue moved to another project: its assignees, and labels that are already
    /// locked.
    pub fn brought(assignees: Vec<users::Model>, labels: Vec<i64>) -> Self {
        Self {
            said: Metadata {
                labels: Patch::Set(Vec::new()),
                ..Metadata::default()
            },
            assignees: Some(assignees),
            labels,
            ..Self::default()
        }
    }

    /// Locks the milestone and labels to add until the transaction ends, and creates missing labels. Must run
    /// before the issuable is locked: changes of milestones and labels lock them first, and then the
    /// issuables with them.
    ///
    /// # Errors
    /// Returns `Error::InvalidAttributes` if the milestone was deleted meanwhile or a label is invalid.
    pub async fn hold(&mut self, transaction: &DatabaseTransaction, access: &ProjectAccess) -> Result<()> {
        if let Patch::Set(milestone) = &mut self.milestone {
            let held = milestones::Entity::find_by_id(milestone.id)
                .lock(LockType::KeyShare)
                .one(transaction)
                .await?;
            *milestone = held.ok_or_else(no_milestone)?;
        }
        let titles = self.said.labels.value().into_iter().flatten();
        let titles: Vec<&str> = titles.chain(&self.said.add_labels).map(String::as_str).collect();
        if !titles.is_empty() {
            self.labels = resolve_or_create(transaction, &SpaceAccess::from(access.clone()), &titles).await?;
        }
        Ok(())
    }

    /// Returns the IDs of the new assignees, or `None` if they stay.
    pub fn assignee_ids(&self) -> Option<Vec<i64>> {
        let assignees = self.assignees.as_ref()?;
        Some(assignees.iter().map(|user| user.id).collect())
    }

    /// Applies the milestone to a row. Returns the text of the system note, unless the row is new or has the
    /// milestone already.
    pub fn apply_milestone<T: IssuableRow>(
        &self,
        row: &mut T::Changed,
        before: Option<&T>,
    ) -> Option<String> {
        let milestone = self.milestone.as_update()?;
        let (id, columns) = (milestone.map(|milestone| milestone.id), T::columns(row));
        *columns.milestone_id = Set(id);
        *columns.milestone_due_on = Set(milestone.and_then(|milestone| milestone.due_date));
        before
            .filter(|before| before.milestone_id() != id)
            .map(|_| system_notes::milestone(milestone.map(|milestone| milestone.title.as_str())))
    }

    /// Applies the lock of the discussion to a row. Returns the text of the system note, unless the row is new
    /// or has the state already.
    pub fn apply_lock<T: IssuableRow>(&self, row: &mut T::Changed, before: Option<&T>) -> Option<String> {
        let locked = self.said.discussion_locked?;
        *T::columns(row).discussion_locked = Set(locked);
        before
            .filter(|before| before.is_discussion_locked() != locked)
            .map(|_| system_notes::locked(T::KIND.noun(), locked))
    }

    /// Writes the assignees and labels, which are already locked.
    ///
    /// # Errors
    /// Returns `Error::InvalidAttributes` if a user was deleted meanwhile. Returns an error if the database
    /// fails.
    pub async fn attach(
        &self,
        transaction: &DatabaseTransaction,
        access: &ProjectAccess,
        (kind, id): (IssuableKind, i64),
        new: bool,
    ) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        if let Some(assignees) = &self.assignees {
            let before = match new {
                true => Vec::new(),
                false => assignees_of(transaction, kind, [id])
                    .await?
                    .remove(&id)
                    .unwrap_or_default(),
            };
            assign(transaction, (kind, id), &before, assignees).await?;
            let fresh = assignees
                .iter()
                .filter(|user| !before.iter().any(|other| other.id == user.id));
            outcome.newly_assigned = fresh.map(|user| user.id).collect();
            if !new {
                outcome.notes.extend(system_notes::assigned(&before, assignees));
                let ids = |all: &[users::Model]| all.iter().map(|user| user.id).collect::<Vec<_>>();
                outcome.note("assignee_ids", json!(ids(&before)), json!(ids(assignees)));
            }
        }
        self.label(transaction, access, (kind, id), new, &mut outcome)
            .await?;
        Ok(outcome)
    }

    async fn label(
        &self,
        transaction: &DatabaseTransaction,
        access: &ProjectAccess,
        (kind, id): (IssuableKind, i64),
        new: bool,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let said = &self.said;
        if said.labels.is_keep() && said.add_labels.is_empty() && said.remove_labels.is_empty() {
            return Ok(());
        }
        let place = SpaceAccess::from(access.clone());
        let before = match new {
            true => Vec::new(),
            false => labels_of(transaction, kind, [id])
                .await?
                .remove(&id)
                .unwrap_or_default(),
        };
        let mut ids: Vec<i64> = match said.labels.is_keep() {
            true => before.iter().map(|label| label.id).collect(),
            false => Vec::new(),
        };
        for id in &self.labels {
            if !ids.contains(id) {
                ids.push(*id);
            }
        }
        let lost: Vec<&str> = said.remove_labels.iter().map(|title| title.trim()).collect();
        let lost = find_by_title(transaction, &place, &lost).await?;
        ids.retain(|id| !lost.values().any(|label| label.id == *id));
        let former: Vec<i64> = before.iter().map(|label| label.id).collect();
        let gone = former.iter().copied().filter(|id| !ids.contains(id));
        let gone: Vec<i64> = gone.collect();
        let fresh: Vec<i64> = ids.iter().copied().filter(|id| !former.contains(id)).collect();
        if gone.is_empty() && fresh.is_empty() {
            return Ok(());
        }
        let table = (kind, kind.labels(), "label_id");
        detach(transaction, table, id, gone).await?;
        attach(transaction, table, id, fresh).await?;
        label_priorities::refresh(transaction, LabeledItems::Things(kind, &[id])).await?;
        if !new {
            outcome.note("label_ids", json!(former), json!(ids));
        }
        Ok(())
    }
}

fn no_milestone() -> Error {
    Error::attribute("milestone", "is invalid")
}

impl Outcome {
    fn note(&mut self, field: &str, previous: serde_json::Value, current: serde_json::Value) {
        if previous != current {
            self.changes
                .insert(field.to_owned(), Changed { previous, current });
        }
    }
}

/// Returns the users that can be assigned, in the given order: active users who can see issuables of the
/// kind. Guests of a private project cannot see merge requests. Other IDs are ignored.
pub(crate) async fn assignable(
    backend: &Backend,
    access: &ProjectAccess,
    kind: IssuableKind,
    ids: &[i64],
) -> Result<Vec<users::Model>> {
    let mut wanted: Vec<i64> = Vec::new();
    for id in ids.iter().filter(|id| **id > 0) {
        if !wanted.contains(id) {
            wanted.push(*id);
        }
    }
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let db = backend.database.read();
    let feature = match kind {
        IssuableKind::Issue => access.project.issues_access_level,
        IssuableKind::MergeRequest => access.project.merge_requests_access_level,
    };
    let open = match access.project.visibility {
        // The feature is available to members only.
        _ if feature != FeatureAccess::Enabled => Vec::new(),
        Visibility::Public => everybody(db, &wanted).await?,
        Visibility::Internal => {
            let mut found = everybody(db, &wanted).await?;
            found.retain(|user| !user.external);
            found
        }
        Visibility::Private => Vec::new(),
    };
    let filter = MemberFilter {
        query: None,
        user_ids: Some(wanted.clone()),
    };
    let all = PageRequest {
        number: 1,
        size: 100,
        keyset: false,
    };
    let place = members::MemberSource::from(access.clone());
    let members = members::list_all(backend, &place, &filter, &all).await?;
    let mut found: BTreeMap<i64, users::Model> = open.into_iter().map(|user| (user.id, user)).collect();
    let least = match kind {
        IssuableKind::Issue => Role::Guest,
        IssuableKind::MergeRequest => Role::Reporter,
    };
    let members = members
        .items
        .into_iter()
        .filter(|member| member.access_level >= least);
    found.extend(members.map(|member| (member.user.id, member.user)));
    found.retain(|_, user| user.state == users::UserState::Active);
    Ok(wanted.iter().filter_map(|id| found.remove(id)).collect())
}

async fn everybody(db: &impl ConnectionTrait, ids: &[i64]) -> Result<Vec<users::Model>> {
    let found = users::Entity::find()
        .filter(users::Column::Id.is_in(ids.iter().copied()))
        .filter(users::Column::DeletionStartedAt.is_null());
    Ok(found.all(db).await?)
}

/// Replaces the assignees.
async fn assign(
    transaction: &DatabaseTransaction,
    (kind, id): (IssuableKind, i64),
    before: &[users::Model],
    after: &[users::Model],
) -> Result<()> {
    let but = |all: &[users::Model], others: &[users::Model]| {
        let ids = all.iter().map(|user| user.id);
        ids.filter(|id| !others.iter().any(|other| other.id == *id))
            .collect::<Vec<_>>()
    };
    let table = (kind, kind.assignees(), "user_id");
    detach(transaction, table, id, but(before, after)).await?;
    attach(transaction, table, id, but(after, before)).await
}

/// A table that links issuables of a kind to other rows, with the column of the other rows.
type Between = (IssuableKind, &'static str, &'static str);

async fn attach(
    transaction: &DatabaseTransaction,
    (kind, table, column): Between,
    id: i64,
    others: Vec<i64>,
) -> Result<()> {
    if others.is_empty() {
        return Ok(());
    }
    let mut rows = Query::insert()
        .into_table(table)
        .columns([kind.key(), column])
        .take();
    for other in others {
        rows.values([id.into(), other.into()]).map_err(Error::internal)?;
    }
    match transaction.execute(&rows).await {
        Ok(_) => Ok(()),
        Err(error) => Err(match Violation::of(&error) {
            // Labels are locked, so a user was deleted.
            Some(Violation::ForeignKey(_)) => Error::attribute("assignee_ids", "are invalid"),
            _ => error.into(),
        }),
    }
}

async fn detach(
    transaction: &DatabaseTransaction,
    (kind, table, column): Between,
    id: i64,
    others: Vec<i64>,
) -> Result<()> {
    if others.is_empty() {
        return Ok(());
    }
    let rows = Query::delete()
        .from_table(table)
        .and_where(Expr::col(kind.key()).eq(id))
        .and_where(Expr::col(column).is_in(others))
        .take();
    transaction.execute(&rows).await?;
    Ok(())
}
