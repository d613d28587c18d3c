//! Time tracking of issues.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};
use storage::entities::{issues, now};

use super::{find, lock};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::planning::issuables::Kind;
use crate::planning::issuables::time_tracking::{self, Change, Times};
use crate::planning::issues::events::{Told, tell};

/// Returns the tracked times of an issue.
///
/// # Errors
/// Returns `Error::NotFound` if the issue does not exist or the caller cannot see it.
pub async fn read(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<Times> {
    find(backend.database.read(), access, iid)
        .await
        .map(|issue| of(&issue))
}

fn of(issue: &issues::Model) -> Times {
    Times {
        estimate: issue.time_estimate,
        spent: issue.total_time_spent,
    }
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
            let this = (Kind::Issue, before.id);
            let (times, note) = time_tracking::apply(transaction, this, author, of(&before), &change).await?;
            let mut row = before.clone().into_active_model();
            row.time_estimate = Set(times.estimate);
            row.total_time_spent = Set(times.spent);
            row.updated_at = Set(now());
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
