//! Merge requests with all displayed data, loaded in one statement for a page.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use sea_orm::sea_query::Query;
use sea_orm::{ColumnTrait, ConnectionTrait};
use storage::entities::access::{Viewer, has_project_level_part};
use storage::entities::labels::LabelSummary;
use storage::entities::merge_requests::{self, MergeRequestState, Model};
use storage::entities::ref_rules::RefRuleParts;
use storage::entities::related_rows::{PartKey, RelatedPart, RelatedRowSets, RelatedRows};
use storage::entities::users::UserSummary;
use storage::entities::{notes, now};

use super::detailed_status::{self, DetailedMergeStatus, PipelineState};
use super::head_pipeline::{self, HeadPipeline};
use super::joined_row::JoinedMergeRequest;
use super::{approval_policy, diff, mergeability};
use crate::code::branch_protection::{self, BranchRules};
use crate::delivery::deployments;
use crate::identity::access::ProjectAccess;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::{Backend, urls};
use crate::planning::issuables::subscriptions::SubscriptionParts;
use crate::planning::issuables::{AssociationRequest, Associations, WithMilestone, with_milestones};
use crate::planning::milestones::{self, MilestoneDetail};
use crate::review::approvals::evaluation::{ApprovalParts, ApprovalState};
use crate::review::status_checks::evaluation::{self as checks, StatusCheckParts};

/// A merge request with its associations.
#[derive(Debug, Clone)]
pub struct MergeRequestDetail {
    /// The merge request.
    pub merge_request: Model,
    /// The full path of the target project.
    pub project_path: String,
    /// The author; `None` if the user was deleted.
    pub author: Option<UserSummary>,
    /// The user who closed it; `None` if it was not closed or the user was deleted.
    pub closed_by: Option<UserSummary>,
    /// The user who merged it; `None` if it was not merged or the user was deleted.
    pub merged_by: Option<UserSummary>,
    /// The user who enabled the automatic merge; `None` if it is not enabled or the user was deleted.
    pub auto_merge_user: Option<UserSummary>,
    /// The assignees, in the order of assignment.
    pub assignees: Vec<UserSummary>,
    /// The reviewers, in the order of the requests.
    pub reviewers: Vec<UserSummary>,
    /// The labels, by title.
    pub labels: Vec<LabelSummary>,
    /// The milestone.
    pub milestone: Option<Arc<MilestoneDetail>>,
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
    /// Whether it can be merged, and otherwise why not.
    pub detailed_status: DetailedMergeStatus,
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
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller. Returns `Overloaded` if too
/// little memory is left for its associations.
pub async fn get(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    include: MergeRequestInclude,
) -> Result<MergeRequestDetail> {
    let found = JoinedMergeRequest::find(backend.database.read(), access, iid).await?;
    load_found(backend, access, found, include).await
}

/// Loads the details of a merge request after a write was committed. Never fails because too little memory is left.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub(super) async fn load_written(
    backend: &Backend,
    access: &ProjectAccess,
    merge_request: Model,
) -> Result<MergeRequestDetail> {
    let found = JoinedMergeRequest::load(backend.database.read(), merge_request).await?;
    let include = MergeRequestInclude::default();
    load_found(backend, &access.after_commit(), found, include).await
}

/// Loads the details of a merge request that was read with its joined rows.
///
/// # Errors
/// Returns `Overloaded` if too little memory is left, or an error if a database query or a Git operation fails.
pub(super) async fn load_found(
    backend: &Backend,
    access: &ProjectAccess,
    found: JoinedMergeRequest,
    include: MergeRequestInclude,
) -> Result<MergeRequestDetail> {
    let milestone = found.milestone;
    let merge_request = mergeability::update(backend, found.merge_request).await?;
    let pipeline_state = PipelineState::of(&access.project, found.pipeline.as_ref());
    let pipeline = match found.pipeline {
        Some(pipeline) => head_pipeline::if_visible(backend, access, pipeline).await?,
        None => None,
    };
    let changes_count = match include.changes_count {
        Some(count) => Some(count),
        None => diff::count_changes(backend, &merge_request).await?,
    };
    let may_need_rebase = detailed_status::may_need_rebase(&access.project, &merge_request);
    let diverged = match include.diverged_commits_count || may_need_rebase {
        true => diff::count_diverged(backend, &merge_request).await?,
        false => None,
    };
    let diverged_commits_count = diverged.filter(|_| include.diverged_commits_count);
    let mut related = RelatedRows::default();
    let parts = ExtraParts::add(&mut related, access, &merge_request);
    let is_open = merge_request.state == MergeRequestState::Opened;
    let approvals = match is_open {
        true => {
            let policy = approval_policy::load(backend, access, &merge_request).await?;
            let parts = ApprovalParts::add(backend, &mut related, access, &merge_request, &policy);
            Some((parts, policy))
        }
        false => None,
    };
    let checks = match is_open && checks::are_required(backend, &access.project) {
        true => Some(StatusCheckParts::add(&mut related, &merge_request)),
        false => None,
    };
    let found = vec![(merge_request, milestone)];
    let request = AssociationRequest {
        paths: HashMap::from([(
            access.project.id,
            urls::project_path(&access.namespace, &access.project),
        )]),
        user_ids: pipeline
            .iter()
            .filter_map(|(pipeline, _)| pipeline.user_id)
            .collect(),
        ..request_for(&access.caller, &found)
    };
    let (mut associations, mut rows) = request.load(backend.database.read(), related).await?;
    let rules = parts.rules.take(&mut rows)?;
    let rules = BranchRules::load(backend.database.read(), access, rules).await?;
    let pipeline = pipeline.map(|(pipeline, project_path)| HeadPipeline {
        user: associations.user(pipeline.user_id),
        pipeline,
        project_path,
    });
    let details = with_associations(found, &mut associations);
    let mut detail = details.into_iter().next().ok_or_else(missing)?;
    let approvals = match approvals {
        Some((parts, policy)) => {
            let merge_request = &detail.merge_request;
            let target = rules.protection(&merge_request.target_branch);
            parts.take(&mut rows, merge_request, target, &policy)?
        }
        None => ApprovalState::default(),
    };
    let have_checks_passed = match checks {
        Some(parts) => checks::have_passed(&parts.take(&mut rows, &detail.merge_request)?),
        None => true,
    };
    let detailed_status = DetailedMergeStatus::of(
        &access.project,
        &detail.merge_request,
        detailed_status::MergeFacts {
            is_approved: approvals.is_approved(),
            have_checks_passed,
            is_unresolved: detail.unresolved,
            pipeline: pipeline_state,
            needs_rebase: may_need_rebase && diverged.is_some_and(|count| count > 0),
        },
    );
    detail.extras = Some(MergeRequestExtras {
        changes_count,
        diverged_commits_count,
        detailed_status,
        // Rebases finish within the request, so none is ever in progress.
        rebase_in_progress: include.rebase_in_progress.then_some(false),
        pipeline,
        ..parts.extras(&mut rows, &rules, &detail)
    });
    Ok(detail)
}

fn missing() -> Error {
    Error::internal("the project of a merge request was not found")
}

/// The parts of a statement with the extras of a merge request.
struct ExtraParts {
    subscription: Option<SubscriptionParts>,
    /// A row if the author has a role in the project.
    author_role: PartKey,
    /// A row if the author has another merge request that was merged in the project.
    merged: PartKey,
    rules: RefRuleParts,
    deployments: PartKey,
}

impl ExtraParts {
    fn add(related: &mut RelatedRows, access: &ProjectAccess, merge_request: &Model) -> Self {
        let (id, project_id) = (merge_request.id, merge_request.target_project_id);
        let today = now().date_naive();
        let author_role = merge_request
            .author_id
            .map(|author| has_project_level_part(author, project_id, today));
        let user = access.caller.as_user();
        let deployments = deployments::can_read(access).then(|| deployments::to_production_part(id));
        Self {
            subscription: user.map(|user| SubscriptionParts::add(related, merge_request, user.id)),
            author_role: related.add(author_role),
            merged: related.add(merged_part(merge_request)),
            rules: branch_protection::add_rules(related, access),
            deployments: related.add(deployments),
        }
    }

    /// Returns the extras that are read from the database.
    fn extras(
        self,
        rows: &mut RelatedRowSets,
        rules: &BranchRules,
        detail: &MergeRequestDetail,
    ) -> MergeRequestExtras {
        let merge_request = &detail.merge_request;
        let has_role = !rows.take(self.author_role).is_empty();
        let has_merged = !rows.take(self.merged).is_empty();
        let deployment = rows.take(self.deployments).into_iter().next();
        MergeRequestExtras {
            subscribed: self
                .subscription
                .map(|parts| parts.is_subscribed(rows, merge_request, &detail.assignees)),
            first_contribution: merge_request.author_id.is_some() && !has_role && !has_merged,
            can_merge: rules.can_merge(&merge_request.target_branch),
            first_deployed_to_production_at: deployment.and_then(|row| row.time),
            ..MergeRequestExtras::default()
        }
    }
}

/// Returns a part with a row if the author has another merge request that was merged in the project.
fn merged_part(merge_request: &Model) -> Option<RelatedPart> {
    let rows = Query::select()
        .from(merge_requests::Entity)
        .and_where(merge_requests::Column::TargetProjectId.eq(merge_request.target_project_id))
        .and_where(merge_requests::Column::AuthorId.eq(merge_request.author_id?))
        .and_where(merge_requests::Column::State.eq(MergeRequestState::Merged))
        .and_where(merge_requests::Column::Id.ne(merge_request.id))
        .take();
    Some(RelatedPart::exists(rows, merge_request.id))
}

/// Loads the associations of a page of merge requests, with the full paths of some projects already known. Reserves the
/// memory of a response that contains the description of the milestone once for each merge request.
///
/// # Errors
/// Returns the errors of [`AssociationRequest::load`] and [`milestones::reserve_descriptions`].
pub(super) async fn decorate_with_paths(
    db: &impl ConnectionTrait,
    caller: &Caller,
    merge_requests: Vec<Model>,
    paths: HashMap<i64, String>,
) -> Result<Vec<MergeRequestDetail>> {
    let found = with_milestones(db, merge_requests).await?;
    let request = AssociationRequest {
        paths,
        ..request_for(caller, &found)
    };
    let (mut associations, _) = request.load(db, RelatedRows::default()).await?;
    let details = with_associations(found, &mut associations);
    let copied = details.iter().filter_map(|detail| detail.milestone.as_deref());
    milestones::reserve_descriptions(caller, copied)?;
    Ok(details)
}

/// Loads the associations of a page of merge requests, in one statement with the parts of `related`.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn load_details(
    db: &impl ConnectionTrait,
    caller: &Caller,
    found: Vec<WithMilestone<Model>>,
    related: RelatedRows,
) -> Result<(Vec<MergeRequestDetail>, RelatedRowSets)> {
    let (mut associations, rows) = request_for(caller, &found).load(db, related).await?;
    Ok((with_associations(found, &mut associations), rows))
}

fn request_for<'a>(caller: &'a Caller, found: &'a [WithMilestone<Model>]) -> AssociationRequest<'a> {
    AssociationRequest {
        caller,
        // The associations of merge requests do not depend on the viewer.
        viewer: Viewer::Admin,
        issues: &[],
        merge_requests: found,
        paths: HashMap::new(),
        user_ids: Vec::new(),
    }
}

/// Combines merge requests with their associations. Merge requests whose project was deleted meanwhile are omitted.
pub(crate) fn with_associations(
    found: Vec<WithMilestone<Model>>,
    associations: &mut Associations,
) -> Vec<MergeRequestDetail> {
    let details = found.into_iter().filter_map(|(merge_request, _)| {
        Some(MergeRequestDetail {
            project_path: associations.path(&merge_request)?,
            author: associations.user(merge_request.author_id),
            closed_by: associations.user(merge_request.closed_by_id),
            merged_by: associations.user(merge_request.merged_by_id),
            auto_merge_user: associations.user(
                merge_request
                    .merge_user_id
                    .filter(|_| merge_request.merge_when_pipeline_succeeds),
            ),
            assignees: associations.assignees(&merge_request),
            reviewers: associations.reviewers(&merge_request),
            labels: associations.labels(&merge_request),
            milestone: associations.milestone(&merge_request),
            unresolved: associations.is_unresolved(&merge_request),
            extras: None,
            merge_request,
        })
    });
    details.collect()
}

/// Returns whether a merge request has unresolved discussions.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn has_unresolved_discussions(
    db: &impl ConnectionTrait,
    merge_request: &Model,
) -> Result<bool> {
    let mut related = RelatedRows::default();
    let part = related.add(notes::unresolved_part(
        db.get_database_backend(),
        &[merge_request.id],
    ));
    Ok(!related.load(db).await?.take(part).is_empty())
}
