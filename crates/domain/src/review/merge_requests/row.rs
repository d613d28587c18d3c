//! Merge requests with all displayed data, loaded in a fixed number of statements for a page.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QuerySelect};
use storage::entities::access::project_level;
use storage::entities::merge_requests::{self, MergeRequestState, Model};
use storage::entities::{labels, notes, now, users};

use super::head_pipeline::{self, HeadPipeline};
use super::{changes, find, mergeability};
use crate::code::branch_protection;
use crate::delivery::deployments;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::planning::issuables::subscriptions::is_subscribed;
use crate::planning::issuables::{Belongings, gather};
use crate::planning::milestones;

/// A merge request with its associations.
#[derive(Debug, Clone)]
pub struct Row {
    /// The merge request.
    pub merge_request: Model,
    /// The full path of the target project.
    pub project_path: String,
    /// The author; `None` if the user was deleted.
    pub author: Option<users::Model>,
    /// The user who closed it; `None` if it was not closed or the user was deleted.
    pub closed_by: Option<users::Model>,
    /// The user who merged it; `None` if it was not merged or the user was deleted.
    pub merged_by: Option<users::Model>,
    /// The assignees, in the order of assignment.
    pub assignees: Vec<users::Model>,
    /// The labels, by title.
    pub labels: Vec<labels::Model>,
    /// The milestone.
    pub milestone: Option<milestones::MilestoneDetail>,
    /// Whether it has unresolved discussions.
    pub unresolved: bool,
    /// Data that is loaded only for a single merge request.
    pub details: Option<Details>,
}

/// Details of a single merge request, not loaded for lists.
#[derive(Debug, Clone, Default)]
pub struct Details {
    /// Whether the caller is subscribed; `None` without a caller.
    pub subscribed: Option<bool>,
    /// Number of changed files; `None` if unknown.
    pub changes_count: Option<String>,
    /// Whether the author has no role in the project and no merged merge request in it.
    pub first_contribution: bool,
    /// Whether the caller may merge into the target branch.
    pub can_merge: bool,
    /// Number of commits that are only in the target branch, if requested and known.
    pub diverged_commits_count: Option<usize>,
    /// Whether a rebase is in progress, if requested.
    pub rebase_in_progress: Option<bool>,
    /// The head pipeline, if visible to the caller.
    pub pipeline: Option<HeadPipeline>,
    /// Time of the first deployment to production, if visible to the caller.
    pub first_deployed_to_production_at: Option<DateTime<Utc>>,
}

/// Details that are loaded only on request.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The number of commits that are only in the target branch.
    pub diverged: bool,
    /// Whether a rebase is in progress.
    pub rebase: bool,
    /// The number of changed files, if already known.
    pub counted: Option<String>,
}

/// Returns one merge request of a project.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub async fn read(backend: &Backend, access: &ProjectAccess, iid: i64, wanted: Wanted) -> Result<Row> {
    let merge_request = find(backend.database.read(), access, iid).await?;
    of_one(backend, access, merge_request, wanted).await
}

/// Returns a merge request with its details.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub(super) async fn of_one(
    backend: &Backend,
    access: &ProjectAccess,
    merge_request: Model,
    wanted: Wanted,
) -> Result<Row> {
    let merge_request = mergeability::check(backend, merge_request).await?;
    let db = backend.database.read();
    let id = merge_request.id;
    let rows = decorate(db, vec![merge_request]).await?;
    let mut row = rows
        .into_iter()
        .next()
        .ok_or_else(|| Error::internal(format!("merge request {id} is missing")))?;
    let this = &row.merge_request;
    let rules = branch_protection::branch_rules(backend, access).await?;
    row.details = Some(Details {
        subscribed: match access.caller.as_user() {
            Some(user) => Some(is_subscribed(db, this, &row.assignees, user.id).await?),
            None => None,
        },
        changes_count: match wanted.counted {
            Some(counted) => Some(counted),
            None => changes::count(backend, this).await?,
        },
        first_contribution: is_first(db, this).await?,
        can_merge: rules.can_merge(&this.target_branch),
        diverged_commits_count: match wanted.diverged {
            true => changes::diverged(backend, this).await?,
            false => None,
        },
        // Rebases finish within the request, so none is ever in progress.
        rebase_in_progress: wanted.rebase.then_some(false),
        pipeline: head_pipeline::seen(backend, access, this).await?,
        first_deployed_to_production_at: match deployments::can_read(access) {
            true => deployments::first_to_production(db, this.id).await?,
            false => None,
        },
    });
    Ok(row)
}

/// Returns whether the author has no role in the project and no merge request merged there before.
async fn is_first(db: &impl ConnectionTrait, of: &Model) -> Result<bool> {
    let Some(author) = of.author_id else {
        return Ok(false);
    };
    let role = project_level(db, author, of.target_project_id, now().date_naive()).await?;
    if role.is_some() {
        return Ok(false);
    }
    let merged = merge_requests::Entity::find()
        .filter(merge_requests::Column::TargetProjectId.eq(of.target_project_id))
        .filter(merge_requests::Column::AuthorId.eq(author))
        .filter(merge_requests::Column::State.eq(MergeRequestState::Merged))
        .filter(merge_requests::Column::Id.ne(of.id));
    Ok(merged.count(db).await? == 0)
}

/// Loads the associations of a page of merge requests.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn decorate(db: &impl ConnectionTrait, found: Vec<Model>) -> Result<Vec<Row>> {
    decorate_within(db, found, HashMap::new()).await
}

/// As [`decorate`], with the full paths of some projects already known.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn decorate_within(
    db: &impl ConnectionTrait,
    found: Vec<Model>,
    paths: HashMap<i64, String>,
) -> Result<Vec<Row>> {
    let all = gather(db, &found, paths).await?;
    rows(db, found, all).await
}

/// Combines merge requests with their associations. Associations that were deleted since are omitted.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn rows(
    db: &impl ConnectionTrait,
    found: Vec<Model>,
    mut all: Belongings,
) -> Result<Vec<Row>> {
    let unresolved = unresolved(db, &found).await?;
    let rows = found.into_iter().filter_map(|merge_request| {
        Some(Row {
            project_path: all.path(&merge_request)?,
            author: all.person(merge_request.author_id),
            closed_by: all.person(merge_request.closed_by_id),
            merged_by: all.person(merge_request.merged_by_id),
            assignees: all.assignees(&merge_request),
            labels: all.labels(&merge_request),
            milestone: all.milestone(&merge_request),
            unresolved: unresolved.contains(&merge_request.id),
            details: None,
            merge_request,
        })
    });
    Ok(rows.collect())
}

/// Returns the merge requests with unresolved discussions.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn unresolved(db: &impl ConnectionTrait, found: &[Model]) -> Result<HashSet<i64>> {
    if found.is_empty() {
        return Ok(HashSet::new());
    }
    let waiting: Vec<i64> = notes::Entity::find()
        .select_only()
        .column(notes::Column::MergeRequestId)
        .distinct()
        .filter(notes::Column::MergeRequestId.is_in(found.iter().map(|one| one.id)))
        .filter(notes::Column::Kind.is_not_null())
        .filter(notes::Column::System.eq(false))
        .filter(notes::Column::ResolvedAt.is_null())
        .into_tuple()
        .all(db)
        .await?;
    Ok(waiting.into_iter().collect())
}
