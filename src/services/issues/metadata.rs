//! What members say of an issue beside its text: what issues and merge requests have alike, and when an issue is due, how
//! much it weighs and whether few may see it.

use chrono::NaiveDate;
use sea_orm::{ActiveValue::Set, DatabaseTransaction};
use storage::entities::issues;

use crate::error::Result;
use crate::policy::Tier;
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::issuables::{self, Kind, Outcome};
use crate::services::kernel::patch::Patch;
use crate::services::notes::system;

/// What is said of an issue; what is undefined stays, and null or the number 0 takes away.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// What is said of merge requests, too.
    pub shared: issuables::Metadata,
    /// Whether few may see it.
    pub confidential: Option<bool>,
    /// The day it is due.
    pub due_date: Patch<NaiveDate>,
    /// How much it weighs.
    pub weight: Patch<i64>,
}

/// What is said, as far as it could be looked up before the transaction.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    shared: issuables::Prepared,
    confidential: Option<bool>,
    due_date: Patch<NaiveDate>,
    weight: Patch<i64>,
}

impl Metadata {
    /// Looks up whom and what it names.
    ///
    /// # Errors
    /// 400 for a milestone that is not of the project or a group above.
    pub(super) async fn prepare(self, backend: &Backend, access: &ProjectAccess) -> Result<Prepared> {
        Ok(Prepared {
            shared: self.shared.prepare(backend, access, Kind::Issue).await?,
            confidential: self.confidential,
            due_date: self.due_date,
            weight: match backend.instance.plan < Tier::Starter {
                true => Patch::Keep,
                false => self.weight,
            },
        })
    }
}

impl Prepared {
    /// As [`issuables::Prepared::hold`].
    ///
    /// # Errors
    /// The same.
    pub async fn hold(&mut self, transaction: &DatabaseTransaction, access: &ProjectAccess) -> Result<()> {
        self.shared.hold(transaction, access).await
    }

    /// Enters what stands in the row of the issue, and gives the notes that tell of it.
    pub fn enter(&self, row: &mut issues::ActiveModel, before: Option<&issues::Model>) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(milestone) = self.shared.milestone() {
            let id = milestone.map(|milestone| milestone.id);
            if before.is_some_and(|before| before.milestone_id != id) {
                notes.push(system::milestone(
                    milestone.map(|milestone| milestone.title.as_str()),
                ));
            }
            row.milestone_id = Set(id);
            row.milestone_due_on = Set(milestone.and_then(|milestone| milestone.due_date));
        }
        if let Some(due) = opt(&self.due_date) {
            if before.is_some_and(|before| before.due_date != due) {
                notes.push(system::due(due));
            }
            row.due_date = Set(due);
        }
        if let Some(weight) = opt(&self.weight) {
            // The contract bounds it.
            let weight = weight.and_then(|weight| i32::try_from(weight).ok());
            if before.is_some_and(|before| before.weight != weight) {
                notes.push(system::weight(weight));
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
        if let Some(locked) = self.shared.locked() {
            if before.is_some_and(|before| before.discussion_locked != locked) {
                notes.push(system::locked(Kind::Issue.noun(), locked));
            }
            row.discussion_locked = Set(locked);
        }
        notes
    }

    /// Those it is assigned to; none where nothing is said of it.
    pub fn assignee_ids(&self) -> Option<Vec<i64>> {
        self.shared.assignee_ids()
    }

    /// Whether few may see it; none where nothing is said of it.
    pub fn confidential(&self) -> Option<bool> {
        self.confidential
    }

    /// As [`issuables::Prepared::attach`].
    ///
    /// # Errors
    /// The same.
    pub async fn attach(
        &self,
        transaction: &DatabaseTransaction,
        access: &ProjectAccess,
        issue_id: i64,
        new: bool,
    ) -> Result<Outcome> {
        let issue = (Kind::Issue, issue_id);
        self.shared.attach(transaction, access, issue, new).await
    }
}

/// What is said, where anything is: a value, or that there is none.
fn opt<T: Copy>(said: &Patch<T>) -> Option<Option<T>> {
    said.as_update().map(|said| said.copied())
}
