//! Updates projects.

use super::auditing;
use crate::audit;
use git::{Repository, RepositoryId};
use sea_orm::{ActiveValue::Set, DbErr};
use storage::database::Violation;
use storage::entities::{
    AccessLevel, Visibility, approval_rules, fold, former_paths, namespaces, now, projects, row_changes,
};
use storage::jobs;

use super::ProjectSettings;
use super::create::{check_available, check_names, check_visibility, map_unique_violation};
use super::expiration_policy;
use super::settings::replace_topics;
use crate::code::jobs::auto_merge;
use crate::code::jobs::refresh_closing_issues::RefreshClosingIssues;
use crate::code::jobs::set_head::{SetHead, set_head};
use crate::identity::access::ProjectAccess;
use crate::instance::settings;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::InstancePlan;

/// Changes to a project; absent fields are unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProjectUpdate {
    /// The name, which only Owners may change.
    pub name: Option<String>,
    /// The last part of the path.
    pub path: Option<String>,
    /// The visibility, which only Owners may change.
    pub visibility: Option<Visibility>,
    /// The default branch; it must exist unless the repository is empty.
    pub default_branch: Option<String>,
    /// The user that mirroring acts as; the caller if it is absent and the pull mirror changes.
    pub mirror_user_id: Option<i64>,
    /// All other settings.
    pub settings: ProjectSettings,
}

/// All fields, with their names in the contract.
const FIELDS: [&str; 58] = [
    "name",
    "path",
    "visibility",
    "default_branch",
    "mirror_user_id",
    "description",
    "tag_list",
    "topics",
    "issues_enabled",
    "merge_requests_enabled",
    "wiki_enabled",
    "jobs_enabled",
    "snippets_enabled",
    "container_registry_enabled",
    "issues_access_level",
    "repository_access_level",
    "merge_requests_access_level",
    "forking_access_level",
    "wiki_access_level",
    "builds_access_level",
    "snippets_access_level",
    "container_registry_access_level",
    "package_registry_access_level",
    "releases_access_level",
    "environments_access_level",
    "feature_flags_access_level",
    "infrastructure_access_level",
    "monitor_access_level",
    "security_and_compliance_access_level",
    "container_expiration_policy_attributes",
    "merge_method",
    "squash_option",
    "request_access_enabled",
    "lfs_enabled",
    "packages_enabled",
    "service_desk_enabled",
    "emails_enabled",
    "resolve_outdated_diff_discussions",
    "shared_runners_enabled",
    "public_jobs",
    "ci_default_git_depth",
    "ci_config_path",
    "build_timeout",
    "only_allow_merge_if_pipeline_succeeds",
    "only_allow_merge_if_all_discussions_are_resolved",
    "only_allow_merge_if_all_status_checks_passed",
    "remove_source_branch_after_merge",
    "autoclose_referenced_issues",
    "suggestion_commit_message",
    "auto_devops_enabled",
    "auto_devops_deploy_strategy",
    "approvals_before_merge",
    "mirror",
    "mirror_trigger_builds",
    "only_mirror_protected_branches",
    "mirror_overwrites_diverged_branches",
    "external_authorization_classification_label",
    "repository_storage",
];

/// Updates a project. Does nothing if no value differs.
///
/// # Errors
/// Returns `Forbidden` if a field requires an Owner, and a validation error for invalid values. Returns
/// `Conflict` if the default branch cannot be changed because the repository is locked.
pub async fn update(
    backend: &Backend,
    access: ProjectAccess,
    change: ProjectUpdate,
) -> Result<ProjectAccess> {
    if change == ProjectUpdate::default() {
        return Err(Error::no_parameters(&FIELDS));
    }
    if (change.name.is_some() || change.visibility.is_some()) && !access.has_role(AccessLevel::Owner) {
        return Err(Error::forbidden());
    }
    check_names(change.name.as_deref(), change.path.as_deref())?;
    let other = |visibility: &Visibility| *visibility != access.project.visibility;
    if let Some(visibility) = change.visibility.filter(other) {
        settings::get(backend)
            .await?
            .check_visibility(&access.caller, visibility)?;
    }
    let topics = change.settings.topics()?;
    let expiration = change.settings.container_expiration_policy.clone();
    if let Some(expiration) = &expiration {
        expiration.check().await?;
    }
    let repository = backend
        .repositories
        .repository(&RepositoryId::of_project(access.project.id));
    let (head, default_branch) = match change.default_branch {
        Some(branch) => {
            let existing = existing_branch(&repository, &branch).await?;
            let project_id = access.project.id;
            (Some(SetHead { project_id, branch }), existing)
        }
        None => (None, None),
    };
    let mirror_user_id = mirror_user(backend, &access, change.mirror_user_id)?;
    let (caller, role) = (access.caller, access.role);
    let mut row = projects::ActiveModel {
        id: Set(access.project.id),
        ..Default::default()
    };
    change.settings.apply(backend, &caller, &mut row)?;
    let sets_approvals = row.approvals_before_merge.is_set();
    let (name, path) = (change.name, change.path);
    // Checked before the rows change, so that nothing has changed if the repository is locked.
    if head.is_some() {
        repository.check_head_unlocked().await?;
    }
    let (mut project, namespace) = backend
        .database
        .transaction(async |transaction| {
            let namespace = namespaces::lock(transaction, access.namespace.id).await?;
            let namespace = namespace.ok_or_else(|| Error::not_found("Project"))?;
            // Locked, so that the comparisons below see the changes of concurrent requests.
            let current = projects::lock_for_insert(transaction, access.project.id).await?;
            let current = current.filter(|current| current.namespace_id == namespace.id);
            let current = current.ok_or_else(|| Error::not_found("Project"))?;
            let renamed = name.filter(|name| *name != current.name);
            let moved = path.filter(|path| *path != current.path);
            let other = |new: &Option<String>, old: &str| new.clone().filter(|new| fold(new) != old);
            check_available(
                transaction,
                &namespace,
                other(&renamed, &current.name_key).as_deref(),
                other(&moved, &current.path_key).as_deref(),
            )
            .await?;
            if let Some(visibility) = change.visibility {
                check_visibility(&namespace, visibility)?;
                row.visibility = Set(visibility);
            }
            if let Some(name) = renamed {
                row.name_key = Set(fold(&name));
                row.name = Set(name);
            }
            if let Some(path) = moved {
                row.path_key = Set(fold(&path));
                row.path = Set(path);
            }
            if let Some(branch) = default_branch {
                row.default_branch = Set(Some(branch));
            }
            let mirror_user_id = mirror_user_id.or_else(|| {
                let user = caller.as_user().filter(|_| changes_mirror(&row, &current));
                user.map(|user| user.id)
            });
            if let Some(user_id) = mirror_user_id {
                row.mirror_user_id = Set(Some(user_id));
            }
            if let Some(topics) = topics
                && replace_topics(transaction, current.id, topics).await?
            {
                row.updated_at = Set(now());
            }
            if let Some(expiration) = &expiration {
                let owner = (&namespace, &current);
                if expiration_policy::change(transaction, &caller, owner, expiration).await? {
                    row.updated_at = Set(now());
                }
            }
            let project = row_changes::update_if_changed(transaction, &current, row).await;
            let project = project.map_err(map_update_error)?;
            if sets_approvals {
                let required = project.approvals_before_merge;
                approval_rules::require_any(transaction, project.id, required).await?;
            }
            if project.path_key != current.path_key {
                former_paths::record_project(transaction, namespace.id, &current.path, project.id).await?;
            }
            let audited = auditing::changes(&namespace, &current, &project);
            audit::record_all(transaction, &caller, audited).await?;
            if requires_less(&project, &current) {
                auto_merge::enqueue_into(transaction, project.id).await?;
            }
            if closing_branch(&project) != closing_branch(&current) {
                let job = RefreshClosingIssues {
                    project_id: project.id,
                };
                jobs::enqueue(transaction, &job).await.map_err(Error::internal)?;
            }
            // An empty repository has its default branch only in HEAD.
            let sets_head =
                project.default_branch.is_none() || project.default_branch != current.default_branch;
            if let Some(job) = head.as_ref().filter(|_| sets_head) {
                jobs::enqueue(transaction, job).await.map_err(Error::internal)?;
            }
            Ok::<_, Error>((project, namespace))
        })
        .await?;
    // After the transaction, which must not wait for a repository. If this fails, the job sets HEAD.
    if let Some(job) = &head {
        match set_head(backend, job).await {
            Ok(None) => {}
            Ok(replacement) => project.default_branch = replacement,
            Err(error) => {
                tracing::warn!(project = project.id, %error, "failed to set HEAD of a repository");
            }
        }
    }
    Ok(ProjectAccess {
        caller,
        project,
        namespace,
        role,
    })
}

/// Returns whether a requirement was removed for which automatic merges possibly wait.
fn requires_less(project: &projects::Model, former: &projects::Model) -> bool {
    let requirements = |project: &projects::Model| {
        [
            project.only_allow_merge_if_pipeline_succeeds,
            project.only_allow_merge_if_all_status_checks_passed,
            !project.allow_merge_on_skipped_pipeline,
        ]
    };
    let mut changes = requirements(former).into_iter().zip(requirements(project));
    changes.any(|(was_required, is_required)| was_required && !is_required)
}

/// Returns the branch whose merges close issues, or `None` if this is disabled.
fn closing_branch(project: &projects::Model) -> Option<&str> {
    let branch = project.default_branch.as_deref();
    branch.filter(|_| project.autoclose_referenced_issues)
}

/// Returns the branch, or `None` if the repository is empty and any name is valid.
async fn existing_branch(repository: &Repository, name: &str) -> Result<Option<String>> {
    let unknown = || Error::attribute("default_branch", format!("branch '{name}' does not exist"));
    git::check_branch_name(name).map_err(|_| unknown())?;
    if repository.is_empty().await? {
        return Ok(None);
    }
    match repository.branch(name).await {
        Ok(_) => Ok(Some(name.to_owned())),
        Err(git::Error::BranchNotFound) => Err(unknown()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the user that mirroring acts as: the caller, or any user if the caller is an administrator.
fn mirror_user(backend: &Backend, access: &ProjectAccess, user_id: Option<i64>) -> Result<Option<i64>> {
    let Some(id) = user_id.filter(|_| backend.instance.plan >= InstancePlan::Starter) else {
        return Ok(None);
    };
    if access.caller.is_admin() || access.caller.signed_in()?.id == id {
        return Ok(Some(id));
    }
    Err(Error::attribute("mirror_user_id", "is invalid"))
}

/// Returns whether the pull mirror changes in a way that requires the permissions of the caller for its updates.
fn changes_mirror(row: &projects::ActiveModel, current: &projects::Model) -> bool {
    [
        (&row.mirror, current.mirror),
        (
            &row.only_mirror_protected_branches,
            current.only_mirror_protected_branches,
        ),
        (
            &row.mirror_overwrites_diverged_branches,
            current.mirror_overwrites_diverged_branches,
        ),
    ]
    .into_iter()
    .any(|(new, stored)| matches!(new, Set(value) if *value != stored))
}

fn map_update_error(error: DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::ForeignKey(_)) => Error::attribute("mirror_user_id", "is invalid"),
        _ => map_unique_violation(error),
    }
}
