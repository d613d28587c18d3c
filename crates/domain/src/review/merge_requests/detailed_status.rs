//! Whether a merge request can be merged, and otherwise the first reason why not.
//!
//! The conditions are those of [`merge::accept`](super::merge), in the order of the reference service.

use storage::entities::merge_requests::{MergeRequestState, MergeStatus, Model};
use storage::entities::pipelines;
use storage::entities::projects::{self, MergeMethod};

use super::drafts::is_draft;
use super::head_pipeline;

/// Whether a merge request can be merged, and otherwise the first reason why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DetailedMergeStatus {
    /// The merge request is closed or merged.
    NotOpen,
    /// The commits were not checked since a branch moved.
    #[default]
    Unchecked,
    /// The title marks a draft.
    Draft,
    /// Approvals are missing.
    NotApproved,
    /// The project requires all status checks to have passed.
    StatusChecksMustPass,
    /// The project requires all discussions to be resolved.
    DiscussionsNotResolved,
    /// The merge method of the project requires a rebase.
    NeedRebase,
    /// The branches have conflicts, or the target contains all commits already.
    Conflict,
    /// The project requires a successful pipeline, and the pipeline is not finished.
    CiStillRunning,
    /// The project requires a successful pipeline.
    CiMustPass,
    /// The merge request can be merged.
    Mergeable,
}

/// State of the head pipeline, if the project requires a successful one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PipelineState {
    /// The merge can proceed.
    Passed,
    /// The pipeline is not finished.
    Running,
    /// The pipeline failed or does not exist.
    Missing,
}

impl PipelineState {
    pub(super) fn of(project: &projects::Model, pipeline: Option<&pipelines::Model>) -> Self {
        let is_required = project.only_allow_merge_if_pipeline_succeeds;
        match pipeline {
            _ if !is_required || head_pipeline::allows_merge(project, pipeline) => Self::Passed,
            Some(pipeline) if !pipeline.status.is_finished() => Self::Running,
            _ => Self::Missing,
        }
    }
}

/// Facts about a merge request that its row does not contain.
#[derive(Debug, Clone, Copy)]
pub(super) struct MergeFacts {
    /// Whether it has the approvals that its rules require.
    pub is_approved: bool,
    /// Whether its status checks permit the merge.
    pub have_checks_passed: bool,
    /// Whether it has unresolved discussions.
    pub is_unresolved: bool,
    /// The state of its head pipeline.
    pub pipeline: PipelineState,
    /// Whether the target has commits that the source lacks, and the merge method forbids this.
    pub needs_rebase: bool,
}

/// Returns whether the merge method can require a rebase of a merge request, so that its commits have to be compared.
pub(super) fn may_need_rebase(project: &projects::Model, merge_request: &Model) -> bool {
    project.merge_method != MergeMethod::Merge
        && merge_request.state == MergeRequestState::Opened
        && merge_request.merge_status == MergeStatus::CanBeMerged
}

impl DetailedMergeStatus {
    pub(super) fn of(project: &projects::Model, merge_request: &Model, facts: MergeFacts) -> Self {
        let requires_discussions = project.only_allow_merge_if_all_discussions_are_resolved;
        if merge_request.state != MergeRequestState::Opened {
            return Self::NotOpen;
        }
        if merge_request.merge_status == MergeStatus::Unchecked {
            return Self::Unchecked;
        }
        if is_draft(&merge_request.title) {
            return Self::Draft;
        }
        if !facts.is_approved {
            return Self::NotApproved;
        }
        if !facts.have_checks_passed {
            return Self::StatusChecksMustPass;
        }
        if requires_discussions && facts.is_unresolved {
            return Self::DiscussionsNotResolved;
        }
        if facts.needs_rebase {
            return Self::NeedRebase;
        }
        if merge_request.merge_status == MergeStatus::CannotBeMerged {
            return Self::Conflict;
        }
        match facts.pipeline {
            PipelineState::Passed => Self::Mergeable,
            PipelineState::Running => Self::CiStillRunning,
            PipelineState::Missing => Self::CiMustPass,
        }
    }
}
