//! Attributes of issues and merge requests other than their text, such as assignees, labels and milestone.

use std::collections::BTreeMap;

use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::{Expr, ExprTrait, LockType, Query};
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, QueryFilter, QuerySelect};
use serde_json::json;
use storage::database::Violation;
use storage::entities::issuables::{REVIEWERS, label_titles_of, linked_users};
use storage::entities::label_priorities::{self, LabeledItems};
use storage::entities::members::MembershipSource;
use storage::entities::projects::FeatureAccess;
use storage::entities::{milestones, users};

use super::IssuableKind;
use super::columns::IssuableRow;
use super::events::FieldChange;
use super::resource_events::record_labels;
use crate::identity::access::ProjectAccess;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::policy::{EffectiveAccess, InstancePlan, Role};
use crate::planning::labels::{ids_by_title, resolve_or_create};
use crate::planning::system_notes;
use crate::spaces::members;

/// Maximum labels of an issue or merge request.
const MAX_LABELS: usize = 1_000;
/// Number of rows that a statement deletes.
const BATCH_SIZE: usize = 1_000;

/// Attributes to change. Undefined ones stay; null and 0 remove the value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IssuableMetadata {
    /// Whether only members can comment.
    pub discussion_locked: Option<bool>,
    /// IDs of the assignees.
    pub assignee_ids: Patch<Vec<i64>>,
    /// IDs of the reviewers. Issues have none.
    pub reviewer_ids: Patch<Vec<i64>>,
    /// ID of the milestone.
    pub milestone_id: Patch<i64>,
    /// Titles of all labels; replaces the present ones.
    pub labels: Patch<Vec<String>>,
    /// Titles of labels to add.
    pub add_labels: Option<Vec<String>>,
    /// Titles of labels to remove.
    pub remove_labels: Option<Vec<String>>,
}

/// Returns the IDs of the assignees: the list, or else the value of the older single attribute.
#[must_use]
pub fn merge_assignee_ids(ids: Patch<Vec<i64>>, id: Patch<i64>) -> Patch<Vec<i64>> {
    match ids {
        Patch::Keep => id.map(|id| vec![id]),
        ids => ids,
    }
}

/// A change with the rows that were looked up before the transaction.
#[derive(Debug, Default)]
pub(crate) struct PreparedMetadata {
    metadata: IssuableMetadata,
    assignees: Option<Vec<users::Model>>,
    reviewers: Option<Vec<users::Model>>,
    milestone: Patch<milestones::Model>,
    /// IDs of the labels to add, after they are locked.
    labels: Vec<i64>,
    /// The project in its present group, after transfers are blocked.
    space: Option<SpaceAccess>,
}

/// Effects of a change on other rows.
#[derive(Debug, Default)]
pub(crate) struct MetadataEffects {
    /// Texts of system notes.
    pub notes: Vec<String>,
    /// Changed fields, for webhooks.
    pub changes: BTreeMap<String, FieldChange>,
    /// IDs of the new assignees.
    pub newly_assigned: Vec<i64>,
}

impl IssuableMetadata {
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
    ) -> Result<PreparedMetadata> {
        let mut metadata = self;
        // The free plan has one assignee and one reviewer.
        if backend.instance.plan < InstancePlan::Starter {
            for list in [&mut metadata.assignee_ids, &mut metadata.reviewer_ids] {
                if let Patch::Set(ids) = list {
                    ids.truncate(1);
                }
            }
        }
        let assignable = async |list: &Patch<Vec<i64>>| match list {
            Patch::Keep => Ok(None),
            Patch::Clear => Ok(Some(Vec::new())),
            Patch::Set(ids) => assignable_users(backend, access, kind, ids).await.map(Some),
        };
        let assignees = assignable(&metadata.assignee_ids).await?;
        let reviewers = assignable(&metadata.reviewer_ids).await?;
        let milestone = match metadata.milestone_id {
            Patch::Keep => Patch::Keep,
            Patch::Clear | Patch::Set(0) => Patch::Clear,
            Patch::Set(id) => {
                let space = SpaceAccess::from(access.clone());
                let found = milestones::available(space.scope(), space.namespace.id)
                    .filter(milestones::Column::Id.eq(id))
                    .one(backend.database.read())
                    .await?;
                Patch::Set(found.ok_or_else(invalid_milestone)?)
            }
        };
        Ok(PreparedMetadata {
            metadata,
            assignees,
            reviewers,
            milestone,
            labels: Vec::new(),
            space: None,
        })
    }
}

impl PreparedMetadata {
    /// Returns the change for an issue moved to another project: its assignees, and labels that are already
    /// locked.
    pub fn for_move(assignees: Vec<users::Model>, labels: Vec<i64>) -> Self {
        Self {
            metadata: IssuableMetadata {
                labels: Patch::Set(Vec::new()),
                ..IssuableMetadata::default()
            },
            assignees: Some(assignees),
            labels,
            ..Self::default()
        }
    }

    /// Locks the milestone and labels to add until the transaction ends, and creates missing labels. Must run
    /// before the issuable is locked: changes of milestones and labels lock them first, and then the
    /// issuables with them. Blocks transfers, which replace milestones and labels of former ancestor groups.
    ///
    /// # Errors
    /// Returns `Error::InvalidAttributes` if the milestone was deleted or the project was moved meanwhile, or a label
    /// is invalid.
    pub async fn lock(&mut self, transaction: &DatabaseTransaction, access: &ProjectAccess) -> Result<()> {
        let titles = self.metadata.labels.value().into_iter().flatten();
        let titles: Vec<&str> = titles
            .chain(self.metadata.add_labels.iter().flatten())
            .map(String::as_str)
            .collect();
        let removed = self.metadata.remove_labels.as_deref().unwrap_or_default();
        if !matches!(self.milestone, Patch::Set(_)) && titles.is_empty() && removed.is_empty() {
            return Ok(());
        }
        let space = SpaceAccess::from(access.clone())
            .lock_location(transaction)
            .await?;
        if let Patch::Set(milestone) = &mut self.milestone {
            let locked = milestones::available(space.scope(), space.namespace.id)
                .filter(milestones::Column::Id.eq(milestone.id))
                .lock(LockType::KeyShare)
                .one(transaction)
                .await?;
            *milestone = locked.ok_or_else(invalid_milestone)?;
        }
        if !titles.is_empty() {
            self.labels = resolve_or_create(transaction, &space, &titles).await?;
        }
        self.space = Some(space);
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
        row: &mut T::ActiveModel,
        before: Option<&T>,
    ) -> Option<String> {
        let milestone = self.milestone.as_update()?;
        let (id, columns) = (milestone.map(|milestone| milestone.id), T::columns(row));
        *columns.milestone_id = Set(id);
        *columns.milestone_due_on = Set(milestone.and_then(|milestone| milestone.due_date));
        before
            .filter(|before| before.milestone_id() != id)
            .map(|_| system_notes::milestone_changed(milestone.map(|milestone| milestone.title.as_str())))
    }

    /// Applies the lock of the discussion to a row. Returns the text of the system note, unless the row is
    /// new or has the state already.
    pub fn apply_discussion_lock<T: IssuableRow>(
        &self,
        row: &mut T::ActiveModel,
        before: Option<&T>,
    ) -> Option<String> {
        let locked = self.metadata.discussion_locked?;
        *T::columns(row).discussion_locked = Set(locked);
        before
            .filter(|before| before.is_discussion_locked() != locked)
            .map(|_| system_notes::discussion_lock_changed(T::KIND.noun(), locked))
    }

    /// Writes the assignees, the reviewers, and the labels, which are already locked.
    ///
    /// # Errors
    /// Returns `Error::InvalidAttributes` if a user was deleted meanwhile, or the issuable would have more than
    /// `MAX_LABELS` labels. Returns an error if the database fails.
    pub async fn link(
        &self,
        transaction: &DatabaseTransaction,
        access: &ProjectAccess,
        (kind, id): (IssuableKind, i64),
        new: bool,
    ) -> Result<MetadataEffects> {
        let mut effects = MetadataEffects::default();
        if let Some(assignees) = &self.assignees {
            let list = UserList::Assignees;
            let before = list.replace(transaction, (kind, id), assignees, new).await?;
            effects.newly_assigned = difference(assignees, &before);
            effects.record_users(list, &before, assignees, new);
        }
        if let Some(reviewers) = &self.reviewers {
            let list = UserList::Reviewers;
            let before = list.replace(transaction, (kind, id), reviewers, new).await?;
            effects.record_users(list, &before, reviewers, new);
        }
        self.link_labels(transaction, access, (kind, id), new, &mut effects)
            .await?;
        Ok(effects)
    }

    async fn link_labels(
        &self,
        transaction: &DatabaseTransaction,
        access: &ProjectAccess,
        (kind, id): (IssuableKind, i64),
        new: bool,
        effects: &mut MetadataEffects,
    ) -> Result<()> {
        let metadata = &self.metadata;
        let mut changes = [&metadata.add_labels, &metadata.remove_labels].into_iter();
        if metadata.labels.is_keep() && changes.all(|titles| titles.as_ref().is_none_or(Vec::is_empty)) {
            return Ok(());
        }
        let space = self.space.clone();
        let space = space.unwrap_or_else(|| SpaceAccess::from(access.clone()));
        let before: Vec<i64> = match new {
            true => Vec::new(),
            false => {
                let labels = label_titles_of(transaction, kind, id).await?;
                labels.into_iter().map(|(id, _)| id).collect()
            }
        };
        let mut ids: Vec<i64> = match metadata.labels.is_keep() {
            true => before.clone(),
            false => Vec::new(),
        };
        for id in &self.labels {
            if !ids.contains(id) {
                ids.push(*id);
            }
        }
        let removed = metadata.remove_labels.iter().flatten().map(|title| title.trim());
        let removed: Vec<&str> = removed.collect();
        let removed = ids_by_title(transaction, &space, &removed).await?;
        ids.retain(|id| !removed.values().any(|removed| removed == id));
        let removed = before.iter().copied().filter(|id| !ids.contains(id));
        let removed: Vec<i64> = removed.collect();
        let added: Vec<i64> = ids.iter().copied().filter(|id| !before.contains(id)).collect();
        if removed.is_empty() && added.is_empty() {
            return Ok(());
        }
        check_number_of_labels(kind, &added, ids.len())?;
        let table = LinkTable {
            kind,
            name: kind.labels(),
            column: "label_id",
            attribute: "labels",
        };
        let user_id = access.caller.as_user().map(|user| user.id);
        record_labels(transaction, (kind, id), user_id, &added, &removed).await?;
        delete_links(transaction, table, id, removed).await?;
        insert_links(transaction, table, id, added).await?;
        label_priorities::refresh(transaction, LabeledItems::Things(kind, &[id])).await?;
        if !new {
            effects.record("label_ids", json!(before), json!(ids));
        }
        Ok(())
    }
}

/// Checks the number of labels after labels are added. An issuable can have more labels since before the limit, and
/// labels can be removed from it.
fn check_number_of_labels(kind: IssuableKind, added: &[i64], number: usize) -> Result<()> {
    if added.is_empty() || number <= MAX_LABELS {
        return Ok(());
    }
    let text = format!(
        "are too many ({noun} can have at most {MAX_LABELS} labels; remove labels first)",
        noun = match kind {
            IssuableKind::Issue => "an issue",
            IssuableKind::MergeRequest => "a merge request",
        }
    );
    Err(Error::attribute("labels", text))
}

fn invalid_milestone() -> Error {
    Error::attribute("milestone", "is invalid")
}

impl MetadataEffects {
    /// Records a change of users, unless the issuable is new.
    fn record_users(&mut self, list: UserList, before: &[users::Model], after: &[users::Model], new: bool) {
        if new {
            return;
        }
        self.notes.extend(match list {
            UserList::Assignees => system_notes::assignees_changed(before, after),
            UserList::Reviewers => system_notes::reviewers_changed(before, after),
        });
        let ids = |users: &[users::Model]| users.iter().map(|user| user.id).collect::<Vec<_>>();
        self.record(list.attribute(), json!(ids(before)), json!(ids(after)));
    }

    fn record(&mut self, field: &str, previous: serde_json::Value, current: serde_json::Value) {
        if previous != current {
            self.changes
                .insert(field.to_owned(), FieldChange { previous, current });
        }
    }
}

/// Returns the users that can be assigned, in the given order: active users who can see issuables of the kind. Merge
/// requests are visible to users who can read the code. Other IDs are ignored. Roles through groups that are hidden
/// from the caller count, because a caller who sends the present users must not remove them.
pub(crate) async fn assignable_users(
    backend: &Backend,
    access: &ProjectAccess,
    kind: IssuableKind,
    ids: &[i64],
) -> Result<Vec<users::Model>> {
    let mut unique_ids: Vec<i64> = Vec::new();
    for id in ids.iter().filter(|id| **id > 0) {
        if !unique_ids.contains(id) {
            unique_ids.push(*id);
        }
    }
    if unique_ids.is_empty() {
        return Ok(Vec::new());
    }
    let db = backend.database.read();
    let project = &access.project;
    let source = MembershipSource::Project(project.id);
    let most = unique_ids.len() as u64;
    let roles = members::roles(db, source, &access.namespace, Some(&unique_ids), most).await?;
    let can_see = |user: &users::Model| {
        // Administrators are assigned as other users are.
        let effective_access = EffectiveAccess {
            signed_in: true,
            external: user.external,
            admin: false,
            role: roles.get(&user.id).copied(),
        };
        match kind {
            IssuableKind::Issue => {
                effective_access.has_role(Role::Guest)
                    || (effective_access.is_open(project.visibility)
                        && project.issues_access_level == FeatureAccess::Enabled)
            }
            IssuableKind::MergeRequest => {
                let (requests, code) = (
                    project.merge_requests_access_level,
                    project.repository_access_level,
                );
                effective_access.has_role(Role::Reporter)
                    || (effective_access.has_feature(requests)
                        && effective_access.can_read_code(code, project.visibility))
            }
        }
    };
    let found = users::not_deleted()
        .filter(users::Column::Id.is_in(unique_ids.iter().copied()))
        .filter(users::Column::State.eq(users::UserState::Active))
        .all(db)
        .await?;
    let mut users: BTreeMap<i64, users::Model> = found
        .into_iter()
        .filter(can_see)
        .map(|user| (user.id, user))
        .collect();
    Ok(unique_ids.iter().filter_map(|id| users.remove(id)).collect())
}

/// A list of users of an issuable.
#[derive(Debug, Clone, Copy)]
enum UserList {
    /// The assignees.
    Assignees,
    /// The reviewers of a merge request.
    Reviewers,
}

impl UserList {
    fn attribute(self) -> &'static str {
        match self {
            Self::Assignees => "assignee_ids",
            Self::Reviewers => "reviewer_ids",
        }
    }

    /// Replaces the users and returns the former ones.
    async fn replace(
        self,
        transaction: &DatabaseTransaction,
        (kind, id): (IssuableKind, i64),
        after: &[users::Model],
        new: bool,
    ) -> Result<Vec<users::Model>> {
        let table = LinkTable {
            kind,
            name: match self {
                Self::Assignees => kind.assignees(),
                Self::Reviewers => REVIEWERS,
            },
            column: "user_id",
            attribute: self.attribute(),
        };
        let before = match new {
            true => Vec::new(),
            false => linked_users(transaction, kind, table.name, [id])
                .await?
                .remove(&id)
                .unwrap_or_default(),
        };
        delete_links(transaction, table, id, difference(&before, after)).await?;
        insert_links(transaction, table, id, difference(after, &before)).await?;
        Ok(before)
    }
}

/// Returns the IDs of the users that are not among the others.
fn difference(users: &[users::Model], others: &[users::Model]) -> Vec<i64> {
    let ids = users.iter().map(|user| user.id);
    ids.filter(|id| !others.iter().any(|other| other.id == *id))
        .collect()
}

/// A table that links issuables of a kind to other rows.
#[derive(Debug, Clone, Copy)]
struct LinkTable {
    kind: IssuableKind,
    name: &'static str,
    /// The column of the other rows.
    column: &'static str,
    /// The attribute of the API that sets the links.
    attribute: &'static str,
}

async fn insert_links(
    transaction: &DatabaseTransaction,
    table: LinkTable,
    id: i64,
    other_ids: Vec<i64>,
) -> Result<()> {
    if other_ids.is_empty() {
        return Ok(());
    }
    let mut rows = Query::insert()
        .into_table(table.name)
        .columns([table.kind.key(), table.column])
        .take();
    for other_id in other_ids {
        rows.values([id.into(), other_id.into()])
            .map_err(Error::internal)?;
    }
    match transaction.execute(&rows).await {
        Ok(_) => Ok(()),
        Err(error) => Err(match Violation::of(&error) {
            // Labels are locked, so a user was deleted.
            Some(Violation::ForeignKey(_)) => Error::attribute(table.attribute, "are invalid"),
            _ => error.into(),
        }),
    }
}

async fn delete_links(
    transaction: &DatabaseTransaction,
    table: LinkTable,
    id: i64,
    other_ids: Vec<i64>,
) -> Result<()> {
    for other_ids in other_ids.chunks(BATCH_SIZE) {
        let rows = Query::delete()
            .from_table(table.name)
            .and_where(Expr::col(table.kind.key()).eq(id))
            .and_where(Expr::col(table.column).is_in(other_ids.iter().copied()))
            .take();
        transaction.execute(&rows).await?;
    }
    Ok(())
}
