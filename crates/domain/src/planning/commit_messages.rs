//! Processes the messages of pushed commits. Each mentioned issue and merge request gets a system note. A
//! closing keyword closes the issue once the commit is in the default branch.

use std::collections::BTreeSet;

use git::{CommitQuery, CommitSelection};
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use storage::entities::{issues, merge_requests, now, users};

use crate::code::jobs::process_commit_messages::PendingMessages;
use crate::code::push_events::{between, oid};
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::text::references::{closed_issues, has_references};
use crate::planning::issues as issues_service;
use crate::planning::issues::Closer;
use crate::planning::mentions::{self, resolve_references};

/// Maximum commits of a push that are processed, newest first.
const MAX_COMMITS: usize = 100;

/// Processes the messages of pushed commits with the rights of the pusher. Idempotent.
///
/// # Errors
/// Returns an error if the database or the repository fails.
pub async fn process(
    backend: &Backend,
    project_id: i64,
    user_id: i64,
    unread: &PendingMessages,
) -> Result<()> {
    let db = backend.database.read();
    let Some(user) = users::Entity::find_by_id(user_id).one(db).await? else {
        return Ok(());
    };
    let Some(access) = ProjectAccess::find_visible(backend, &Caller::user(user), project_id).await? else {
        return Ok(());
    };
    let selection = match oid(&unread.tip) {
        Some(tip) => between(unread.base.as_deref().and_then(oid), tip),
        None => return Ok(()),
    };
    // Oldest first, in the order they were written.
    for (id, message) in messages(backend, &access, selection).await?.into_iter().rev() {
        if !has_references(&message) {
            continue;
        }
        let closed = close_issues(backend, &access, &unread.branch, &id, &message).await?;
        mentions::record_commit_reference(
            backend,
            &SpaceAccess::from(access.clone()),
            &id,
            &message,
            &closed,
        )
        .await?;
    }
    Ok(())
}

/// Returns the IDs and messages of commits, newest first. The list is empty if they do not exist any more or are too
/// large.
async fn messages(
    backend: &Backend,
    access: &ProjectAccess,
    selection: CommitSelection,
) -> Result<Vec<(String, String)>> {
    let repository = repository_access::open(backend, access);
    let page = CommitQuery {
        selection,
        offset: 0,
        limit: MAX_COMMITS,
    };
    let found = match repository.list_commits(page).await {
        Ok(ids) => repository.commits(ids).await,
        Err(error) => Err(error),
    };
    match found {
        Ok(commits) => Ok(commits
            .into_iter()
            .map(|commit| (commit.id.to_string(), commit.message))
            .collect()),
        Err(git::Error::ObjectNotFound | git::Error::RepositoryMissing) => Ok(Vec::new()),
        Err(error @ git::Error::LimitExceeded(_)) => {
            tracing::warn!(%error, "messages of commits are not searched for issues");
            Ok(Vec::new())
        }
        Err(error) => Err(error.into()),
    }
}

/// Closes the issues that a message closes and returns their IDs. A merged merge request closes its issues
/// separately.
async fn close_issues(
    backend: &Backend,
    access: &ProjectAccess,
    branch: &str,
    id: &str,
    message: &str,
) -> Result<BTreeSet<i64>> {
    let project = &access.project;
    let closes_issues =
        project.autoclose_referenced_issues && project.default_branch.as_deref() == Some(branch);
    let references = match closes_issues {
        true => closed_issues(message, &backend.instance.base_url),
        false => Vec::new(),
    };
    let db = backend.database.read();
    let location = (project, &access.namespace);
    let columns = (issues::Column::ProjectId, issues::Column::Iid);
    let Some(referenced) = resolve_references(db, location, references, columns).await? else {
        return Ok(BTreeSet::new());
    };
    let merged = merge_requests::Entity::find()
        .filter(merge_requests::Column::TargetProjectId.eq(project.id))
        .filter(merge_requests::Column::MergeCommitSha.eq(id));
    if merged.count(db).await? > 0 {
        return Ok(BTreeSet::new());
    }
    let referenced = issues::Entity::find()
        .filter(referenced)
        .filter(issues::visible(access.caller.viewer(), now().date_naive()));
    let mut closed = BTreeSet::new();
    for issue in issues::keys(db, referenced).await? {
        let reference = |path: &str| format!("commit {}", mentions::commit_reference(path, id));
        issues_service::close_by_reference(
            backend,
            access,
            issue,
            Closer::CommitInProject(project.id),
            reference,
        )
        .await?;
        closed.insert(issue.id);
    }
    Ok(closed)
}
