//! Numbers of the resources of the instance.

use sea_orm::sea_query::{Asterisk, Expr, Func, Query, SelectStatement, SubQueryStatement};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryTrait};
use storage::entities::namespaces::{self, NamespaceKind};
use storage::entities::users::{self, UserState};
use storage::entities::{issues, merge_requests, milestones, notes, projects, snippets, user_keys};

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Numbers of resources. Resources that are being deleted in the background are not counted, and neither are bots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceStatistics {
    /// Projects that are forks.
    pub forks: i64,
    /// Issues.
    pub issues: i64,
    /// Merge requests.
    pub merge_requests: i64,
    /// Notes of users and system notes.
    pub notes: i64,
    /// Personal snippets and project snippets.
    pub snippets: i64,
    /// SSH keys of users.
    pub ssh_keys: i64,
    /// Milestones of projects and groups.
    pub milestones: i64,
    /// Users.
    pub users: i64,
    /// Groups and subgroups.
    pub groups: i64,
    /// Projects.
    pub projects: i64,
    /// Users who are neither blocked nor deactivated.
    pub active_users: i64,
}

/// Counts the resources, in one statement.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn get(backend: &Backend) -> Result<InstanceStatistics> {
    let people = || users::not_deleted().filter(users::Column::Bot.eq(false));
    let groups = namespaces::not_deleted().filter(namespaces::Column::Kind.eq(NamespaceKind::Group));
    let forks = projects::not_deleted().filter(projects::Column::ForkedFromId.is_not_null());
    let mut counts = Query::select();
    for rows in [
        forks.into_query(),
        issues::Entity::find().into_query(),
        merge_requests::Entity::find().into_query(),
        notes::Entity::find().into_query(),
        snippets::Entity::find().into_query(),
        user_keys::Entity::find().into_query(),
        milestones::Entity::find().into_query(),
        people().into_query(),
        groups.into_query(),
        projects::not_deleted().into_query(),
        people()
            .filter(users::Column::State.eq(UserState::Active))
            .into_query(),
    ] {
        counts.expr(count(rows));
    }
    let row = backend.database.read().query_one(&counts).await?;
    let row = row.ok_or_else(|| Error::internal("the counts of the instance have no row"))?;
    let at = |position: usize| row.try_get_by_index::<i64>(position);
    Ok(InstanceStatistics {
        forks: at(0)?,
        issues: at(1)?,
        merge_requests: at(2)?,
        notes: at(3)?,
        snippets: at(4)?,
        ssh_keys: at(5)?,
        milestones: at(6)?,
        users: at(7)?,
        groups: at(8)?,
        projects: at(9)?,
        active_users: at(10)?,
    })
}

/// Returns a subquery with the number of rows of a statement.
fn count(mut rows: SelectStatement) -> Expr {
    rows.clear_selects().expr(Func::count(Expr::col(Asterisk)));
    Expr::from(SubQueryStatement::from(rows))
}
