//! Merge requests with all that is shown of them, gathered in a handful of statements however many they are.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QuerySelect};
use storage::entities::access::project_level;
use storage::entities::merge_requests::{self, Model, State};
use storage::entities::{labels, notes, now, users};

use super::head_pipeline::{self, HeadPipeline};
use super::{changes, find, mergeability};
use crate::error::{Error, Result};
use crate::services::access::ProjectAccess;
use crate::services::issuables::subscriptions::is_subscribed;
use crate::services::issuables::{Belongings, gather};
use crate::services::{Backend, deployments, milestones, push_rules};

/// A merge request with what belongs to it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The merge request.
    pub merge_request: Model,
    /// The whole path of the project that it is merged into.
    pub project_path: String,
    /// Who made it; nobody when the user is gone.
    pub author: Option<users::Model>,
    /// Who closed it; nobody when it was not closed or the user is gone.
    pub closed_by: Option<users::Model>,
    /// Who merged it; nobody when it was not merged or the user is gone.
    pub merged_by: Option<users::Model>,
    /// Those it is assigned to, in the order they were assigned.
    pub assignees: Vec<users::Model>,
    /// The labels, by title.
    pub labels: Vec<labels::Model>,
    /// The milestone.
    pub milestone: Option<milestones::Row>,
    /// Discussions on it wait to be resolved.
    pub unresolved: bool,
    /// What is told of one alone.
    pub details: Option<Details>,
}

/// What is told of a merge request that is not one of a list.
#[derive(Debug, Clone, Default)]
pub struct Details {
    /// Whether the caller is told of what happens to it; none without a caller.
    pub subscribed: Option<bool>,
    /// How many files it changes; none where that cannot be told.
    pub changes_count: Option<String>,
    /// Whether its author, who has no role in the project, had none merged before.
    pub first_contribution: bool,
    /// Whether the caller may merge into the target branch.
    pub can_merge: bool,
    /// How many commits the target branch has that the source has not, where that is wanted and can be told.
    pub diverged_commits_count: Option<usize>,
    /// Whether it is being rebased, where that is wanted.
    pub rebase_in_progress: Option<bool>,
    /// The newest pipeline of its head, as far as the caller may know of it.
    pub pipeline: Option<HeadPipeline>,
    /// When it was first deployed to production, as far as the caller may know of it.
    pub first_deployed_to_production_at: Option<DateTime<Utc>>,
}

/// What is looked for when it is wanted only.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// How far the target branch has gone its own way.
    pub diverged: bool,
    /// Whether it is being rebased.
    pub rebase: bool,
    /// How many files it changes, where somebody has counted them already.
    pub counted: Option<String>,
}

/// One merge request of a project.
///
/// # Errors
/// 404, also where the caller may not see it.
pub async fn read(backend: &Backend, access: &ProjectAccess, iid: i64, wanted: Wanted) -> Result<Row> {
    let merge_request = find(backend.database.read(), access, iid).await?;
    of_one(backend, access, merge_request, wanted).await
}

/// One merge request with all that is told of one alone.
///
/// # Errors
/// Whatever the database or the repositories report.
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
        .ok_or_else(|| Error::internal(format!("merge request {id} was not found")))?;
    let this = &row.merge_request;
    let rules = push_rules::rules(backend, access).await?;
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
        can_merge: rules.may_merge(&this.target_branch),
        diverged_commits_count: match wanted.diverged {
            true => changes::diverged(backend, this).await?,
            false => None,
        },
        // Rebases are done within the request that asks for them.
        rebase_in_progress: wanted.rebase.then_some(false),
        pipeline: head_pipeline::seen(backend, access, this).await?,
        first_deployed_to_production_at: match deployments::may_read(access) {
            true => deployments::first_to_production(db, this.id).await?,
            false => None,
        },
    });
    Ok(row)
}

/// Whether its author has no role in the project, and had none merged there before.
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
        .filter(merge_requests::Column::State.eq(State::Merged))
        .filter(merge_requests::Column::Id.ne(of.id));
    Ok(merged.count(db).await? == 0)
}

/// Adds what belongs to merge requests, for the whole page at once.
///
/// # Errors
/// Whatever the database reports.
pub(super) async fn decorate(db: &impl ConnectionTrait, found: Vec<Model>) -> Result<Vec<Row>> {
    decorate_within(db, found, HashMap::new()).await
}

/// As [`decorate`], where the whole paths of some projects are known already.
///
/// # Errors
/// Whatever the database reports.
pub(super) async fn decorate_within(
    db: &impl ConnectionTrait,
    found: Vec<Model>,
    paths: HashMap<i64, String>,
) -> Result<Vec<Row>> {
    let all = gather(db, &found, paths).await?;
    rows(db, found, all).await
}

/// Merge requests with what belongs to them; what went away since they were read is left out.
///
/// # Errors
/// Whatever the database reports.
pub(in crate::services) async fn rows(
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

/// Those on which discussions wait to be resolved.
///
/// # Errors
/// Whatever the database reports.
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
