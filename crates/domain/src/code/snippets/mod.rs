//! Snippets of projects and personal snippets.

mod changes;
mod listing;

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};

pub use changes::{Change, FileAction, FileChange, NewFile, NewSnippet, create, delete, edit, remove_all_of};
pub use listing::{Raw, Row, content, list_of_project, list_own, list_public, read};

use storage::entities::now;
use storage::entities::snippets::{self, Column, Entity, Model};

use crate::identity::access::ProjectAccess;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
use crate::kernel::urls;

/// Container of snippets.
#[derive(Debug, Clone, Copy)]
pub enum Home<'a> {
    /// Personal snippets, outside projects.
    Personal(&'a Caller),
    /// Snippets of a project.
    Project(&'a ProjectAccess),
}

impl Home<'_> {
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

    /// Refuses callers who cannot use the snippets of the project.
    ///
    /// # Errors
    /// Returns `Forbidden` in that case.
    fn admit(&self) -> Result<()> {
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

    /// Returns the condition that a snippet belongs to this container.
    fn holds(&self) -> Expr {
        match self {
            Self::Personal(_) => Column::ProjectId.is_null(),
            Self::Project(access) => Column::ProjectId.eq(access.project.id),
        }
    }

    /// Refuses changes unless the caller, who can see the snippet, is its author or a Maintainer of the
    /// project.
    ///
    /// # Errors
    /// Returns `Forbidden` for refused callers.
    fn check_may_change(&self, snippet: &Model) -> Result<()> {
        let caller = self.caller();
        let own = caller.as_user().is_some_and(|user| user.id == snippet.author_id);
        let master = match self {
            Self::Personal(caller) => caller.is_admin(),
            Self::Project(access) => access.has_role(Role::Maintainer),
        };
        match own || master {
            true => Ok(()),
            false => Err(Error::forbidden()),
        }
    }
}

/// Returns a snippet that is visible to the caller.
///
/// # Errors
/// Returns `NotFound` if the snippet does not exist, is not visible or belongs to another container.
pub(crate) async fn find(db: &impl ConnectionTrait, home: Home<'_>, id: i64) -> Result<Model> {
    let found = Entity::find_by_id(id)
        .filter(home.holds())
        .filter(snippets::visible(home.caller().viewer(), now().date_naive()))
        .one(db)
        .await?;
    found.ok_or_else(missing)
}

/// As [`find`], but locks the row until the transaction ends.
///
/// # Errors
/// Returns `NotFound` also if the snippet was deleted concurrently.
pub(crate) async fn lock(db: &impl ConnectionTrait, home: Home<'_>, id: i64) -> Result<Model> {
    let found = find(db, home, id).await?;
    snippets::lock(db, found.id).await?.ok_or_else(missing)
}

fn missing() -> Error {
    Error::not_found("Snippet")
}
