//! Projects and groups as places of what both have: labels, milestones, boards and badges are the same in either.

use crate::entities::{Scope, namespaces, projects};
use crate::policy::{Role, Standing};
use crate::services::access::{GroupAccess, ProjectAccess};
use crate::services::authentication::Caller;

/// A project or group that the caller was admitted to.
#[derive(Debug, Clone)]
pub struct Place {
    /// Who calls.
    pub caller: Caller,
    /// The group, or the namespace of the project.
    pub namespace: namespaces::Model,
    /// The project, if it is one.
    pub project: Option<projects::Model>,
    role: Option<Role>,
}

impl From<ProjectAccess> for Place {
    fn from(access: ProjectAccess) -> Self {
        Self {
            caller: access.caller,
            namespace: access.namespace,
            project: Some(access.project),
            role: access.role,
        }
    }
}

impl From<GroupAccess> for Place {
    fn from(access: GroupAccess) -> Self {
        Self {
            caller: access.caller,
            namespace: access.group,
            project: None,
            role: access.role,
        }
    }
}

impl Place {
    /// What the rows of the place are found by.
    #[must_use]
    pub fn scope(&self) -> Scope {
        match &self.project {
            Some(project) => Scope::Project(project.id),
            None => Scope::Group(self.namespace.id),
        }
    }

    /// What the caller is to the place.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.caller.standing(self.role)
    }

    /// Whether the caller holds at least this role; administrators hold every role.
    #[must_use]
    pub fn holds(&self, role: Role) -> bool {
        self.standing().holds(role)
    }

    /// The full path.
    #[must_use]
    pub fn full_path(&self) -> String {
        match &self.project {
            Some(project) => format!("{}/{}", self.namespace.full_path, project.path),
            None => self.namespace.full_path.clone(),
        }
    }
}
