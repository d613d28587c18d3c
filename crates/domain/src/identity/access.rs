//! Authorization of requests. Looks up the project, group or user that a request names, hides it from callers
//! who cannot see it, and checks their rights.
//!
//! A service that is called by a handler reaches a project, group or user only through the access values of
//! this module. Each of them was checked against the rules of the operation in the contract.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::sync::Arc;

use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use storage::entities::access as levels;
use storage::entities::access::visible_groups;
use storage::entities::{
    former_paths, job_token_allowlist_entries, namespaces, now, projects, saml_providers, users,
};

use crate::audit::AuditEntity;
use crate::instance::feature_gates::{self, GateActors};
use crate::kernel::Backend;
use crate::kernel::cache::{CachedGroup, CachedProject};
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::{AccessRule, EffectiveAccess, InstancePlan, MinimumAccess, Role, Visibility};

/// Role of deploy tokens in the projects that they are valid for. It is sufficient for the code and images of private
/// projects, and the scopes limit it further.
const DEPLOY_TOKEN_ROLE: Role = Role::Reporter;
/// Role of deploy tokens in operations for package clients, whose scopes decide about uploads.
const DEPLOY_TOKEN_PACKAGE_ROLE: Role = Role::Developer;

/// Requirements of one operation in the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationRule<'a> {
    /// `x-access`.
    pub access: AccessRule,
    /// `x-scope`.
    pub scopes: &'static [&'static str],
    /// `x-tier`.
    pub tier: InstancePlan,
    /// `x-flag`: name and default.
    pub flag: Option<(&'a str, bool)>,
    /// The same for an operation whose service evaluates the gate.
    pub deferred: Option<(&'static str, bool)>,
    /// `x-job-token`.
    pub job_token: bool,
    /// `x-package-client`.
    pub package_client: bool,
    /// Whether the operation only reads.
    pub read: bool,
}

/// A resource that a request can be authorized for.
pub trait Authorize: Sized + Send {
    /// Looks up the resource that `key` names and authorizes the caller for it.
    ///
    /// # Errors
    /// Returns `Error::NotFound` if it does not exist or is hidden from the caller. Returns
    /// `Error::Forbidden` if the caller may not perform the operation.
    fn authorize(
        backend: &Backend,
        caller: Caller,
        key: Option<&str>,
        rule: &OperationRule<'_>,
    ) -> impl Future<Output = Result<Self>> + Send;
}

/// Access to the instance as a whole.
#[derive(Debug, Clone)]
pub struct InstanceAccess {
    /// The caller.
    pub caller: Caller,
    /// Gate that the service evaluates for the project of the resource: name and default.
    pub gate: Option<(&'static str, bool)>,
}

/// Access to a user.
#[derive(Debug, Clone)]
pub struct UserAccess {
    /// The caller.
    pub caller: Caller,
    /// The user that the request names.
    pub user: users::Model,
}

/// Access to a group.
#[derive(Debug, Clone)]
pub struct GroupAccess {
    /// The caller.
    pub caller: Caller,
    /// The group.
    pub group: namespaces::Model,
    /// The caller's role in it, including inherited roles.
    pub role: Option<Role>,
    /// Whether the caller sees it without a role, because of a project in it or in its subgroups.
    pub above: bool,
}

/// Access to a project.
#[derive(Debug, Clone)]
pub struct ProjectAccess {
    /// The caller.
    pub caller: Caller,
    /// The project.
    pub project: projects::Model,
    /// The namespace that contains it.
    pub namespace: namespaces::Model,
    /// The caller's role in it, including inherited roles.
    pub role: Option<Role>,
}

/// Access to the SCIM provisioning of a group, for its identity provider.
#[derive(Debug, Clone)]
pub struct ScimAccess {
    /// The identity provider.
    pub caller: Caller,
    /// The group.
    pub group: namespaces::Model,
    /// Its SAML provider, which is enabled.
    pub provider: saml_providers::Model,
}

impl GroupAccess {
    /// Returns the group as the entity of an audit event.
    #[must_use]
    pub fn audit_entity(&self) -> AuditEntity {
        AuditEntity::namespace(&self.group)
    }

    /// Returns whether the caller has at least this role. Administrators have every role.
    #[must_use]
    pub fn has_role(&self, role: Role) -> bool {
        self.caller.effective_access(self.role).has_role(role)
    }
}

impl ProjectAccess {
    /// Returns the project as the entity of an audit event.
    #[must_use]
    pub fn audit_entity(&self) -> AuditEntity {
        AuditEntity::project(&self.namespace, &self.project)
    }

    /// Returns the access with the caller of [`Caller::after_commit`].
    #[must_use]
    pub fn after_commit(&self) -> Self {
        Self {
            caller: self.caller.after_commit(),
            ..self.clone()
        }
    }

    /// Returns whether the caller has at least this role. Administrators have every role.
    #[must_use]
    pub fn has_role(&self, role: Role) -> bool {
        self.effective_access().has_role(role)
    }

    /// Returns the caller's effective access to the project.
    #[must_use]
    pub fn effective_access(&self) -> EffectiveAccess {
        self.caller.effective_access(self.role)
    }

    /// Returns whether the caller may read the code.
    #[must_use]
    pub fn can_read_code(&self) -> bool {
        self.effective_access()
            .can_read_code(self.project.repository_access_level, self.project.visibility)
    }

    /// Returns whether the releases of the project are available to the caller.
    #[must_use]
    pub fn can_use_releases(&self) -> bool {
        self.effective_access()
            .has_feature(self.project.releases_access_level)
    }

    /// Returns access to a project, or `None` if the caller cannot see it.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn find_visible(backend: &Backend, caller: &Caller, project_id: i64) -> Result<Option<Self>> {
        match Self::find(backend, caller.clone(), &project_id.to_string()).await {
            Ok(access) => Ok(Some(access)),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Finds a project and the caller's role in it. A former path of a renamed or transferred project finds it, too,
    /// unless another project has the path now.
    ///
    /// # Errors
    /// Returns `Error::NotFound` if the project does not exist or the caller cannot see it.
    pub async fn find(backend: &Backend, caller: Caller, reference: &str) -> Result<Self> {
        let hidden = || Error::not_found("Project");
        let user = caller.as_user().map(|user| user.id);
        let look_up = async {
            let db = backend.database.read();
            let today = now().date_naive();
            let mut found = levels::project_with_role(db, reference, user, today).await?;
            if found.is_none()
                && reference.contains('/')
                && let Some(id) = former_paths::current_project(db, reference).await?
            {
                found = levels::project_with_role(db, &id.to_string(), user, today).await?;
            }
            let ((project, namespace), role) = found.ok_or_else(hidden)?;
            Ok::<_, Error>(Arc::new(CachedProject {
                project,
                namespace,
                role,
            }))
        };
        let question = (user, reference.to_owned());
        let seen = backend
            .caches
            .projects
            .get_or_load(&backend.database, question, look_up);
        let CachedProject {
            project,
            namespace,
            role,
        } = Arc::unwrap_or_clone(seen.await?);
        let role = match caller.deploy_token() {
            Some(token) => {
                let is_valid = token.is_valid_for(backend.database.read(), &project).await?;
                is_valid.then_some(DEPLOY_TOKEN_ROLE)
            }
            None => role,
        };
        let may_see = caller.effective_access(role).can_see(project.visibility);
        if !may_see || !accepts_job(backend, &caller, &project).await? {
            return Err(hidden());
        }
        Ok(Self {
            caller,
            project,
            namespace,
            role,
        })
    }
}

impl ProjectAccess {
    /// Checks the access against the rule of an operation.
    ///
    /// # Errors
    /// Returns `Error::Forbidden` or `Error::InsufficientScope` if the caller may not perform the operation,
    /// `Error::Unauthorized` if the caller must sign in, and `Error::NotFound` if its gate is closed.
    pub async fn check(&self, backend: &Backend, rule: &OperationRule<'_>) -> Result<()> {
        let actors = GateActors {
            caller: &self.caller,
            project_id: Some(self.project.id),
            namespace_id: Some(self.namespace.id),
        };
        let (visibility, archived) = (self.project.visibility, self.project.archived);
        check_rule(backend, actors, rule, self.role, visibility, archived).await
    }

    /// Returns the caller's access to projects that the caller can see, by ID.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn find_all(
        backend: &Backend,
        caller: &Caller,
        ids: BTreeSet<i64>,
    ) -> Result<HashMap<i64, Self>> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let db = backend.database.read();
        let found = projects::not_deleted()
            .find_also_related(namespaces::Entity)
            .filter(projects::Column::Id.is_in(ids))
            .all(db)
            .await?;
        let found: Vec<(projects::Model, namespaces::Model)> = found
            .into_iter()
            .filter_map(|(project, namespace)| Some((project, namespace?)))
            .collect();
        let mut roles = match caller.as_user() {
            Some(user) => {
                let pairs: Vec<(i64, i64)> = found
                    .iter()
                    .map(|(project, namespace)| (project.id, namespace.id))
                    .collect();
                let found = levels::levels(db, user.id, &pairs, now().date_naive()).await?;
                found.projects
            }
            None => HashMap::new(),
        };
        let accesses = found.into_iter().map(|(project, namespace)| {
            let access = Self {
                caller: caller.clone(),
                role: roles.remove(&project.id),
                project,
                namespace,
            };
            (access.project.id, access)
        });
        Ok(accesses.collect())
    }
}

impl InstanceAccess {
    /// Authorizes members from the role `least` for a resource that is named without its project. Hidden and
    /// missing resources return the same response, which does not name the project.
    ///
    /// # Errors
    /// Returns `Error::NotFound` if the caller cannot see the project or its gate is closed. Returns
    /// `Error::Forbidden` if the caller's role is lower than `least`.
    pub async fn in_project(self, backend: &Backend, project_id: i64, least: Role) -> Result<ProjectAccess> {
        let found = ProjectAccess::find_visible(backend, &self.caller, project_id).await?;
        let found = found.ok_or_else(|| Error::not_found(""))?;
        if !found.has_role(least) {
            return Err(Error::forbidden());
        }
        let actors = GateActors {
            caller: &self.caller,
            project_id: Some(project_id),
            namespace_id: Some(found.namespace.id),
        };
        match self.gate {
            Some((name, default)) if !feature_gates::is_open(backend, name, default, actors).await? => {
                Err(Error::not_found(""))
            }
            _ => Ok(found),
        }
    }
}

impl GroupAccess {
    /// Finds a group and the caller's role in it, also by a former path.
    ///
    /// # Errors
    /// Returns `Error::NotFound` if the group does not exist or the caller cannot see it.
    pub async fn find(backend: &Backend, caller: Caller, reference: &str) -> Result<Self> {
        let hidden = || Error::not_found("Group");
        let user = caller.as_user().map(|user| user.id);
        let look_up = async {
            let db = backend.database.read();
            let today = now().date_naive();
            let mut found = levels::group_with_role(db, reference, user, today).await?;
            if found.is_none()
                && let Some(id) = former_paths::current_namespace(db, reference).await?
            {
                found = levels::group_with_role(db, &id.to_string(), user, today).await?;
            }
            let (group, role) = found.ok_or_else(hidden)?;
            // A user with a visible project in a group may see the group itself, as lists do, but nothing
            // else.
            let above = match user {
                Some(_) if !caller.effective_access(role).can_see(group.visibility) => {
                    let seen = visible_groups(caller.viewer(), now().date_naive());
                    let this = namespaces::Column::Id.eq(group.id);
                    let found = namespaces::Entity::find().filter(seen).filter(this);
                    found.count(db).await? > 0
                }
                _ => false,
            };
            Ok::<_, Error>(Arc::new(CachedGroup { group, role, above }))
        };
        let question = (user, reference.to_owned());
        let seen = backend
            .caches
            .groups
            .get_or_load(&backend.database, question, look_up);
        let CachedGroup { group, role, above } = Arc::unwrap_or_clone(seen.await?);
        let role = match caller.deploy_token() {
            Some(token) => {
                let is_valid = token
                    .is_valid_for_group(backend.database.read(), group.id)
                    .await?;
                is_valid.then_some(DEPLOY_TOKEN_ROLE)
            }
            None => role,
        };
        // A job token is valid for projects only.
        let job = caller.job_project().is_some();
        if job || !(above || caller.effective_access(role).can_see(group.visibility)) {
            return Err(hidden());
        }
        Ok(Self {
            caller,
            group,
            role,
            above,
        })
    }
}

impl Authorize for InstanceAccess {
    async fn authorize(
        backend: &Backend,
        caller: Caller,
        _: Option<&str>,
        rule: &OperationRule<'_>,
    ) -> Result<Self> {
        let actors = GateActors {
            caller: &caller,
            project_id: None,
            namespace_id: None,
        };
        check_rule(backend, actors, rule, None, Visibility::Public, false).await?;
        Ok(Self {
            caller,
            gate: rule.deferred,
        })
    }
}

impl Authorize for UserAccess {
    async fn authorize(
        backend: &Backend,
        caller: Caller,
        key: Option<&str>,
        rule: &OperationRule<'_>,
    ) -> Result<Self> {
        let found = users::by_reference(backend.database.read(), key.unwrap_or_default()).await?;
        let user = found.ok_or_else(|| Error::not_found("User"))?;
        let is_self = caller.as_user().is_some_and(|caller| caller.id == user.id);
        let actors = GateActors {
            caller: &caller,
            project_id: None,
            namespace_id: None,
        };
        let role = is_self.then_some(Role::Owner);
        check_rule(backend, actors, rule, role, Visibility::Public, false).await?;
        Ok(Self { caller, user })
    }
}

impl Authorize for GroupAccess {
    async fn authorize(
        backend: &Backend,
        caller: Caller,
        key: Option<&str>,
        rule: &OperationRule<'_>,
    ) -> Result<Self> {
        let access = Self::find(backend, caller, key.unwrap_or_default()).await?;
        // Users who see the group through a project see the same as every viewer of a public group.
        let visibility = match access.above {
            true => Visibility::Public,
            false => access.group.visibility,
        };
        let actors = GateActors {
            caller: &access.caller,
            project_id: None,
            namespace_id: Some(access.group.id),
        };
        check_rule(backend, actors, rule, access.role, visibility, false).await?;
        Ok(access)
    }
}

impl Authorize for ProjectAccess {
    async fn authorize(
        backend: &Backend,
        caller: Caller,
        key: Option<&str>,
        rule: &OperationRule<'_>,
    ) -> Result<Self> {
        let access = Self::find(backend, caller, key.unwrap_or_default()).await?;
        access.check(backend, rule).await?;
        Ok(access)
    }
}

impl Authorize for ScimAccess {
    /// A token is valid for its own group only. For other groups, the response reveals only what creating a
    /// group reveals, too: that a top-level name is taken (docs/API-DESIGN.md).
    async fn authorize(
        backend: &Backend,
        caller: Caller,
        key: Option<&str>,
        rule: &OperationRule<'_>,
    ) -> Result<Self> {
        let provider = caller.saml_provider().cloned().ok_or(Error::Unauthorized)?;
        let path = key.unwrap_or_default();
        let found = namespaces::by_full_path(backend.database.read(), path).await?;
        match found.filter(|found| found.kind == namespaces::NamespaceKind::Group) {
            Some(group) if group.id == provider.namespace_id => {
                check_plan(backend, rule)?;
                if !provider.enabled {
                    return Err(Error::forbidden_because("Group SAML not enabled."));
                }
                Ok(Self {
                    caller,
                    group,
                    provider,
                })
            }
            Some(group) if group.parent_id.is_none() => Err(Error::Unauthorized),
            _ => Err(Error::not_found(format!("Group {path}"))),
        }
    }
}

/// Returns false if the credentials are a token of a job that may not use the project: a job of another project that
/// neither the allowlist nor the setting of the project permits.
async fn accepts_job(backend: &Backend, caller: &Caller, project: &projects::Model) -> Result<bool> {
    match caller.job_project() {
        Some(of_job) if of_job != project.id && project.job_token_scope_enabled => {
            let db = backend.database.read();
            Ok(job_token_allowlist_entries::allows(db, project.id, of_job).await?)
        }
        _ => Ok(true),
    }
}

fn check_plan(backend: &Backend, rule: &OperationRule<'_>) -> Result<()> {
    if backend.instance.plan < rule.tier {
        let text = "The plan of this server does not include this feature";
        return Err(Error::forbidden_because(text).because_of("plan"));
    }
    Ok(())
}

/// Checks token scope, role, plan, gate and archived state, in this order.
async fn check_rule(
    backend: &Backend,
    actors: GateActors<'_>,
    rule: &OperationRule<'_>,
    role: Option<Role>,
    visibility: Visibility,
    archived: bool,
) -> Result<()> {
    let caller = actors.caller;
    let covered = match caller.job_project() {
        Some(_) => rule.job_token,
        None => caller.covers(rule.scopes),
    };
    if !covered {
        return Err(Error::InsufficientScope(rule.scopes.to_vec()));
    }
    let access = match caller.deploy_token() {
        // The token was identified, although no user is signed in. It has a role only in the projects and groups that
        // it is valid for.
        Some(_) if rule.package_client => EffectiveAccess {
            signed_in: true,
            ..caller.effective_access(role.map(|_| DEPLOY_TOKEN_PACKAGE_ROLE))
        },
        _ => caller.effective_access(role),
    };
    if !access.can_call(rule.access, visibility) {
        let needs_sign_in = !caller.is_known() && rule.access.min != MinimumAccess::None;
        return Err(if needs_sign_in {
            Error::Unauthorized
        } else {
            Error::forbidden()
        });
    }
    check_plan(backend, rule)?;
    if let Some((name, default)) = rule.flag
        && !feature_gates::is_open(backend, name, default, actors).await?
    {
        return Err(Error::not_found(""));
    }
    if archived && !rule.read && !rule.access.archived {
        return Err(Error::forbidden());
    }
    Ok(())
}
