//! Creates merge requests.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait};
use storage::database::Violation;
use storage::entities::iid_counters::{self, IidKind};
use storage::entities::merge_requests::{self, MergeRequestState, MergeStatus};
use storage::entities::{Scope, merge_request_versions, now, projects};
use storage::jobs;

use super::is_enabled;
use super::row::{self, MergeRequestDetail};
use crate::identity::access::ProjectAccess;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
use crate::planning::issuables::events::{IssuableChange, publish};
use crate::planning::issuables::{IssuableKind, IssuableMetadata, check_title, task_list};
use crate::planning::mentions::{self, TextAudience, TextSource};
use crate::planning::system_notes::NoteableId;
use crate::review::jobs::update_head_ref::UpdateHeadRef;
use crate::review::merge_requests::branch_heads::{self, BranchHeads, BranchRef};
use crate::review::merge_requests::closing_issues::{self, ReferenceContext};
use crate::review::merge_requests::head_refs;

/// Maximum depth of forks that is followed to the original project.
const MAX_FORK_DEPTH: usize = 100;

/// Attributes of a new merge request.
#[derive(Debug, Clone, Default)]
pub struct NewMergeRequest {
    /// The source branch.
    pub source_branch: String,
    /// The target branch.
    pub target_branch: String,
    /// The target project; the source project by default.
    pub target_project_id: Option<i64>,
    /// The title.
    pub title: String,
    /// The description.
    pub description: Option<String>,
    /// Metadata that members of the target project may set.
    pub metadata: IssuableMetadata,
    /// Whether to delete the source branch after the merge.
    pub remove_source_branch: Option<bool>,
    /// Whether to squash the commits; by default that of the target project.
    pub squash: Option<bool>,
    /// Whether members of the target project may push to the source branch.
    pub allow_collaboration: bool,
}

/// Creates a merge request from a branch of the given project. Metadata reserved for members is ignored for
/// other callers.
///
/// # Errors
/// Returns `NotFound` for an unknown target project, `Forbidden` if its merge requests are disabled for the
/// caller, and a validation error for invalid attributes. Returns `Conflict` if a merge request is open for
/// the same branches.
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    new: NewMergeRequest,
) -> Result<MergeRequestDetail> {
    let author = access.caller.signed_in()?.id;
    let target = target(backend, access, new.target_project_id).await?;
    let title = check_title(&new.title)?;
    let (source_id, target_id) = (access.project.id, target.project.id);
    let source = BranchRef {
        project_id: source_id,
        name: &new.source_branch,
    };
    let target_branch = BranchRef {
        project_id: target_id,
        name: &new.target_branch,
    };
    check_different_branches(source, target_branch)?;
    let heads = branch_heads::find(backend, source, target_branch).await?;
    let base = branch_heads::merge_base(backend, target_id, Some(source_id), heads).await?;
    let (head_sha, base_sha) = (heads.head.to_string(), base.unwrap_or(heads.start).to_string());
    let context = ReferenceContext::new(backend, &target, Some(source_id), &head_sha, &base_sha).await?;
    let metadata = match target.has_role(Role::Guest) {
        true => new.metadata,
        false => IssuableMetadata::default(),
    };
    let mut prepared = metadata
        .prepare(backend, &target, IssuableKind::MergeRequest)
        .await?;
    let (tasks, completed) = task_list::count(new.description.as_deref());
    let space = SpaceAccess::from(target.clone());
    let texts = mentions::texts(Some(title), new.description.as_ref());
    let audience = TextAudience::of_merge_request(&space);
    let effects = mentions::resolve(backend, &audience, &[], &texts).await?;
    let created_at = now();
    let mut row = merge_requests::ActiveModel {
        target_project_id: Set(target_id),
        source_project_id: Set(Some(source_id)),
        author_id: Set(Some(author)),
        source_branch: Set(new.source_branch.clone()),
        target_branch: Set(new.target_branch.clone()),
        title: Set(title.to_owned()),
        description: Set(new.description),
        state: Set(MergeRequestState::Opened),
        head_sha: Set(head_sha),
        base_sha: Set(base_sha),
        start_sha: Set(heads.start.to_string()),
        merge_status: Set(MergeStatus::Unchecked),
        squash: Set(new
            .squash
            .unwrap_or_else(|| target.project.squash_option.is_default())),
        force_remove_source_branch: Set(new.remove_source_branch),
        allow_collaboration: Set(new.allow_collaboration),
        tasks: Set(tasks),
        completed_tasks: Set(completed),
        created_at: Set(created_at),
        updated_at: Set(created_at),
        ..Default::default()
    };
    let merge_request = backend
        .database
        .transaction(async |transaction| {
            prepared.lock(transaction, &target).await?;
            super::update::apply_metadata(&prepared, &mut row, None);
            // The counter row is locked now, so no other merge request for the same branches can be created
            // concurrently.
            let scope = Scope::Project(target_id);
            row.iid = Set(iid_counters::next(transaction, scope, IidKind::MergeRequests).await?);
            check_no_other_open(
                transaction,
                (source_id, &new.source_branch),
                (target_id, &new.target_branch),
                None,
            )
            .await?;
            let merge_request = row.clone().insert(transaction).await.map_err(map_write_error)?;
            merge_request_versions::insert(transaction, &merge_request, created_at).await?;
            let id = (IssuableKind::MergeRequest, merge_request.id);
            let links = prepared.link(transaction, &target, id, true).await?;
            closing_issues::save(transaction, &context, &merge_request).await?;
            publish(transaction, IssuableChange::created(author, &merge_request)).await?;
            let noteable = NoteableId::MergeRequest(merge_request.id);
            let source = TextSource::new(&space, noteable, merge_request.iid, author);
            effects.save(transaction, source, links.newly_assigned).await?;
            enqueue_head_update(transaction, merge_request.id).await?;
            Ok::<_, Error>(merge_request)
        })
        .await?;
    let merge_request = store_head(backend, merge_request, base.is_some(), heads).await?;
    row::load_written(backend, &target, merge_request).await
}

/// Returns the target project.
async fn target(backend: &Backend, access: &ProjectAccess, id: Option<i64>) -> Result<ProjectAccess> {
    let target = match id {
        Some(id) if id != access.project.id => {
            ProjectAccess::find(backend, access.caller.clone(), &id.to_string()).await?
        }
        _ => access.clone(),
    };
    if target.project.archived || !is_enabled(&target) {
        return Err(Error::forbidden());
    }
    if target.project.id != access.project.id {
        let origins = (
            origin(backend, &access.project).await?,
            origin(backend, &target.project).await?,
        );
        if origins.0 != origins.1 {
            let text = "Source project is not a fork of the target project";
            return Err(Error::attribute("validate_fork", text));
        }
    }
    Ok(target)
}

/// Returns the original project of a chain of forks.
async fn origin(backend: &Backend, project: &projects::Model) -> Result<i64> {
    let (mut id, mut parent) = (project.id, project.forked_from_id);
    for _ in 0..MAX_FORK_DEPTH {
        let Some(parent_id) = parent else { break };
        let found = projects::Entity::find_by_id(parent_id)
            .one(backend.database.read())
            .await?;
        (id, parent) = (parent_id, found.and_then(|project| project.forked_from_id));
    }
    Ok(id)
}

/// Rejects equal source and target branches.
///
/// # Errors
/// Returns a validation error if both branches are the same.
pub(super) fn check_different_branches(source: BranchRef<'_>, target: BranchRef<'_>) -> Result<()> {
    if (source.project_id, source.name) == (target.project_id, target.name) {
        let text = "You can't use same project/branch for source and target";
        return Err(Error::attribute("branch_conflict", text));
    }
    Ok(())
}

/// Rejects a second open merge request for the same branches, except the one with ID `except`.
///
/// # Errors
/// Returns `Conflict` if one exists.
pub(super) async fn check_no_other_open(
    transaction: &DatabaseTransaction,
    source: (i64, &str),
    target: (i64, &str),
    except: Option<i64>,
) -> Result<()> {
    let open = merge_requests::open_between(source, target)
        .one(transaction)
        .await?;
    match open.filter(|open| Some(open.id) != except) {
        Some(other) => {
            let text = format!(
                "Another open merge request already exists for this source branch: !{}",
                other.iid
            );
            Err(Error::Conflict(text.into()))
        }
        None => Ok(()),
    }
}

/// Maps a database error of an insert or update.
pub(super) fn map_write_error(error: sea_orm::DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(_)) => {
            Error::Conflict("Another open merge request already exists for this source branch".into())
        }
        Some(Violation::ForeignKey(_)) => Error::not_found("Project"),
        _ => error.into(),
    }
}

/// Enqueues another check of the source branch, for a push between the read of the branch and the commit of
/// this transaction.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn enqueue_head_update(transaction: &DatabaseTransaction, id: i64) -> Result<()> {
    let job = UpdateHeadRef { merge_request_id: id };
    jobs::enqueue(transaction, &job).await.map_err(Error::internal)
}

/// Fetches the commits into the target repository. Records the merge base if it could not be determined
/// before.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub(super) async fn store_head(
    backend: &Backend,
    merge_request: merge_requests::Model,
    has_base: bool,
    heads: BranchHeads,
) -> Result<merge_requests::Model> {
    if let Err(error) = head_refs::update(backend, &merge_request).await {
        // The merge request exists, and its commits are still in the source repository.
        tracing::error!(id = merge_request.id, %error, "failed to update the head ref of a merge request");
    }
    if has_base {
        return Ok(merge_request);
    }
    let (target_id, source_id) = (merge_request.target_project_id, merge_request.source_project_id);
    let Some(base) = branch_heads::merge_base(backend, target_id, source_id, heads).await? else {
        return Ok(merge_request);
    };
    let (base, start) = (base.to_string(), heads.start.to_string());
    let row = merge_requests::ActiveModel {
        id: Set(merge_request.id),
        base_sha: Set(base.clone()),
        ..Default::default()
    };
    backend
        .database
        .transaction(async |transaction| {
            let merge_request = row.clone().update(transaction).await?;
            merge_request_versions::update_newest(transaction, merge_request.id, (&base, &start)).await?;
            Ok(merge_request)
        })
        .await
}
