//! Time estimate and time spent on a merge request.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};
use storage::entities::{merge_requests, now};

use super::{find, lock};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::planning::issuables::Kind;
use crate::planning::issuables::time_tracking::{self, Change, Times};
use crate::review::merge_requests::events::{Told, tell};

/// Returns the time statistics of a merge request.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub async fn read(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<Times> {
    let found = find(backend.database.read(), access, iid).await?;
    Ok(of(&found))
}

fn of(merge_request: &merge_requests::Model) -> Times {
    Times {
        estimate: merge_request.time_estimate,
        spent: merge_request.total_time_spent,
    }
}

/// Updates the time statistics of a merge request.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible. Returns a validation error for an invalid duration
/// or for removing more time than was spent.
pub async fn change(backend: &Backend, access: &ProjectAccess, iid: i64, change: Change) -> Result<Times> {
    let author = access.caller.signed_in()?.id;
    backend
        .database
        .transaction(async |transaction| {
            let before = lock(transaction, access, iid).await?;
            let this = (Kind::MergeRequest, before.id);
            let (times, note) = time_tracking::apply(transaction, this, author, of(&before), &change).await?;
            let mut row = before.clone().into_active_model();
            row.time_estimate = Set(times.estimate);
            row.total_time_spent = Set(times.spent);
            row.updated_at = Set(now());
            let merge_request = row.update(transaction).await?;
            let told = Told {
                author: Some(author),
                before: Some(&before),
                after: &merge_request,
                notes: vec![note],
                beside: Default::default(),
                oldrev: None,
            };
            tell(transaction, told).await?;
            Ok(times)
        })
        .await
}
