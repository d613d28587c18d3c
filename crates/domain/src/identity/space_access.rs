//! Projects and groups as containers of resources that both have: labels, milestones, boards, badges and
//! notes.

use sea_orm::{ConnectionTrait, DatabaseTransaction, EntityTrait, QuerySelect};
use storage::entities::access as levels;
use storage::entities::{Scope, namespaces, now, projects};

use crate::audit::AuditEntity;
use crate::identity::access::{GroupAccess, ProjectAccess};
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::{EffectiveAccess, Role};

/// A project or group with the permissions of the caller.
#[derive(Debug, Clone)]
pub struct SpaceAccess {
    /// The caller.
    pub caller: Caller,
    /// The group, or the namespace of the project.
    pub namespace: namespaces::Model,
    /// The project; `None` for a group.
    pub project: Option<projects::Model>,
    role: Option<Role>,
}

/// Locks a project or group against concurrent additions and changes of its resources until the transaction ends.
///
/// # Errors
/// Returns `NotFound` if the project or group was deleted.
pub async fn lock(transaction: &DatabaseTransaction, scope: Scope) -> Result<()> {
    let (is_present, kind) = match scope {
        Scope::Project(id) => {
            let locked = projects::lock_for_insert(transaction, id).await?;
            (locked.is_some(), "Project")
        }
        Scope::Group(id) => (namespaces::lock(transaction, id).await?.is_some(), "Group"),
    };
    is_present.then_some(()).ok_or_else(|| Error::not_found(kind))
}

impl From<ProjectAccess> for SpaceAccess {
    fn from(access: ProjectAccess) -> Self {
        Self {
            caller: access.caller,
            namespace: access.namespace,
            project: Some(access.project),
            role: access.role,
        }
    }
}

impl From<GroupAccess> for SpaceAccess {
    fn from(access: GroupAccess) -> Self {
        Self {
            caller: access.caller,
            namespace: access.group,
            project: None,
            role: access.role,
        }
    }
}

impl SpaceAccess {
    /// Returns the project or group as the entity of an audit event.
    #[must_use]
    pub fn audit_entity(&self) -> AuditEntity {
        match &self.project {
            Some(project) => AuditEntity::project(&self.namespace, project),
            None => AuditEntity::namespace(&self.namespace),
        }
    }

    /// Returns the scope that selects the rows of this project or group.
    #[must_use]
    pub fn scope(&self) -> Scope {
        match &self.project {
            Some(project) => Scope::Project(project.id),
            None => Scope::Group(self.namespace.id),
        }
    }

    /// Returns the project or group with its present namespace, and blocks transfers until the transaction ends. So
    /// labels, milestones and epics of ancestors remain available. Must run before a row is locked, because a transfer
    /// locks rows after the trees. The role is unchanged.
    ///
    /// # Errors
    /// Returns `NotFound` if the project was deleted.
    pub async fn lock_location(&self, transaction: &DatabaseTransaction) -> Result<Self> {
        namespaces::lock_trees_shared(transaction).await?;
        let mut space = self.clone();
        if let Some(project) = &mut space.project {
            let found = projects::Entity::find_by_id(project.id)
                .select_only()
                .column(projects::Column::NamespaceId);
            let found: Option<i64> = found.into_tuple().one(transaction).await?;
            project.namespace_id = found.ok_or_else(|| Error::not_found("Project"))?;
            if project.namespace_id != space.namespace.id {
                let moved = namespaces::Entity::find_by_id(project.namespace_id);
                let moved = moved.one(transaction).await?;
                space.namespace = moved.ok_or_else(|| Error::not_found("Project"))?;
            }
        }
        Ok(space)
    }

    /// Returns the caller's access to the project.
    ///
    /// # Errors
    /// Returns `NotFound` for a group, which has no project resources.
    pub fn project_access(&self) -> Result<ProjectAccess> {
        let project = self.project.clone().ok_or_else(|| Error::not_found(""))?;
        Ok(ProjectAccess {
            caller: self.caller.clone(),
            namespace: self.namespace.clone(),
            role: self.role,
            project,
        })
    }

    /// Returns the caller's effective access.
    #[must_use]
    pub fn effective_access(&self) -> EffectiveAccess {
        self.caller.effective_access(self.role)
    }

    /// Returns whether the caller has at least this role; administrators have every role.
    #[must_use]
    pub fn has_role(&self, role: Role) -> bool {
        self.effective_access().has_role(role)
    }

    /// Refuses callers who can use neither issues nor merge requests, and thus none of the planning
    /// resources.
    ///
    /// # Errors
    /// Returns `Forbidden` in that case.
    pub fn check_planning(&self) -> Result<()> {
        let effective_access = self.effective_access();
        let available = self.project.as_ref().is_none_or(|project| {
            effective_access.has_feature(project.issues_access_level)
                || effective_access.has_feature(project.merge_requests_access_level)
        });
        if available {
            Ok(())
        } else {
            Err(Error::forbidden())
        }
    }

    /// Refuses callers who cannot use issues, and thus no boards.
    ///
    /// # Errors
    /// Returns `Forbidden` in that case.
    pub fn check_issues(&self) -> Result<()> {
        let (effective_access, project) = (self.effective_access(), self.project.as_ref());
        if project.is_none_or(|project| effective_access.has_feature(project.issues_access_level)) {
            Ok(())
        } else {
            Err(Error::forbidden())
        }
    }

    /// Returns the group to which resources of the project can be promoted, or `None` for a project outside a
    /// group.
    ///
    /// # Errors
    /// Returns `Forbidden` if the caller does not have at least this role in the group.
    pub async fn promotion_target(&self, db: &impl ConnectionTrait, least: Role) -> Result<Option<Self>> {
        if self.project.is_none() || self.namespace.kind != namespaces::NamespaceKind::Group {
            return Ok(None);
        }
        let role = match self.caller.as_user() {
            Some(user) => levels::group_level(db, user.id, self.namespace.id, now().date_naive()).await?,
            None => None,
        };
        let group = Self {
            caller: self.caller.clone(),
            namespace: self.namespace.clone(),
            project: None,
            role,
        };
        if group.has_role(least) {
            Ok(Some(group))
        } else {
            Err(Error::forbidden())
        }
    }

    /// Returns the full path.
    #[must_use]
    pub fn full_path(&self) -> String {
        match &self.project {
            Some(project) => format!("{}/{}", self.namespace.full_path, project.path),
            None => self.namespace.full_path.clone(),
        }
    }
}
