//! Updates merge requests.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};
use storage::entities::merge_requests::{ActiveModel, MergeRequestState, MergeStatus, Model};
use storage::entities::{approvals, merge_request_versions, now, row_changes};

use super::create::{
    check_different_branches, check_no_other_open, enqueue_head_update, map_write_error, store_head,
};
use super::row::{self, MergeRequestDetail};
use super::{find, lock};
use crate::identity::access::ProjectAccess;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::policy::Role;
use crate::planning::issuables::events::{IssuableChange, publish};
use crate::planning::issuables::{
    IssuableKind, IssuableMetadata, IssuableRow, PreparedMetadata, check_title,
};
use crate::planning::mentions::{self, TextAudience, TextSource};
use crate::planning::state_event::StateEvent;
use crate::planning::system_notes::{self, NoteableId};
use crate::review::merge_requests::auto_merge;
use crate::review::merge_requests::branch_heads::{self, BranchHeads, BranchRef};
use crate::review::merge_requests::closing_issues::{self, ReferenceContext};

/// Changes to a merge request; absent fields are unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MergeRequestUpdate {
    /// The title.
    pub title: Option<String>,
    /// The description.
    pub description: Patch<String>,
    /// The target branch.
    pub target_branch: Option<String>,
    /// The state change.
    pub state_event: Option<StateEvent>,
    /// Metadata that members may set.
    pub metadata: IssuableMetadata,
    /// Whether to delete the source branch after the merge.
    pub remove_source_branch: Option<bool>,
    /// Whether to squash the commits.
    pub squash: Option<bool>,
    /// Whether members of the target project may push to the source branch.
    pub allow_collaboration: Option<bool>,
}

/// Names of the fields, for the error of an update without any.
const ATTRIBUTES: [&str; 15] = [
    "title",
    "description",
    "target_branch",
    "assignee_id",
    "assignee_ids",
    "milestone_id",
    "labels",
    "add_labels",
    "remove_labels",
    "state_event",
    "remove_source_branch",
    "squash",
    "discussion_locked",
    "allow_collaboration",
    "reviewer_ids",
];

/// Updates a merge request. If nothing differs, nothing is written. Metadata reserved for members is ignored
/// for other callers.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible, and `Forbidden` if the caller cannot edit it.
/// Returns a validation error for invalid attributes or none at all. Returns `Conflict` if another merge
/// request is open for the same branches.
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    update: MergeRequestUpdate,
) -> Result<MergeRequestDetail> {
    if update == MergeRequestUpdate::default() {
        return Err(Error::no_parameters(&ATTRIBUTES));
    }
    let author = access.caller.signed_in()?.id;
    let found = find(backend.database.read(), access, iid).await?;
    if !access.has_role(Role::Developer) && found.author_id != Some(author) {
        return Err(Error::forbidden());
    }
    let metadata = match access.has_role(Role::Guest) {
        true => update.metadata.clone(),
        false => IssuableMetadata::default(),
    };
    let kind = IssuableKind::MergeRequest;
    let mut prepared = metadata.prepare(backend, access, kind).await?;
    if let Some(title) = &update.title {
        check_title(title)?;
    }
    let branches = resolve_branches(backend, &found, &update).await?;
    let (head, base) = match &branches {
        Some((heads, base)) => (heads.head.to_string(), base.unwrap_or(heads.start).to_string()),
        None => (found.head_sha.clone(), found.base_sha.clone()),
    };
    let context = match branches.is_some() || !update.description.is_keep() {
        true => Some(ReferenceContext::new(backend, access, found.source_project_id, &head, &base).await?),
        false => None,
    };
    let space = SpaceAccess::from(access.clone());
    let effects = mentions::resolve(
        backend,
        &TextAudience::of_merge_request(&space),
        &mentions::texts(Some(&found.title), found.description.as_ref()),
        &mentions::texts(update.title.as_deref(), update.description.value()),
    )
    .await?;
    let merge_request = backend
        .database
        .transaction(async |transaction| {
            prepared.lock(transaction, access).await?;
            if let Some(context) = &context {
                closing_issues::lock_affected(transaction, context, &with_changes(&found, &update)).await?;
            }
            let before = lock(transaction, access, iid).await?;
            if branches.is_some()
                && matches!(
                    before.state,
                    MergeRequestState::Merged | MergeRequestState::Locked
                )
            {
                return Err(Error::attribute("target_branch", LOCKED_MESSAGE));
            }
            let mut row = before.clone().into_active_model();
            let mut notes = apply_fields(&mut row, &before, &update, author)?;
            if let Some((heads, base)) = &branches {
                row.head_sha = Set(heads.head.to_string());
                row.start_sha = Set(heads.start.to_string());
                row.base_sha = Set(base.unwrap_or(heads.start).to_string());
                row.merge_status = Set(MergeStatus::Unchecked);
                row.merge_status_of = Set(None);
                row.merge_error = Set(None);
            }
            let has_new_code = *row.head_sha.as_ref() != before.head_sha
                || *row.target_branch.as_ref() != before.target_branch;
            if has_new_code && approvals::reset(transaction, &before).await? {
                notes.push("removed all approvals because the commits changed".to_owned());
            }
            notes.extend(apply_metadata(&prepared, &mut row, Some(&before)));
            notes.extend(apply_state_event(
                &mut row,
                before.state,
                update.state_event,
                author,
            )?);
            if before.merge_when_pipeline_succeeds
                && let Some(reason) = reason_to_cancel(&row, &before)
            {
                auto_merge::clear(&mut row);
                notes.push(auto_merge::cancellation_note(reason));
            }
            let mut links = prepared
                .link(transaction, access, (kind, before.id), false)
                .await?;
            notes.append(&mut links.notes);
            let is_unchanged = notes.is_empty() && links.changes.is_empty() && branches.is_none();
            if is_unchanged && !row_changes::is_changed(&row, &before) {
                return Ok(before);
            }
            row.updated_at = Set(now());
            let reopens =
                before.state != MergeRequestState::Opened && update.state_event == Some(StateEvent::Reopen);
            if let (true, Some(source)) = (branches.is_some() || reopens, before.source_project_id) {
                let branch = update.target_branch.as_deref().unwrap_or(&before.target_branch);
                let source = (source, before.source_branch.as_str());
                let target = (before.target_project_id, branch);
                check_no_other_open(transaction, source, target, Some(before.id)).await?;
            }
            let merge_request = row.update(transaction).await.map_err(map_write_error)?;
            let commits = |row: &Model| (row.head_sha.clone(), row.base_sha.clone(), row.start_sha.clone());
            if commits(&merge_request) != commits(&before) {
                merge_request_versions::insert(transaction, &merge_request, merge_request.updated_at).await?;
            }
            if let Some(context) = &context {
                closing_issues::save(transaction, context, &merge_request).await?;
            }
            let change = IssuableChange {
                other_changes: links.changes,
                ..IssuableChange::updated(Some(author), &before, &merge_request, notes)
            };
            publish(transaction, change).await?;
            let noteable = NoteableId::MergeRequest(merge_request.id);
            let source = TextSource::new(&space, noteable, merge_request.iid, author);
            effects.save(transaction, source, links.newly_assigned).await?;
            // The merge request may have been closed after its branches were read.
            if branches.is_some() || reopens {
                enqueue_head_update(transaction, merge_request.id).await?;
            }
            Ok::<_, Error>(merge_request)
        })
        .await?;
    let merge_request = match branches {
        Some((heads, base)) => store_head(backend, merge_request, base.is_some(), heads).await?,
        None => merge_request,
    };
    row::load_written(backend, access, merge_request).await
}

/// Returns the heads and the merge base of the branches if the target changes or the merge request is
/// reopened, otherwise `None`.
async fn resolve_branches(
    backend: &Backend,
    found: &Model,
    update: &MergeRequestUpdate,
) -> Result<Option<(BranchHeads, Option<git::Oid>)>> {
    let branch = update
        .target_branch
        .as_deref()
        .filter(|name| *name != found.target_branch);
    let reopens = found.state == MergeRequestState::Closed && update.state_event == Some(StateEvent::Reopen);
    if branch.is_none() && !reopens {
        return Ok(None);
    }
    if matches!(found.state, MergeRequestState::Merged | MergeRequestState::Locked) {
        return Err(Error::attribute("target_branch", LOCKED_MESSAGE));
    }
    let Some(source_id) = found.source_project_id else {
        return Err(Error::attribute("source_project", "no longer exists"));
    };
    let source = BranchRef {
        project_id: source_id,
        name: &found.source_branch,
    };
    let target = BranchRef {
        project_id: found.target_project_id,
        name: branch.unwrap_or(&found.target_branch),
    };
    check_different_branches(source, target)?;
    let heads = branch_heads::find(backend, source, target).await?;
    let base = branch_heads::merge_base(backend, found.target_project_id, Some(source_id), heads).await?;
    Ok(Some((heads, base)))
}

/// Error of attributes that are fixed once a merge has started.
const LOCKED_MESSAGE: &str = "can't be changed during or after the merge";

/// Applies the changed fields to the row and returns the texts of the system notes.
fn apply_fields(
    row: &mut ActiveModel,
    before: &Model,
    update: &MergeRequestUpdate,
    author: i64,
) -> Result<Vec<String>> {
    let title = update.title.as_deref().map(check_title).transpose()?;
    let mut notes = Model::columns(row).set_texts(before, title, &update.description, author);
    if let Some(name) = update
        .target_branch
        .as_deref()
        .filter(|name| *name != before.target_branch)
    {
        row.target_branch = Set(name.to_owned());
        notes.push(system_notes::target_branch_changed(&before.target_branch, name));
    }
    if let Some(remove) = update.remove_source_branch {
        row.force_remove_source_branch = Set(Some(remove));
    }
    if let Some(squash) = update.squash {
        row.squash = Set(squash);
    }
    if let Some(allowed) = update.allow_collaboration {
        row.allow_collaboration = Set(allowed);
    }
    Ok(notes)
}

/// Applies the state change to the row and returns its system note.
fn apply_state_event(
    row: &mut ActiveModel,
    state: MergeRequestState,
    event: Option<StateEvent>,
    author: i64,
) -> Result<Option<String>> {
    match (event, state) {
        (Some(_), MergeRequestState::Merged | MergeRequestState::Locked) => {
            Err(Error::attribute("state", LOCKED_MESSAGE))
        }
        (Some(StateEvent::Close), MergeRequestState::Opened) => {
            row.state = Set(MergeRequestState::Closed);
            Model::columns(row).close(author);
            Ok(Some("closed".to_owned()))
        }
        (Some(StateEvent::Reopen), MergeRequestState::Closed) => {
            row.state = Set(MergeRequestState::Opened);
            Model::columns(row).reopen();
            Ok(Some("reopened".to_owned()))
        }
        _ => Ok(None),
    }
}

/// Returns why the changes of a row cancel its automatic merge, or `None` if they do not. The user who enabled it has
/// not seen the commits of a merge request that was closed meanwhile, and has not approved a merge into another branch.
fn reason_to_cancel(row: &ActiveModel, before: &Model) -> Option<&'static str> {
    let state: MergeRequestState = *row.state.as_ref();
    if state != before.state {
        return Some(match state {
            MergeRequestState::Opened => "the merge request was reopened",
            _ => "the merge request was closed",
        });
    }
    if *row.target_branch.as_ref() != before.target_branch {
        return Some("the target branch changed");
    }
    (*row.head_sha.as_ref() != before.head_sha).then_some("the commits changed")
}

/// Returns a merge request with the new description and target branch.
fn with_changes(found: &Model, update: &MergeRequestUpdate) -> Model {
    let mut changed = found.clone();
    if let Some(description) = update.description.as_update() {
        changed.description = description.cloned();
    }
    if let Some(branch) = &update.target_branch {
        changed.target_branch.clone_from(branch);
    }
    changed
}

/// Applies the metadata to the row and returns the system notes.
pub(super) fn apply_metadata(
    prepared: &PreparedMetadata,
    row: &mut ActiveModel,
    before: Option<&Model>,
) -> Vec<String> {
    let milestone = prepared.apply_milestone(row, before);
    milestone
        .into_iter()
        .chain(prepared.apply_discussion_lock(row, before))
        .collect()
}
