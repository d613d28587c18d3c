//! Lists of commits, single commits, their sequence numbers and diffs, and the branches and tags that contain
//! them.

use chrono::{DateTime, Utc};

use crate::kernel::error::Result;
use crate::kernel::page::{MAX_COUNTED, Page, PageRequest};
pub use git::CommitOrder;
use git::{Commit, CommitQuery, CommitSelection, DiffEntry, DiffStats, Oid, Repository};

use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;

/// A commit, with line statistics if requested.
#[derive(Debug, Clone)]
pub struct CommitDetail {
    /// The commit.
    pub commit: Commit,
    /// Added and deleted lines.
    pub stats: Option<DiffStats>,
}

/// Filter and sort order of a list of commits.
#[derive(Debug, Clone, Default)]
pub struct CommitFilter {
    /// A branch, tag, commit or range; the default branch if absent or empty.
    pub revision: Option<String>,
    /// The earliest time, inclusive.
    pub since: Option<DateTime<Utc>>,
    /// The latest time, inclusive.
    pub until: Option<DateTime<Utc>>,
    /// Path that the commits change, taken literally.
    pub path: Option<String>,
    /// Whether commits reachable from any ref are included.
    pub all: bool,
    /// Whether only first parents of merges are followed.
    pub first_parent: bool,
    /// Sort order.
    pub order: CommitOrder,
    /// Whether line statistics are included.
    pub with_stats: bool,
}

/// Kind of a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefKind {
    /// Branches.
    Branch,
    /// Tags.
    Tag,
}

/// Returns a page of commits. The page is empty if the revision does not exist.
///
/// # Errors
/// Returns `Error::NotFound` if the repository is not available to the caller.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    filter: CommitFilter,
    page: &PageRequest,
) -> Result<Page<CommitDetail>> {
    let repository = repository_access::repository(backend, access)?;
    let Some((tips, hidden)) = resolve_range(&repository, access, &filter).await? else {
        return Ok(Page::from_all(page, Vec::new()));
    };
    let selection = CommitSelection {
        tips,
        hidden,
        // Git stores whole seconds, so an inclusive lower bound within a second excludes that second.
        since: filter
            .since
            .map(|since| since.timestamp() + i64::from(since.timestamp_subsec_nanos() > 0)),
        until: filter.until.map(|until| until.timestamp()),
        path: filter.path.filter(|path| !path.is_empty()),
        first_parent: filter.first_parent,
        order: filter.order,
    };
    page_of(&repository, selection, filter.with_stats, page).await
}

/// Returns a page of a selection of commits.
///
/// # Errors
/// Returns an error if the repository fails.
pub(crate) async fn page_of(
    repository: &Repository,
    selection: CommitSelection,
    with_stats: bool,
    page: &PageRequest,
) -> Result<Page<CommitDetail>> {
    let max = usize::try_from(MAX_COUNTED + 1).unwrap_or(usize::MAX);
    let total = repository.count_commits(selection.clone(), max).await? as u64;
    let ids = if page.offset() >= total && total <= MAX_COUNTED {
        Vec::new()
    } else {
        let request = CommitQuery {
            selection,
            offset: usize::try_from(page.offset()).unwrap_or(usize::MAX),
            limit: usize::try_from(page.limit())
                .unwrap_or(usize::MAX)
                .saturating_add(1),
        };
        repository.list_commits(request).await?
    };
    let Page { items: ids, rest } = Page::new(page, ids, total);
    let stats = if with_stats {
        Some(repository.stats(&ids).await?)
    } else {
        None
    };
    let commits = repository.commits(ids).await?;
    let items = commits
        .into_iter()
        .enumerate()
        .map(|(index, commit)| CommitDetail {
            commit,
            stats: stats.as_ref().and_then(|stats| stats.get(index)).copied(),
        });
    Ok(Page {
        items: items.collect(),
        rest,
    })
}

/// Returns the commits to start from and the commits to exclude, or `None` if a name does not resolve.
async fn resolve_range(
    repository: &Repository,
    access: &ProjectAccess,
    filter: &CommitFilter,
) -> Result<Option<(Vec<Oid>, Vec<Oid>)>> {
    if filter.all {
        return Ok(Some((repository.all_tips().await?, Vec::new())));
    }
    let default = access.project.default_branch.as_deref().unwrap_or("HEAD");
    let or_default = |text| if str::is_empty(text) { default } else { text };
    let revision = filter.revision.as_deref().unwrap_or_default();
    let resolved = async {
        // A ref name cannot contain `..`, so a range is unambiguous.
        if let Some((left, right)) = revision.split_once("...") {
            let left = repository.resolve_commit(or_default(left)).await?;
            let right = repository.resolve_commit(or_default(right)).await?;
            let bases = repository.merge_bases(vec![left, right]).await?;
            return Ok((vec![left, right], bases));
        }
        if let Some((hidden, tip)) = revision.split_once("..") {
            let hidden = repository.resolve_commit(or_default(hidden)).await?;
            let tip = repository.resolve_commit(or_default(tip)).await?;
            return Ok((vec![tip], vec![hidden]));
        }
        Ok((
            vec![repository.resolve_commit(or_default(revision)).await?],
            Vec::new(),
        ))
    };
    match resolved.await {
        Ok(range) => Ok(Some(range)),
        Err(git::Error::RevisionNotFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the commit of a revision.
///
/// # Errors
/// Returns `Error::NotFound` if the commit does not exist.
pub async fn get(
    backend: &Backend,
    access: &ProjectAccess,
    revision: &str,
    with_stats: bool,
) -> Result<CommitDetail> {
    let repository = repository_access::repository(backend, access)?;
    let id = repository.resolve_commit(revision).await?;
    load_detail(&repository, id, with_stats).await
}

/// Returns the commit with an ID.
pub(super) async fn load_detail(repository: &Repository, id: Oid, with_stats: bool) -> Result<CommitDetail> {
    let stats = if with_stats {
        repository.stats(&[id]).await?.pop()
    } else {
        None
    };
    let commit = repository.commit(id).await?;
    Ok(CommitDetail { commit, stats })
}

/// Returns the branches and then the tags that contain a commit, by name. `filter` selects one kind.
///
/// # Errors
/// Returns `Error::NotFound` if the commit does not exist.
pub async fn list_refs(
    backend: &Backend,
    access: &ProjectAccess,
    revision: &str,
    filter: Option<RefKind>,
    page: &PageRequest,
) -> Result<Page<(RefKind, String)>> {
    let repository = repository_access::repository(backend, access)?;
    let id = repository.resolve_commit(revision).await?;
    let containing = repository.containing(id).await?;
    let branches = containing
        .branches
        .into_iter()
        .map(|name| (RefKind::Branch, name));
    let tags = containing.tags.into_iter().map(|name| (RefKind::Tag, name));
    let refs = branches
        .chain(tags)
        .filter(|(kind, _)| filter.is_none_or(|filter| filter == *kind));
    Ok(Page::from_all(page, refs.collect()))
}

/// Returns the number of commits in the history of a commit, including the commit. If `first_parent` is true,
/// only first parents of merges are followed.
///
/// # Errors
/// Returns `Error::NotFound` if the commit does not exist, and `Error::TimedOut` if the walk exceeds its time
/// limit.
pub async fn sequence(
    backend: &Backend,
    access: &ProjectAccess,
    revision: &str,
    first_parent: bool,
) -> Result<usize> {
    let repository = repository_access::repository(backend, access)?;
    let id = repository.resolve_commit(revision).await?;
    let selection = CommitSelection {
        tips: vec![id],
        first_parent,
        ..CommitSelection::default()
    };
    Ok(repository.count_commits(selection, usize::MAX).await?)
}

/// Returns a page of the files that a commit changed.
///
/// # Errors
/// Returns `Error::NotFound` if the commit does not exist.
pub async fn list_diffs(
    backend: &Backend,
    access: &ProjectAccess,
    revision: &str,
    page: &PageRequest,
) -> Result<Page<DiffEntry>> {
    let repository = repository_access::repository(backend, access)?;
    let id = repository.resolve_commit(revision).await?;
    Ok(page_of_diff(repository.diff_commit(id).await?, page))
}

/// Returns a page of the files of a diff.
pub(crate) fn page_of_diff(diff: git::Diff, page: &PageRequest) -> Page<DiffEntry> {
    // A truncated diff does not list the remaining files, so their number is unknown.
    let to_page = if diff.truncated {
        Page::from_prefix
    } else {
        Page::from_all
    };
    to_page(page, diff.entries)
}
