//! What members say of an issue beside its text: who does it, until when, and what it belongs to.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter,
};
use serde_json::json;

use super::telling::Changed;
use crate::api::types::{MaybeUndefined, PageRequest};
use crate::entities::label_priorities::{self, Labelled};
use crate::entities::{issue_assignees, issue_labels, issues, labels, milestones, users};
use crate::error::{Error, Result};
use crate::policy::{Tier, Visibility};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::labels::{named, resolve_or_create};
use crate::services::members::{self, MemberFilter};
use crate::services::notes::system;
use crate::services::places::Place;

/// What is said of an issue; what is undefined stays, and null or the number 0 takes away.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// Whether few may see it.
    pub confidential: Option<bool>,
    /// Whether only members may comment.
    pub discussion_locked: Option<bool>,
    /// Those it is assigned to.
    pub assignee_ids: MaybeUndefined<Vec<i64>>,
    /// The milestone.
    pub milestone_id: MaybeUndefined<i64>,
    /// All labels, by title.
    pub labels: MaybeUndefined<Vec<String>>,
    /// Labels beside those it has.
    pub add_labels: Vec<String>,
    /// Labels it loses.
    pub remove_labels: Vec<String>,
    /// The day it is due.
    pub due_date: MaybeUndefined<NaiveDate>,
    /// How much it weighs.
    pub weight: MaybeUndefined<i64>,
}

/// What is said, as far as it could be looked up before the transaction.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    said: Metadata,
    assignees: Option<Vec<users::Model>>,
    milestone: MaybeUndefined<milestones::Model>,
}

/// What became of an issue by it, beside its row.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Notes that tell of it.
    pub notes: Vec<String>,
    /// Changes for hooks.
    pub changes: BTreeMap<String, Changed>,
    /// Those it is assigned to now and was not before.
    pub newly_assigned: Vec<i64>,
}

impl Metadata {
    /// Looks up whom and what it names.
    ///
    /// # Errors
    /// 400 for a milestone that is not of the project or a group above.
    pub(super) async fn prepare(self, backend: &Backend, access: &ProjectAccess) -> Result<Prepared> {
        let mut said = self;
        if backend.instance.plan < Tier::Starter {
            said.weight = MaybeUndefined::Undefined;
            // The basic edition assigns to one.
            if let MaybeUndefined::Value(ids) = &mut said.assignee_ids {
                ids.truncate(1);
            }
        }
        let assignees = match &said.assignee_ids {
            MaybeUndefined::Undefined => None,
            MaybeUndefined::Null => Some(Vec::new()),
            MaybeUndefined::Value(ids) => Some(assignable(backend, access, ids).await?),
        };
        let milestone = match said.milestone_id {
            MaybeUndefined::Undefined => MaybeUndefined::Undefined,
            MaybeUndefined::Null | MaybeUndefined::Value(0) => MaybeUndefined::Null,
            MaybeUndefined::Value(id) => {
                let place = Place::from(access.clone());
                let found = milestones::available(place.scope(), place.namespace.id)
                    .filter(milestones::Column::Id.eq(id))
                    .one(backend.database.read())
                    .await?;
                MaybeUndefined::Value(found.ok_or_else(|| Error::attribute("milestone", "is invalid"))?)
            }
        };
        Ok(Prepared {
            said,
            assignees,
            milestone,
        })
    }
}

impl Prepared {
    /// Enters what stands in the row of the issue, and gives the notes that tell of it.
    pub fn enter(&self, row: &mut issues::ActiveModel, before: Option<&issues::Model>) -> Vec<String> {
        let mut notes = Vec::new();
        let changed = |tells: bool| before.is_some() && tells;
        match &self.milestone {
            MaybeUndefined::Undefined => {}
            milestone => {
                let milestone = milestone.as_opt_ref().flatten();
                let id = milestone.map(|milestone| milestone.id);
                if changed(before.is_some_and(|before| before.milestone_id != id)) {
                    notes.push(system::milestone(
                        milestone.map(|milestone| milestone.title.as_str()),
                    ));
                }
                row.milestone_id = Set(id);
                row.milestone_due_on = Set(milestone.and_then(|milestone| milestone.due_date));
            }
        }
        if let Some(due) = opt(&self.said.due_date) {
            if changed(before.is_some_and(|before| before.due_date != due)) {
                notes.push(system::due(due));
            }
            row.due_date = Set(due);
        }
        if let Some(weight) = opt(&self.said.weight) {
            // The contract bounds it.
            let weight = weight.and_then(|weight| i32::try_from(weight).ok());
            if changed(before.is_some_and(|before| before.weight != weight)) {
                notes.push(system::weight(weight));
            }
            row.weight = Set(weight);
        }
        if let Some(confidential) = self.said.confidential {
            if changed(before.is_some_and(|before| before.confidential != confidential)) {
                let note = match confidential {
                    true => "made the issue confidential",
                    false => "made the issue visible to everyone",
                };
                notes.push(note.to_owned());
            }
            row.confidential = Set(confidential);
        }
        if let Some(locked) = self.said.discussion_locked {
            if changed(before.is_some_and(|before| before.discussion_locked != locked)) {
                let note = if locked {
                    "locked this issue"
                } else {
                    "unlocked this issue"
                };
                notes.push(note.to_owned());
            }
            row.discussion_locked = Set(locked);
        }
        notes
    }

    /// Enters what stands beside the row of the issue.
    ///
    /// # Errors
    /// 400 for labels that cannot be, and whatever the database reports.
    pub async fn attach(
        &self,
        transaction: &DatabaseTransaction,
        access: &ProjectAccess,
        issue_id: i64,
        new: bool,
    ) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        if let Some(assignees) = &self.assignees {
            let before = match new {
                true => Vec::new(),
                false => issue_assignees::of(transaction, [issue_id])
                    .await?
                    .remove(&issue_id)
                    .unwrap_or_default(),
            };
            assign(transaction, issue_id, &before, assignees).await?;
            let fresh = assignees
                .iter()
                .filter(|user| !before.iter().any(|other| other.id == user.id));
            outcome.newly_assigned = fresh.map(|user| user.id).collect();
            if !new {
                outcome.notes.extend(system::assigned(&before, assignees));
                let ids = |all: &[users::Model]| all.iter().map(|user| user.id).collect::<Vec<_>>();
                outcome.note("assignee_ids", json!(ids(&before)), json!(ids(assignees)));
            }
        }
        self.label(transaction, access, issue_id, new, &mut outcome)
            .await?;
        Ok(outcome)
    }

    async fn label(
        &self,
        transaction: &DatabaseTransaction,
        access: &ProjectAccess,
        issue_id: i64,
        new: bool,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let said = &self.said;
        if said.labels.is_undefined() && said.add_labels.is_empty() && said.remove_labels.is_empty() {
            return Ok(());
        }
        let place = Place::from(access.clone());
        let before = match new {
            true => Vec::new(),
            false => labels::of_issues(transaction, [issue_id])
                .await?
                .remove(&issue_id)
                .unwrap_or_default(),
        };
        let mut ids: Vec<i64> = match &said.labels {
            MaybeUndefined::Undefined => before.iter().map(|label| label.id).collect(),
            MaybeUndefined::Null => Vec::new(),
            MaybeUndefined::Value(titles) => resolve_or_create(transaction, &place, titles).await?,
        };
        for id in resolve_or_create(transaction, &place, &said.add_labels).await? {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        let lost: Vec<&str> = said.remove_labels.iter().map(|title| title.trim()).collect();
        let lost = named(transaction, &place, &lost).await?;
        ids.retain(|id| !lost.values().any(|label| label.id == *id));
        let former: Vec<i64> = before.iter().map(|label| label.id).collect();
        let gone = former.iter().copied().filter(|id| !ids.contains(id));
        let gone: Vec<i64> = gone.collect();
        let fresh: Vec<i64> = ids.iter().copied().filter(|id| !former.contains(id)).collect();
        if gone.is_empty() && fresh.is_empty() {
            return Ok(());
        }
        if !gone.is_empty() {
            issue_labels::Entity::delete_many()
                .filter(issue_labels::Column::IssueId.eq(issue_id))
                .filter(issue_labels::Column::LabelId.is_in(gone))
                .exec(transaction)
                .await?;
        }
        if !fresh.is_empty() {
            let rows = fresh.iter().map(|label_id| issue_labels::ActiveModel {
                issue_id: Set(issue_id),
                label_id: Set(*label_id),
                ..Default::default()
            });
            issue_labels::Entity::insert_many(rows)
                .exec_without_returning(transaction)
                .await?;
        }
        label_priorities::refresh(transaction, Labelled::Issues(&[issue_id])).await?;
        if !new {
            outcome.note("label_ids", json!(former), json!(ids));
        }
        Ok(())
    }
}

impl Outcome {
    fn note(&mut self, field: &str, previous: serde_json::Value, current: serde_json::Value) {
        if previous != current {
            self.changes
                .insert(field.to_owned(), Changed { previous, current });
        }
    }
}

/// What is said, where anything is: a value, or that there is none.
fn opt<T: Copy>(said: &MaybeUndefined<T>) -> Option<Option<T>> {
    said.as_opt_ref().map(|said| said.copied())
}

/// Those among the named users that things of the project may be assigned to, in the order they are named: active ones
/// who may see it. Others are passed over.
async fn assignable(backend: &Backend, access: &ProjectAccess, ids: &[i64]) -> Result<Vec<users::Model>> {
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
    let open = match access.project.visibility {
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
    let place = members::Place::from(access.clone());
    let members = members::list_all(backend, &place, &filter, &all).await?;
    let mut found: BTreeMap<i64, users::Model> = open.into_iter().map(|user| (user.id, user)).collect();
    found.extend(
        members
            .items
            .into_iter()
            .map(|member| (member.user.id, member.user)),
    );
    found.retain(|_, user| user.state == users::State::Active);
    Ok(wanted.iter().filter_map(|id| found.remove(id)).collect())
}

async fn everybody(db: &impl ConnectionTrait, ids: &[i64]) -> Result<Vec<users::Model>> {
    let found = users::Entity::find()
        .filter(users::Column::Id.is_in(ids.iter().copied()))
        .filter(users::Column::DeletionStartedAt.is_null());
    Ok(found.all(db).await?)
}

/// Assigns an issue to those it is to be assigned to, and to nobody else.
async fn assign(
    transaction: &DatabaseTransaction,
    issue_id: i64,
    before: &[users::Model],
    after: &[users::Model],
) -> Result<()> {
    let has = |all: &[users::Model], id: i64| all.iter().any(|user| user.id == id);
    let gone: Vec<i64> = before
        .iter()
        .map(|user| user.id)
        .filter(|id| !has(after, *id))
        .collect();
    if !gone.is_empty() {
        issue_assignees::Entity::delete_many()
            .filter(issue_assignees::Column::IssueId.eq(issue_id))
            .filter(issue_assignees::Column::UserId.is_in(gone))
            .exec(transaction)
            .await?;
    }
    let rows: Vec<_> = after
        .iter()
        .filter(|user| !has(before, user.id))
        .map(|user| issue_assignees::ActiveModel {
            issue_id: Set(issue_id),
            user_id: Set(user.id),
            ..Default::default()
        })
        .collect();
    if !rows.is_empty() {
        issue_assignees::Entity::insert_many(rows)
            .exec_without_returning(transaction)
            .await?;
    }
    Ok(())
}
