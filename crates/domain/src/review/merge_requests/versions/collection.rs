//! Collection of versions: stores their commits in the target repository, counts their files and records the commits of the
//! newest version. Every step is idempotent.

use git::{CommitQuery, Oid, Repository};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::merge_request_versions::{self, Model as Version};
use storage::entities::merge_requests::{Column, Entity, MergeRequestState, Model};
use storage::entities::{merge_request_commits, merge_requests, now};
use storage::jobs;

use super::MAX_COMMITS;
use crate::code::push_events::between;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::review::jobs::update_head_ref::UpdateHeadRef;
use crate::review::merge_requests::branch_heads::{self, BranchRef};
use crate::review::merge_requests::diff::format_count;
use crate::review::merge_requests::head_refs::{self, oid};

/// Maximum number of versions that one call collects.
const MAX_COLLECTED: u64 = 100;

/// Maximum number of merge requests for which one sweep enqueues jobs.
const MAX_SWEPT: u64 = 1_000;

/// Age from which versions that are not collected are swept. The job that the push enqueues usually runs before.
const SWEPT_AFTER: chrono::TimeDelta = chrono::TimeDelta::minutes(1);

/// Stores the head of a merge request in the target repository, updates its merge base, and collects its versions.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub(crate) async fn complete(backend: &Backend, merge_request: Model) -> Result<()> {
    match head_refs::update(backend, &merge_request).await {
        // Both the branch and its commits are gone, so there is no head to store.
        Err(Error::NotFound(_)) => {}
        result => {
            result?;
            update_base(backend, &merge_request).await?;
        }
    }
    collect(backend, &merge_request).await
}

/// Determines the merge base of an open merge request and the current target branch, and records it.
async fn update_base(backend: &Backend, merge_request: &Model) -> Result<()> {
    let Some(start) = branch_heads::head(backend, BranchRef::target(merge_request)).await? else {
        return Ok(());
    };
    let repository = head_refs::repository(backend, merge_request.target_project_id);
    let base = repository
        .merge_base(vec![start, oid(&merge_request.head_sha)?])
        .await?;
    let (base, start) = (base.unwrap_or(start).to_string(), start.to_string());
    let (id, head) = (merge_request.id, merge_request.head_sha.as_str());
    backend
        .database
        .transaction(async |transaction| {
            let updated = Entity::update_many()
                .col_expr(Column::BaseSha, Expr::value(base.as_str()))
                .col_expr(Column::StartSha, Expr::value(start.as_str()))
                .filter(Column::Id.eq(id))
                .filter(Column::HeadSha.eq(head))
                .filter(Column::State.eq(MergeRequestState::Opened))
                .exec(transaction)
                .await?;
            if updated.rows_affected == 1 {
                merge_request_versions::update_newest(transaction, id, (&base, &start)).await?;
            }
            Ok(())
        })
        .await
}

/// Collects the versions of a merge request that are not collected yet.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub(crate) async fn collect(backend: &Backend, merge_request: &Model) -> Result<()> {
    let versions = merge_request_versions::of(merge_request.id)
        .filter(merge_request_versions::Column::Collected.eq(false))
        .order_by_asc(merge_request_versions::Column::Id)
        .limit(MAX_COLLECTED)
        .all(backend.database.read())
        .await?;
    for version in versions {
        let contents = match contents(backend, merge_request, &version).await {
            // The commits were never stored, because the source project was deleted first.
            Err(Error::NotFound(_)) => VersionContents::unknown(&version),
            contents => contents?,
        };
        save(backend, merge_request, &version, contents).await?;
    }
    Ok(())
}

/// What is recorded of a version.
struct VersionContents {
    base: String,
    /// Number of changed files; none if unknown.
    real_size: Option<String>,
    /// The newest commits.
    commits: Vec<Oid>,
}

impl VersionContents {
    fn unknown(version: &Version) -> Self {
        Self {
            base: version.base_sha.clone(),
            real_size: None,
            commits: Vec::new(),
        }
    }
}

async fn contents(backend: &Backend, merge_request: &Model, version: &Version) -> Result<VersionContents> {
    let repository = store(backend, merge_request, version).await?;
    let head = oid(&version.head_sha)?;
    let contents = async {
        let is_current = version.head_sha == merge_request.head_sha;
        let base = match is_current {
            true => oid_of(&version.base_sha)?,
            // A later push replaced the version before its merge base was determined.
            false => {
                let start = oid_of(&version.start_sha)?;
                repository.merge_base(vec![start, head]).await?.unwrap_or(start)
            }
        };
        let real_size = match repository.diff_between(base, head).await {
            Ok(diff) => Some(format_count(&diff)),
            Err(git::Error::Timeout) => None,
            Err(error) => return Err(error),
        };
        let newest = CommitQuery {
            selection: between(Some(base), head),
            offset: 0,
            limit: MAX_COMMITS,
        };
        let commits = repository.list_commits(newest).await?;
        let base = base.to_string();
        Ok(VersionContents {
            base,
            real_size,
            commits,
        })
    };
    match contents.await {
        // The target branch was replaced meanwhile, and its former commits are gone.
        Err(git::Error::ObjectNotFound) => Ok(VersionContents::unknown(version)),
        contents => Ok(contents?),
    }
}

fn oid_of(text: &str) -> git::Result<Oid> {
    text.parse().map_err(git::Error::Git2)
}

/// Stores the head of a version in the target repository so that it remains there.
async fn store(backend: &Backend, merge_request: &Model, version: &Version) -> Result<Repository> {
    if version.head_sha == merge_request.head_sha {
        return Ok(head_refs::ensure(backend, merge_request).await?.0);
    }
    let (head, iid) = (oid(&version.head_sha)?, merge_request.iid);
    let target = head_refs::repository(backend, merge_request.target_project_id);
    if target.has_merge_request_version(iid, head).await? {
        return Ok(target);
    }
    if let Some(source) = merge_request.source_project_id
        && source != merge_request.target_project_id
    {
        target
            .import_commit(&head_refs::repository(backend, source), head)
            .await?;
    }
    match target.keep_merge_request_version(iid, head).await {
        Ok(()) => Ok(target),
        Err(git::Error::ObjectNotFound) => Err(Error::not_found("Commit")),
        Err(error) => Err(error.into()),
    }
}

/// Records the contents of a version, if its merge base has not changed meanwhile.
async fn save(
    backend: &Backend,
    merge_request: &Model,
    version: &Version,
    contents: VersionContents,
) -> Result<()> {
    use merge_request_versions::Column as VersionColumn;

    let mut shas: Vec<String> = contents.commits.iter().map(ToString::to_string).collect();
    backend
        .database
        .transaction(async |transaction| {
            let Some(locked) = merge_requests::lock(transaction, merge_request.id).await? else {
                return Ok(());
            };
            let is_current = locked.head_sha == version.head_sha && locked.base_sha == contents.base;
            let saved = merge_request_versions::Entity::update_many()
                .col_expr(VersionColumn::Collected, Expr::value(true))
                .col_expr(VersionColumn::BaseSha, Expr::value(contents.base.as_str()))
                .col_expr(VersionColumn::RealSize, Expr::value(contents.real_size.clone()))
                .filter(VersionColumn::Id.eq(version.id))
                .filter(VersionColumn::BaseSha.eq(version.base_sha.as_str()))
                .filter(VersionColumn::StartSha.eq(version.start_sha.as_str()))
                .exec(transaction)
                .await?;
            if saved.rows_affected == 1 && is_current {
                let merges = locked
                    .merge_commit_sha
                    .into_iter()
                    .chain(locked.squash_commit_sha);
                shas.extend(merges);
                merge_request_commits::replace(transaction, merge_request.id, &shas).await?;
            }
            Ok(())
        })
        .await
}

/// Enqueues jobs for merge requests whose versions are not collected yet: those of an earlier release of the server, and those
/// whose job failed. Returns the number of jobs.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn sweep(backend: &Backend) -> Result<usize> {
    let before = now() - SWEPT_AFTER;
    let ids = merge_request_versions::with_uncollected(backend.database.read(), before, MAX_SWEPT).await?;
    for id in &ids {
        let job = UpdateHeadRef {
            merge_request_id: *id,
        };
        jobs::enqueue(backend.database.write(), &job)
            .await
            .map_err(Error::internal)?;
    }
    Ok(ids.len())
}
