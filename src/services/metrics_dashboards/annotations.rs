//! Times that are marked on dashboards of environments and clusters.

use chrono::{DateTime, Utc};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait};
use storage::database::Violation;
use storage::entities::metrics_annotations::{ActiveModel, Model};
use storage::entities::{clusters, environments, now};

use super::{BUILT_IN, is_there, unescape};
use crate::error::{Error, Result};
use crate::policy::Role;
use crate::services::Backend;
use crate::services::access::{GroupAccess, InstanceAccess, ProjectAccess};

/// The longest path of a dashboard, in characters.
const LONGEST_PATH: usize = 255;

/// A time to mark.
#[derive(Debug, Clone)]
pub struct NewAnnotation {
    /// Where the dashboard stands; it may be CGI-escaped.
    pub dashboard_path: String,
    /// What happened.
    pub description: String,
    /// The moment, or when the span begins.
    pub starting_at: DateTime<Utc>,
    /// When the span ends; none for a moment.
    pub ending_at: Option<DateTime<Utc>>,
}

/// What a dashboard is of.
#[derive(Debug, Clone, Copy)]
pub enum Subject {
    /// An environment, by its id.
    Environment(i64),
    /// A cluster, by its id.
    Cluster(i64),
}

/// Marks a time on a dashboard.
///
/// # Errors
/// 404 for what is not there or hidden, 403 below Developer and in archived projects, 400 for a path where there is no
/// dashboard and for a span that ends before it begins.
pub async fn annotate(
    backend: &Backend,
    access: InstanceAccess,
    subject: Subject,
    new: NewAnnotation,
) -> Result<Model> {
    let project = admit(backend, access, subject).await?;
    let path = unescape(&new.dashboard_path)?;
    if path.chars().count() > LONGEST_PATH {
        let text = format!("is too long (maximum is {LONGEST_PATH} characters)");
        return Err(Error::attribute("dashboard_path", text));
    }
    if new.ending_at.is_some_and(|end| end < new.starting_at) {
        return Err(Error::attribute("ending_at", "can't be before starting_at time"));
    }
    let there = match &project {
        Some(project) => is_there(backend, project, &path).await?,
        None => path == BUILT_IN,
    };
    if !there {
        return Err(super::not_there());
    }
    let (environment_id, cluster_id) = match subject {
        Subject::Environment(id) => (Some(id), None),
        Subject::Cluster(id) => (None, Some(id)),
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
    let made = row.insert(backend.database.write()).await;
    made.map_err(|error| match Violation::of(&error) {
        // The environment or cluster went away in the meantime.
        Some(Violation::ForeignKey(_)) => Error::not_found(""),
        _ => error.into(),
    })
}

/// Lets Developers of the project or group in, and gives the project, if it is one.
async fn admit(backend: &Backend, access: InstanceAccess, subject: Subject) -> Result<Option<ProjectAccess>> {
    let db = backend.database.read();
    let missing = || Error::not_found("");
    let (project, group) = match subject {
        Subject::Environment(id) => {
            let found = environments::Entity::find_by_id(id).one(db).await?;
            (Some(found.ok_or_else(missing)?.project_id), None)
        }
        Subject::Cluster(id) => {
            let found = clusters::Entity::find_by_id(id)
                .one(db)
                .await?
                .ok_or_else(missing)?;
            (found.project_id, found.namespace_id)
        }
    };
    if let Some(id) = project {
        let found = access.in_project(backend, id, Role::Developer).await?;
        return match found.project.archived {
            true => Err(Error::forbidden()),
            false => Ok(Some(found)),
        };
    }
    let id = group.ok_or_else(missing)?;
    // What is hidden answers as what is not there: its name is not told.
    let hidden = |error| match error {
        Error::NotFound(_) => missing(),
        other => other,
    };
    let found = GroupAccess::find(backend, access.caller, &id.to_string()).await;
    match found.map_err(hidden)?.holds(Role::Developer) {
        true => Ok(None),
        false => Err(Error::forbidden()),
    }
}
