//! Vulnerabilities of projects. This module reads them and changes their states; [`reports`] creates them.

pub mod reports;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QuerySelect,
};
use storage::entities::now;
use storage::entities::vulnerabilities::{
    self, Column, Entity, Model, ReportType, Severity, VulnerabilityState,
};

use crate::identity::access::{InstanceAccess, ProjectAccess};
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::policy::Role;
use crate::kernel::query::page_with_texts;
use crate::kernel::{Backend, urls};
use crate::spaces::namespaces::full_names;

/// A vulnerability with its project.
#[derive(Debug, Clone)]
pub struct VulnerabilityDetail {
    /// The vulnerability.
    pub vulnerability: Model,
    /// The project.
    pub home: VulnerabilityProject,
}

/// The project of a vulnerability.
#[derive(Debug, Clone)]
pub struct VulnerabilityProject {
    /// The ID.
    pub id: i64,
    /// The name.
    pub name: String,
    /// The full path.
    pub full_path: String,
    /// The name with those of all parent groups.
    pub full_name: String,
}

/// Filter of a list of vulnerabilities.
#[derive(Debug, Clone, Copy, Default)]
pub struct VulnerabilityFilter {
    /// Only vulnerabilities in this state.
    pub state: Option<VulnerabilityState>,
    /// Only vulnerabilities of this severity.
    pub severity: Option<Severity>,
    /// Only vulnerabilities from this type of scanner.
    pub report_type: Option<ReportType>,
}

/// Lists the vulnerabilities of a project, oldest first.
///
/// # Errors
/// Returns `Forbidden` if the vulnerabilities are not available to the caller.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    filter: VulnerabilityFilter,
    page: &PageRequest,
) -> Result<Page<VulnerabilityDetail>> {
    access.check_security_and_compliance()?;
    let mut query = vulnerabilities::of_project(access.project.id);
    if let Some(state) = filter.state {
        query = query.filter(Column::State.eq(state));
    }
    if let Some(severity) = filter.severity {
        query = query.filter(Column::Severity.eq(severity));
    }
    if let Some(kind) = filter.report_type {
        query = query.filter(Column::ReportType.eq(kind));
    }
    let page = page_with_texts(backend.database.read(), &access.caller, query, page).await?;
    let home = project_of(backend, access).await?;
    Ok(page.map(|vulnerability| VulnerabilityDetail {
        vulnerability,
        home: home.clone(),
    }))
}

/// Returns a vulnerability to Developers of its project.
///
/// # Errors
/// Returns `NotFound` if the vulnerability does not exist or is not visible. Returns `Forbidden` below Developer, and
/// if the vulnerabilities are not available to the caller.
pub async fn get(backend: &Backend, access: InstanceAccess, id: i64) -> Result<VulnerabilityDetail> {
    let (vulnerability, access) = find(backend, access, id).await?;
    Ok(VulnerabilityDetail {
        vulnerability,
        home: project_of(backend, &access).await?,
    })
}

/// Changes the state of a vulnerability. Of concurrent requests for the same state only one succeeds.
///
/// # Errors
/// Returns `NotFound` and `Forbidden` as [`get`], and `NotModified` if the vulnerability has that state.
/// Otherwise returns `Forbidden` in an archived project.
pub async fn update_state(
    backend: &Backend,
    access: InstanceAccess,
    id: i64,
    state: VulnerabilityState,
) -> Result<VulnerabilityDetail> {
    let (_, access) = find(backend, access, id).await?;
    let user_id = access.caller.signed_in()?.id;
    let vulnerability = backend
        .database
        .transaction(async |transaction| {
            let found = Entity::find_by_id(id).lock_exclusive().one(transaction).await?;
            let found = found.ok_or_else(|| Error::not_found(""))?;
            if found.state == state {
                return Err(Error::NotModified);
            }
            if access.project.archived {
                return Err(Error::forbidden());
            }
            let at = now();
            let dismissed = state == VulnerabilityState::Closed;
            let mut row = found.into_active_model();
            row.state = Set(state);
            row.closed_at = Set(dismissed.then_some(at));
            row.closed_by_id = Set(dismissed.then_some(user_id));
            row.updated_by_id = Set(Some(user_id));
            row.updated_at = Set(at);
            Ok::<_, Error>(row.update(transaction).await?)
        })
        .await?;
    Ok(VulnerabilityDetail {
        vulnerability,
        home: project_of(backend, &access).await?,
    })
}

/// Returns a vulnerability and its project, for Developers only.
async fn find(backend: &Backend, access: InstanceAccess, id: i64) -> Result<(Model, ProjectAccess)> {
    let found = Entity::find_by_id(id).one(backend.database.read()).await?;
    let found = found.ok_or_else(|| Error::not_found(""))?;
    let project = access
        .in_project(backend, found.project_id, Role::Developer)
        .await?;
    project.check_security_and_compliance()?;
    Ok((found, project))
}

async fn project_of(backend: &Backend, access: &ProjectAccess) -> Result<VulnerabilityProject> {
    let (project, namespace) = (&access.project, &access.namespace);
    let mut names = full_names(backend.database.read(), [namespace.id]).await?;
    let above = names.remove(&namespace.id).unwrap_or_default();
    Ok(VulnerabilityProject {
        id: project.id,
        name: project.name.clone(),
        full_path: urls::project_path(namespace, project),
        full_name: format!("{above} / {}", project.name),
    })
}
