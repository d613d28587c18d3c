//! What notes stand on. A kind of thing that can have notes adds a key, a variant, and an arm to each match.

use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter};

use super::system::Parent;
use crate::entities::{issues, now};
use crate::error::{Error, Result};
use crate::policy::Role;
use crate::services::access::ProjectAccess;
use crate::services::issues as issues_service;

/// Which thing of a project, as a path names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// The issue with this number.
    Issue(i64),
}

/// Something that notes stand on, as far as the caller may see it.
#[derive(Debug, Clone)]
pub enum Noteable {
    /// An issue.
    Issue(issues::Model),
}

impl Noteable {
    /// Finds what a key names.
    ///
    /// # Errors
    /// 404, also where the caller may not see it.
    pub(in crate::services) async fn find(
        db: &impl ConnectionTrait,
        access: &ProjectAccess,
        key: Key,
    ) -> Result<Self> {
        match key {
            Key::Issue(iid) => Ok(Self::Issue(issues_service::find(db, access, iid).await?)),
        }
    }

    /// As [`Self::find`], for whoever is about to change something on it: locked until the transaction ends.
    ///
    /// # Errors
    /// 404, also where it went away since.
    pub(in crate::services) async fn lock(
        transaction: &DatabaseTransaction,
        access: &ProjectAccess,
        key: Key,
    ) -> Result<Self> {
        match key {
            Key::Issue(iid) => Ok(Self::Issue(issues_service::lock(transaction, access, iid).await?)),
        }
    }

    /// Its id, with its kind.
    #[must_use]
    pub fn parent(&self) -> Parent {
        match self {
            Self::Issue(issue) => Parent::Issue(issue.id),
        }
    }

    /// Its number within the project, where it has one.
    #[must_use]
    pub fn iid(&self) -> Option<i64> {
        match self {
            Self::Issue(issue) => Some(issue.iid),
        }
    }

    /// What it is about.
    #[must_use]
    pub fn title(&self) -> &str {
        match self {
            Self::Issue(issue) => &issue.title,
        }
    }

    /// Whether few may see it.
    #[must_use]
    pub fn is_confidential(&self) -> bool {
        match self {
            Self::Issue(issue) => issue.confidential,
        }
    }

    /// Refuses what takes part in the discussion from others than members, where it is locked.
    ///
    /// # Errors
    /// 403.
    pub(in crate::services) fn check_unlocked(&self, access: &ProjectAccess) -> Result<()> {
        let locked = match self {
            Self::Issue(issue) => issue.discussion_locked,
        };
        match locked && !access.holds(Role::Guest) {
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
        match self {
            Self::Issue(issue) => {
                issues::Entity::update_many()
                    .col_expr(issues::Column::UpdatedAt, Expr::value(now()))
                    .col_expr(
                        issues::Column::UserNotesCount,
                        Expr::col(issues::Column::UserNotesCount).add(more),
                    )
                    .filter(issues::Column::Id.eq(issue.id))
                    .exec(transaction)
                    .await?;
            }
        }
        Ok(())
    }
}
