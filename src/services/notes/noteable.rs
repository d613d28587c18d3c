//! What notes stand on. A kind of thing that can have notes adds a key, a variant, and an arm to each match.

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ConnectionTrait, DatabaseTransaction};
use storage::entities::{epics, issues, merge_requests, now, snippets};

use super::system::Parent;
use crate::error::{Error, Result};
use crate::policy::Role;
use crate::services::epics as epics_service;
use crate::services::issues as issues_service;
use crate::services::merge_requests as merge_requests_service;
use crate::services::places::Place;
use crate::services::saying::{self, Scene};
use crate::services::snippets::{self as snippets_service, Home};

/// Which thing of a project or group, as a path names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// The issue with this number.
    Issue(i64),
    /// The merge request with this number.
    MergeRequest(i64),
    /// The snippet with this id.
    Snippet(i64),
    /// The epic with this id.
    Epic(i64),
}

/// Something that notes stand on, as far as the caller may see it.
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
    /// Finds what a key names.
    ///
    /// # Errors
    /// 404, also where the caller may not see it.
    pub(in crate::services) async fn find(
        db: &impl ConnectionTrait,
        place: &Place,
        key: Key,
    ) -> Result<Self> {
        match key {
            Key::Issue(iid) => {
                let found = issues_service::find(db, &place.on_project()?, iid).await?;
                Ok(Self::Issue(found))
            }
            Key::MergeRequest(iid) => {
                let found = merge_requests_service::find(db, &place.on_project()?, iid).await?;
                Ok(Self::MergeRequest(Box::new(found)))
            }
            Key::Snippet(id) => {
                let access = place.on_project()?;
                let found = snippets_service::find(db, Home::Project(&access), id).await?;
                Ok(Self::Snippet(found))
            }
            Key::Epic(id) => Ok(Self::Epic(epics_service::find_by_id(db, place, id).await?)),
        }
    }

    /// As [`Self::find`], for whoever is about to change something on it: locked until the transaction ends.
    ///
    /// # Errors
    /// 404, also where it went away since.
    pub(in crate::services) async fn lock(
        transaction: &DatabaseTransaction,
        place: &Place,
        key: Key,
    ) -> Result<Self> {
        match key {
            Key::Issue(iid) => {
                let locked = issues_service::lock(transaction, &place.on_project()?, iid).await?;
                Ok(Self::Issue(locked))
            }
            Key::MergeRequest(iid) => {
                let access = place.on_project()?;
                let locked = merge_requests_service::lock(transaction, &access, iid).await?;
                Ok(Self::MergeRequest(Box::new(locked)))
            }
            Key::Snippet(id) => {
                let access = place.on_project()?;
                let locked = snippets_service::lock(transaction, Home::Project(&access), id).await?;
                Ok(Self::Snippet(locked))
            }
            Key::Epic(id) => {
                let locked = epics_service::lock_by_id(transaction, place, id).await?;
                Ok(Self::Epic(locked))
            }
        }
    }

    /// Its id, with its kind.
    #[must_use]
    pub fn parent(&self) -> Parent {
        match self {
            Self::Issue(issue) => Parent::Issue(issue.id),
            Self::MergeRequest(merge_request) => Parent::MergeRequest(merge_request.id),
            Self::Snippet(snippet) => Parent::Snippet(snippet.id),
            Self::Epic(epic) => Parent::Epic(epic.id),
        }
    }

    /// Its number within the project or group, where it has one.
    #[must_use]
    pub fn iid(&self) -> Option<i64> {
        match self {
            Self::Issue(issue) => Some(issue.iid),
            Self::MergeRequest(merge_request) => Some(merge_request.iid),
            Self::Snippet(_) => None,
            Self::Epic(epic) => Some(epic.iid),
        }
    }

    /// Who made it; nobody where the user is gone.
    #[must_use]
    pub fn author_id(&self) -> Option<i64> {
        match self {
            Self::Issue(issue) => issue.author_id,
            Self::MergeRequest(merge_request) => merge_request.author_id,
            Self::Snippet(snippet) => Some(snippet.author_id),
            Self::Epic(epic) => epic.author_id,
        }
    }

    /// What it is about.
    #[must_use]
    pub fn title(&self) -> &str {
        match self {
            Self::Issue(issue) => &issue.title,
            Self::MergeRequest(merge_request) => &merge_request.title,
            Self::Snippet(snippet) => &snippet.title,
            Self::Epic(epic) => &epic.title,
        }
    }

    /// The name of its file, where it has one.
    #[must_use]
    pub fn file_name(&self) -> Option<&str> {
        match self {
            Self::Issue(_) | Self::MergeRequest(_) | Self::Epic(_) => None,
            Self::Snippet(snippet) => Some(&snippet.file_name),
        }
    }

    /// Whether few may see it.
    #[must_use]
    pub fn is_confidential(&self) -> bool {
        match self {
            Self::Issue(issue) => issue.confidential,
            Self::MergeRequest(_) | Self::Snippet(_) => false,
            Self::Epic(epic) => epic.confidential,
        }
    }

    /// Where a note on it is written, as far as that decides who may read it; none where nothing follows from what notes say.
    ///
    /// # Errors
    /// Whatever the database reports.
    pub(in crate::services) async fn scene<'a>(
        &self,
        db: &impl ConnectionTrait,
        place: &'a Place,
    ) -> Result<Option<Scene<'a>>> {
        Ok(match self {
            Self::Issue(issue) => {
                let readers = match issue.confidential {
                    true => saying::assignees(db, issue).await?,
                    false => Vec::new(),
                };
                Some(Scene::of_issue(
                    place,
                    issue.confidential,
                    issue.author_id,
                    readers,
                ))
            }
            Self::MergeRequest(_) => Some(Scene::of_merge_request(place)),
            Self::Epic(epic) => Some(Scene::of_epic(place, epic.confidential, epic.author_id)),
            Self::Snippet(_) => None,
        })
    }

    /// Refuses what takes part in the discussion from others than members, where it is locked.
    ///
    /// # Errors
    /// 403.
    pub(in crate::services) fn check_unlocked(&self, place: &Place) -> Result<()> {
        let locked = match self {
            Self::Issue(issue) => issue.discussion_locked,
            Self::MergeRequest(merge_request) => merge_request.discussion_locked,
            Self::Snippet(_) | Self::Epic(_) => false,
        };
        match locked && !place.holds(Role::Guest) {
            true => Err(Error::forbidden_because("The discussion is locked")),
            false => Ok(()),
        }
    }

    /// Enters that a note on it changed, and that there are so many more that users wrote.
    ///
    /// # Errors
    /// Whatever the database reports.
    pub(in crate::services) async fn touch(
        &self,
        transaction: &DatabaseTransaction,
        more: i32,
    ) -> Result<()> {
        let (table, id, counts) = match self {
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
        if counts {
            update.value("user_notes_count", Expr::col("user_notes_count").add(more));
        }
        transaction.execute(&update).await?;
        Ok(())
    }
}
