//! The ref with the result of a merge: the commit that a merge of the current branches would create.

use git::{Oid, TestMerge};
use storage::entities::merge_requests::MergeRequestState;

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::review::merge_requests::branch_heads::{self, BranchRef};
use crate::review::merge_requests::{find, head_refs};

/// Points `refs/merge-requests/:iid/merge` to the merge of the current heads of both branches, and returns its ID. The target
/// branch does not change. The commit has the identity and the time of the committer of the head, so the same heads result in
/// the same commit.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible to the caller. Returns a validation error if the merge request is
/// not open, has nothing to merge or has conflicts, or if the target branch does not exist.
pub async fn update_merge_ref(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<Oid> {
    let merge_request = find(backend.database.read(), access, iid).await?;
    if merge_request.state != MergeRequestState::Opened {
        return Err(not_mergeable());
    }
    let target = branch_heads::head(backend, BranchRef::target(&merge_request)).await?;
    let target = target.ok_or_else(not_mergeable)?;
    let (repository, head) = match head_refs::ensure(backend, &merge_request).await {
        Err(Error::NotFound(_)) => return Err(not_mergeable()),
        prepared => prepared?,
    };
    let repository = access.caller.with_shares(repository);
    let merge = TestMerge {
        iid,
        target,
        head,
        message: format!("Merge {head} into {target}"),
        committer: repository.commit(head).await?.committer,
    };
    match repository.set_merge_request_merge(merge).await {
        Err(git::Error::EmptyChange) => Err(not_mergeable()),
        Err(git::Error::Conflict) => Err(Error::Rejected(
            "Merge request has conflicts with the target branch".into(),
        )),
        result => Ok(result?),
    }
}

fn not_mergeable() -> Error {
    Error::Rejected("Merge request is not mergeable".into())
}
