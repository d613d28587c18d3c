//! External status checks of projects and of merge requests.

use contract::{ExternalStatusCheck, MergeRequestStatusCheck, StatusCheckBranch, StatusCheckResponse};
use domain::review::status_checks::evaluation::AppliedStatusCheck;
use domain::review::status_checks::responses::StatusCheckResponseDetail;
use domain::review::status_checks::settings::StatusCheckDetail;
use storage::entities::protected_branches;

use crate::views::enums::Convert;

/// Returns an external status check of a project without its shared secret.
#[must_use]
pub fn status_check(detail: StatusCheckDetail) -> ExternalStatusCheck {
    let check = detail.check;
    ExternalStatusCheck {
        id: check.id,
        name: check.name,
        project_id: check.project_id,
        external_url: check.external_url,
        hmac: check.shared_secret_encrypted.is_some(),
        protected_branches: detail.protected_branches.into_iter().map(branch).collect(),
    }
}

fn branch(branch: protected_branches::Model) -> StatusCheckBranch {
    StatusCheckBranch {
        id: branch.id,
        project_id: branch.project_id,
        name: branch.name,
        created_at: branch.created_at.into(),
        updated_at: branch.updated_at.into(),
        code_owner_approval_required: branch.code_owner_approval_required,
    }
}

/// Returns a status check that applies to a merge request.
#[must_use]
pub fn applied_check(check: AppliedStatusCheck) -> MergeRequestStatusCheck {
    MergeRequestStatusCheck {
        id: check.id,
        name: check.name,
        external_url: check.external_url,
        status: check.status.convert(),
    }
}

/// Returns a stored status with its check.
#[must_use]
pub fn response(detail: StatusCheckResponseDetail) -> StatusCheckResponse {
    let stored = detail.response;
    StatusCheckResponse {
        id: stored.id,
        sha: stored.sha,
        status: stored.status.convert(),
        created_at: stored.updated_at.into(),
        external_status_check: applied_check(detail.check),
    }
}
