//! Settings of new and existing projects.

use std::collections::BTreeSet;

use sea_orm::ActiveValue::Set;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::project_topics;
use storage::entities::projects::{ActiveModel, DeployStrategy, FeatureAccess, MergeMethod, SquashOption};

use super::ExpirationPolicyChange;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::{Patch, assign};
use crate::kernel::policy::InstancePlan;

/// Maximum number of topics of a project.
const MAX_TOPICS: usize = 100;
/// Maximum length of a topic, in characters.
const MAX_TOPIC_LENGTH: usize = 255;
/// The only storage of repositories.
const STORAGE: &str = "default";

/// Settings from a request; absent ones are unchanged or get the default. The names are those of the
/// contract.
#[allow(missing_docs)]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProjectSettings {
    pub description: Patch<String>,
    pub tag_list: Patch<Vec<String>>,
    pub topics: Patch<Vec<String>>,
    pub issues_enabled: Option<bool>,
    pub merge_requests_enabled: Option<bool>,
    pub wiki_enabled: Option<bool>,
    pub jobs_enabled: Option<bool>,
    pub snippets_enabled: Option<bool>,
    pub container_registry_enabled: Option<bool>,
    pub packages_enabled: Option<bool>,
    pub issues_access_level: Option<FeatureAccess>,
    pub repository_access_level: Option<FeatureAccess>,
    pub merge_requests_access_level: Option<FeatureAccess>,
    pub forking_access_level: Option<FeatureAccess>,
    pub wiki_access_level: Option<FeatureAccess>,
    pub builds_access_level: Option<FeatureAccess>,
    pub snippets_access_level: Option<FeatureAccess>,
    pub container_registry_access_level: Option<FeatureAccess>,
    pub package_registry_access_level: Option<FeatureAccess>,
    pub releases_access_level: Option<FeatureAccess>,
    pub environments_access_level: Option<FeatureAccess>,
    pub feature_flags_access_level: Option<FeatureAccess>,
    pub infrastructure_access_level: Option<FeatureAccess>,
    pub monitor_access_level: Option<FeatureAccess>,
    pub security_and_compliance_access_level: Option<FeatureAccess>,
    pub container_expiration_policy: Option<ExpirationPolicyChange>,
    pub merge_method: Option<MergeMethod>,
    pub squash_option: Option<SquashOption>,
    pub request_access_enabled: Option<bool>,
    pub lfs_enabled: Option<bool>,
    pub service_desk_enabled: Option<bool>,
    pub emails_enabled: Option<bool>,
    pub resolve_outdated_diff_discussions: Option<bool>,
    pub shared_runners_enabled: Option<bool>,
    pub public_jobs: Option<bool>,
    pub ci_default_git_depth: Patch<i64>,
    pub ci_config_path: Patch<String>,
    pub build_timeout: Option<i64>,
    pub only_allow_merge_if_pipeline_succeeds: Option<bool>,
    pub only_allow_merge_if_all_discussions_are_resolved: Option<bool>,
    pub only_allow_merge_if_all_status_checks_passed: Option<bool>,
    pub remove_source_branch_after_merge: Option<bool>,
    pub autoclose_referenced_issues: Option<bool>,
    pub suggestion_commit_message: Patch<String>,
    pub auto_devops_enabled: Option<bool>,
    pub auto_devops_deploy_strategy: Option<DeployStrategy>,
    pub approvals_before_merge: Option<i64>,
    pub mirror: Option<bool>,
    pub mirror_trigger_builds: Option<bool>,
    pub only_mirror_protected_branches: Option<bool>,
    pub mirror_overwrites_diverged_branches: Option<bool>,
    pub external_authorization_classification_label: Patch<String>,
    pub repository_storage: Option<String>,
}

impl ProjectSettings {
    /// Returns the given topics, trimmed and deduplicated. The older attribute `tag_list` counts only without `topics`.
    ///
    /// # Errors
    /// Returns a validation error for too many or too long topics.
    pub(super) fn topics(&self) -> Result<Option<BTreeSet<String>>> {
        let (attribute, sent) = match self.topics.is_keep() {
            false => ("topics", &self.topics),
            true => ("tag_list", &self.tag_list),
        };
        let topics: &[String] = match sent {
            Patch::Set(topics) => topics,
            Patch::Clear => &[],
            Patch::Keep => return Ok(None),
        };
        let topics: BTreeSet<String> = topics
            .iter()
            .map(|topic| topic.trim())
            .filter(|topic| !topic.is_empty())
            .map(str::to_owned)
            .collect();
        if topics.len() > MAX_TOPICS {
            let text = format!("has too many topics (maximum is {MAX_TOPICS})");
            return Err(Error::attribute(attribute, text));
        }
        if topics
            .iter()
            .any(|topic| topic.chars().count() > MAX_TOPIC_LENGTH)
        {
            let text = format!("is too long (maximum is {MAX_TOPIC_LENGTH} characters)");
            return Err(Error::attribute(attribute, text));
        }
        Ok(Some(topics))
    }

    /// Applies the settings of the row, but not topics and the expiration policy. Settings that the plan lacks or the caller
    /// may not change are ignored.
    ///
    /// # Errors
    /// Returns a validation error for values out of range.
    pub(super) fn apply(self, backend: &Backend, caller: &Caller, row: &mut ActiveModel) -> Result<()> {
        let switch = |on: bool| {
            if on {
                FeatureAccess::Enabled
            } else {
                FeatureAccess::Disabled
            }
        };
        // The older flags first, so that access levels override them if both are given.
        for (sent, column) in [
            (self.issues_enabled, &mut row.issues_access_level),
            (self.merge_requests_enabled, &mut row.merge_requests_access_level),
            (self.wiki_enabled, &mut row.wiki_access_level),
            (self.jobs_enabled, &mut row.builds_access_level),
            (self.snippets_enabled, &mut row.snippets_access_level),
            (
                self.container_registry_enabled,
                &mut row.container_registry_access_level,
            ),
            (self.packages_enabled, &mut row.package_registry_access_level),
        ] {
            assign(column, sent.map(switch));
        }
        assign(&mut row.issues_access_level, self.issues_access_level);
        assign(&mut row.repository_access_level, self.repository_access_level);
        assign(
            &mut row.merge_requests_access_level,
            self.merge_requests_access_level,
        );
        assign(&mut row.forking_access_level, self.forking_access_level);
        assign(&mut row.wiki_access_level, self.wiki_access_level);
        assign(&mut row.builds_access_level, self.builds_access_level);
        assign(&mut row.snippets_access_level, self.snippets_access_level);
        assign(
            &mut row.container_registry_access_level,
            self.container_registry_access_level,
        );
        assign(
            &mut row.package_registry_access_level,
            self.package_registry_access_level,
        );
        assign(&mut row.releases_access_level, self.releases_access_level);
        assign(&mut row.environments_access_level, self.environments_access_level);
        assign(
            &mut row.feature_flags_access_level,
            self.feature_flags_access_level,
        );
        assign(
            &mut row.infrastructure_access_level,
            self.infrastructure_access_level,
        );
        assign(&mut row.monitor_access_level, self.monitor_access_level);
        assign(&mut row.merge_method, self.merge_method);
        assign(&mut row.squash_option, self.squash_option);
        assign(&mut row.request_access_enabled, self.request_access_enabled);
        assign(&mut row.lfs_enabled, self.lfs_enabled);
        assign(&mut row.service_desk_enabled, self.service_desk_enabled);
        assign(&mut row.emails_disabled, self.emails_enabled.map(|on| Some(!on)));
        assign(
            &mut row.resolve_outdated_diff_discussions,
            self.resolve_outdated_diff_discussions,
        );
        assign(&mut row.shared_runners_enabled, self.shared_runners_enabled);
        assign(&mut row.public_jobs, self.public_jobs);
        assign(
            &mut row.only_allow_merge_if_pipeline_succeeds,
            self.only_allow_merge_if_pipeline_succeeds,
        );
        assign(
            &mut row.only_allow_merge_if_all_discussions_are_resolved,
            self.only_allow_merge_if_all_discussions_are_resolved,
        );
        assign(
            &mut row.remove_source_branch_after_merge,
            self.remove_source_branch_after_merge,
        );
        assign(
            &mut row.autoclose_referenced_issues,
            self.autoclose_referenced_issues,
        );
        assign(&mut row.auto_devops_enabled, self.auto_devops_enabled);
        assign(
            &mut row.auto_devops_deploy_strategy,
            self.auto_devops_deploy_strategy,
        );
        self.description.apply_to(&mut row.description);
        self.ci_config_path.apply_to(&mut row.ci_config_path);
        self.suggestion_commit_message
            .apply_to(&mut row.suggestion_commit_message);
        match self.ci_default_git_depth {
            Patch::Keep => {}
            // 0 means all commits, as does null.
            Patch::Clear | Patch::Set(0) => row.ci_default_git_depth = Set(None),
            Patch::Set(depth) => {
                let depth = i32::try_from(depth).map_err(|_| out_of_range("ci_default_git_depth"))?;
                row.ci_default_git_depth = Set(Some(depth));
            }
        }
        if let Some(timeout) = self.build_timeout {
            let timeout = i32::try_from(timeout).map_err(|_| out_of_range("build_timeout"))?;
            row.build_timeout = Set(timeout);
        }
        if backend.instance.plan >= InstancePlan::Starter {
            assign(&mut row.mirror, self.mirror);
            assign(&mut row.mirror_trigger_builds, self.mirror_trigger_builds);
            assign(
                &mut row.only_mirror_protected_branches,
                self.only_mirror_protected_branches,
            );
            assign(
                &mut row.mirror_overwrites_diverged_branches,
                self.mirror_overwrites_diverged_branches,
            );
            if let Some(approvals) = self.approvals_before_merge {
                let approvals =
                    i32::try_from(approvals).map_err(|_| out_of_range("approvals_before_merge"))?;
                row.approvals_before_merge = Set(approvals);
            }
        }
        if backend.instance.plan >= InstancePlan::Ultimate {
            assign(
                &mut row.only_allow_merge_if_all_status_checks_passed,
                self.only_allow_merge_if_all_status_checks_passed,
            );
            assign(
                &mut row.security_and_compliance_access_level,
                self.security_and_compliance_access_level,
            );
        }
        if backend.instance.plan >= InstancePlan::Premium {
            self.external_authorization_classification_label
                .apply_to(&mut row.external_authorization_classification_label);
        }
        if let Some(storage) = self.repository_storage.filter(|_| caller.is_admin()) {
            if storage != STORAGE {
                return Err(Error::attribute(
                    "repository_storage",
                    "is not included in the list",
                ));
            }
            row.repository_storage = Set(storage);
        }
        Ok(())
    }
}

fn out_of_range(field: &'static str) -> Error {
    Error::attribute(field, "is not a number in range")
}

/// Replaces the topics of a project. Returns whether they changed.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn replace_topics(
    db: &impl ConnectionTrait,
    project_id: i64,
    topics: BTreeSet<String>,
) -> Result<bool> {
    let of_project = project_topics::Column::ProjectId.eq(project_id);
    let former = project_topics::Entity::find()
        .filter(of_project.clone())
        .all(db)
        .await?;
    if former
        .into_iter()
        .map(|row| row.name)
        .collect::<BTreeSet<String>>()
        == topics
    {
        return Ok(false);
    }
    project_topics::Entity::delete_many()
        .filter(of_project)
        .exec(db)
        .await?;
    if topics.is_empty() {
        return Ok(true);
    }
    let rows = topics.into_iter().map(|name| project_topics::ActiveModel {
        project_id: Set(project_id),
        name: Set(name),
        ..Default::default()
    });
    project_topics::Entity::insert_many(rows)
        .exec_without_returning(db)
        .await?;
    Ok(true)
}
