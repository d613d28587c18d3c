//! Merge requests that contain a commit.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};
use storage::entities::merge_requests::{self, Column, Entity, MergeRequestState};
use storage::entities::{merge_request_commits, now};

use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_with_texts;
use crate::kernel::{Backend, urls};
use crate::review::merge_requests::is_enabled;
use crate::review::merge_requests::row::{MergeRequestDetail, decorate_with_paths};

/// Lists the merge requests of a project whose newest version contains a commit, or that this commit merged, newest first.
/// Of a version with many commits, only the newest ones are found.
///
/// # Errors
/// Returns `Forbidden` if merge requests of the project are not visible to the caller, and `NotFound` if the commit does not
/// exist.
pub async fn list_by_commit(
    backend: &Backend,
    access: &ProjectAccess,
    revision: &str,
    state: Option<MergeRequestState>,
    page: &PageRequest,
) -> Result<Page<MergeRequestDetail>> {
    let repository = repository_access::repository(backend, access)?;
    if !is_enabled(access) {
        return Err(Error::forbidden());
    }
    let commit = repository.resolve_commit(revision).await?.to_string();
    let db = backend.database.read();
    let mut matching = Entity::find()
        .filter(Column::TargetProjectId.eq(access.project.id))
        .filter(Column::Id.in_subquery(merge_request_commits::merge_request_ids(&commit)))
        .filter(merge_requests::visible(
            access.caller.viewer(),
            now().date_naive(),
        ));
    if let Some(state) = state {
        matching = matching.filter(Column::State.eq(state));
    }
    let matching = matching.order_by_desc(Column::Id);
    let page = page_with_texts(db, &access.caller, matching, page).await?;
    let path = urls::project_path(&access.namespace, &access.project);
    let paths = HashMap::from([(access.project.id, path)]);
    Ok(Page {
        items: decorate_with_paths(db, &access.caller, page.items, paths).await?,
        rest: page.rest,
    })
}
