//! Projects and groups as places of what both have: labels, milestones, boards, badges and notes are the same in either.

use sea_orm::ConnectionTrait;
use storage::entities::access as levels;
use storage::entities::{Scope, namespaces, now, projects};

use crate::error::{Error, Result};
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

    /// The caller's access to the project.
    ///
    /// # Errors
    /// 404 when it is a group, which has nothing of what belongs to projects.
    pub fn on_project(&self) -> Result<ProjectAccess> {
        let project = self.project.clone().ok_or_else(|| Error::not_found(""))?;
        Ok(ProjectAccess {
            caller: self.caller.clone(),
            namespace: self.namespace.clone(),
            role: self.role,
            project,
        })
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

    /// Refuses where neither issues nor merge requests are there for the caller, and with them what both are planned by.
    ///
    /// # Errors
    /// 403.
    pub fn admit_to_planning(&self) -> Result<()> {
        let standing = self.standing();
        let there = self.project.as_ref().is_none_or(|project| {
            standing.has(project.issues_access_level) || standing.has(project.merge_requests_access_level)
        });
        if there { Ok(()) } else { Err(Error::forbidden()) }
    }

    /// Refuses where issues are not there for the caller, and with them the boards that show them.
    ///
    /// # Errors
    /// 403.
    pub fn admit_to_issues(&self) -> Result<()> {
        let (standing, project) = (self.standing(), self.project.as_ref());
        if project.is_none_or(|project| standing.has(project.issues_access_level)) {
            Ok(())
        } else {
            Err(Error::forbidden())
        }
    }

    /// The group that what belongs to the project may be made to belong to; none where there is no such group.
    ///
    /// # Errors
    /// 403 when the caller does not hold at least this role in it.
    pub async fn promotion_target(&self, db: &impl ConnectionTrait, least: Role) -> Result<Option<Self>> {
        if self.project.is_none() || self.namespace.kind != namespaces::Kind::Group {
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
        if group.holds(least) {
            Ok(Some(group))
        } else {
            Err(Error::forbidden())
        }
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
