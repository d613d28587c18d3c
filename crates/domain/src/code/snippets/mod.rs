//! Snippets of projects and personal snippets.

mod changes;
mod listing;

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};

pub use changes::{
    NewSnippet, NewSnippetFile, SnippetFileAction, SnippetFileUpdate, SnippetUpdate, create, delete, update,
};
pub use listing::{
    CreationTimes, SnippetContent, SnippetDetail, get, get_content, list_of_project, list_own, list_public,
    list_visible,
};

use storage::entities::now;
use storage::entities::snippets::{self, Column, Entity, Model};

use crate::identity::access::ProjectAccess;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
use crate::kernel::urls;

/// Scope of snippets: one project, or all personal snippets.
#[derive(Debug, Clone, Copy)]
pub enum SnippetScope<'a> {
    /// Personal snippets, outside projects.
    Personal(&'a Caller),
    /// Snippets of a project.
    Project(&'a ProjectAccess),
}

impl SnippetScope<'_> {
    /// Returns the caller.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        match self {
            Self::Personal(caller) => caller,
            Self::Project(access) => &access.caller,
        }
    }

    /// Returns the full path of the project, if any.
    fn project_path(&self) -> Option<String> {
        match self {
            Self::Personal(_) => None,
            Self::Project(access) => Some(urls::project_path(&access.namespace, &access.project)),
        }
    }

    /// Checks that the caller can use the snippets of the project.
    ///
    /// # Errors
    /// Returns `Forbidden` otherwise.
    fn check_feature(&self) -> Result<()> {
        match self {
            Self::Project(access)
                if !access
                    .effective_access()
                    .has_feature(access.project.snippets_access_level) =>
            {
                Err(Error::forbidden())
            }
            _ => Ok(()),
        }
    }

    /// Returns the condition that a snippet is in this scope.
    fn condition(&self) -> Expr {
        match self {
            Self::Personal(_) => Column::ProjectId.is_null(),
            Self::Project(access) => Column::ProjectId.eq(access.project.id),
        }
    }

    /// Checks that the caller, who can see the snippet, is its author or a Maintainer of the project.
    ///
    /// # Errors
    /// Returns `Forbidden` otherwise.
    fn check_can_update(&self, snippet: &Model) -> Result<()> {
        let caller = self.caller();
        let is_author = caller.as_user().is_some_and(|user| user.id == snippet.author_id);
        let is_maintainer = match self {
            Self::Personal(caller) => caller.is_admin(),
            Self::Project(access) => access.has_role(Role::Maintainer),
        };
        match is_author || is_maintainer {
            true => Ok(()),
            false => Err(Error::forbidden()),
        }
    }
}

/// Returns a snippet that is visible to the caller.
///
/// # Errors
/// Returns `NotFound` if the snippet does not exist, is not visible or is in another scope.
pub(crate) async fn find(db: &impl ConnectionTrait, scope: SnippetScope<'_>, id: i64) -> Result<Model> {
    let found = Entity::find_by_id(id)
        .filter(scope.condition())
        .filter(snippets::visible(scope.caller().viewer(), now().date_naive()))
        .one(db)
        .await?;
    found.ok_or_else(snippet_not_found)
}

/// As [`find`], but locks the row until the transaction ends.
///
/// # Errors
/// Returns `NotFound` also if the snippet was deleted concurrently.
pub(crate) async fn lock(db: &impl ConnectionTrait, scope: SnippetScope<'_>, id: i64) -> Result<Model> {
    let found = find(db, scope, id).await?;
    snippets::lock(db, found.id).await?.ok_or_else(snippet_not_found)
}

fn snippet_not_found() -> Error {
    Error::not_found("Snippet")
}
