//! Pipelines of a merge request.

use sea_orm::{ColumnTrait, Condition, QueryFilter, QueryOrder};
use storage::entities::pipelines::{self, Column, Model};
use storage::entities::{merge_request_commits, merge_request_versions};

use crate::delivery::access::{can_read_pipelines, check_can_read};
use crate::delivery::pipelines::{self as delivery_pipelines, PipelineDetail};
use crate::identity::access::ProjectAccess;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_of;
use crate::kernel::{Backend, urls};
use crate::review::merge_requests::{branch_heads, find};

/// Lists the pipelines on the source branch of a merge request for its commits and for the heads of its versions, newest
/// first. Returns the full path of their project, too.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible to the caller, and `Forbidden` if pipelines of the target project
/// are not visible to the caller.
pub async fn list_pipelines(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    page: &PageRequest,
) -> Result<(Page<Model>, String)> {
    let db = backend.database.read();
    let merge_request = find(db, access, iid).await?;
    check_can_read(access)?;
    let source = match merge_request.source_project_id {
        Some(id) if id == access.project.id => Some(access.clone()),
        Some(id) => ProjectAccess::find_visible(backend, &access.caller, id).await?,
        None => None,
    };
    let Some(source) = source.filter(can_read_pipelines) else {
        return Ok((Page::from_all(page, Vec::new()), String::new()));
    };
    let commits = merge_request_commits::shas(merge_request.id);
    let heads = merge_request_versions::heads(merge_request.id);
    let of_merge_request = Condition::any()
        .add(Column::Sha.in_subquery(commits))
        .add(Column::Sha.in_subquery(heads));
    let found = pipelines::of_project(source.project.id)
        .filter(Column::RefName.eq(merge_request.source_branch.as_str()))
        .filter(Column::Tag.eq(false))
        .filter(of_merge_request)
        .order_by_desc(Column::Id);
    let path = urls::project_path(&source.namespace, &source.project);
    Ok((page_of(db, found, page).await?, path))
}

/// Creates a pipeline for the head of the source branch of a merge request. Returns the full path of its project, too.
///
/// # Errors
/// Returns `NotFound` if the merge request is not visible to the caller, and `Forbidden` if the source branch does not exist or
/// the caller cannot create pipelines for it.
pub async fn create_pipeline(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
) -> Result<(PipelineDetail, String)> {
    let merge_request = find(backend.database.read(), access, iid).await?;
    let source = branch_heads::source_access(backend, access, &merge_request).await?;
    let branch = format!("refs/heads/{}", merge_request.source_branch);
    let created = delivery_pipelines::create(backend, &source, &branch, Vec::new()).await?;
    Ok((created, urls::project_path(&source.namespace, &source.project)))
}
