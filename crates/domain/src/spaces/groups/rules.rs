//! Validation of names, paths and visibility for creating, updating and transferring groups.

use std::collections::BTreeMap;

use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, PaginatorTrait, QueryFilter};
use storage::database::Violation;
use storage::entities::access::group_level;
use storage::entities::namespaces::{self, NamespaceKind, ProjectCreation, SubgroupCreation};
use storage::entities::{AccessLevel, Visibility, now};

use crate::identity::access::GroupAccess;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::{Patch, assign};
use crate::kernel::policy::InstancePlan;
use crate::kernel::{Backend, names};

/// Maximum depth of a group hierarchy.
pub(crate) const MAX_DEPTH: usize = 20;
/// Error for a name or path that is taken.
pub(crate) const TAKEN: &str = "has already been taken";

/// Settings of a group other than its name, parent and visibility; absent ones stay.
#[derive(Debug, Clone, Default)]
pub struct GroupSettings {
    /// Description of the group.
    pub description: Option<String>,
    /// Whether its projects cannot be shared with other groups.
    pub share_with_group_lock: Option<bool>,
    /// Whether its projects cannot have direct members, if the plan has the feature.
    pub membership_lock: Option<bool>,
    /// Whether members need two-factor authentication.
    pub require_two_factor_authentication: Option<bool>,
    /// Grace period for it, in hours.
    pub two_factor_grace_period: Option<i64>,
    /// Role required to create projects in it.
    pub project_creation_level: Option<ProjectCreation>,
    /// Role required to create subgroups.
    pub subgroup_creation_level: Option<SubgroupCreation>,
    /// Whether Auto DevOps is enabled.
    pub auto_devops_enabled: Patch<bool>,
    /// Whether email notifications are disabled.
    pub emails_disabled: Patch<bool>,
    /// Whether mentions of the group are disabled.
    pub mentions_disabled: Patch<bool>,
    /// Whether Git LFS is enabled.
    pub lfs_enabled: Option<bool>,
    /// Default branch protection of new projects, 0 to 3.
    pub default_branch_protection: Option<i64>,
    /// Default branch of new projects.
    pub default_branch: Patch<String>,
    /// Whether users can request access.
    pub request_access_enabled: Option<bool>,
}

impl GroupSettings {
    /// Applies the settings to a row.
    ///
    /// # Errors
    /// Returns `Error::InvalidAttributes` if a number is out of range or the default branch is not a branch name.
    pub(crate) fn apply(self, backend: &Backend, row: &mut namespaces::ActiveModel) -> Result<()> {
        let grace = self.two_factor_grace_period.map(i32::try_from).transpose();
        let grace =
            grace.map_err(|_| Error::attribute("two_factor_grace_period", "is not a number in range"))?;
        let protection = self.default_branch_protection.map(i32::try_from).transpose();
        let protection = protection
            .map_err(|_| Error::attribute("default_branch_protection", "is not included in the list"))?;
        if let Patch::Set(name) = &self.default_branch {
            git::check_branch_name(name)
                .map_err(|_| Error::attribute("default_branch", "is not a valid branch name"))?;
        }
        let locks = self
            .membership_lock
            .filter(|_| backend.instance.plan >= InstancePlan::Starter);
        assign(&mut row.description, self.description);
        assign(&mut row.share_with_group_lock, self.share_with_group_lock);
        assign(&mut row.membership_lock, locks);
        assign(
            &mut row.require_two_factor_authentication,
            self.require_two_factor_authentication,
        );
        assign(&mut row.two_factor_grace_period, grace);
        assign(&mut row.project_creation_level, self.project_creation_level);
        assign(&mut row.subgroup_creation_level, self.subgroup_creation_level);
        self.auto_devops_enabled.apply_to(&mut row.auto_devops_enabled);
        self.emails_disabled.apply_to(&mut row.emails_disabled);
        self.mentions_disabled.apply_to(&mut row.mentions_disabled);
        assign(&mut row.lfs_enabled, self.lfs_enabled);
        assign(&mut row.default_branch_protection, protection);
        self.default_branch.apply_to(&mut row.default_branch);
        assign(&mut row.request_access_enabled, self.request_access_enabled);
        Ok(())
    }
}

/// Validates a name and a path. `top` means that the group has no parent.
pub(crate) fn check_names(name: Option<&str>, path: Option<&str>, top: bool) -> Result<()> {
    let errors = [
        ("name", name.and_then(names::group_name_fault)),
        ("path", path.and_then(|path| names::path_fault(path, top))),
    ];
    let errors: BTreeMap<_, _> = errors
        .into_iter()
        .filter_map(|(field, fault)| Some((field.into(), vec![fault?.into()])))
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Error::InvalidAttributes(errors))
    }
}

/// Rejects a visibility higher than that of the parent.
pub(crate) fn check_visibility(parent: Option<&namespaces::Model>, visibility: Visibility) -> Result<()> {
    match parent.filter(|parent| visibility > parent.visibility) {
        None => Ok(()),
        Some(parent) => Err(Error::attribute(
            "visibility_level",
            format!(
                "{} is not allowed since the parent group has a {} visibility.",
                visibility_name(visibility),
                visibility_name(parent.visibility)
            ),
        )),
    }
}

/// Returns the contract's name of a visibility.
pub(crate) fn visibility_name(visibility: Visibility) -> &'static str {
    visibility.as_str()
}

/// Returns whether the caller may disable the share lock in a parent. If the parent has the lock, only its
/// Owners may.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn can_unlock_sharing(
    db: &impl ConnectionTrait,
    caller: &Caller,
    parent: Option<&namespaces::Model>,
) -> Result<bool> {
    let Some(parent) = parent.filter(|parent| parent.share_with_group_lock) else {
        return Ok(true);
    };
    let user = caller.signed_in()?;
    let role = group_level(db, user.id, parent.id, now().date_naive()).await?;
    Ok(caller.effective_access(role).has_role(AccessLevel::Owner))
}

/// Rejects disabling the share lock if the parent has it and the caller is not an Owner of the parent.
pub(crate) async fn check_unlock_sharing(
    db: &impl ConnectionTrait,
    caller: &Caller,
    parent: Option<&namespaces::Model>,
) -> Result<()> {
    match can_unlock_sharing(db, caller, parent).await? {
        true => Ok(()),
        false => Err(Error::attribute(
            "share_with_group_lock",
            "cannot be disabled when the parent group \"Share with group lock\" is enabled, except by the owner of \
             the parent group",
        )),
    }
}

/// Rejects a path that is taken, with a better error than the database constraint.
pub(crate) async fn check_path_available(db: &impl ConnectionTrait, full_path: &str) -> Result<()> {
    if namespaces::is_path_taken(db, full_path).await? {
        return Err(Error::attribute("path", TAKEN));
    }
    Ok(())
}

/// Rejects a name that a sibling has.
pub(crate) async fn check_name_available(
    db: &impl ConnectionTrait,
    parent_id: Option<i64>,
    name_key: &str,
) -> Result<()> {
    let siblings = match parent_id {
        Some(parent) => namespaces::Column::ParentId.eq(parent),
        None => namespaces::Column::ParentId.is_null(),
    };
    let taken_count = namespaces::Entity::find()
        .filter(namespaces::Column::Kind.eq(NamespaceKind::Group))
        .filter(namespaces::Column::NameKey.eq(name_key))
        .filter(siblings)
        .count(db)
        .await?;
    if taken_count > 0 {
        return Err(Error::attribute("name", TAKEN));
    }
    Ok(())
}

/// Maps a unique violation to the attribute that is taken.
pub(crate) fn map_unique_violation(error: DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(name)) if name.ends_with("path_key") => Error::attribute("path", TAKEN),
        Some(Violation::Unique(_)) => Error::attribute("name", TAKEN),
        _ => error.into(),
    }
}

/// Returns the full path of a group in a parent.
pub(crate) fn full_path(parent: Option<&namespaces::Model>, path: &str) -> String {
    match parent {
        Some(parent) => format!("{}/{path}", parent.full_path),
        None => path.to_owned(),
    }
}

/// Finds the parent in which the caller may create groups: a group, or `None` for the top level.
///
/// # Errors
/// Returns `Error::NotFound` if the group is not visible to the caller. Returns `Error::Forbidden` if the
/// caller may not create groups there.
pub(crate) async fn find_parent(
    backend: &Backend,
    caller: &Caller,
    parent_id: Option<i64>,
) -> Result<Option<namespaces::Model>> {
    let Some(id) = parent_id else {
        let user = caller.signed_in()?;
        return if user.can_create_group || user.admin {
            Ok(None)
        } else {
            Err(Error::forbidden())
        };
    };
    let access = GroupAccess::find(backend, caller.clone(), &id.to_string()).await?;
    let least = match access.group.subgroup_creation_level {
        SubgroupCreation::Maintainer => AccessLevel::Maintainer,
        SubgroupCreation::Owner => AccessLevel::Owner,
    };
    if access.has_role(least) {
        Ok(Some(access.group))
    } else {
        Err(Error::forbidden())
    }
}

/// Locks a group and returns its current row.
///
/// # Errors
/// Returns `Error::NotFound` if the group is being deleted.
pub(crate) async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<namespaces::Model> {
    namespaces::lock(db, id)
        .await?
        .filter(|group| group.deletion_started_at.is_none())
        .ok_or_else(|| Error::not_found("Group"))
}
