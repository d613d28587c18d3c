//! Creation, changes and deletion of releases.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel};
use storage::database::Violation;
use storage::entities::releases::{self, ActiveModel, Entity};
use storage::entities::{now, projects, row_changes};

use super::details::{self, ReleaseDetail};
use super::events::{self, ReleaseAction};
use super::links::{self, NewLink};
use super::milestones::{self, MilestoneSelection};
use super::{evidence, rules};
use crate::code::{repository_access, tags};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::{Patch, assign};
use crate::kernel::preconditions;

/// Attributes of a new release.
#[derive(Debug, Clone)]
pub struct NewRelease {
    /// The tag. It is created if it does not exist.
    pub tag: String,
    /// Message of a new tag; blank creates a lightweight tag.
    pub tag_message: Option<String>,
    /// Revision of the commit of a new tag.
    pub revision: Option<String>,
    /// The name; the tag by default.
    pub name: Option<String>,
    /// The release notes.
    pub description: Option<String>,
    /// The date; the current time by default.
    pub released_at: Option<DateTime<Utc>>,
    /// The milestones.
    pub milestones: Option<MilestoneSelection>,
    /// The links.
    pub links: Vec<NewLink>,
}

/// Attributes to change; absent ones stay.
#[derive(Debug, Clone, Default)]
pub struct ReleaseUpdate {
    /// The name.
    pub name: Option<String>,
    /// The release notes.
    pub description: Patch<String>,
    /// The date.
    pub released_at: Option<DateTime<Utc>>,
    /// The milestones, which replace the present ones.
    pub milestones: Option<MilestoneSelection>,
}

/// Creates a release, and its tag if that does not exist. A release that is refused because of a concurrent request
/// leaves the new tag.
///
/// # Errors
/// Returns `Error::Forbidden` if the releases of the project are not available to the caller, or if the tag is
/// protected and the caller cannot create it. Returns `Error::Conflict` if the tag has a release already. Returns
/// `Error::Rejected` if a milestone is not available, a link is invalid, or the tag cannot be created. Returns
/// `Error::Unprocessable` if the tag does not exist and no revision is given.
pub async fn create(backend: &Backend, access: &ProjectAccess, new: NewRelease) -> Result<ReleaseDetail> {
    repository_access::repository(backend, access)?;
    rules::check_tag(backend, access, &new.tag).await?;
    let author_id = access.caller.signed_in()?.id;
    let project_id = access.project.id;
    let existing = releases::by_tag(project_id, &new.tag);
    if existing.one(backend.database.read()).await?.is_some() {
        return Err(already_exists());
    }
    let milestone_ids = match &new.milestones {
        Some(selection) => milestones::resolve(backend, access, selection).await?,
        None => BTreeSet::new(),
    };
    let name = rules::valid_name(new.name, &new.tag)?;
    let links = links::valid_rows(new.links)?;
    tags::create_unless_exists(backend, access, &new.tag, new.revision, new.tag_message).await?;
    let commit = commit_of(backend, access, &new.tag).await?;
    let at = now();
    let row = ActiveModel {
        project_id: Set(project_id),
        tag: Set(new.tag),
        name: Set(name),
        description: Set(new.description),
        author_id: Set(Some(author_id)),
        released_at: Set(new.released_at.unwrap_or(at)),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let release = backend
        .database
        .transaction(async |transaction| {
            let milestone_ids = milestones::lock(transaction, &milestone_ids).await?;
            lock_project(transaction, access).await?;
            let release = row.insert(transaction).await.map_err(map_violation)?;
            for link in links {
                links::insert(transaction, release.id, link, at).await?;
            }
            milestones::replace(transaction, release.id, &milestone_ids).await?;
            events::publish(transaction, ReleaseAction::Create, &release, commit, author_id).await?;
            evidence::schedule_first(transaction, &release).await?;
            Ok::<_, Error>(release)
        })
        .await?;
    details::load_one(backend, access, release).await
}

/// Updates a release.
///
/// # Errors
/// Returns `Error::Forbidden` as [`create`] does, and `Error::NotFound` if the tag has no release. Returns
/// `Error::InvalidParameters` if no attribute is given, and `Error::Rejected` if a milestone is not available.
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    tag: &str,
    update: ReleaseUpdate,
) -> Result<ReleaseDetail> {
    let is_empty = update.name.is_none()
        && update.description.is_keep()
        && update.released_at.is_none()
        && update.milestones.is_none();
    if is_empty {
        let attributes = ["name", "description", "milestones", "released_at"];
        return Err(Error::no_parameters(&attributes));
    }
    rules::check_tag(backend, access, tag).await?;
    let author_id = access.caller.signed_in()?.id;
    let milestone_ids = match &update.milestones {
        Some(selection) => Some(milestones::resolve(backend, access, selection).await?),
        None => None,
    };
    let name = update
        .name
        .map(|name| rules::valid_name(Some(name), tag))
        .transpose()?;
    let commit = commit_of(backend, access, tag).await?;
    let release = backend
        .database
        .transaction(async |transaction| {
            let milestone_ids = match milestone_ids {
                Some(ids) => Some(milestones::lock(transaction, &ids).await?),
                None => None,
            };
            lock_project(transaction, access).await?;
            let former = rules::lock(transaction, access, tag).await?;
            let mut row = former.clone().into_active_model();
            assign(&mut row.name, name);
            update.description.apply_to(&mut row.description);
            assign(&mut row.released_at, update.released_at);
            let has_new_milestones = match milestone_ids {
                Some(ids) => milestones::replace(transaction, former.id, &ids).await?,
                None => false,
            };
            if has_new_milestones {
                row.updated_at = Set(now());
            }
            let release = row_changes::update_if_changed(transaction, &former, row).await?;
            evidence::reschedule_first(transaction, &former, &release).await?;
            if release != former {
                events::publish(transaction, ReleaseAction::Update, &release, commit, author_id).await?;
            }
            Ok::<_, Error>(release)
        })
        .await?;
    details::load_one(backend, access, release).await
}

/// Deletes a release and returns it. Its tag remains.
///
/// # Errors
/// Returns `Error::Forbidden` as [`create`] does, and `Error::NotFound` if the tag has no release. Returns
/// `Error::PreconditionFailed` if the release changed after `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    tag: &str,
    unmodified_since: Option<&str>,
) -> Result<ReleaseDetail> {
    rules::check_tag(backend, access, tag).await?;
    let author_id = access.caller.signed_in()?.id;
    let release = rules::find(backend.database.read(), access, tag).await?;
    let detail = details::load_one(backend, access, release).await?;
    let commit = commit_of(backend, access, tag).await?;
    backend
        .database
        .transaction(async |transaction| {
            lock_project(transaction, access).await?;
            let release = rules::lock(transaction, access, tag).await?;
            preconditions::check_unmodified_since(unmodified_since, release.updated_at)?;
            events::publish(transaction, ReleaseAction::Delete, &release, commit, author_id).await?;
            Entity::delete_by_id(release.id).exec(transaction).await?;
            Ok::<_, Error>(())
        })
        .await?;
    Ok(detail)
}

/// Locks the project until the transaction ends. In every transaction, this precedes the lock of a release.
async fn lock_project(transaction: &DatabaseTransaction, access: &ProjectAccess) -> Result<()> {
    let project = projects::lock_for_insert(transaction, access.project.id).await?;
    project.map(drop).ok_or_else(|| Error::not_found("Project"))
}

/// Returns the ID of the commit of a tag.
async fn commit_of(backend: &Backend, access: &ProjectAccess, tag: &str) -> Result<Option<git::Oid>> {
    let commits = details::commits_of_tags(backend, access, vec![tag.to_owned()]).await?;
    Ok(commits.into_iter().flatten().next().map(|commit| commit.id))
}

fn already_exists() -> Error {
    Error::Conflict("Release already exists".into())
}

fn map_violation(error: DbErr) -> Error {
    match Violation::of(&error) {
        // A concurrent request created the same release.
        Some(Violation::Unique(_)) => already_exists(),
        Some(Violation::ForeignKey(_)) => Error::not_found("Project"),
        _ => error.into(),
    }
}
