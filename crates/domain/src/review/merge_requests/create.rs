//! Creates merge requests.

use std::collections::BTreeMap;

use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait};
use storage::database::Violation;
use storage::entities::iid_counters::{self, IidKind};
use storage::entities::merge_requests::{self, MergeRequestState, MergeStatus};
use storage::entities::{Scope, now, projects};
use storage::jobs;

use super::are_there;
use super::row::{self, Row, Wanted};
use crate::identity::access::ProjectAccess;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
use crate::planning::issuables::{IssuableKind, Metadata, check_title, task_list};
use crate::planning::mentions::{self, Written};
use crate::planning::system_notes::NoteableId;
use crate::review::jobs::keep_merge_request::KeepMergeRequest;
use crate::review::merge_requests::branch_heads::{self, BranchOf, Tips};
use crate::review::merge_requests::closing_issues::{self, Scene};
use crate::review::merge_requests::events::{Told, tell};
use crate::review::merge_requests::head_refs;

/// Maximum depth of forks that is followed to the original project.
const MOST_FORKS: usize = 100;

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
    pub metadata: Metadata,
    /// Whether to delete the source branch after the merge.
    pub remove_source_branch: Option<bool>,
    /// Whether to squash the commits.
    pub squash: bool,
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
pub async fn create(backend: &Backend, access: &ProjectAccess, new: NewMergeRequest) -> Result<Row> {
    let author = access.caller.signed_in()?.id;
    let target = target(backend, access, new.target_project_id).await?;
    let title = check_title(&new.title)?;
    let (source_id, target_id) = (access.project.id, target.project.id);
    let from = BranchOf {
        project_id: source_id,
        name: &new.source_branch,
    };
    let into = BranchOf {
        project_id: target_id,
        name: &new.target_branch,
    };
    refuse_same(from, into)?;
    let tips = branch_heads::of(backend, from, into).await?;
    let base = branch_heads::base(backend, target_id, Some(source_id), tips).await?;
    let (head_sha, base_sha) = (tips.head.to_string(), base.unwrap_or(tips.start).to_string());
    let scene = Scene::new(backend, &target, Some(source_id), &head_sha, &base_sha).await?;
    let said = match target.has_role(Role::Guest) {
        true => new.metadata,
        false => Metadata::default(),
    };
    let mut prepared = said.prepare(backend, &target, IssuableKind::MergeRequest).await?;
    let (tasks, completed) = task_list::count(new.description.as_deref());
    let place = SpaceAccess::from(target.clone());
    let said = mentions::texts(Some(title), new.description.as_ref());
    let said = mentions::listen(backend, &mentions::Scene::of_merge_request(&place), &[], &said).await?;
    let made = now();
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
        start_sha: Set(tips.start.to_string()),
        merge_status: Set(MergeStatus::Unchecked),
        squash: Set(new.squash),
        force_remove_source_branch: Set(new.remove_source_branch),
        allow_collaboration: Set(new.allow_collaboration),
        tasks: Set(tasks),
        completed_tasks: Set(completed),
        created_at: Set(made),
        updated_at: Set(made),
        ..Default::default()
    };
    let merge_request = backend
        .database
        .transaction(async |transaction| {
            prepared.hold(transaction, &target).await?;
            super::edit::enter(&prepared, &mut row, None);
            // The counter row is locked now, so no other merge request for the same branches can be created
            // concurrently.
            let scope = Scope::Project(target_id);
            row.iid = Set(iid_counters::next(transaction, scope, IidKind::MergeRequests).await?);
            refuse_second(
                transaction,
                (source_id, &new.source_branch),
                (target_id, &new.target_branch),
                None,
            )
            .await?;
            let merge_request = row.clone().insert(transaction).await.map_err(taken)?;
            let this = (IssuableKind::MergeRequest, merge_request.id);
            let outcome = prepared.attach(transaction, &target, this, true).await?;
            closing_issues::keep(transaction, &scene, &merge_request).await?;
            let told = Told {
                author: Some(author),
                before: None,
                after: &merge_request,
                notes: Vec::new(),
                beside: BTreeMap::new(),
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
            follow(transaction, merge_request.id).await?;
            Ok::<_, Error>(merge_request)
        })
        .await?;
    let merge_request = settle(backend, merge_request, base.is_some(), tips).await?;
    row::of_one(backend, &target, merge_request, Wanted::default()).await
}

/// Returns the target project.
async fn target(backend: &Backend, access: &ProjectAccess, id: Option<i64>) -> Result<ProjectAccess> {
    let target = match id {
        Some(id) if id != access.project.id => {
            ProjectAccess::find(backend, access.caller.clone(), &id.to_string()).await?
        }
        _ => access.clone(),
    };
    if target.project.archived || !are_there(&target) {
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
    let (mut id, mut from) = (project.id, project.forked_from_id);
    for _ in 0..MOST_FORKS {
        let Some(parent) = from else { break };
        let found = projects::Entity::find_by_id(parent)
            .one(backend.database.read())
            .await?;
        (id, from) = (parent, found.and_then(|parent| parent.forked_from_id));
    }
    Ok(id)
}

/// Refuses equal source and target branches.
///
/// # Errors
/// Returns a validation error if both branches are the same.
pub(super) fn refuse_same(source: BranchOf<'_>, target: BranchOf<'_>) -> Result<()> {
    if (source.project_id, source.name) == (target.project_id, target.name) {
        let text = "You can't use same project/branch for source and target";
        return Err(Error::attribute("branch_conflict", text));
    }
    Ok(())
}

/// Refuses a second open merge request for the same branches, other than the one with this ID.
///
/// # Errors
/// Returns `Conflict` if one exists.
pub(super) async fn refuse_second(
    transaction: &DatabaseTransaction,
    source: (i64, &str),
    target: (i64, &str),
    this: Option<i64>,
) -> Result<()> {
    let open = merge_requests::open_between(source, target)
        .one(transaction)
        .await?;
    match open.filter(|open| Some(open.id) != this) {
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

/// Maps an error of writing the row.
pub(super) fn taken(error: sea_orm::DbErr) -> Error {
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
pub(super) async fn follow(transaction: &DatabaseTransaction, id: i64) -> Result<()> {
    let job = KeepMergeRequest { merge_request_id: id };
    jobs::enqueue(transaction, &job).await.map_err(Error::internal)
}

/// Fetches the commits into the target repository. Records the merge base if it could not be determined
/// before.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub(super) async fn settle(
    backend: &Backend,
    merge_request: merge_requests::Model,
    known: bool,
    tips: Tips,
) -> Result<merge_requests::Model> {
    if let Err(error) = head_refs::keep(backend, &merge_request).await {
        // The merge request exists, and its commits are still in the source repository.
        tracing::error!(id = merge_request.id, %error, "failed to update the head ref of a merge request");
    }
    if known {
        return Ok(merge_request);
    }
    let (target_id, source_id) = (merge_request.target_project_id, merge_request.source_project_id);
    let Some(base) = branch_heads::base(backend, target_id, source_id, tips).await? else {
        return Ok(merge_request);
    };
    let row = merge_requests::ActiveModel {
        id: Set(merge_request.id),
        base_sha: Set(base.to_string()),
        ..Default::default()
    };
    Ok(row.update(backend.database.write()).await?)
}
