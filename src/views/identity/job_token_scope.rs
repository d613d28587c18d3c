//! Job token scopes of projects.

use domain::kernel::Instance;
use storage::entities::{namespaces, projects};

use crate::views::links;
use contract::{JobTokenScope, JobTokenScopeGroup};

/// Returns the job token scope of a project.
#[must_use]
pub fn scope(project: &projects::Model) -> JobTokenScope {
    JobTokenScope {
        inbound_enabled: project.job_token_scope_enabled,
        outbound_enabled: false,
    }
}

/// Returns a group of the allowlist.
#[must_use]
pub fn group(instance: &Instance, group: namespaces::Model) -> JobTokenScopeGroup {
    JobTokenScopeGroup {
        id: group.id,
        web_url: links::group(&instance.base_url, &group.full_path),
        name: group.name,
    }
}
