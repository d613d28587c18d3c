//! Projects, in the simple and the full format.

use domain::code::code_analysis::{DetectedLicense, LanguageShare};
use domain::kernel::Instance;
use domain::kernel::policy::InstancePlan;
use domain::spaces::projects::ProjectDetail;
use storage::entities::projects::FeatureAccess;
use storage::entities::users::UserSummary;
use storage::entities::{AccessLevel, ShareSummary};

use crate::views::accounts::custom_attribute::custom_attribute;
use crate::views::accounts::users as user_view;
use crate::views::enums::Convert;
use crate::views::links;
use crate::views::registry::expiration_policy;
use crate::views::spaces::namespace::namespace;
use contract::MaybeUndefined;
use contract::{
    Languages, Project, ProjectAccess, ProjectImport, ProjectLicense, ProjectLinks, ProjectOwner,
    ProjectPermissions, ProjectStatistics, SharedGroup, SimpleProject,
};

/// Default notification level of callers: their global setting.
const NOTIFICATION_GLOBAL: i64 = 3;

/// View options of a project, in addition to the caller's role.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProjectViewOptions {
    /// Whether to return only the simple format; anonymous callers always get it.
    pub simple: bool,
    /// Whether to include sizes and counts, from Reporter on.
    pub statistics: bool,
    /// Whether to include the license.
    pub license: bool,
    /// Whether to include custom attributes, for administrators.
    pub custom_attributes: bool,
}

/// Returns a project in the format of the contract. Fields that the caller may not see or the project does
/// not have are null.
#[must_use]
pub fn project(instance: &Instance, row: &ProjectDetail, parts: ProjectViewOptions) -> Project {
    let short = short(instance, row);
    if parts.simple || !row.effective_access.signed_in {
        return short;
    }
    let project = &row.project;
    let admin = row.effective_access.admin;
    let on = |feature: FeatureAccess| Some(row.has_feature(feature));
    let issues = row.has_feature(project.issues_access_level);
    let merge_requests = row.has_feature(project.merge_requests_access_level);
    let full = Project {
        empty_repo: Some(project.default_branch.is_none()),
        visibility: Some(project.visibility.convert()),
        owner: nullable(row.owner.as_ref().map(|user| owner(instance, user))),
        archived: Some(project.archived),
        issues_enabled: Some(issues),
        open_issues_count: nullable(issues.then(|| project.open_issues_count.into())),
        merge_requests_enabled: Some(merge_requests),
        jobs_enabled: on(project.builds_access_level),
        wiki_enabled: Some(false),
        snippets_enabled: on(project.snippets_access_level),
        issues_access_level: Some(project.issues_access_level.convert()),
        repository_access_level: Some(project.repository_access_level.convert()),
        merge_requests_access_level: Some(project.merge_requests_access_level.convert()),
        forking_access_level: Some(project.forking_access_level.convert()),
        wiki_access_level: Some(contract::FeatureAccessLevel::Disabled),
        builds_access_level: Some(project.builds_access_level.convert()),
        snippets_access_level: Some(project.snippets_access_level.convert()),
        container_registry_access_level: Some(project.container_registry_access_level.convert()),
        package_registry_access_level: Some(project.package_registry_access_level.convert()),
        releases_access_level: Some(project.releases_access_level.convert()),
        environments_access_level: Some(project.environments_access_level.convert()),
        feature_flags_access_level: Some(project.feature_flags_access_level.convert()),
        infrastructure_access_level: Some(project.infrastructure_access_level.convert()),
        monitor_access_level: Some(project.monitor_access_level.convert()),
        container_expiration_policy: Some(expiration_policy(&row.expiration_policy)),
        can_create_merge_request_in: Some(merge_requests && row.can_read_code() && !project.archived),
        resolve_outdated_diff_discussions: Some(project.resolve_outdated_diff_discussions),
        container_registry_enabled: on(project.container_registry_access_level),
        lfs_enabled: Some(false),
        packages_enabled: on(project.package_registry_access_level),
        service_desk_enabled: Some(project.service_desk_enabled),
        emails_enabled: Some(project.emails_disabled != Some(true)),
        service_desk_address: MaybeUndefined::Null,
        creator_id: nullable(project.creator_id),
        forked_from_project: row.forked_from.as_deref().map(|source| simple(instance, source)),
        import_status: Some(project.import_status.convert()),
        import_type: nullable(import_type(row)),
        import_error: nullable(import_error(row)),
        permissions: Some(permissions(row)),
        license_url: if_requested(parts.license, license_url(instance, row)),
        license: if_requested(parts.license, row.license.as_ref().map(license)),
        shared_runners_enabled: Some(project.shared_runners_enabled),
        runners_token: nullable(row.runners_token.as_ref().map(|token| token.expose().clone())),
        ci_default_git_depth: nullable(project.ci_default_git_depth.map(i64::from)),
        ci_config_path: nullable(project.ci_config_path.clone()),
        build_timeout: Some(project.build_timeout.into()),
        public_jobs: Some(project.public_jobs),
        shared_with_groups: Some(row.shares.iter().map(shared).collect()),
        only_allow_merge_if_pipeline_succeeds: Some(project.only_allow_merge_if_pipeline_succeeds),
        only_allow_merge_if_all_discussions_are_resolved: Some(
            project.only_allow_merge_if_all_discussions_are_resolved,
        ),
        remove_source_branch_after_merge: Some(project.remove_source_branch_after_merge),
        request_access_enabled: Some(project.request_access_enabled),
        merge_method: Some(project.merge_method.convert()),
        squash_option: Some(project.squash_option.convert()),
        auto_devops_enabled: Some(project.auto_devops_enabled),
        auto_devops_deploy_strategy: Some(project.auto_devops_deploy_strategy.convert()),
        repository_storage: nullable(admin.then(|| project.repository_storage.clone())),
        autoclose_referenced_issues: Some(project.autoclose_referenced_issues),
        suggestion_commit_message: nullable(project.suggestion_commit_message.clone()),
        statistics: if_requested(
            parts.statistics,
            row.effective_access
                .has_role(AccessLevel::Reporter)
                .then(|| statistics(row)),
        ),
        custom_attributes: (parts.custom_attributes && admin)
            .then(|| row.custom_attributes.iter().map(custom_attribute).collect()),
        links: Some(links(instance, row, issues, merge_requests)),
        marked_for_deletion_at: nullable(project.marked_for_deletion_on),
        marked_for_deletion_on: nullable(project.marked_for_deletion_on),
        ..short
    };
    planned(instance.plan, row, full)
}

/// Adds the fields that depend on the plan. Settings of a higher plan are preserved but have no effect.
fn planned(plan: InstancePlan, row: &ProjectDetail, shown: Project) -> Project {
    let project = &row.project;
    let mirroring = plan >= InstancePlan::Starter;
    let label = &project.external_authorization_classification_label;
    Project {
        approvals_before_merge: (plan >= InstancePlan::Starter)
            .then(|| project.approvals_before_merge.into()),
        only_allow_merge_if_all_status_checks_passed: (plan >= InstancePlan::Ultimate)
            .then_some(project.only_allow_merge_if_all_status_checks_passed),
        security_and_compliance_access_level: (plan >= InstancePlan::Ultimate)
            .then(|| project.security_and_compliance_access_level.convert()),
        mirror: Some(mirroring && project.mirror),
        mirror_user_id: nullable(project.mirror_user_id.filter(|_| mirroring)),
        mirror_trigger_builds: Some(mirroring && project.mirror_trigger_builds),
        only_mirror_protected_branches: Some(mirroring && project.only_mirror_protected_branches),
        mirror_overwrites_diverged_branches: Some(mirroring && project.mirror_overwrites_diverged_branches),
        external_authorization_classification_label: nullable(
            label.clone().filter(|_| plan >= InstancePlan::Premium),
        ),
        ..shown
    }
}

fn nullable<T>(value: Option<T>) -> MaybeUndefined<T> {
    MaybeUndefined::from_opt_null(value)
}

/// Returns a value only if requested.
fn if_requested<T>(requested: bool, value: Option<T>) -> MaybeUndefined<T> {
    if requested {
        nullable(value)
    } else {
        MaybeUndefined::Undefined
    }
}

fn license(found: &DetectedLicense) -> ProjectLicense {
    let license = &found.license;
    ProjectLicense {
        key: license.key.clone(),
        name: license.name.clone(),
        nickname: license.nickname.map(str::to_owned),
        html_url: Some(license.html_url.clone()),
        source_url: license.source_url.map(str::to_owned),
    }
}

/// Returns the import that created a project.
#[must_use]
pub fn project_import(row: &ProjectDetail) -> ProjectImport {
    let project = &row.project;
    ProjectImport {
        id: project.id,
        description: project.description.clone(),
        name: project.name.clone(),
        name_with_namespace: format!("{} / {}", row.namespace_name, project.name),
        path: project.path.clone(),
        path_with_namespace: format!("{}/{}", row.namespace.full_path, project.path),
        created_at: project.created_at.into(),
        import_status: project.import_status.convert(),
        import_type: import_type(row),
        import_error: import_error(row),
    }
}

/// Returns the kind of the source from which a project was imported.
fn import_type(row: &ProjectDetail) -> Option<String> {
    let is_imported = row.project.import_url_encrypted.is_some();
    is_imported.then(|| "git".to_owned())
}

/// Returns the reason why an import failed, for Maintainers.
fn import_error(row: &ProjectDetail) -> Option<String> {
    let maintains = row.effective_access.has_role(AccessLevel::Maintainer);
    row.project.import_error.clone().filter(|_| maintains)
}

/// Returns languages with their percentages, in order.
#[must_use]
pub fn languages(shares: Vec<LanguageShare>) -> Languages {
    shares
        .into_iter()
        .map(|share| (share.language, share.percent))
        .collect()
}

/// Returns the URL of the license file.
fn license_url(instance: &Instance, row: &ProjectDetail) -> Option<String> {
    let path = &row.license.as_ref()?.path;
    let branch = row.project.default_branch.as_deref()?;
    let base = &instance.base_url;
    let project = format!("{base}/{}/{}", row.namespace.full_path, row.project.path);
    Some(links::file(&project, branch, path))
}

/// Returns the simple format as a separate type, for use inside of other resources.
#[must_use]
pub fn simple(instance: &Instance, row: &ProjectDetail) -> SimpleProject {
    let base = &instance.base_url;
    let project = &row.project;
    let path_with_namespace = format!("{}/{}", row.namespace.full_path, project.path);
    let web_url = format!("{base}/{path_with_namespace}");
    let branch = project.default_branch.clone().filter(|_| row.can_read_code());
    SimpleProject {
        id: project.id,
        description: project.description.clone(),
        name: project.name.clone(),
        name_with_namespace: format!("{} / {}", row.namespace_name, project.name),
        path: project.path.clone(),
        created_at: project.created_at.into(),
        readme_url: branch
            .as_ref()
            .map(|branch| links::file(&web_url, branch, "README.md")),
        default_branch: branch,
        tag_list: row.topics.clone(),
        topics: row.topics.clone(),
        ssh_url_to_repo: String::new(),
        http_url_to_repo: format!("{web_url}.git"),
        web_url,
        avatar_url: links::avatar_url(base, "project", project.id, project.avatar.as_deref()),
        star_count: project.star_count.into(),
        forks_count: project.forks_count.into(),
        last_activity_at: project.last_activity_at.into(),
        namespace: namespace(base, &row.namespace, row.owner.as_ref()),
        path_with_namespace,
    }
}

/// Returns the simple format.
fn short(instance: &Instance, row: &ProjectDetail) -> Project {
    let simple = simple(instance, row);
    Project {
        id: simple.id,
        description: simple.description,
        name: simple.name,
        name_with_namespace: simple.name_with_namespace,
        path: simple.path,
        path_with_namespace: simple.path_with_namespace,
        created_at: simple.created_at,
        default_branch: simple.default_branch,
        tag_list: simple.tag_list,
        topics: simple.topics,
        ssh_url_to_repo: simple.ssh_url_to_repo,
        http_url_to_repo: simple.http_url_to_repo,
        web_url: simple.web_url,
        readme_url: simple.readme_url,
        avatar_url: simple.avatar_url,
        star_count: simple.star_count,
        forks_count: simple.forks_count,
        last_activity_at: simple.last_activity_at,
        namespace: simple.namespace,
        empty_repo: None,
        visibility: None,
        owner: MaybeUndefined::Undefined,
        archived: None,
        issues_enabled: None,
        open_issues_count: MaybeUndefined::Undefined,
        merge_requests_enabled: None,
        jobs_enabled: None,
        wiki_enabled: None,
        snippets_enabled: None,
        issues_access_level: None,
        repository_access_level: None,
        merge_requests_access_level: None,
        forking_access_level: None,
        wiki_access_level: None,
        builds_access_level: None,
        snippets_access_level: None,
        container_registry_access_level: None,
        package_registry_access_level: None,
        releases_access_level: None,
        environments_access_level: None,
        feature_flags_access_level: None,
        infrastructure_access_level: None,
        monitor_access_level: None,
        security_and_compliance_access_level: None,
        container_expiration_policy: None,
        can_create_merge_request_in: None,
        resolve_outdated_diff_discussions: None,
        container_registry_enabled: None,
        lfs_enabled: None,
        packages_enabled: None,
        service_desk_enabled: None,
        emails_enabled: None,
        service_desk_address: MaybeUndefined::Undefined,
        creator_id: MaybeUndefined::Undefined,
        forked_from_project: None,
        import_status: None,
        import_type: MaybeUndefined::Undefined,
        import_error: MaybeUndefined::Undefined,
        permissions: None,
        license_url: MaybeUndefined::Undefined,
        license: MaybeUndefined::Undefined,
        shared_runners_enabled: None,
        runners_token: MaybeUndefined::Undefined,
        ci_default_git_depth: MaybeUndefined::Undefined,
        ci_config_path: MaybeUndefined::Undefined,
        build_timeout: None,
        public_jobs: None,
        shared_with_groups: None,
        only_allow_merge_if_pipeline_succeeds: None,
        only_allow_merge_if_all_discussions_are_resolved: None,
        remove_source_branch_after_merge: None,
        request_access_enabled: None,
        merge_method: None,
        squash_option: None,
        auto_devops_enabled: None,
        auto_devops_deploy_strategy: None,
        repository_storage: MaybeUndefined::Undefined,
        approvals_before_merge: None,
        only_allow_merge_if_all_status_checks_passed: None,
        mirror: None,
        mirror_user_id: MaybeUndefined::Undefined,
        mirror_trigger_builds: None,
        only_mirror_protected_branches: None,
        mirror_overwrites_diverged_branches: None,
        external_authorization_classification_label: MaybeUndefined::Undefined,
        autoclose_referenced_issues: None,
        suggestion_commit_message: MaybeUndefined::Undefined,
        marked_for_deletion_at: MaybeUndefined::Undefined,
        marked_for_deletion_on: MaybeUndefined::Undefined,
        statistics: MaybeUndefined::Undefined,
        custom_attributes: None,
        links: None,
    }
}

fn owner(instance: &Instance, user: &UserSummary) -> ProjectOwner {
    let shown = user_view::reference(&instance.base_url, user);
    ProjectOwner {
        id: shown.id,
        name: shown.name,
        username: shown.username,
        state: shown.state,
        avatar_url: shown.avatar_url,
        web_url: shown.web_url,
        created_at: user.created_at.into(),
    }
}

fn permissions(row: &ProjectDetail) -> ProjectPermissions {
    let access = |role: Option<AccessLevel>| {
        role.map(|role| ProjectAccess {
            access_level: i64::from(i32::from(role)),
            notification_level: NOTIFICATION_GLOBAL,
        })
    };
    ProjectPermissions {
        project_access: access(row.project_role),
        group_access: access(row.group_role),
    }
}

/// Returns a group with which a project or group is shared.
pub(super) fn shared(share: &ShareSummary) -> SharedGroup {
    SharedGroup {
        group_id: share.group_id,
        group_name: share.group_name.clone(),
        group_full_path: share.group_full_path.clone(),
        group_access_level: i64::from(i32::from(share.access_level)),
        expires_at: share.expires_at,
    }
}

/// Returns the statistics, with the sizes of the repository and of packages.
fn statistics(row: &ProjectDetail) -> ProjectStatistics {
    ProjectStatistics {
        commit_count: row.project.commit_count,
        storage_size: row.project.repository_size.saturating_add(row.packages_size),
        repository_size: row.project.repository_size,
        wiki_size: 0,
        lfs_objects_size: 0,
        job_artifacts_size: 0,
        packages_size: row.packages_size,
    }
}

fn links(instance: &Instance, row: &ProjectDetail, issues: bool, merge_requests: bool) -> ProjectLinks {
    let itself = format!("{}/api/v4/projects/{}", instance.base_url, row.project.id);
    ProjectLinks {
        issues: issues.then(|| format!("{itself}/issues")),
        merge_requests: merge_requests.then(|| format!("{itself}/merge_requests")),
        repo_branches: format!("{itself}/repository/branches"),
        labels: format!("{itself}/labels"),
        events: format!("{itself}/events"),
        members: format!("{itself}/members"),
        self_: itself,
    }
}
