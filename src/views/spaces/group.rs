//! Groups, in the formats of lists and details.

use domain::kernel::Instance;
use domain::kernel::policy::InstancePlan;
use domain::spaces::groups::{GroupDetail, GroupSummary, StorageSizes};
use domain::spaces::projects;
use storage::entities::custom_attributes::Model;

use crate::views::accounts::custom_attribute::custom_attribute;
use crate::views::enums::Convert;
use crate::views::links;
use crate::views::spaces::project::{ProjectViewOptions, project, shared};
use contract::MaybeUndefined;
use contract::{Group, GroupStatistics, ProjectGroup};

/// Returns a group of a project.
#[must_use]
pub fn project_group(instance: &Instance, row: projects::ProjectGroup) -> ProjectGroup {
    let (base, group) = (&instance.base_url, row.group);
    ProjectGroup {
        id: group.id,
        web_url: links::group(base, &group.full_path),
        avatar_url: links::avatar_url(base, "group", group.id, group.avatar.as_deref()),
        name: group.name,
        full_name: row.full_name,
        full_path: group.full_path,
    }
}

/// Returns a group in the format of lists; `custom_attributes` is set if an administrator requested them.
#[must_use]
pub fn group(instance: &Instance, row: GroupSummary, custom_attributes: Option<Vec<Model>>) -> Group {
    let base = &instance.base_url;
    let group = row.group;
    Group {
        id: group.id,
        web_url: links::group(base, &group.full_path),
        avatar_url: links::avatar_url(base, "group", group.id, group.avatar.as_deref()),
        name: group.name,
        path: group.path,
        description: group.description,
        visibility: group.visibility.convert(),
        share_with_group_lock: group.share_with_group_lock,
        require_two_factor_authentication: group.require_two_factor_authentication,
        two_factor_grace_period: group.two_factor_grace_period.into(),
        project_creation_level: group.project_creation_level.convert(),
        auto_devops_enabled: group.auto_devops_enabled,
        subgroup_creation_level: group.subgroup_creation_level.convert(),
        emails_disabled: group.emails_disabled,
        mentions_disabled: group.mentions_disabled,
        lfs_enabled: false,
        default_branch_protection: group.default_branch_protection.into(),
        default_branch: group.default_branch,
        request_access_enabled: group.request_access_enabled,
        full_name: row.full_name,
        full_path: group.full_path,
        created_at: group.created_at.into(),
        membership_lock: (instance.plan >= InstancePlan::Starter).then_some(group.membership_lock),
        marked_for_deletion_on: on_premium(instance, group.marked_for_deletion_on),
        file_template_project_id: on_premium(instance, group.file_template_project_id),
        parent_id: group.parent_id,
        statistics: row.sizes.map(statistics),
        shared_with_groups: None,
        runners_token: None,
        projects: None,
        shared_projects: None,
        custom_attributes: custom_attributes.map(|rows| rows.iter().map(custom_attribute).collect()),
    }
}

/// Returns a value that requires at least the plan Premium.
fn on_premium<T>(instance: &Instance, value: Option<T>) -> MaybeUndefined<T> {
    match instance.plan >= InstancePlan::Premium {
        true => MaybeUndefined::from_opt_null(value),
        false => MaybeUndefined::Undefined,
    }
}

/// Returns the storage sizes of repositories and packages.
fn statistics(sizes: StorageSizes) -> GroupStatistics {
    GroupStatistics {
        storage_size: sizes.repository_size.saturating_add(sizes.packages_size),
        repository_size: sizes.repository_size,
        wiki_size: 0,
        lfs_objects_size: 0,
        job_artifacts_size: 0,
        packages_size: sizes.packages_size,
    }
}

/// Returns a group with details.
#[must_use]
pub fn detail(instance: &Instance, detail: GroupDetail, custom_attributes: Option<Vec<Model>>) -> Group {
    let shares = detail.shares.iter().map(shared);
    let all = |rows: Vec<projects::ProjectDetail>| {
        rows.iter()
            .map(|row| project(instance, row, ProjectViewOptions::default()))
            .collect()
    };
    let (projects, shared_projects) = match detail.projects {
        Some((own, shared)) => (Some(all(own)), Some(all(shared))),
        None => (None, None),
    };
    Group {
        shared_with_groups: Some(shares.collect()),
        runners_token: detail.runners_token.map(|token| token.expose().clone()),
        projects,
        shared_projects,
        ..group(instance, detail.row, custom_attributes)
    }
}
