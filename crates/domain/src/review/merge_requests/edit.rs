//! Updates merge requests.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel, TryIntoModel};
use storage::entities::merge_requests::{ActiveModel, MergeRequestState, MergeStatus, Model};
use storage::entities::now;

use super::create::{follow, refuse_same, refuse_second, settle, taken};
use super::row::{self, Row, Wanted};
use super::{find, lock};
use crate::identity::access::ProjectAccess;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::policy::Role;
use crate::planning::issuables::{IssuableKind, IssuableRow, Metadata, Prepared, check_title};
use crate::planning::mentions::{self, Written};
use crate::planning::state_event::StateEvent;
use crate::planning::system_notes::{self, NoteableId};
use crate::review::merge_requests::branch_heads::{self, BranchOf, Tips};
use crate::review::merge_requests::closing_issues::{self, Scene};
use crate::review::merge_requests::events::{Told, tell};

/// Changes to a merge request; absent fields are unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// The title.
    pub title: Option<String>,
    /// The description.
    pub description: Patch<String>,
    /// The target branch.
    pub target_branch: Option<String>,
    /// The state change.
    pub state_event: Option<StateEvent>,
    /// Metadata that members may set.
    pub metadata: Metadata,
    /// Whether to delete the source branch after the merge.
    pub remove_source_branch: Option<bool>,
    /// Whether to squash the commits.
    pub squash: Option<bool>,
    /// Whether members of the target project may push to the source branch.
    pub allow_collaboration: Option<bool>,
}

/// Names of the fields, for the error of an update without any.
const FIELDS: [&str; 14] = [
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
];

/// Updates a merge request. If nothing differs, nothing is written. Metadata reserved for members is ignored
/// for other callers.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible, and `Forbidden` if the caller cannot edit it.
/// Returns a validation error for invalid attributes or none at all. Returns `Conflict` if another merge
/// request is open for the same branches.
pub async fn edit(backend: &Backend, access: &ProjectAccess, iid: i64, change: Change) -> Result<Row> {
    if change == Change::default() {
        return Err(Error::no_parameters(&FIELDS));
    }
    let author = access.caller.signed_in()?.id;
    let found = find(backend.database.read(), access, iid).await?;
    if !access.has_role(Role::Developer) && found.author_id != Some(author) {
        return Err(Error::forbidden());
    }
    let said = match access.has_role(Role::Guest) {
        true => change.metadata.clone(),
        false => Metadata::default(),
    };
    let mut prepared = said.prepare(backend, access, IssuableKind::MergeRequest).await?;
    if let Some(title) = &change.title {
        check_title(title)?;
    }
    let moved = stand(backend, &found, &change).await?;
    let (head, base) = match &moved {
        Some((tips, base)) => (tips.head.to_string(), base.unwrap_or(tips.start).to_string()),
        None => (found.head_sha.clone(), found.base_sha.clone()),
    };
    let scene = match moved.is_some() || !change.description.is_keep() {
        true => Some(Scene::new(backend, access, found.source_project_id, &head, &base).await?),
        false => None,
    };
    let place = SpaceAccess::from(access.clone());
    let said = mentions::listen(
        backend,
        &mentions::Scene::of_merge_request(&place),
        &mentions::texts(Some(&found.title), found.description.as_ref()),
        &mentions::texts(change.title.as_deref(), change.description.value()),
    )
    .await?;
    let merge_request = backend
        .database
        .transaction(async |transaction| {
            prepared.hold(transaction, access).await?;
            let before = lock(transaction, access, iid).await?;
            if moved.is_some()
                && matches!(
                    before.state,
                    MergeRequestState::Merged | MergeRequestState::Locked
                )
            {
                return Err(Error::attribute("target_branch", SETTLED));
            }
            let mut row = before.clone().into_active_model();
            let mut notes = say(&mut row, &before, &change, author)?;
            if let Some((tips, base)) = &moved {
                row.head_sha = Set(tips.head.to_string());
                row.start_sha = Set(tips.start.to_string());
                row.base_sha = Set(base.unwrap_or(tips.start).to_string());
                row.merge_status = Set(MergeStatus::Unchecked);
                row.merge_status_of = Set(None);
                row.merge_error = Set(None);
            }
            notes.extend(enter(&prepared, &mut row, Some(&before)));
            notes.extend(turn(&mut row, before.state, change.state_event, author)?);
            let this = (IssuableKind::MergeRequest, before.id);
            let mut outcome = prepared.attach(transaction, access, this, false).await?;
            notes.append(&mut outcome.notes);
            let stays = notes.is_empty() && outcome.changes.is_empty() && moved.is_none();
            if stays && row.clone().try_into_model()? == before {
                return Ok(before);
            }
            row.updated_at = Set(now());
            let opened =
                before.state != MergeRequestState::Opened && change.state_event == Some(StateEvent::Reopen);
            if let (true, Some(source)) = (moved.is_some() || opened, before.source_project_id) {
                let into = change.target_branch.as_deref().unwrap_or(&before.target_branch);
                let source = (source, before.source_branch.as_str());
                let target = (before.target_project_id, into);
                refuse_second(transaction, source, target, Some(before.id)).await?;
            }
            let merge_request = row.update(transaction).await.map_err(taken)?;
            if let Some(scene) = &scene {
                closing_issues::keep(transaction, scene, &merge_request).await?;
            }
            let told = Told {
                author: Some(author),
                before: Some(&before),
                after: &merge_request,
                notes,
                beside: outcome.changes,
                oldrev: None,
            };
            tell(transaction, told).await?;
            let written = Written::on(
                &place,
                NoteableId::MergeRequest(merge_request.id),
                merge_request.iid,
                author,
            );
            said.enter(transaction, written, outcome.newly_assigned).await?;
            if moved.is_some() {
                follow(transaction, merge_request.id).await?;
            }
            Ok::<_, Error>(merge_request)
        })
        .await?;
    let merge_request = match moved {
        Some((tips, base)) => settle(backend, merge_request, base.is_some(), tips).await?,
        None => merge_request,
    };
    row::of_one(backend, access, merge_request, Wanted::default()).await
}

/// Returns the heads and the merge base of the branches if the target changes or the merge request is
/// reopened, otherwise `None`.
async fn stand(
    backend: &Backend,
    found: &Model,
    change: &Change,
) -> Result<Option<(Tips, Option<git::Oid>)>> {
    let into = change
        .target_branch
        .as_deref()
        .filter(|name| *name != found.target_branch);
    let opens = found.state == MergeRequestState::Closed && change.state_event == Some(StateEvent::Reopen);
    if into.is_none() && !opens {
        return Ok(None);
    }
    if matches!(found.state, MergeRequestState::Merged | MergeRequestState::Locked) {
        return Err(Error::attribute("target_branch", SETTLED));
    }
    let Some(source_id) = found.source_project_id else {
        return Err(Error::attribute("source_project", "no longer exists"));
    };
    let source = BranchOf {
        project_id: source_id,
        name: &found.source_branch,
    };
    let target = BranchOf {
        project_id: found.target_project_id,
        name: into.unwrap_or(&found.target_branch),
    };
    refuse_same(source, target)?;
    let tips = branch_heads::of(backend, source, target).await?;
    let base = branch_heads::base(backend, found.target_project_id, Some(source_id), tips).await?;
    Ok(Some((tips, base)))
}

const SETTLED: &str = "can't be changed during or after the merge";

/// Applies the changed fields to the row and returns the system notes.
fn say(row: &mut ActiveModel, before: &Model, change: &Change, author: i64) -> Result<Vec<String>> {
    let title = change.title.as_deref().map(check_title).transpose()?;
    let mut notes = Model::columns(row).edit(before, title, &change.description, author);
    if let Some(name) = change
        .target_branch
        .as_deref()
        .filter(|name| *name != before.target_branch)
    {
        row.target_branch = Set(name.to_owned());
        notes.push(system_notes::retargeted(&before.target_branch, name));
    }
    if let Some(wanted) = change.remove_source_branch {
        row.force_remove_source_branch = Set(Some(wanted));
    }
    if let Some(squash) = change.squash {
        row.squash = Set(squash);
    }
    if let Some(allowed) = change.allow_collaboration {
        row.allow_collaboration = Set(allowed);
    }
    Ok(notes)
}

/// Applies the state change to the row and returns its system note.
fn turn(
    row: &mut ActiveModel,
    state: MergeRequestState,
    event: Option<StateEvent>,
    author: i64,
) -> Result<Option<String>> {
    match (event, state) {
        (Some(_), MergeRequestState::Merged | MergeRequestState::Locked) => {
            Err(Error::attribute("state", SETTLED))
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

/// Applies the metadata to the row and returns the system notes.
pub(super) fn enter(prepared: &Prepared, row: &mut ActiveModel, before: Option<&Model>) -> Vec<String> {
    let milestone = prepared.apply_milestone(row, before);
    milestone
        .into_iter()
        .chain(prepared.apply_lock(row, before))
        .collect()
}
