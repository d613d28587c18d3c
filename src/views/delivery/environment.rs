//! Environments of projects.

use domain::delivery::deployments;
use storage::entities::environments::Model;

use crate::views::delivery::deployment;
use crate::views::delivery::pipeline::ProjectLocation;
use crate::views::enums::Convert;
use contract::MaybeUndefined;
use contract::{Environment, SimpleProject};

/// Returns an environment.
#[must_use]
pub fn environment(row: Model) -> Environment {
    Environment {
        id: row.id,
        name: row.name,
        slug: row.slug,
        external_url: row.external_url,
        state: row.state.convert(),
        project: None,
        last_deployment: MaybeUndefined::Undefined,
    }
}

/// Returns an environment of a list with its project.
#[must_use]
pub fn listed(row: Model, project: Option<SimpleProject>) -> Environment {
    Environment {
        project,
        ..environment(row)
    }
}

/// Returns an environment with its last successful deployment.
#[must_use]
pub fn detail(
    at: ProjectLocation<'_>,
    row: Model,
    last: Option<deployments::DeploymentDetail>,
) -> Environment {
    let last = last.map(|last| deployment::within_environment(at, last));
    Environment {
        last_deployment: last.map_or(MaybeUndefined::Null, MaybeUndefined::Value),
        ..environment(row)
    }
}
