//! Finds the merge requests that a successful deployment contains. Their commits, or cherry-picked copies,
//! arrived since the previous deployment to the environment. Runs as an idempotent job: each merge request is
//! linked to an environment once.

use std::collections::HashSet;

use git::{CommitSelection, Oid, RepositoryId};
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, Query};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect, QueryTrait,
};
use storage::entities::deployments::{Column, DeploymentStatus, Entity, Model};
use storage::entities::related_rows::{RelatedPart, bigint};
use storage::entities::{deployment_merge_requests as shipped, environments, merge_requests};
use storage::jobs::{self, JobFailure};

use crate::delivery::jobs::link_merge_requests::LinkMergeRequests;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Name of the production environment.
const PRODUCTION: &str = "production";

/// Maximum merge requests inserted per statement.
const MAX_INSERTED: usize = 500;

/// Enqueues the search for merge requests in the transaction in which the deployment succeeds.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn enqueue(transaction: &DatabaseTransaction, deployment: &Model) -> Result<()> {
    if deployment.status != DeploymentStatus::Success {
        return Ok(());
    }
    let before = Entity::find()
        .filter(Column::EnvironmentId.eq(deployment.environment_id))
        .filter(Column::Status.eq(DeploymentStatus::Success))
        .filter(Column::Id.lt(deployment.id))
        .order_by_desc(Column::Id)
        .one(transaction)
        .await?;
    let job = LinkMergeRequests {
        deployment_id: deployment.id,
        since: before.map(|before| before.sha),
    };
    jobs::enqueue(transaction, &job).await.map_err(Error::internal)
}

/// Links the merge requests of a deployment.
///
/// # Errors
/// Returns an error if the database or the repository fails.
pub async fn link_merge_requests(backend: &Backend, job: &LinkMergeRequests) -> Result<()> {
    let db = backend.database.read();
    let found = Entity::find_by_id(job.deployment_id).one(db).await?;
    let Some(deployment) = found else {
        return Ok(());
    };
    let waiting = unlinked_merge_requests(db, &deployment).await?;
    let sought: HashSet<Oid> = waiting.iter().map(|(commit, _)| *commit).collect();
    let arrived = deployed_commits(backend, &deployment, job.since.as_deref(), sought).await?;
    let mut ids: Vec<i64> = waiting
        .into_iter()
        .filter(|(commit, _)| arrived.contains(commit))
        .map(|(_, id)| id)
        .collect();
    ids.sort_unstable();
    ids.dedup();
    for ids in ids.chunks(MAX_INSERTED) {
        let rows = ids.iter().map(|id| shipped::ActiveModel {
            deployment_id: Set(deployment.id),
            environment_id: Set(deployment.environment_id),
            merge_request_id: Set(*id),
            ..Default::default()
        });
        let once = OnConflict::columns([shipped::Column::EnvironmentId, shipped::Column::MergeRequestId])
            .do_nothing()
            .to_owned();
        shipped::Entity::insert_many(rows)
            .on_conflict(once)
            .exec_without_returning(backend.database.write())
            .await?;
    }
    Ok(())
}

/// Returns the commits of the project's merged merge requests that are not yet linked to the environment,
/// with their merge requests.
async fn unlinked_merge_requests(db: &impl ConnectionTrait, deployment: &Model) -> Result<Vec<(Oid, i64)>> {
    use merge_requests::Column as MergeRequest;
    let linked = shipped::Entity::find()
        .select_only()
        .column(shipped::Column::MergeRequestId)
        .filter(shipped::Column::EnvironmentId.eq(deployment.environment_id));
    let found: Vec<(i64, String, Option<String>, Option<String>)> = merge_requests::Entity::find()
        .select_only()
        .column(MergeRequest::Id)
        .column(MergeRequest::HeadSha)
        .column(MergeRequest::MergeCommitSha)
        .column(MergeRequest::SquashCommitSha)
        .filter(MergeRequest::TargetProjectId.eq(deployment.project_id))
        .filter(MergeRequest::State.eq(merge_requests::MergeRequestState::Merged))
        .filter(MergeRequest::Id.not_in_subquery(linked.into_query()))
        .into_tuple()
        .all(db)
        .await?;
    let commits = found.into_iter().flat_map(|(id, head, merge, squash)| {
        let all = [Some(head), merge, squash];
        all.into_iter()
            .filter_map(move |sha| Some((sha?.parse().ok()?, id)))
    });
    Ok(commits.collect())
}

/// Returns the commits that a deployment contains, directly or as copies, and the previous one did not. If
/// the previous commit does not exist any more, all commits up to the deployment count.
async fn deployed_commits(
    backend: &Backend,
    deployment: &Model,
    since: Option<&str>,
    sought: HashSet<Oid>,
) -> Result<HashSet<Oid>> {
    let repository = backend
        .repositories
        .repository(&RepositoryId::of_project(deployment.project_id));
    let hidden = match since {
        Some(sha) => match repository.resolve_commit(sha).await {
            Ok(commit) => vec![commit],
            Err(git::Error::RevisionNotFound) => Vec::new(),
            Err(git::Error::RepositoryMissing) => return Ok(HashSet::new()),
            Err(error) => return Err(error.into()),
        },
        None => Vec::new(),
    };
    let selection = CommitSelection {
        tips: vec![deployment.sha.parse().map_err(Error::internal)?],
        hidden,
        ..CommitSelection::default()
    };
    match repository.introduced_commits(selection, sought).await {
        // The deployed commit was removed meanwhile.
        Err(git::Error::ObjectNotFound | git::Error::RepositoryMissing) => Ok(HashSet::new()),
        found => Ok(found?),
    }
}

/// Returns a part with the times of the deployments of a merge request to production, the first one first.
pub(crate) fn to_production_part(merge_request_id: i64) -> RelatedPart {
    let with = shipped::Entity::find()
        .select_only()
        .column(shipped::Column::DeploymentId)
        .filter(shipped::Column::MergeRequestId.eq(merge_request_id));
    let production = environments::Entity::find()
        .select_only()
        .column(environments::Column::Id)
        .filter(environments::Column::Name.eq(PRODUCTION));
    let id = || Column::Id.into_expr();
    let rows = Query::select()
        .from(Entity)
        .and_where(id().in_subquery(with.into_query()))
        .and_where(
            Column::EnvironmentId
                .into_expr()
                .in_subquery(production.into_query()),
        )
        .take();
    RelatedPart::new(rows, bigint(Expr::val(merge_request_id)))
        .sorted_by(id())
        .with_time(Column::FinishedAt.into_expr())
}

/// Runs the job. Merge requests that are recorded already are skipped.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run_job(backend: Backend, job: LinkMergeRequests) -> Result<(), JobFailure> {
    Ok(link_merge_requests(&backend, &job).await?)
}
