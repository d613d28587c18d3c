//! Noteables: issues, merge requests, snippets and epics, which have notes and award emoji. A new type needs a
//! key, a variant, and an arm in each match.

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ConnectionTrait, DatabaseTransaction};
use storage::entities::{epics, issues, merge_requests, now, snippets};

use crate::code::snippets as snippets_service;
use crate::code::snippets::SnippetScope;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
use crate::planning::epics as epics_service;
use crate::planning::issues as issues_service;
use crate::planning::mentions::{self, TextAudience};
use crate::planning::system_notes::NoteableId;
use crate::review::merge_requests as merge_requests_service;

/// Identifies a noteable of a project or group, as in a request path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteableKey {
    /// The issue with this IID.
    Issue(i64),
    /// The merge request with this IID.
    MergeRequest(i64),
    /// The snippet with this ID.
    Snippet(i64),
    /// The epic with this ID.
    Epic(i64),
    /// The epic with this IID.
    EpicIid(i64),
}

/// A noteable that is visible to the caller.
#[derive(Debug, Clone)]
pub enum Noteable {
    /// An issue.
    Issue(issues::Model),
    /// A merge request.
    MergeRequest(Box<merge_requests::Model>),
    /// A snippet of a project.
    Snippet(snippets::Model),
    /// An epic.
    Epic(epics::Model),
}

impl Noteable {
    /// Returns the noteable of a key.
    ///
    /// # Errors
    /// Returns `NotFound` if the noteable does not exist or is not visible to the caller.
    pub(crate) async fn find(
        db: &impl ConnectionTrait,
        space: &SpaceAccess,
        key: NoteableKey,
    ) -> Result<Self> {
        match key {
            NoteableKey::Issue(iid) => {
                let issue = issues_service::find(db, &space.project_access()?, iid).await?;
                Ok(Self::Issue(issue))
            }
            NoteableKey::MergeRequest(iid) => {
                let merge_request = merge_requests_service::find(db, &space.project_access()?, iid).await?;
                Ok(Self::MergeRequest(Box::new(merge_request)))
            }
            NoteableKey::Snippet(id) => {
                let access = space.project_access()?;
                let snippet = snippets_service::find(db, SnippetScope::Project(&access), id).await?;
                Ok(Self::Snippet(snippet))
            }
            NoteableKey::Epic(id) => Ok(Self::Epic(epics_service::find_by_id(db, space, id).await?)),
            NoteableKey::EpicIid(iid) => Ok(Self::Epic(epics_service::find(db, space, iid).await?)),
        }
    }

    /// Like [`Self::find`], and locks the row until the transaction ends.
    ///
    /// # Errors
    /// Returns `NotFound` also if the noteable was deleted concurrently.
    pub(crate) async fn lock(
        transaction: &DatabaseTransaction,
        space: &SpaceAccess,
        key: NoteableKey,
    ) -> Result<Self> {
        match key {
            NoteableKey::Issue(iid) => {
                let issue = issues_service::lock(transaction, &space.project_access()?, iid).await?;
                Ok(Self::Issue(issue))
            }
            NoteableKey::MergeRequest(iid) => {
                let access = space.project_access()?;
                let merge_request = merge_requests_service::lock(transaction, &access, iid).await?;
                Ok(Self::MergeRequest(Box::new(merge_request)))
            }
            NoteableKey::Snippet(id) => {
                let access = space.project_access()?;
                let snippet = snippets_service::lock(transaction, SnippetScope::Project(&access), id).await?;
                Ok(Self::Snippet(snippet))
            }
            NoteableKey::Epic(id) => {
                let epic = epics_service::lock_by_id(transaction, space, id).await?;
                Ok(Self::Epic(epic))
            }
            NoteableKey::EpicIid(iid) => {
                let epic = epics_service::lock(transaction, space, iid).await?;
                Ok(Self::Epic(epic))
            }
        }
    }

    /// Returns its kind and ID.
    #[must_use]
    pub fn id(&self) -> NoteableId {
        match self {
            Self::Issue(issue) => NoteableId::Issue(issue.id),
            Self::MergeRequest(merge_request) => NoteableId::MergeRequest(merge_request.id),
            Self::Snippet(snippet) => NoteableId::Snippet(snippet.id),
            Self::Epic(epic) => NoteableId::Epic(epic.id),
        }
    }

    /// Returns its IID, if it has one.
    #[must_use]
    pub fn iid(&self) -> Option<i64> {
        match self {
            Self::Issue(issue) => Some(issue.iid),
            Self::MergeRequest(merge_request) => Some(merge_request.iid),
            Self::Snippet(_) => None,
            Self::Epic(epic) => Some(epic.iid),
        }
    }

    /// Returns its author, or `None` if the user was deleted.
    #[must_use]
    pub fn author_id(&self) -> Option<i64> {
        match self {
            Self::Issue(issue) => issue.author_id,
            Self::MergeRequest(merge_request) => merge_request.author_id,
            Self::Snippet(snippet) => Some(snippet.author_id),
            Self::Epic(epic) => epic.author_id,
        }
    }

    /// Returns its title.
    #[must_use]
    pub fn title(&self) -> &str {
        match self {
            Self::Issue(issue) => &issue.title,
            Self::MergeRequest(merge_request) => &merge_request.title,
            Self::Snippet(snippet) => &snippet.title,
            Self::Epic(epic) => &epic.title,
        }
    }

    /// Returns its file name, if it has one.
    #[must_use]
    pub fn file_name(&self) -> Option<&str> {
        match self {
            Self::Issue(_) | Self::MergeRequest(_) | Self::Epic(_) => None,
            Self::Snippet(snippet) => Some(&snippet.file_name),
        }
    }

    /// Returns whether it is confidential.
    #[must_use]
    pub fn is_confidential(&self) -> bool {
        match self {
            Self::Issue(issue) => issue.confidential,
            Self::MergeRequest(_) | Self::Snippet(_) => false,
            Self::Epic(epic) => epic.confidential,
        }
    }

    /// Returns the audience of a note on it, or `None` if mentions and references in its notes have no effects.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    pub(crate) async fn text_audience<'a>(
        &self,
        db: &impl ConnectionTrait,
        space: &'a SpaceAccess,
    ) -> Result<Option<TextAudience<'a>>> {
        Ok(match self {
            Self::Issue(issue) => {
                let readers = match issue.confidential {
                    true => mentions::assignee_ids(db, issue).await?,
                    false => Vec::new(),
                };
                Some(TextAudience::of_issue(
                    space,
                    issue.confidential,
                    issue.author_id,
                    readers,
                ))
            }
            Self::MergeRequest(_) => Some(TextAudience::of_merge_request(space)),
            Self::Epic(epic) => Some(TextAudience::of_epic(space, epic.confidential, epic.author_id)),
            Self::Snippet(_) => None,
        })
    }

    /// Rejects callers who are not members if the discussion is locked.
    ///
    /// # Errors
    /// Returns `Forbidden` if the discussion is locked and the caller is not a member.
    pub(crate) fn check_unlocked(&self, space: &SpaceAccess) -> Result<()> {
        let locked = match self {
            Self::Issue(issue) => issue.discussion_locked,
            Self::MergeRequest(merge_request) => merge_request.discussion_locked,
            Self::Snippet(_) | Self::Epic(_) => false,
        };
        match locked && !space.has_role(Role::Guest) {
            true => Err(Error::forbidden_because("The discussion is locked")),
            false => Ok(()),
        }
    }

    /// Updates the time of the last change and adds to the number of notes of users.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    pub(crate) async fn touch(&self, transaction: &DatabaseTransaction, added_notes: i32) -> Result<()> {
        let (table, id, has_count) = match self {
            Self::Issue(issue) => ("issues", issue.id, true),
            Self::MergeRequest(merge_request) => ("merge_requests", merge_request.id, true),
            Self::Snippet(snippet) => ("snippets", snippet.id, false),
            Self::Epic(epic) => ("epics", epic.id, true),
        };
        let mut update = Query::update();
        update
            .table(table)
            .value("updated_at", now())
            .and_where(Expr::col("id").eq(id));
        if has_count {
            update.value("user_notes_count", Expr::col("user_notes_count").add(added_notes));
        }
        transaction.execute(&update).await?;
        Ok(())
    }
}
