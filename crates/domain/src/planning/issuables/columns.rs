//! The columns that issues and merge requests have in common, and their changes.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::ActiveValue::{self, Set};
use sea_orm::{ActiveModelTrait, ConnectionTrait, DatabaseTransaction, IntoActiveModel, QueryFilter};
use storage::entities::access::Viewer;
use storage::entities::{issues, merge_requests, milestones, now};

use super::associations::{Issuable, WithMilestone};
use super::task_list;
use super::time_tracking::TrackedTimes;
use crate::kernel::error::Result;
use crate::kernel::patch::Patch;
use crate::planning::system_notes;

/// An issue or merge request whose row can be changed.
pub(crate) trait IssuableRow: Issuable + Sized {
    /// The changed row.
    type ActiveModel;

    /// Returns the row with an IID in a project, if the viewer can see it.
    fn find_visible(
        db: &impl ConnectionTrait,
        project_id: i64,
        iid: i64,
        viewer: Viewer,
    ) -> impl Future<Output = Result<Option<Self>>> + Send;
    /// Like [`Self::find_visible`], with the milestone.
    fn find_visible_with_milestone(
        db: &impl ConnectionTrait,
        project_id: i64,
        iid: i64,
        viewer: Viewer,
    ) -> impl Future<Output = Result<Option<WithMilestone<Self>>>> + Send;
    /// Locks the row with an ID until the transaction ends. Returns `None` if it does not exist.
    fn lock_by_id(db: &impl ConnectionTrait, id: i64) -> impl Future<Output = Result<Option<Self>>> + Send;
    /// Stores new tracked times.
    fn update_times(
        &self,
        transaction: &DatabaseTransaction,
        times: TrackedTimes,
    ) -> impl Future<Output = Result<Self>> + Send;
    /// Returns the common columns of a changed row.
    fn columns(row: &mut Self::ActiveModel) -> Columns<'_>;
    /// Returns its title.
    fn title(&self) -> &str;
    /// Returns its description.
    fn description(&self) -> Option<&str>;
    /// Returns whether only members can comment.
    fn is_discussion_locked(&self) -> bool;
    /// Returns its tracked times.
    fn times(&self) -> TrackedTimes;
}

/// The common columns of a changed row.
pub(crate) struct Columns<'a> {
    title: &'a mut ActiveValue<String>,
    description: &'a mut ActiveValue<Option<String>>,
    tasks: &'a mut ActiveValue<i32>,
    completed_tasks: &'a mut ActiveValue<i32>,
    last_edited_at: &'a mut ActiveValue<Option<DateTime<Utc>>>,
    last_edited_by_id: &'a mut ActiveValue<Option<i64>>,
    closed_at: &'a mut ActiveValue<Option<DateTime<Utc>>>,
    closed_by_id: &'a mut ActiveValue<Option<i64>>,
    pub(super) milestone_id: &'a mut ActiveValue<Option<i64>>,
    pub(super) milestone_due_on: &'a mut ActiveValue<Option<NaiveDate>>,
    pub(super) discussion_locked: &'a mut ActiveValue<bool>,
    time_estimate: &'a mut ActiveValue<i64>,
    total_time_spent: &'a mut ActiveValue<i64>,
    updated_at: &'a mut ActiveValue<DateTime<Utc>>,
}

/// Implements [`IssuableRow`] for the rows of a table.
macro_rules! issuable_row {
    ($table:ident) => {
        impl IssuableRow for $table::Model {
            type ActiveModel = $table::ActiveModel;

            async fn find_visible(
                db: &impl ConnectionTrait,
                project_id: i64,
                iid: i64,
                viewer: Viewer,
            ) -> Result<Option<Self>> {
                let visible = $table::visible(viewer, now().date_naive());
                let row = $table::by_iid(project_id, iid).filter(visible);
                Ok(row.one(db).await?)
            }

            async fn find_visible_with_milestone(
                db: &impl ConnectionTrait,
                project_id: i64,
                iid: i64,
                viewer: Viewer,
            ) -> Result<Option<WithMilestone<Self>>> {
                let visible = $table::visible(viewer, now().date_naive());
                let row = $table::by_iid(project_id, iid).filter(visible);
                Ok(row.find_also_related(milestones::Entity).one(db).await?)
            }

            async fn lock_by_id(db: &impl ConnectionTrait, id: i64) -> Result<Option<Self>> {
                Ok($table::lock(db, id).await?)
            }

            async fn update_times(
                &self,
                transaction: &DatabaseTransaction,
                times: TrackedTimes,
            ) -> Result<Self> {
                let mut row = self.clone().into_active_model();
                Self::columns(&mut row).set_times(times);
                Ok(row.update(transaction).await?)
            }

            fn columns(row: &mut Self::ActiveModel) -> Columns<'_> {
                Columns {
                    title: &mut row.title,
                    description: &mut row.description,
                    tasks: &mut row.tasks,
                    completed_tasks: &mut row.completed_tasks,
                    last_edited_at: &mut row.last_edited_at,
                    last_edited_by_id: &mut row.last_edited_by_id,
                    closed_at: &mut row.closed_at,
                    closed_by_id: &mut row.closed_by_id,
                    milestone_id: &mut row.milestone_id,
                    milestone_due_on: &mut row.milestone_due_on,
                    discussion_locked: &mut row.discussion_locked,
                    time_estimate: &mut row.time_estimate,
                    total_time_spent: &mut row.total_time_spent,
                    updated_at: &mut row.updated_at,
                }
            }

            fn title(&self) -> &str {
                &self.title
            }

            fn description(&self) -> Option<&str> {
                self.description.as_deref()
            }

            fn is_discussion_locked(&self) -> bool {
                self.discussion_locked
            }

            fn times(&self) -> TrackedTimes {
                TrackedTimes {
                    estimate: self.time_estimate,
                    spent: self.total_time_spent,
                }
            }
        }
    };
}

issuable_row!(issues);
issuable_row!(merge_requests);

impl Columns<'_> {
    /// Applies a change of title and description by a user. Returns the texts of the system notes.
    pub fn set_texts<T: IssuableRow>(
        &mut self,
        before: &T,
        title: Option<&str>,
        description: &Patch<String>,
        user_id: i64,
    ) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(title) = title.filter(|title| *title != before.title()) {
            *self.title = Set(title.to_owned());
            notes.push(system_notes::title_changed(before.title(), title));
        }
        let description = description.as_update().map(|text| text.map(String::as_str));
        if let Some(description) = description.filter(|text| *text != before.description()) {
            let (tasks, completed) = task_list::count(description);
            (*self.tasks, *self.completed_tasks) = (Set(tasks), Set(completed));
            *self.description = Set(description.map(str::to_owned));
            notes.push("changed the description".to_owned());
        }
        if !notes.is_empty() {
            *self.last_edited_at = Set(Some(now()));
            *self.last_edited_by_id = Set(Some(user_id));
        }
        notes
    }

    /// Records that a user closed it.
    pub fn close(&mut self, user_id: i64) {
        *self.closed_at = Set(Some(now()));
        *self.closed_by_id = Set(Some(user_id));
    }

    /// Records that it was reopened.
    pub fn reopen(&mut self) {
        *self.closed_at = Set(None);
        *self.closed_by_id = Set(None);
    }

    /// Applies a change of the tracked times.
    pub fn set_times(&mut self, times: TrackedTimes) {
        *self.time_estimate = Set(times.estimate);
        *self.total_time_spent = Set(times.spent);
        *self.updated_at = Set(now());
    }
}
