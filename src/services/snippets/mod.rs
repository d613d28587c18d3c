//! Snippets of projects, and of users outside of projects (specification 1 and 4.3).

mod changes;
mod listing;

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};

pub use changes::{Change, FileAction, FileChange, NewFile, NewSnippet, create, delete, edit, remove_all_of};
pub use listing::{Raw, Row, content, list_of_project, list_own, list_public, read};

use storage::entities::now;
use storage::entities::snippets::{self, Column, Entity, Model};

use crate::error::{Error, Result};
use crate::policy::Role;
use crate::services::access::ProjectAccess;
use crate::services::authentication::Caller;
use crate::services::links;

/// Where snippets are.
#[derive(Debug, Clone, Copy)]
pub enum Home<'a> {
    /// With those who made them, outside of projects.
    Personal(&'a Caller),
    /// In a project.
    Project(&'a ProjectAccess),
}

impl Home<'_> {
    /// Who calls.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        match self {
            Self::Personal(caller) => caller,
            Self::Project(access) => &access.caller,
        }
    }

    /// The full path of the project, if it is one.
    fn project_path(&self) -> Option<String> {
        match self {
            Self::Personal(_) => None,
            Self::Project(access) => Some(links::project_path(&access.namespace, &access.project)),
        }
    }

    /// Refuses where the snippets of the project are not there for the caller.
    ///
    /// # Errors
    /// 403.
    fn admit(&self) -> Result<()> {
        match self {
            Self::Project(access) if !access.standing().has(access.project.snippets_access_level) => {
                Err(Error::forbidden())
            }
            _ => Ok(()),
        }
    }

    /// The snippets that are there.
    fn holds(&self) -> Expr {
        match self {
            Self::Personal(_) => Column::ProjectId.is_null(),
            Self::Project(access) => Column::ProjectId.eq(access.project.id),
        }
    }

    /// Refuses changes of a snippet that the caller sees: whoever made it may change it, and Maintainers of its project.
    ///
    /// # Errors
    /// 403.
    fn check_may_change(&self, snippet: &Model) -> Result<()> {
        let caller = self.caller();
        let own = caller.as_user().is_some_and(|user| user.id == snippet.author_id);
        let master = match self {
            Self::Personal(caller) => caller.is_admin(),
            Self::Project(access) => access.holds(Role::Maintainer),
        };
        match own || master {
            true => Ok(()),
            false => Err(Error::forbidden()),
        }
    }
}

/// Finds a snippet, as far as the caller may see it.
///
/// # Errors
/// 404, also for one that is elsewhere.
pub(in crate::services) async fn find(db: &impl ConnectionTrait, home: Home<'_>, id: i64) -> Result<Model> {
    let found = Entity::find_by_id(id)
        .filter(home.holds())
        .filter(snippets::visible(home.caller().viewer(), now().date_naive()))
        .one(db)
        .await?;
    found.ok_or_else(missing)
}

/// As [`find`], for whoever is about to change something on it: locked until the transaction ends.
///
/// # Errors
/// 404, also where it went away since.
pub(in crate::services) async fn lock(db: &impl ConnectionTrait, home: Home<'_>, id: i64) -> Result<Model> {
    let found = find(db, home, id).await?;
    snippets::lock(db, found.id).await?.ok_or_else(missing)
}

fn missing() -> Error {
    Error::not_found("Snippet")
}
