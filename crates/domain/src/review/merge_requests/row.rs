//! Merge requests with all displayed data, loaded in a fixed number of statements for a page.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QuerySelect};
use storage::entities::access::project_level;
use storage::entities::merge_requests::{self, MergeRequestState, Model};
use storage::entities::{labels, notes, now, users};

use super::head_pipeline::{self, HeadPipeline};
use super::{diff, find, mergeability};
use crate::code::branch_protection;
use crate::delivery::deployments;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::planning::issuables::Associations;
use crate::planning::issuables::subscriptions::is_subscribed;
use crate::planning::milestones;

/// A merge request with its associations.
#[derive(Debug, Clone)]
pub struct MergeRequestDetail {
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
    pub extras: Option<MergeRequestExtras>,
}

/// Data of a single merge request that is not loaded for lists.
#[derive(Debug, Clone, Default)]
pub struct MergeRequestExtras {
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

/// Data to load for a single merge request, if requested or already known.
#[derive(Debug, Clone, Default)]
pub struct MergeRequestInclude {
    /// Whether to count the commits that are only in the target branch.
    pub diverged_commits_count: bool,
    /// Whether to return if a rebase is in progress.
    pub rebase_in_progress: bool,
    /// The number of changed files, if already known.
    pub changes_count: Option<String>,
}

/// Returns one merge request of a project.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub async fn get(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    include: MergeRequestInclude,
) -> Result<MergeRequestDetail> {
    let merge_request = find(backend.database.read(), access, iid).await?;
    load_detail(backend, access, merge_request, include).await
}

/// Returns a merge request with its details.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub(super) async fn load_detail(
    backend: &Backend,
    access: &ProjectAccess,
    merge_request: Model,
    include: MergeRequestInclude,
) -> Result<MergeRequestDetail> {
    let merge_request = mergeability::update(backend, merge_request).await?;
    let db = backend.database.read();
    let id = merge_request.id;
    let detail = decorate(db, vec![merge_request]).await?.pop();
    let mut detail = detail.ok_or_else(|| Error::internal(format!("merge request {id} is missing")))?;
    let merge_request = &detail.merge_request;
    let rules = branch_protection::branch_rules(backend, access).await?;
    detail.extras = Some(MergeRequestExtras {
        subscribed: match access.caller.as_user() {
            Some(user) => Some(is_subscribed(db, merge_request, &detail.assignees, user.id).await?),
            None => None,
        },
        changes_count: match include.changes_count {
            Some(count) => Some(count),
            None => diff::count_changes(backend, merge_request).await?,
        },
        first_contribution: is_first_contribution(db, merge_request).await?,
        can_merge: rules.can_merge(&merge_request.target_branch),
        diverged_commits_count: match include.diverged_commits_count {
            true => diff::count_diverged(backend, merge_request).await?,
            false => None,
        },
        // Rebases finish within the request, so none is ever in progress.
        rebase_in_progress: include.rebase_in_progress.then_some(false),
        pipeline: head_pipeline::find_visible(backend, access, merge_request).await?,
        first_deployed_to_production_at: match deployments::can_read(access) {
            true => deployments::first_to_production(db, merge_request.id).await?,
            false => None,
        },
    });
    Ok(detail)
}

/// Returns whether the author has no role in the project and no merge request merged there before.
async fn is_first_contribution(db: &impl ConnectionTrait, merge_request: &Model) -> Result<bool> {
    let Some(author) = merge_request.author_id else {
        return Ok(false);
    };
    let role = project_level(db, author, merge_request.target_project_id, now().date_naive()).await?;
    if role.is_some() {
        return Ok(false);
    }
    let merged = merge_requests::Entity::find()
        .filter(merge_requests::Column::TargetProjectId.eq(merge_request.target_project_id))
        .filter(merge_requests::Column::AuthorId.eq(author))
        .filter(merge_requests::Column::State.eq(MergeRequestState::Merged))
        .filter(merge_requests::Column::Id.ne(merge_request.id));
    Ok(merged.count(db).await? == 0)
}

/// Loads the associations of a page of merge requests.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn decorate(
    db: &impl ConnectionTrait,
    merge_requests: Vec<Model>,
) -> Result<Vec<MergeRequestDetail>> {
    decorate_with_paths(db, merge_requests, HashMap::new()).await
}

/// As [`decorate`], with the full paths of some projects already known.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn decorate_with_paths(
    db: &impl ConnectionTrait,
    merge_requests: Vec<Model>,
    paths: HashMap<i64, String>,
) -> Result<Vec<MergeRequestDetail>> {
    let associations = Associations::load(db, &merge_requests, paths).await?;
    with_associations(db, merge_requests, associations).await
}

/// Combines merge requests with their associations. Associations that were deleted since are omitted.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn with_associations(
    db: &impl ConnectionTrait,
    merge_requests: Vec<Model>,
    mut associations: Associations,
) -> Result<Vec<MergeRequestDetail>> {
    let unresolved = with_unresolved_discussions(db, &merge_requests).await?;
    let details = merge_requests.into_iter().filter_map(|merge_request| {
        Some(MergeRequestDetail {
            project_path: associations.path(&merge_request)?,
            author: associations.user(merge_request.author_id),
            closed_by: associations.user(merge_request.closed_by_id),
            merged_by: associations.user(merge_request.merged_by_id),
            assignees: associations.assignees(&merge_request),
            labels: associations.labels(&merge_request),
            milestone: associations.milestone(&merge_request),
            unresolved: unresolved.contains(&merge_request.id),
            extras: None,
            merge_request,
        })
    });
    Ok(details.collect())
}

/// Returns the merge requests with unresolved discussions.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn with_unresolved_discussions(
    db: &impl ConnectionTrait,
    merge_requests: &[Model],
) -> Result<HashSet<i64>> {
    if merge_requests.is_empty() {
        return Ok(HashSet::new());
    }
    let ids: Vec<i64> = notes::Entity::find()
        .select_only()
        .column(notes::Column::MergeRequestId)
        .distinct()
        .filter(
            notes::Column::MergeRequestId.is_in(merge_requests.iter().map(|merge_request| merge_request.id)),
        )
        .filter(notes::Column::Kind.is_not_null())
        .filter(notes::Column::System.eq(false))
        .filter(notes::Column::ResolvedAt.is_null())
        .into_tuple()
        .all(db)
        .await?;
    Ok(ids.into_iter().collect())
}
