//! Tags of a project's repository.

use std::collections::HashMap;

use crate::code::commits::commit;
use crate::code::push_decision::{ProposalKind, ProposedUpdate, TAG_NOT_ALLOWED};
use crate::code::ref_updates::{UpdateAuthority, prepare_and_update_refs};
use crate::code::repositories::{self, LockedRevision};
use crate::code::repository_access;
use crate::code::tag_protection::{self, TagRules};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions;
use crate::kernel::ref_changes::RefChange;
use git::LockedRepository;
pub use git::TagOrder;
use storage::entities::{now, releases};

/// A tag with its commit.
#[derive(Debug, Clone)]
pub struct TagDetail {
    /// The tag.
    pub tag: git::Tag,
    /// The commit; `None` if the tag refers to a tree or blob.
    pub commit: Option<git::Commit>,
    /// Whether the tag is protected.
    pub protected: bool,
    /// The release of the tag, if there is one and releases are available to the caller.
    pub release: Option<TagRelease>,
}

/// The release of a tag.
#[derive(Debug, Clone)]
pub struct TagRelease {
    /// The release notes.
    pub description: Option<String>,
}

/// Filter and sort order of a list of tags.
#[derive(Debug, Clone)]
pub struct TagFilter {
    /// Text that the names must contain (see [`git::TagQuery`]).
    pub search: Option<String>,
    /// The sort order.
    pub order: TagOrder,
    /// Whether the order is descending.
    pub descending: bool,
}

/// Attributes of a new tag.
#[derive(Debug, Clone)]
pub struct NewTag {
    /// The name.
    pub name: String,
    /// The revision of the commit.
    pub revision: String,
    /// The message of an annotated tag; blank creates a lightweight tag.
    pub message: Option<String>,
}

/// Lists the tags of a repository.
///
/// # Errors
/// Returns `NotFound` if the repository is disabled.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    filter: TagFilter,
    page: &PageRequest,
) -> Result<Page<TagDetail>> {
    let repository = repository_access::repository(backend, access)?;
    let query = git::TagQuery {
        search: filter.search,
        order: filter.order,
        descending: filter.descending,
        window: repositories::page_window(page),
    };
    let found = repository.tags(query).await?;
    let found = Page::new(page, found.tags, found.total as u64);
    let rules = tag_protection::tag_rules(backend, access).await?;
    Ok(Page {
        items: load_details(backend, access, &repository, &rules, found.items).await?,
        rest: found.rest,
    })
}

/// Returns a tag.
///
/// # Errors
/// Returns `NotFound` if the tag does not exist.
pub async fn get(backend: &Backend, access: &ProjectAccess, name: &str) -> Result<TagDetail> {
    let repository = repository_access::repository(backend, access)?;
    let tag = repository.tag(name).await?;
    load_detail(backend, access, &repository, tag).await
}

/// Creates a tag unless it exists, like [`create`].
///
/// # Errors
/// Returns the errors of [`create`], and `Unprocessable` if the tag does not exist and no revision is given.
pub async fn create_unless_exists(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
    revision: Option<String>,
    message: Option<String>,
) -> Result<()> {
    let repository = repository_access::repository(backend, access)?;
    if exists(&repository, name).await? {
        return Ok(());
    }
    let revision = revision.filter(|revision| !revision.is_empty());
    let revision = revision.ok_or_else(|| Error::Unprocessable("Ref is not specified".into()))?;
    let new = NewTag {
        name: name.to_owned(),
        revision,
        message,
    };
    match create(backend, access, new).await {
        Ok(_) => Ok(()),
        // A concurrent request can create the same tag.
        Err(error) => match exists(&repository, name).await? {
            true => Ok(()),
            false => Err(error),
        },
    }
}

async fn exists(repository: &git::Repository, name: &str) -> Result<bool> {
    match repository.targets(vec![format!("refs/tags/{name}")]).await {
        Ok(targets) => Ok(targets.into_iter().flatten().next().is_some()),
        Err(git::Error::RepositoryMissing) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Creates a tag, with the caller as the tagger if it is annotated.
///
/// # Errors
/// Returns a validation error if the name is taken or invalid, or if the revision does not exist. Returns `Forbidden` if a
/// protection denies the caller to create the tag.
pub async fn create(backend: &Backend, access: &ProjectAccess, new: NewTag) -> Result<TagDetail> {
    let repository = repository_access::repository(backend, access)?;
    git::check_tag_name(&new.name).map_err(|_| Error::Rejected("Tag name invalid".into()))?;
    let tagger = access.caller.signed_in()?;
    let annotation = new
        .message
        .filter(|message| !message.trim().is_empty())
        .map(|message| (message, git::Signature::new(&tagger.name, &tagger.email, now())));
    let update = ProposedUpdate::tag(&new.name, ProposalKind::Create);
    let authority = UpdateAuthority::caller(access, update, creation_not_allowed);
    let lock = repositories::lock_revision(&repository, &new.revision);
    let publish = async move |LockedRevision { locked, .. }: LockedRevision| {
        let tag = locked.create_tag(&new.name, &new.revision, annotation).await;
        let tag = tag.map_err(|error| match error {
            git::Error::ReferenceExists => Error::Rejected(format!("Tag {} already exists", new.name).into()),
            git::Error::RevisionNotFound => {
                Error::Rejected(format!("Target {} is invalid", new.revision).into())
            }
            other => repositories::ref_update_error(other),
        })?;
        let change = RefChange::tag(&tag.name, None, Some(tag.target));
        Ok((tag, vec![change]))
    };
    let update = commit::ref_update(access);
    let tag = prepare_and_update_refs(backend, update, authority, lock, publish).await?;
    load_detail(backend, access, &repository, tag).await
}

fn creation_not_allowed() -> Error {
    Error::forbidden_because(TAG_NOT_ALLOWED)
}

/// Deletes a tag. A protected tag requires a Maintainer.
///
/// # Errors
/// Returns `NotFound` if the tag does not exist, and `PreconditionFailed` if its commit is newer than
/// `unmodified_since`. Returns `Forbidden` if the tag is protected and the caller is not a Maintainer. Returns `Conflict`
/// if it is changed concurrently.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let repository = repository_access::repository(backend, access)?;
    let tag = repository.tag(name).await?;
    let commits = repository.commits(tag.commit.into_iter().collect()).await?;
    if let Some(commit) = commits.into_iter().next() {
        preconditions::check_unmodified_since(unmodified_since, commit.author.time.to_utc())?;
    }
    let update = ProposedUpdate::tag(name, ProposalKind::DeleteTag);
    let authority = UpdateAuthority::caller(access, update, deletion_not_allowed);
    let lock = repositories::lock(&repository);
    let publish = async move |locked: LockedRepository| {
        let old = locked
            .delete_tag(&tag.name, Some(tag.target))
            .await
            .map_err(repositories::ref_update_error)?;
        Ok(((), vec![RefChange::tag(&tag.name, Some(old), None)]))
    };
    prepare_and_update_refs(backend, commit::ref_update(access), authority, lock, publish).await
}

fn deletion_not_allowed() -> Error {
    Error::forbidden_because("You are not allowed to delete this tag as it is protected.")
}

async fn load_detail(
    backend: &Backend,
    access: &ProjectAccess,
    repository: &git::Repository,
    tag: git::Tag,
) -> Result<TagDetail> {
    let rules = tag_protection::tag_rules(backend, access).await?;
    let details = load_details(backend, access, repository, &rules, vec![tag]).await?;
    details.into_iter().next().ok_or_else(|| Error::not_found("Tag"))
}

async fn load_details(
    backend: &Backend,
    access: &ProjectAccess,
    repository: &git::Repository,
    rules: &TagRules,
    tags: Vec<git::Tag>,
) -> Result<Vec<TagDetail>> {
    let ids = tags.iter().filter_map(|tag| tag.commit).collect();
    let mut commits = repository.commits(ids).await?.into_iter();
    let names = tags.iter().map(|tag| tag.name.as_str());
    let notes = match access.can_use_releases() {
        true => releases::notes_of_tags(backend.database.read(), access.project.id, names).await?,
        false => Vec::new(),
    };
    let mut notes: HashMap<String, Option<String>> = notes.into_iter().collect();
    let details = tags.into_iter().map(|tag| TagDetail {
        commit: tag.commit.and_then(|_| commits.next()),
        protected: rules.is_protected(&tag.name),
        release: notes
            .remove(&tag.name)
            .map(|description| TagRelease { description }),
        tag,
    });
    Ok(details.collect())
}
