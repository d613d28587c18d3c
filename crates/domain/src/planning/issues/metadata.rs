//! Attributes of issues other than their text: those shared with merge requests, due date, weight and
//! confidentiality.

use chrono::NaiveDate;
use sea_orm::{ActiveValue::Set, DatabaseTransaction};
use storage::entities::issues;

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::patch::Patch;
use crate::kernel::policy::InstancePlan;
use crate::planning::issuables::{IssuableKind, IssuableMetadata, MetadataEffects, PreparedMetadata};
use crate::planning::system_notes;

/// Attributes to change. Undefined ones stay; null and 0 remove the value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IssueMetadata {
    /// Attributes shared with merge requests.
    pub shared: IssuableMetadata,
    /// Whether the issue is confidential.
    pub confidential: Option<bool>,
    /// Due date.
    pub due_date: Patch<NaiveDate>,
    /// Weight of the issue.
    pub weight: Patch<i64>,
}

/// A change with the rows that were looked up before the transaction.
#[derive(Debug, Default)]
pub(super) struct PreparedIssueMetadata {
    shared: PreparedMetadata,
    confidential: Option<bool>,
    due_date: Patch<NaiveDate>,
    weight: Patch<i64>,
}

impl IssueMetadata {
    /// Looks up the referenced users and milestone.
    ///
    /// # Errors
    /// Returns `Error::InvalidAttributes` if the milestone does not belong to the project or an ancestor
    /// group.
    pub(super) async fn prepare(
        self,
        backend: &Backend,
        access: &ProjectAccess,
    ) -> Result<PreparedIssueMetadata> {
        Ok(PreparedIssueMetadata {
            shared: self.shared.prepare(backend, access, IssuableKind::Issue).await?,
            confidential: self.confidential,
            due_date: self.due_date,
            weight: match backend.instance.plan < InstancePlan::Starter {
                true => Patch::Keep,
                false => self.weight,
            },
        })
    }
}

impl PreparedIssueMetadata {
    /// Like [`PreparedMetadata::lock`].
    ///
    /// # Errors
    /// Fails like [`PreparedMetadata::lock`].
    pub async fn lock(&mut self, transaction: &DatabaseTransaction, access: &ProjectAccess) -> Result<()> {
        self.shared.lock(transaction, access).await
    }

    /// Applies the change to the row of the issue. Returns the texts of the system notes.
    pub fn apply(&self, row: &mut issues::ActiveModel, before: Option<&issues::Model>) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(self.shared.apply_milestone(row, before));
        if let Some(due_date) = to_update(&self.due_date) {
            if before.is_some_and(|before| before.due_date != due_date) {
                notes.push(system_notes::due_date_changed(due_date));
            }
            row.due_date = Set(due_date);
        }
        if let Some(weight) = to_update(&self.weight) {
            // The contract limits the range.
            let weight = weight.and_then(|weight| i32::try_from(weight).ok());
            if before.is_some_and(|before| before.weight != weight) {
                notes.push(system_notes::weight_changed(weight));
            }
            row.weight = Set(weight);
        }
        if let Some(confidential) = self.confidential {
            if before.is_some_and(|before| before.confidential != confidential) {
                let note = match confidential {
                    true => "made the issue confidential",
                    false => "made the issue visible to everyone",
                };
                notes.push(note.to_owned());
            }
            row.confidential = Set(confidential);
        }
        notes.extend(self.shared.apply_discussion_lock(row, before));
        notes
    }

    /// Returns the IDs of the new assignees, or `None` if they stay.
    pub fn assignee_ids(&self) -> Option<Vec<i64>> {
        self.shared.assignee_ids()
    }

    /// Returns whether the issue becomes confidential, or `None` if it stays as it is.
    pub fn confidential(&self) -> Option<bool> {
        self.confidential
    }

    /// Like [`PreparedMetadata::link`].
    ///
    /// # Errors
    /// Fails like [`PreparedMetadata::link`].
    pub async fn link(
        &self,
        transaction: &DatabaseTransaction,
        access: &ProjectAccess,
        issue_id: i64,
        new: bool,
    ) -> Result<MetadataEffects> {
        let issue = (IssuableKind::Issue, issue_id);
        self.shared.link(transaction, access, issue, new).await
    }
}

/// Returns the given value, `Some(None)` for null, or `None` if it is undefined.
fn to_update<T: Copy>(patch: &Patch<T>) -> Option<Option<T>> {
    patch.as_update().map(|value| value.copied())
}
