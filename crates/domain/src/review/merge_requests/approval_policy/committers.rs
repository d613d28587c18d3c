//! Users with commits in a merge request, who cannot approve it if the project forbids this.

use std::collections::{BTreeSet, HashSet};

use git::CommitQuery;
use sea_orm::sea_query::Query;
use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::merge_requests::Model;
use storage::entities::{fold, user_emails, users};

use crate::code::push_events::between;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::review::merge_requests::diff;

/// Maximum number of commits that are read. The committers of older commits of a merge request can approve.
const MAX_COMMITS: usize = 10_000;

/// Number of commits or email addresses that are read at once.
const BATCH_SIZE: usize = 500;

/// Returns the IDs of the users who committed the commits of a merge request.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub(super) async fn find(backend: &Backend, merge_request: &Model) -> Result<HashSet<i64>> {
    let (repository, base, head) = match diff::endpoints(backend, merge_request).await {
        // Without its commits, a merge request cannot be merged.
        Err(Error::NotFound(_)) => return Ok(HashSet::new()),
        endpoints => endpoints?,
    };
    let query = CommitQuery {
        selection: between(Some(base), head),
        offset: 0,
        limit: MAX_COMMITS,
    };
    let ids = repository.list_commits(query).await?;
    let mut emails = BTreeSet::new();
    for ids in ids.chunks(BATCH_SIZE) {
        let commits = repository.commits(ids.to_vec()).await?;
        emails.extend(commits.iter().map(|commit| fold(&commit.committer.email)));
    }
    let emails: Vec<String> = emails.into_iter().collect();
    let mut committers = HashSet::new();
    for emails in emails.chunks(BATCH_SIZE) {
        committers.extend(users_of(backend.database.read(), emails).await?);
    }
    Ok(committers)
}

/// Returns the users with one of these folded email addresses.
async fn users_of(db: &impl ConnectionTrait, emails: &[String]) -> Result<Vec<i64>> {
    let emails = || emails.iter().map(String::as_str);
    let secondary = Query::select()
        .column(user_emails::Column::UserId)
        .from(user_emails::Entity)
        .and_where(user_emails::Column::EmailKey.is_in(emails()))
        .and_where(user_emails::Column::ConfirmedAt.is_not_null())
        .take();
    let has_email = Condition::any()
        .add(users::Column::EmailKey.is_in(emails()))
        .add(users::Column::Id.in_subquery(secondary));
    let ids = users::Entity::find()
        .select_only()
        .column(users::Column::Id)
        .filter(has_email);
    Ok(ids.into_tuple().all(db).await?)
}
