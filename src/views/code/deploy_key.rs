//! Deploy keys.

use domain::code::deploy_keys::Row;
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
pub fn project_deploy_key(row: Row) -> ProjectDeployKey {
    ProjectDeployKey {
        id: row.key.id,
        title: row.key.title,
        key: row.key.key,
        created_at: row.key.created_at.into(),
        can_push: row.place.can_push,
    }
}
