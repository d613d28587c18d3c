//! Settings of a project about approvals.

use sea_orm::ActiveValue::Set;
use sea_orm::IntoActiveModel;
use storage::entities::{approval_rules, projects, row_changes};

use crate::audit;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::spaces::projects::auditing;

/// Changes of the settings; absent ones stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ApprovalSettingsUpdate {
    /// Number of approvals of any users that a merge requires.
    pub approvals_before_merge: Option<i64>,
    /// Whether new commits of a merge request delete its approvals.
    pub reset_approvals_on_push: Option<bool>,
    /// Whether authors can approve their merge requests.
    pub merge_requests_author_approval: Option<bool>,
    /// Whether users with commits in a merge request cannot approve it.
    pub merge_requests_disable_committers_approval: Option<bool>,
}

/// Names of the settings, for the error of an update without any.
const SETTINGS: [&str; 4] = [
    "approvals_before_merge",
    "reset_approvals_on_push",
    "merge_requests_author_approval",
    "merge_requests_disable_committers_approval",
];

/// Changes the settings and returns the project.
///
/// # Errors
/// Returns `InvalidParameters` without any change, and `NotFound` if the project was deleted meanwhile.
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    update: ApprovalSettingsUpdate,
) -> Result<projects::Model> {
    if update == ApprovalSettingsUpdate::default() {
        return Err(Error::no_parameters(&SETTINGS));
    }
    let required = update
        .approvals_before_merge
        .map(approvals_required)
        .transpose()?;
    backend
        .database
        .transaction(async |transaction| {
            let before = projects::lock_for_insert(transaction, access.project.id).await?;
            let before = before.ok_or_else(|| Error::not_found("Project"))?;
            let mut row = before.clone().into_active_model();
            for (sent, column) in [
                (update.reset_approvals_on_push, &mut row.reset_approvals_on_push),
                (
                    update.merge_requests_author_approval,
                    &mut row.merge_requests_author_approval,
                ),
                (
                    update.merge_requests_disable_committers_approval,
                    &mut row.merge_requests_disable_committers_approval,
                ),
            ] {
                if let Some(value) = sent {
                    *column = Set(value);
                }
            }
            if let Some(required) = required {
                row.approvals_before_merge = Set(required);
                approval_rules::require_any(transaction, before.id, required).await?;
            }
            let after = row_changes::update_if_changed(transaction, &before, row).await?;
            let audited = auditing::changes(&access.namespace, &before, &after);
            audit::record_all(transaction, &access.caller, audited).await?;
            Ok(after)
        })
        .await
}

/// Returns a number of approvals as it is stored.
///
/// # Errors
/// Returns `InvalidAttributes` if the number is too large.
fn approvals_required(number: i64) -> Result<i32> {
    let error = |_| Error::attribute("approvals_before_merge", "is not a number in range");
    i32::try_from(number).map_err(error)
}
