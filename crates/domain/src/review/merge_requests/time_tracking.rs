//! Time estimate and time spent on a merge request.

use sea_orm::{ActiveModelTrait, IntoActiveModel};
use storage::entities::merge_requests;

use super::{find, lock};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::planning::issuables::time_tracking::{self, Change, Times};
use crate::planning::issuables::{IssuableKind, IssuableRow};
use crate::review::merge_requests::events::{Told, tell};

/// Returns the time statistics of a merge request.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub async fn read(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<Times> {
    let found = find(backend.database.read(), access, iid).await?;
    Ok(found.times())
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
            let this = (IssuableKind::MergeRequest, before.id);
            let (times, note) =
                time_tracking::apply(transaction, this, author, before.times(), &change).await?;
            let mut row = before.clone().into_active_model();
            merge_requests::Model::columns(&mut row).track(times);
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
