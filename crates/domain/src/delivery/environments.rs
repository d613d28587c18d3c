//! Environments of projects, the targets of deployments. Changes and deployments lock the project.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sea_orm::sea_query::{Expr, Func};
use sea_orm::{ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, QueryFilter};
use storage::entities::environments::{self, Column, Entity, EnvironmentState, Model};
use storage::entities::{fold, row_changes};

use crate::delivery::access::{check_can_create_deployments, check_can_read_deployments};
use crate::delivery::environment_rows::{TAKEN, insert, is_name_taken, set_state};
use crate::delivery::{deployments, variables};
use crate::identity::access::ProjectAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{contains_in, page_of};
use crate::kernel::{Backend, preconditions, urls};
use crate::spaces::projects;

/// Maximum length of a URL, in characters.
const MAX_URL_LENGTH: usize = 255;

/// Filter of environments.
#[derive(Debug, Clone, Default)]
pub struct EnvironmentFilter {
    /// Exact name.
    pub name: Option<String>,
    /// Text that names contain.
    pub search: Option<String>,
    /// State of the environments.
    pub state: Option<EnvironmentState>,
}

/// Attributes to change; absent ones stay.
#[derive(Debug, Clone, Default)]
pub struct EnvironmentUpdate {
    /// Name of the environment.
    pub name: Option<String>,
    /// External URL; `Some(None)` removes it.
    pub external_url: Option<Option<String>>,
    /// The slug, which is rejected because it cannot be changed.
    pub slug: Option<String>,
}

/// Returns a page of a project's environments, oldest first. Includes the project if the page is not empty.
///
/// # Errors
/// Returns `Error::InvalidParameters` if filters exclude each other. Fails like [`check_can_read_deployments`].
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    filter: EnvironmentFilter,
    page: &PageRequest,
) -> Result<(Page<Model>, Option<projects::ProjectDetail>)> {
    if filter.name.is_some() && filter.search.is_some() {
        return Err(Error::parameter("name, search cannot be used together"));
    }
    check_can_read_deployments(access)?;
    let mut query = environments::of_project(access.project.id);
    if let Some(name) = filter.name {
        query = query.filter(Column::Name.eq(name));
    }
    if let Some(text) = filter.search {
        // Names are ASCII, for which both databases fold case alike.
        let key = Expr::expr(Func::lower(Expr::col(Column::Name)));
        query = query.filter(contains_in(key, &fold(&text)));
    }
    if let Some(state) = filter.state {
        query = query.filter(Column::State.eq(state));
    }
    let page = page_of(backend.database.read(), query, page).await?;
    let project = match page.items.is_empty() {
        true => None,
        false => Some(projects::get(backend, access.clone(), false).await?),
    };
    Ok((page, project))
}

/// Returns one environment of a project, with its last successful deployment.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or belongs to another project. Fails like
/// [`check_can_read_deployments`].
pub async fn get(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
) -> Result<(Model, Option<deployments::DeploymentDetail>)> {
    check_can_read_deployments(access)?;
    let found = find(backend.database.read(), access.project.id, id).await?;
    let last = deployments::last_to(backend, access, found.id).await?;
    Ok((found, last))
}

/// Creates an environment.
///
/// # Errors
/// Returns `Error::InvalidAttributes` or `Error::InvalidParameters` if an attribute is invalid or the name is
/// taken. Returns `Error::Rejected` if the project has `MAX_ENVIRONMENTS` environments already. Fails like
/// [`check_can_create_deployments`].
pub async fn create(backend: &Backend, access: &ProjectAccess, change: EnvironmentUpdate) -> Result<Model> {
    let external_url = check(&change)?;
    check_can_create_deployments(access)?;
    let project_id = access.project.id;
    let name = change.name.unwrap_or_default();
    backend
        .database
        .transaction(async |transaction| {
            projects::lock_for_insert(transaction, project_id).await?;
            insert(transaction, project_id, name, external_url.flatten()).await
        })
        .await
}

/// Updates an environment. The slug stays.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist. Otherwise fails like [`create`].
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    change: EnvironmentUpdate,
) -> Result<Model> {
    let external_url = check(&change)?;
    check_can_create_deployments(access)?;
    backend
        .database
        .transaction(async |transaction| {
            projects::lock_for_insert(transaction, access.project.id).await?;
            let found = find(transaction, access.project.id, id).await?;
            let mut row = found.clone().into_active_model();
            if let Some(name) = change.name {
                row.name = Set(name);
            }
            if let Some(external_url) = external_url {
                row.external_url = Set(external_url);
            }
            let changed = row_changes::update_if_changed(transaction, &found, row).await;
            changed.map_err(|error| match is_name_taken(&error) {
                true => Error::attribute("name", TAKEN),
                false => error.into(),
            })
        })
        .await
}

/// Stops an environment. A stopped one stays unchanged.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist. Fails like [`check_can_create_deployments`].
pub async fn stop(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<Model> {
    check_can_create_deployments(access)?;
    backend
        .database
        .transaction(async |transaction| {
            projects::lock_for_insert(transaction, access.project.id).await?;
            let found = find(transaction, access.project.id, id).await?;
            set_state(transaction, found, EnvironmentState::Stopped).await
        })
        .await
}

/// Deletes a stopped environment with its deployments.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist. Returns `Error::PreconditionFailed` if it changed after
/// `unmodified_since`. Returns `Error::Forbidden` if it is not stopped. Fails like
/// [`check_can_create_deployments`].
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    check_can_create_deployments(access)?;
    backend
        .database
        .transaction(async |transaction| {
            projects::lock_for_insert(transaction, access.project.id).await?;
            let found = find(transaction, access.project.id, id).await?;
            preconditions::check_unmodified_since(unmodified_since, found.updated_at)?;
            if found.state != EnvironmentState::Stopped {
                let text = "The environment must be stopped before it is deleted";
                return Err(Error::forbidden_because(text));
            }
            Entity::delete_by_id(id).exec(transaction).await?;
            Ok(())
        })
        .await
}

/// Rejects invalid attributes and returns the normalized URL.
fn check(change: &EnvironmentUpdate) -> Result<Option<Option<String>>> {
    if change.slug.is_some() {
        let text = "slug is automatically generated and cannot be changed";
        return Err(Error::parameter(text));
    }
    let mut errors: BTreeMap<Cow<'static, str>, Vec<Cow<'static, str>>> = BTreeMap::new();
    if let Some(name) = &change.name {
        let texts = variables::faults_of_environment(name);
        if !texts.is_empty() {
            errors.insert("name".into(), texts);
        }
    }
    let given = change.external_url.clone();
    let url = given.map(|url| url.filter(|url| !url.trim().is_empty()));
    if let Some(Some(url)) = &url {
        if url.chars().count() > MAX_URL_LENGTH {
            let text = format!("is too long (maximum is {MAX_URL_LENGTH} characters)");
            errors.insert("external_url".into(), vec![text.into()]);
        } else if let Err(Error::InvalidAttributes(blocked)) = urls::check_http_url("external_url", url) {
            errors.extend(blocked);
        }
    }
    match errors.is_empty() {
        true => Ok(url),
        false => Err(Error::InvalidAttributes(errors)),
    }
}

async fn find(db: &impl ConnectionTrait, project_id: i64, id: i64) -> Result<Model> {
    let found = environments::of_project(project_id).filter(Column::Id.eq(id));
    found.one(db).await?.ok_or_else(|| Error::not_found(""))
}
