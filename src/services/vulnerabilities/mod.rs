//! Vulnerabilities of projects (specification 2.13, 3.1 and 4.12): what is read and decided of them here, and how they come
//! about in [`reports`].

pub mod reports;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QuerySelect,
};
use storage::entities::now;
use storage::entities::vulnerabilities::{self, Column, Entity, Model, ReportType, Severity, State};

use crate::error::{Error, Result};
use crate::policy::Role;
use crate::services::access::{InstanceAccess, ProjectAccess};
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::listing::page_of;
use crate::services::namespaces::full_names;
use crate::services::{Backend, links};

/// A vulnerability and the project that it is of.
#[derive(Debug, Clone)]
pub struct Row {
    /// The vulnerability.
    pub vulnerability: Model,
    /// The project.
    pub home: Home,
}

/// What is told of the project of a vulnerability.
#[derive(Debug, Clone)]
pub struct Home {
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Its path with those of all groups above.
    pub full_path: String,
    /// Its name with those of all groups above.
    pub full_name: String,
}

/// Which vulnerabilities of a project to list.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter {
    /// Only those of this state.
    pub state: Option<State>,
    /// Only those that are so bad.
    pub severity: Option<Severity>,
    /// Only those that this kind of scanner found.
    pub report_type: Option<ReportType>,
}

/// A page of the vulnerabilities of a project, the oldest first.
///
/// # Errors
/// Whatever the database reports.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    filter: Filter,
    page: &PageRequest,
) -> Result<Page<Row>> {
    let mut wanted = vulnerabilities::of_project(access.project.id);
    if let Some(state) = filter.state {
        wanted = wanted.filter(Column::State.eq(state));
    }
    if let Some(severity) = filter.severity {
        wanted = wanted.filter(Column::Severity.eq(severity));
    }
    if let Some(kind) = filter.report_type {
        wanted = wanted.filter(Column::ReportType.eq(kind));
    }
    let page = page_of(backend.database.read(), wanted, page).await?;
    let home = home(backend, access).await?;
    Ok(page.map(|vulnerability| Row {
        vulnerability,
        home: home.clone(),
    }))
}

/// One vulnerability, for Developers of its project.
///
/// # Errors
/// 404 for what is not there or hidden, 403 below Developer.
pub async fn get(backend: &Backend, access: InstanceAccess, id: i64) -> Result<Row> {
    let (vulnerability, access) = find(backend, access, id).await?;
    Ok(Row {
        vulnerability,
        home: home(backend, &access).await?,
    })
}

/// Decides of a vulnerability. Of several who do so at once, one does.
///
/// # Errors
/// 404 and 403 as [`get`]; 304 when it is so already, and 403 in an archived project when it is not.
pub async fn decide(backend: &Backend, access: InstanceAccess, id: i64, state: State) -> Result<Row> {
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
            let dismissed = state == State::Closed;
            let mut row = found.into_active_model();
            row.state = Set(state);
            row.closed_at = Set(dismissed.then_some(at));
            row.closed_by_id = Set(dismissed.then_some(user_id));
            row.updated_by_id = Set(Some(user_id));
            row.updated_at = Set(at);
            Ok::<_, Error>(row.update(transaction).await?)
        })
        .await?;
    Ok(Row {
        vulnerability,
        home: home(backend, &access).await?,
    })
}

/// A vulnerability, and the project that it is of as far as its Developers are let in.
async fn find(backend: &Backend, access: InstanceAccess, id: i64) -> Result<(Model, ProjectAccess)> {
    let found = Entity::find_by_id(id).one(backend.database.read()).await?;
    let found = found.ok_or_else(|| Error::not_found(""))?;
    let project = access
        .in_project(backend, found.project_id, Role::Developer)
        .await?;
    Ok((found, project))
}

async fn home(backend: &Backend, access: &ProjectAccess) -> Result<Home> {
    let (project, namespace) = (&access.project, &access.namespace);
    let mut names = full_names(backend.database.read(), [namespace.id]).await?;
    let above = names.remove(&namespace.id).unwrap_or_default();
    Ok(Home {
        id: project.id,
        name: project.name.clone(),
        full_path: links::project_path(namespace, project),
        full_name: format!("{above} / {}", project.name),
    })
}
