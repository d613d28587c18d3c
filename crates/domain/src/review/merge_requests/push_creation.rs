//! Creates the merge requests that the options of a push request.

use storage::entities::users;
use storage::jobs::JobFailure;

use super::create::{NewMergeRequest, create};
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::policy::Role;
use crate::kernel::ref_changes::{RefChange, UpdatedRefs};
use crate::planning::issuables::IssuableMetadata;
use crate::review::jobs::create_merge_request::CreateMergeRequest;

/// Maximum number of merge requests of one push.
const MAX_MERGE_REQUESTS: usize = 3;
/// Maximum length of a title, in characters.
const MAX_TITLE_LENGTH: usize = 255;

/// Returns the merge requests that a push requests for its branches.
pub(super) fn requested(refs: &UpdatedRefs<'_>) -> Vec<CreateMergeRequest> {
    let (Some(options), Some(user_id)) = (&refs.update.merge_request, refs.update.user_id) else {
        return Vec::new();
    };
    let is_pushed = |change: &&RefChange| change.new.is_some() && change.old != change.new;
    let branches = refs.changes.iter().filter(is_pushed);
    let branches = branches.filter_map(|change| change.reference.strip_prefix("refs/heads/"));
    let branches = branches.filter(|branch| Some(*branch) != refs.default_branch);
    let requests = branches
        .take(MAX_MERGE_REQUESTS)
        .map(|branch| CreateMergeRequest {
            project_id: refs.project.id,
            user_id,
            branch: branch.to_owned(),
            options: options.clone(),
        });
    requests.collect()
}

/// Runs the job.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run_create_merge_request(backend: Backend, job: CreateMergeRequest) -> Result<(), JobFailure> {
    Ok(create_for_push(&backend, job).await?)
}

/// Creates a merge request as the user who pushed. Nothing happens if the user may not create the merge request any more, or
/// if one is open for the branches already.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
async fn create_for_push(backend: &Backend, job: CreateMergeRequest) -> Result<()> {
    let user = users::by_reference(backend.database.read(), &job.user_id.to_string()).await?;
    let Some(user) = user.filter(|user| user.state == users::UserState::Active) else {
        return Ok(());
    };
    let access = ProjectAccess::find_visible(backend, &Caller::user(user), job.project_id).await?;
    let Some(access) = access.filter(|access| access.has_role(Role::Developer) && !access.project.archived)
    else {
        return Ok(());
    };
    let Some(new) = attributes(backend, &access, job).await? else {
        return Ok(());
    };
    match create(backend, &access, new).await {
        Err(
            error @ (Error::Conflict(_)
            | Error::InvalidAttributes(_)
            | Error::InvalidParameters(_)
            | Error::Forbidden(_)
            | Error::NotFound(_)),
        ) => {
            tracing::info!(project = access.project.id, %error, "skipped the merge request of a push");
            Ok(())
        }
        created => created.map(drop),
    }
}

/// Returns the attributes; `None` if a branch does not exist any more.
async fn attributes(
    backend: &Backend,
    access: &ProjectAccess,
    job: CreateMergeRequest,
) -> Result<Option<NewMergeRequest>> {
    let (branch, options) = (job.branch, job.options);
    let Some(target) = options.target.or_else(|| access.project.default_branch.clone()) else {
        return Ok(None);
    };
    let title = match options.title {
        Some(title) => title,
        None => {
            let repository = repository_access::open(backend, access);
            let head = match repository.branch(&branch).await {
                Ok(found) => found.commit,
                Err(git::Error::BranchNotFound | git::Error::RepositoryMissing) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let message = repository.commit(head).await?.message;
            let first = message.lines().next().unwrap_or_default().trim().to_owned();
            Some(first)
                .filter(|title| !title.is_empty())
                .unwrap_or_else(|| branch.clone())
        }
    };
    let title = match options.draft {
        true => format!("Draft: {title}"),
        false => title,
    };
    Ok(Some(NewMergeRequest {
        source_branch: branch,
        target_branch: target,
        title: title.chars().take(MAX_TITLE_LENGTH).collect(),
        description: options.description,
        metadata: IssuableMetadata {
            labels: match options.labels.is_empty() {
                true => Patch::Keep,
                false => Patch::Set(options.labels),
            },
            ..IssuableMetadata::default()
        },
        remove_source_branch: options.remove_source_branch,
        squash: options.squash,
        ..NewMergeRequest::default()
    }))
}
