//! The head pipeline of a merge request: the newest pipeline for the head on the source branch, in the source
//! project.

use sea_orm::ConnectionTrait;
use storage::entities::merge_requests::Model;
use storage::entities::pipelines::{self, BranchOrTag, PipelineStatus};
use storage::entities::projects;
use storage::entities::users::UserSummary;

use crate::delivery::access::can_read_pipelines;
use crate::identity::access::ProjectAccess;
use crate::kernel::error::Result;
use crate::kernel::{Backend, urls};

/// A pipeline with its project path.
#[derive(Debug, Clone)]
pub struct HeadPipeline {
    /// The pipeline.
    pub pipeline: pipelines::Model,
    /// The user who created it; `None` if the user was deleted.
    pub user: Option<UserSummary>,
    /// The full path of its project.
    pub project_path: String,
}

/// Returns the head pipeline of a merge request, without a permission check.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn find(
    db: &impl ConnectionTrait,
    merge_request: &Model,
) -> Result<Option<pipelines::Model>> {
    let Some(source) = merge_request.source_project_id else {
        return Ok(None);
    };
    let branch = BranchOrTag {
        name: &merge_request.source_branch,
        tag: false,
    };
    Ok(pipelines::newest(db, source, &merge_request.head_sha, Some(branch)).await?)
}

/// Returns whether the pipeline requirement of a project is met.
pub(super) fn allows_merge(target: &projects::Model, pipeline: Option<&pipelines::Model>) -> bool {
    match pipeline.map(|pipeline| pipeline.status) {
        Some(PipelineStatus::Success) => true,
        Some(PipelineStatus::Skipped) => target.allow_merge_on_skipped_pipeline,
        _ => false,
    }
}

/// Returns whether an automatic merge waits no longer for the pipeline. A merge request without a pipeline waits only
/// if the project requires one.
pub(super) fn is_ready(target: &projects::Model, pipeline: Option<&pipelines::Model>) -> bool {
    match pipeline {
        None => !target.only_allow_merge_if_pipeline_succeeds,
        Some(_) => allows_merge(target, pipeline),
    }
}

/// Returns a head pipeline with the full path of its project, if pipelines of the project are visible to the caller.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn if_visible(
    backend: &Backend,
    access: &ProjectAccess,
    pipeline: pipelines::Model,
) -> Result<Option<(pipelines::Model, String)>> {
    let source = match pipeline.project_id == access.project.id {
        true => access.clone(),
        false => match ProjectAccess::find_visible(backend, &access.caller, pipeline.project_id).await? {
            Some(source) => source,
            None => return Ok(None),
        },
    };
    if !can_read_pipelines(&source) {
        return Ok(None);
    }
    let path = urls::project_path(&source.namespace, &source.project);
    Ok(Some((pipeline, path)))
}
