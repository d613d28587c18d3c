//! Deploy keys.

use domain::code::deploy_keys::DeployKeyDetail;
use storage::entities::deploy_keys::Model;

use contract::{DeployKey, ProjectDeployKey};

/// Returns a deploy key without a project.
#[must_use]
pub fn deploy_key(key: Model) -> DeployKey {
    DeployKey {
        id: key.id,
        title: key.title,
        key: key.key,
        created_at: key.created_at.into(),
    }
}

/// Returns a deploy key of a project.
#[must_use]
pub fn project_deploy_key(detail: DeployKeyDetail) -> ProjectDeployKey {
    ProjectDeployKey {
        id: detail.key.id,
        title: detail.key.title,
        key: detail.key.key,
        created_at: detail.key.created_at.into(),
        can_push: detail.project_key.can_push,
    }
}
