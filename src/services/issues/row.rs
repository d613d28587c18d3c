//! Issues with all that is shown of them, gathered in a handful of statements however many they are.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};

use super::find;
use super::subscriptions::is_subscribed;
use crate::entities::{issue_assignees, issues, labels, milestones, namespaces, projects, users};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::authentication::Caller;
use crate::services::{links, milestones as milestones_service};

/// An issue with what belongs to it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The issue.
    pub issue: issues::Model,
    /// The whole path of its project.
    pub project_path: String,
    /// Who made it; nobody when the user is gone.
    pub author: Option<users::Model>,
    /// Who closed it; nobody when it is open or the user is gone.
    pub closed_by: Option<users::Model>,
    /// Those it is assigned to, in the order they were assigned.
    pub assignees: Vec<users::Model>,
    /// The labels, by title.
    pub labels: Vec<labels::Model>,
    /// The milestone.
    pub milestone: Option<milestones_service::Row>,
    /// Whether the caller is told of what happens to it; none in lists and without a caller.
    pub subscribed: Option<bool>,
}

/// One issue of a project.
///
/// # Errors
/// 404, also where the caller may not see it.
pub async fn read(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<Row> {
    let issue = find(backend.database.read(), access, iid).await?;
    of_one(backend, &access.caller, issue).await
}

/// One issue, with whether the caller is told of what happens to it.
///
/// # Errors
/// Whatever the database reports.
pub(super) async fn of_one(backend: &Backend, caller: &Caller, issue: issues::Model) -> Result<Row> {
    let db = backend.database.read();
    let id = issue.id;
    let rows = decorate(db, vec![issue]).await?;
    let mut row = rows
        .into_iter()
        .next()
        .ok_or_else(|| Error::internal(format!("issue {id} was lost")))?;
    if let Some(user) = caller.as_user() {
        row.subscribed = Some(is_subscribed(db, &row, user.id).await?);
    }
    Ok(row)
}

/// Adds what belongs to issues, for the whole page at once.
///
/// # Errors
/// Whatever the database reports.
pub(super) async fn decorate(db: &impl ConnectionTrait, found: Vec<issues::Model>) -> Result<Vec<Row>> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let ids = || found.iter().map(|issue| issue.id);
    let mut labels = labels::of_issues(db, ids()).await?;
    let mut assignees = issue_assignees::of(db, ids()).await?;
    let paths = paths(db, found.iter().map(|issue| issue.project_id)).await?;
    let people = people(db, &found).await?;
    let milestones = milestones_of(db, &found, &paths).await?;
    let person = |id: Option<i64>| id.and_then(|id| people.get(&id).cloned());
    let rows = found.into_iter().filter_map(|issue| {
        Some(Row {
            // What went away since the page was read is not shown.
            project_path: paths.get(&issue.project_id)?.clone(),
            author: person(issue.author_id),
            closed_by: person(issue.closed_by_id),
            assignees: assignees.remove(&issue.id).unwrap_or_default(),
            labels: labels.remove(&issue.id).unwrap_or_default(),
            milestone: issue.milestone_id.and_then(|id| milestones.get(&id).cloned()),
            subscribed: None,
            issue,
        })
    });
    Ok(rows.collect())
}

/// The whole paths of projects.
async fn paths(
    db: &impl ConnectionTrait,
    project_ids: impl Iterator<Item = i64>,
) -> Result<HashMap<i64, String>> {
    let found = projects::Entity::find()
        .find_also_related(namespaces::Entity)
        .filter(projects::Column::Id.is_in(project_ids))
        .all(db)
        .await?;
    let paths = found.into_iter().filter_map(|(project, namespace)| {
        let path = links::project_path(&namespace?, &project);
        Some((project.id, path))
    });
    Ok(paths.collect())
}

/// Those who made and closed the issues.
async fn people(db: &impl ConnectionTrait, found: &[issues::Model]) -> Result<HashMap<i64, users::Model>> {
    let authors = found.iter().filter_map(|issue| issue.author_id);
    let closers = found.iter().filter_map(|issue| issue.closed_by_id);
    let people = users::Entity::find()
        .filter(users::Column::Id.is_in(authors.chain(closers)))
        .all(db)
        .await?;
    Ok(people.into_iter().map(|user| (user.id, user)).collect())
}

/// The milestones of issues, with the paths of what they belong to.
async fn milestones_of(
    db: &impl ConnectionTrait,
    found: &[issues::Model],
    paths: &HashMap<i64, String>,
) -> Result<HashMap<i64, milestones_service::Row>> {
    let ids: Vec<i64> = found.iter().filter_map(|issue| issue.milestone_id).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let found = milestones::Entity::find()
        .filter(milestones::Column::Id.is_in(ids))
        .all(db)
        .await?;
    let groups: Vec<i64> = found
        .iter()
        .filter_map(|milestone| milestone.namespace_id)
        .collect();
    let groups: HashMap<i64, String> = match groups.is_empty() {
        true => HashMap::new(),
        false => {
            let rows = namespaces::Entity::find().filter(namespaces::Column::Id.is_in(groups));
            let rows = rows.all(db).await?;
            rows.into_iter()
                .map(|group| (group.id, group.full_path))
                .collect()
        }
    };
    let with_path = found.into_iter().filter_map(|milestone| {
        let path = match (milestone.project_id, milestone.namespace_id) {
            (Some(id), _) => paths.get(&id)?,
            (None, Some(id)) => groups.get(&id)?,
            (None, None) => return None,
        };
        Some((
            milestone.id,
            milestones_service::Row::new(milestone, path.clone()),
        ))
    });
    Ok(with_path.collect())
}
