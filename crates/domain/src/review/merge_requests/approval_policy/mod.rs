//! The effect of the approval settings and of code owners on a merge request, which is determined before its rules are evaluated.

mod code_owners;
mod committers;

use std::collections::HashSet;

use git::{Oid, Repository};
use storage::entities::merge_requests::Model;

use crate::code::code_owners as code_owners_file;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::review::approvals::settings::{self, ApprovalPolicy};

/// Returns the effect of the approval settings and of code owners on a merge request. The result depends only on the heads of
/// its branches, the target branch, the names of code owners, and the settings of the project and its groups.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub(crate) async fn load(
    backend: &Backend,
    access: &ProjectAccess,
    merge_request: &Model,
) -> Result<ApprovalPolicy> {
    let settings = settings::of_project(backend, access).await?;
    let mut excluded = match settings.committer_approval.value {
        true => HashSet::new(),
        false => committers::find(backend, merge_request).await?,
    };
    if !settings.author_approval.value {
        excluded.extend(merge_request.author_id);
    }
    Ok(ApprovalPolicy {
        excluded,
        has_rule_overrides: settings.rule_overrides.value,
        owners: code_owners::rules(backend, merge_request).await?,
    })
}

/// Returns whether the rules of code owners of a policy also apply to another head of the target branch. A later head with the
/// same file requires no more approvals, because the merge request changes no more files.
///
/// # Errors
/// Returns an error if the repository fails.
pub(crate) async fn applies_to(
    policy: &ApprovalPolicy,
    repository: &Repository,
    target: Oid,
) -> Result<bool> {
    match policy.owners.target {
        Some(known) if known != target => Ok(repository.is_ancestor(known, target).await?
            && code_owners_file::have_same_file(repository, known, target).await?),
        _ => Ok(true),
    }
}
