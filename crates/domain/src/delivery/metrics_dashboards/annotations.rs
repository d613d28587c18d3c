//! Annotations on dashboards of environments and clusters.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::LockType;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait,
    QueryFilter, QuerySelect,
};
use storage::entities::metrics_annotations::{ActiveModel, Column, Entity, Model};
use storage::entities::{clusters, environments, now};

use super::{BUILT_IN_DASHBOARD, dashboard_exists, unescape};
use crate::identity::access::{GroupAccess, InstanceAccess, ProjectAccess};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;

/// Maximum length of a dashboard path, in characters.
const MAX_PATH_LENGTH: usize = 255;

/// Maximum number of annotations of an environment or a cluster.
const MAX_ANNOTATIONS: u64 = 10_000;

/// A new annotation.
#[derive(Debug, Clone)]
pub struct NewAnnotation {
    /// The path of the dashboard; it may be CGI-escaped.
    pub dashboard_path: String,
    /// The description.
    pub description: String,
    /// The time, or the start of the period.
    pub starting_at: DateTime<Utc>,
    /// The end of the period; `None` for a single time.
    pub ending_at: Option<DateTime<Utc>>,
}

/// The subject of a dashboard.
#[derive(Debug, Clone, Copy)]
pub enum DashboardSubject {
    /// An environment, by its ID.
    Environment(i64),
    /// A cluster, by its ID.
    Cluster(i64),
}

/// Adds an annotation to a dashboard.
///
/// # Errors
/// Returns `NotFound` if the subject does not exist or is not visible. Returns `Forbidden` below Developer, in archived
/// projects, and if the dashboards or the subject are not available to the caller. Returns a validation error if the
/// path is not a dashboard or the period ends before it starts. Returns `Rejected` if the subject has `MAX_ANNOTATIONS`
/// annotations already.
pub async fn create(
    backend: &Backend,
    access: InstanceAccess,
    subject: DashboardSubject,
    new: NewAnnotation,
) -> Result<Model> {
    let project = check_access(backend, access, subject).await?;
    let path = unescape(&new.dashboard_path)?;
    if path.chars().count() > MAX_PATH_LENGTH {
        let text = format!("is too long (maximum is {MAX_PATH_LENGTH} characters)");
        return Err(Error::attribute("dashboard_path", text));
    }
    if new.ending_at.is_some_and(|end| end < new.starting_at) {
        return Err(Error::attribute("ending_at", "can't be before starting_at time"));
    }
    let exists = match &project {
        Some(project) => dashboard_exists(backend, project, &path).await?,
        None => path == BUILT_IN_DASHBOARD,
    };
    if !exists {
        return Err(super::not_found());
    }
    let (environment_id, cluster_id) = match subject {
        DashboardSubject::Environment(id) => (Some(id), None),
        DashboardSubject::Cluster(id) => (None, Some(id)),
    };
    let row = ActiveModel {
        environment_id: Set(environment_id),
        cluster_id: Set(cluster_id),
        dashboard_path: Set(path),
        description: Set(new.description),
        starting_at: Set(new.starting_at),
        ending_at: Set(new.ending_at),
        created_at: Set(now()),
        ..Default::default()
    };
    backend
        .database
        .transaction(async |transaction| {
            let (column, id, noun) = lock(transaction, subject).await?;
            let existing = Entity::find().filter(column.eq(id));
            if existing.count(transaction).await? >= MAX_ANNOTATIONS {
                let text = format!("the {noun} has 10,000 annotations (the maximum): use another {noun}");
                return Err(Error::Rejected(text.into()));
            }
            Ok(row.insert(transaction).await?)
        })
        .await
}

/// Locks the subject, so that concurrent inserts cannot exceed the maximum. Returns the column with its ID, the ID, and
/// its name in errors.
///
/// # Errors
/// Returns `NotFound` if the subject was deleted.
async fn lock(
    transaction: &DatabaseTransaction,
    subject: DashboardSubject,
) -> Result<(Column, i64, &'static str)> {
    let lock = LockType::NoKeyUpdate;
    let (exists, column, id, noun) = match subject {
        DashboardSubject::Environment(id) => {
            let found = environments::Entity::find_by_id(id)
                .lock(lock)
                .one(transaction)
                .await?;
            (found.is_some(), Column::EnvironmentId, id, "environment")
        }
        DashboardSubject::Cluster(id) => {
            let found = clusters::Entity::find_by_id(id)
                .lock(lock)
                .one(transaction)
                .await?;
            (found.is_some(), Column::ClusterId, id, "cluster")
        }
    };
    match exists {
        true => Ok((column, id, noun)),
        false => Err(Error::not_found("")),
    }
}

/// Requires the Developer role in the project or group, and returns the project, if it is one.
async fn check_access(
    backend: &Backend,
    access: InstanceAccess,
    subject: DashboardSubject,
) -> Result<Option<ProjectAccess>> {
    let db = backend.database.read();
    let missing = || Error::not_found("");
    let (project, group) = match subject {
        DashboardSubject::Environment(id) => {
            let found = environments::Entity::find_by_id(id).one(db).await?;
            (Some(found.ok_or_else(missing)?.project_id), None)
        }
        DashboardSubject::Cluster(id) => {
            let found = clusters::Entity::find_by_id(id)
                .one(db)
                .await?
                .ok_or_else(missing)?;
            (found.project_id, found.namespace_id)
        }
    };
    if let Some(id) = project {
        let found = access.in_project(backend, id, Role::Developer).await?;
        found.check_monitor()?;
        match subject {
            DashboardSubject::Environment(_) => found.check_environments()?,
            DashboardSubject::Cluster(_) => found.check_infrastructure()?,
        }
        return match found.project.archived {
            true => Err(Error::forbidden()),
            false => Ok(Some(found)),
        };
    }
    let id = group.ok_or_else(missing)?;
    // A hidden group returns the same error as a missing one, so that its name does not leak.
    let hidden = |error| match error {
        Error::NotFound(_) => missing(),
        other => other,
    };
    let found = GroupAccess::find(backend, access.caller, &id.to_string()).await;
    match found.map_err(hidden)?.has_role(Role::Developer) {
        true => Ok(None),
        false => Err(Error::forbidden()),
    }
}
