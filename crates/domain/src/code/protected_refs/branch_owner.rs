//! Projects and groups as owners of protected branches, which are stored in one table each.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter,
};
use storage::entities::ref_rules::RefRuleOwner;
use storage::entities::{
    Scope, group_protected_branches as of_groups, now, protected_branches as of_projects, row_changes,
};

use crate::audit::AuditEntity;
use crate::identity::access::{GroupAccess, ProjectAccess};
use crate::identity::space_access;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::policy::Role;

/// A project or group, with the access of the caller.
#[derive(Debug, Clone, Copy)]
pub enum BranchOwner<'a> {
    /// A project.
    Project(&'a ProjectAccess),
    /// A group.
    Group(&'a GroupAccess),
}

/// Columns of a protected branch other than its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RuleColumns {
    /// Minimum role for pushes; 0 if no role can push.
    pub(super) push: i32,
    /// Minimum role for merges; 0 if no role can merge.
    pub(super) merge: i32,
    /// Minimum role for changes of the rule.
    pub(super) unprotect: Option<i32>,
    /// Whether callers who can push can also force-push.
    pub(super) allow_force_push: bool,
    /// Whether changes of files with code owners require their approval.
    pub(super) code_owners: bool,
}

impl BranchOwner<'_> {
    pub(super) fn caller(&self) -> &Caller {
        match self {
            Self::Project(access) => &access.caller,
            Self::Group(access) => &access.caller,
        }
    }

    pub(super) fn role(&self) -> Option<Role> {
        match self {
            Self::Project(access) => access.role,
            Self::Group(access) => access.role,
        }
    }

    pub(super) fn audit_entity(&self) -> AuditEntity {
        match self {
            Self::Project(access) => access.audit_entity(),
            Self::Group(access) => access.audit_entity(),
        }
    }

    pub(super) fn rule_owner(&self) -> RefRuleOwner {
        match self {
            Self::Project(access) => RefRuleOwner::ProjectBranches {
                project_id: access.project.id,
                namespace_id: access.project.namespace_id,
            },
            Self::Group(access) => RefRuleOwner::GroupBranches {
                namespace_id: access.group.id,
            },
        }
    }

    /// Locks the owner, so that concurrent changes of its rules wait.
    pub(super) async fn lock(&self, transaction: &DatabaseTransaction) -> Result<()> {
        let scope = match self {
            Self::Project(access) => Scope::Project(access.project.id),
            Self::Group(access) => Scope::Group(access.group.id),
        };
        space_access::lock(transaction, scope).await
    }

    /// Returns the number of the own rules.
    pub(super) async fn count(&self, transaction: &DatabaseTransaction) -> Result<u64> {
        Ok(match self {
            Self::Project(access) => {
                let own = of_projects::Column::ProjectId.eq(access.project.id);
                of_projects::Entity::find().filter(own).count(transaction).await?
            }
            Self::Group(access) => {
                let own = of_groups::Column::NamespaceId.eq(access.group.id);
                of_groups::Entity::find().filter(own).count(transaction).await?
            }
        })
    }

    /// Inserts a rule and returns its ID.
    pub(super) async fn insert(
        &self,
        transaction: &DatabaseTransaction,
        name: &str,
        columns: RuleColumns,
    ) -> Result<i64> {
        let at = now();
        Ok(match self {
            Self::Project(access) => {
                let row = of_projects::ActiveModel {
                    project_id: Set(access.project.id),
                    name: Set(name.to_owned()),
                    push_access_level: Set(columns.push),
                    merge_access_level: Set(columns.merge),
                    unprotect_access_level: Set(columns.unprotect),
                    allow_force_push: Set(columns.allow_force_push),
                    code_owner_approval_required: Set(columns.code_owners),
                    created_at: Set(at),
                    updated_at: Set(at),
                    ..Default::default()
                };
                row.insert(transaction).await?.id
            }
            Self::Group(access) => {
                let row = of_groups::ActiveModel {
                    namespace_id: Set(access.group.id),
                    name: Set(name.to_owned()),
                    push_access_level: Set(columns.push),
                    merge_access_level: Set(columns.merge),
                    unprotect_access_level: Set(columns.unprotect),
                    allow_force_push: Set(columns.allow_force_push),
                    code_owner_approval_required: Set(columns.code_owners),
                    created_at: Set(at),
                    updated_at: Set(at),
                    ..Default::default()
                };
                row.insert(transaction).await?.id
            }
        })
    }

    /// Updates a rule. `touch` changes the time of the last change even if no column changes. It has no effect on
    /// rules of groups, which have no grants.
    pub(super) async fn update(
        &self,
        transaction: &DatabaseTransaction,
        name: &str,
        columns: RuleColumns,
        touch: bool,
    ) -> Result<()> {
        match self {
            Self::Project(access) => {
                let stored = of_projects::named(access.project.id, name)
                    .one(transaction)
                    .await?;
                let stored = stored.ok_or_else(super::not_found)?;
                let mut row = stored.clone().into_active_model();
                row.push_access_level = Set(columns.push);
                row.merge_access_level = Set(columns.merge);
                row.unprotect_access_level = Set(columns.unprotect);
                row.allow_force_push = Set(columns.allow_force_push);
                row.code_owner_approval_required = Set(columns.code_owners);
                if touch {
                    row.updated_at = Set(now());
                }
                row_changes::update_if_changed(transaction, &stored, row).await?;
            }
            Self::Group(access) => {
                let stored = of_groups::named(access.group.id, name).one(transaction).await?;
                let stored = stored.ok_or_else(super::not_found)?;
                let mut row = stored.clone().into_active_model();
                row.push_access_level = Set(columns.push);
                row.merge_access_level = Set(columns.merge);
                row.unprotect_access_level = Set(columns.unprotect);
                row.allow_force_push = Set(columns.allow_force_push);
                row.code_owner_approval_required = Set(columns.code_owners);
                row_changes::update_if_changed(transaction, &stored, row).await?;
            }
        }
        Ok(())
    }

    /// Deletes a rule with its grants.
    pub(super) async fn delete(&self, transaction: &DatabaseTransaction, id: i64) -> Result<()> {
        match self {
            Self::Project(_) => of_projects::Entity::delete_by_id(id).exec(transaction).await?,
            Self::Group(_) => of_groups::Entity::delete_by_id(id).exec(transaction).await?,
        };
        Ok(())
    }
}
