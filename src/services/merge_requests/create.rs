//! Making a merge request.

use std::collections::BTreeMap;

use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, EntityTrait};
use storage::database::Violation;
use storage::entities::iid_counters::{self, Subject};
use storage::entities::merge_requests::{self, MergeStatus, State};
use storage::entities::{Scope, now, projects};
use storage::jobs;

use super::closing::{self, Scene};
use super::row::{self, Row, Wanted};
use super::telling::{Told, tell};
use super::tips::{self, BranchOf, Tips};
use super::{are_there, heads};
use crate::error::{Error, Result};
use crate::jobs::keep_merge_request::KeepMergeRequest;
use crate::policy::Role;
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::issuables::{Kind, Metadata, check_title, tasks};
use crate::services::notes::system::Parent;
use crate::services::places::Place;
use crate::services::saying::{self, Written};

/// How far a fork is followed to what it comes from.
const MOST_FORKS: usize = 100;

/// A new merge request.
#[derive(Debug, Clone, Default)]
pub struct NewMergeRequest {
    /// The branch that it comes from.
    pub source_branch: String,
    /// The branch that it is merged into.
    pub target_branch: String,
    /// The project of that branch; that of the source when absent.
    pub target_project_id: Option<i64>,
    /// What it is about.
    pub title: String,
    /// What there is to say.
    pub description: Option<String>,
    /// What members of the target say of it.
    pub metadata: Metadata,
    /// The source branch is to be removed when it is merged.
    pub remove_source_branch: Option<bool>,
    /// Its commits are to become one.
    pub squash: bool,
    /// Members of the target may push to the source branch.
    pub allow_collaboration: bool,
}

/// Makes a merge request from a branch of the project that was named. Of the metadata, what is for members is ignored from
/// others.
///
/// # Errors
/// 404 for the other project, 403 where its merge requests are not there for the caller, 400 for what does not do, and 409
/// where one is open between the same branches.
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
    let tips = tips::of(backend, from, into).await?;
    let base = tips::base(backend, target_id, Some(source_id), tips).await?;
    let (head_sha, base_sha) = (tips.head.to_string(), base.unwrap_or(tips.start).to_string());
    let scene = Scene::new(backend, &target, Some(source_id), &head_sha, &base_sha).await?;
    let said = match target.holds(Role::Guest) {
        true => new.metadata,
        false => Metadata::default(),
    };
    let mut prepared = said.prepare(backend, &target, Kind::MergeRequest).await?;
    let (tasks, completed) = tasks::count(new.description.as_deref());
    let place = Place::from(target.clone());
    let said = saying::texts(Some(title), new.description.as_ref());
    let said = saying::listen(backend, &saying::Scene::of_merge_request(&place), &[], &said).await?;
    let made = now();
    let mut row = merge_requests::ActiveModel {
        target_project_id: Set(target_id),
        source_project_id: Set(Some(source_id)),
        author_id: Set(Some(author)),
        source_branch: Set(new.source_branch.clone()),
        target_branch: Set(new.target_branch.clone()),
        title: Set(title.to_owned()),
        description: Set(new.description),
        state: Set(State::Opened),
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
            // Whoever has the number is alone: nobody else makes one between the same branches meanwhile.
            let scope = Scope::Project(target_id);
            row.iid = Set(iid_counters::next(transaction, scope, Subject::MergeRequests).await?);
            refuse_second(
                transaction,
                (source_id, &new.source_branch),
                (target_id, &new.target_branch),
                None,
            )
            .await?;
            let merge_request = row.clone().insert(transaction).await.map_err(taken)?;
            let this = (Kind::MergeRequest, merge_request.id);
            let outcome = prepared.attach(transaction, &target, this, true).await?;
            closing::keep(transaction, &scene, &merge_request).await?;
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
                Parent::MergeRequest(merge_request.id),
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

/// The project that it is to be merged into.
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

/// The project that all forks of forks come from.
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

/// Refuses what would be merged into itself.
///
/// # Errors
/// 400.
pub(super) fn refuse_same(source: BranchOf<'_>, target: BranchOf<'_>) -> Result<()> {
    if (source.project_id, source.name) == (target.project_id, target.name) {
        let text = "You can't use same project/branch for source and target";
        return Err(Error::attribute("branch_conflict", text));
    }
    Ok(())
}

/// Refuses where another one than that with this id is open between the same branches.
///
/// # Errors
/// 409.
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

/// What a row that cannot be written means.
pub(super) fn taken(error: sea_orm::DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(_)) => {
            Error::Conflict("Another open merge request already exists for this source branch".into())
        }
        Some(Violation::ForeignKey(_)) => Error::not_found("Project"),
        _ => error.into(),
    }
}

/// Has a job look at the source branch once more: a push that came while nobody could know of the merge request is seen then.
///
/// # Errors
/// Whatever the database reports.
pub(super) async fn follow(transaction: &DatabaseTransaction, id: i64) -> Result<()> {
    let job = KeepMergeRequest { merge_request_id: id };
    jobs::enqueue(transaction, &job).await.map_err(Error::internal)
}

/// Keeps the commits where they are to be merged; if only then it can be told where the branches part, it is entered then.
///
/// # Errors
/// Whatever the database or the repositories report.
pub(super) async fn settle(
    backend: &Backend,
    merge_request: merge_requests::Model,
    known: bool,
    tips: Tips,
) -> Result<merge_requests::Model> {
    if let Err(error) = heads::keep(backend, &merge_request).await {
        // The merge request is there, and its commits are in the repository that they come from.
        tracing::error!(id = merge_request.id, %error, "failed to retain the commits of a merge request");
    }
    if known {
        return Ok(merge_request);
    }
    let (target_id, source_id) = (merge_request.target_project_id, merge_request.source_project_id);
    let Some(base) = tips::base(backend, target_id, source_id, tips).await? else {
        return Ok(merge_request);
    };
    let row = merge_requests::ActiveModel {
        id: Set(merge_request.id),
        base_sha: Set(base.to_string()),
        ..Default::default()
    };
    Ok(row.update(backend.database.write()).await?)
}
