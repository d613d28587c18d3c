//! Time tracking of issues.

use sea_orm::{ActiveModelTrait, IntoActiveModel};
use storage::entities::issues;

use super::{find, lock};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::planning::issuables::time_tracking::{self, Change, Times};
use crate::planning::issuables::{IssuableKind, IssuableRow};
use crate::planning::issues::events::{Told, tell};

/// Returns the tracked times of an issue.
///
/// # Errors
/// Returns `Error::NotFound` if the issue does not exist or the caller cannot see it.
pub async fn read(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<Times> {
    find(backend.database.read(), access, iid)
        .await
        .map(|issue| issue.times())
}

/// Changes the tracked times of an issue.
///
/// # Errors
/// Returns `Error::NotFound` if the issue does not exist. Returns `Error::InvalidParameters` if the duration
/// is invalid or more time is subtracted than was spent.
pub async fn change(backend: &Backend, access: &ProjectAccess, iid: i64, change: Change) -> Result<Times> {
    let author = access.caller.signed_in()?.id;
    backend
        .database
        .transaction(async |transaction| {
            let before = lock(transaction, access, iid).await?;
            let this = (IssuableKind::Issue, before.id);
            let (times, note) =
                time_tracking::apply(transaction, this, author, before.times(), &change).await?;
            let mut row = before.clone().into_active_model();
            issues::Model::columns(&mut row).track(times);
            let issue = row.update(transaction).await?;
            let told = Told {
                access,
                author,
                before: Some(&before),
                after: &issue,
            };
            tell(transaction, told, vec![note]).await?;
            Ok(times)
        })
        .await
}
