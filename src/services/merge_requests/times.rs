//! How long a merge request is thought to take, and how long it took (by analogy with specification 2.5).

use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};
use storage::entities::{merge_requests, now};

use super::telling::{Told, tell};
use super::{find, lock};
use crate::error::Result;
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::issuables::Kind;
use crate::services::issuables::times::{self, Change, Times};

/// The times of a merge request.
///
/// # Errors
/// 404, also where the caller may not see it.
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

/// Changes the times of a merge request.
///
/// # Errors
/// 404, and 400 for a duration that is none, and for taking off more than was spent.
pub async fn change(backend: &Backend, access: &ProjectAccess, iid: i64, change: Change) -> Result<Times> {
    let author = access.caller.signed_in()?.id;
    backend
        .database
        .transaction(async |transaction| {
            let before = lock(transaction, access, iid).await?;
            let this = (Kind::MergeRequest, before.id);
            let (times, note) = times::apply(transaction, this, author, of(&before), &change).await?;
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
