//! The status checks that apply to a merge request, with their statuses for its head. The result is computed on each read
//! from the rows, never stored.

use sea_orm::sea_query::{ExprTrait, Query};
use sea_orm::{ActiveEnum, ColumnTrait, Condition, ConnectionTrait};
use storage::entities::merge_requests::Model;
use storage::entities::related_rows::{PartKey, RelatedPart, RelatedRowSets, RelatedRows};
use storage::entities::status_check_responses::{self, StatusCheckStatus};
use storage::entities::{projects, protected_branches, status_check_branches, status_checks};

use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::patterns::matches_pattern;
use crate::kernel::policy::InstancePlan;

/// A status check that applies to a merge request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedStatusCheck {
    /// The ID.
    pub id: i64,
    /// The name.
    pub name: String,
    /// The URL of the service.
    pub external_url: String,
    /// The status for the head of the merge request.
    pub status: StatusCheckStatus,
}

/// Returns whether the plan includes status checks.
#[must_use]
pub(crate) fn has_checks(backend: &Backend) -> bool {
    backend.instance.plan >= InstancePlan::Ultimate
}

/// Returns whether merges into a project require that all status checks have passed.
#[must_use]
pub(crate) fn are_required(backend: &Backend, project: &projects::Model) -> bool {
    has_checks(backend) && project.only_allow_merge_if_all_status_checks_passed
}

/// Returns whether all status checks have passed.
#[must_use]
pub(crate) fn have_passed(checks: &[AppliedStatusCheck]) -> bool {
    checks
        .iter()
        .all(|check| check.status == StatusCheckStatus::Passed)
}

/// Returns whether the status checks of a merge request permit its merge.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn allow_merge(
    backend: &Backend,
    db: &impl ConnectionTrait,
    target: &projects::Model,
    merge_request: &Model,
) -> Result<bool> {
    match are_required(backend, target) {
        true => Ok(have_passed(&load(db, merge_request).await?)),
        false => Ok(true),
    }
}

/// Returns the status checks that apply to a merge request, oldest first, in one statement.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn load(
    db: &impl ConnectionTrait,
    merge_request: &Model,
) -> Result<Vec<AppliedStatusCheck>> {
    let mut related = RelatedRows::default();
    let parts = StatusCheckParts::add(&mut related, merge_request);
    let mut rows = related.load(db).await?;
    parts.take(&mut rows, merge_request)
}

/// The parts of a statement with the status checks of a merge request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatusCheckParts {
    checks: PartKey,
    branches: PartKey,
}

impl StatusCheckParts {
    /// Adds the parts to a statement.
    pub(crate) fn add(related: &mut RelatedRows, merge_request: &Model) -> Self {
        Self {
            checks: related.add(Some(checks_part(merge_request))),
            branches: related.add(Some(branches_part(merge_request))),
        }
    }

    /// Removes the rows of the parts, and returns the status checks that apply to the target branch.
    ///
    /// # Errors
    /// Returns an error if a row is invalid.
    pub(crate) fn take(
        self,
        rows: &mut RelatedRowSets,
        merge_request: &Model,
    ) -> Result<Vec<AppliedStatusCheck>> {
        let branches = rows.take_grouped(self.branches, |row| {
            let [name, ..] = row.texts;
            Ok(name.unwrap_or_default())
        })?;
        let mut applied = Vec::new();
        for row in rows.take(self.checks) {
            let of_check = branches.get(&row.id).map(Vec::as_slice).unwrap_or_default();
            let target = &merge_request.target_branch;
            if !of_check.is_empty() && !of_check.iter().any(|name| matches_pattern(name, target)) {
                continue;
            }
            let [name, external_url, status, _] = row.texts;
            let status = status.map(|status| StatusCheckStatus::try_from_value(&status));
            applied.push(AppliedStatusCheck {
                id: row.id,
                name: name.unwrap_or_default(),
                external_url: external_url.unwrap_or_default(),
                status: status.transpose()?.unwrap_or(StatusCheckStatus::Pending),
            });
        }
        Ok(applied)
    }
}

/// Returns the part with the checks of the target project, and their statuses for the head.
fn checks_part(merge_request: &Model) -> RelatedPart {
    use status_check_responses as responses;
    use status_checks::{Column, Entity};
    let is_of_check = responses::Column::StatusCheckId
        .into_expr()
        .eq(Column::Id.into_expr());
    let is_of_head = Condition::all()
        .add(is_of_check)
        .add(responses::Column::MergeRequestId.eq(merge_request.id))
        .add(responses::Column::Sha.eq(merge_request.head_sha.as_str()));
    let rows = Query::select()
        .from(Entity)
        .left_join(responses::Entity, is_of_head)
        .and_where(Column::ProjectId.eq(merge_request.target_project_id))
        .take();
    RelatedPart::new(rows, Column::ProjectId.into_expr())
        .sorted_by(Column::Id.into_expr())
        .with_id(Column::Id.into_expr())
        .with_texts([
            Column::Name.into_expr(),
            Column::ExternalUrl.into_expr(),
            responses::Column::Status.into_expr(),
        ])
}

/// Returns the part with the names of the protected branches of the checks, by the ID of the check.
fn branches_part(merge_request: &Model) -> RelatedPart {
    use status_check_branches::{Column, Entity};
    let is_of_check = Column::StatusCheckId
        .into_expr()
        .eq(status_checks::Column::Id.into_expr());
    let is_branch = protected_branches::Column::Id
        .into_expr()
        .eq(Column::ProtectedBranchId.into_expr());
    let rows = Query::select()
        .from(status_checks::Entity)
        .cross_join(Entity)
        .cross_join(protected_branches::Entity)
        .and_where(status_checks::Column::ProjectId.eq(merge_request.target_project_id))
        .and_where(is_of_check)
        .and_where(is_branch)
        .take();
    RelatedPart::new(rows, Column::StatusCheckId.into_expr())
        .with_id(protected_branches::Column::Id.into_expr())
        .with_texts([protected_branches::Column::Name.into_expr()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_checks_must_have_passed() {
        use StatusCheckStatus::{Failed, Passed, Pending};
        let checks = |statuses: &[StatusCheckStatus]| -> Vec<AppliedStatusCheck> {
            let check = |status: &StatusCheckStatus| AppliedStatusCheck {
                id: 1,
                name: "Check".to_owned(),
                external_url: "https://example.com/".to_owned(),
                status: *status,
            };
            statuses.iter().map(check).collect()
        };
        assert!(have_passed(&[]) && have_passed(&checks(&[Passed, Passed])));
        assert!(!have_passed(&checks(&[Passed, Pending])) && !have_passed(&checks(&[Failed])));
    }
}
