//! Issues that a merge request closes when it is merged. They are derived from its description and commits
//! and can be read from both sides.

use std::collections::{BTreeSet, HashMap};

use sea_orm::sea_query::{Asterisk, Expr, ExprTrait, Func, Query, SelectStatement, SubQueryStatement};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect, Select,
};
use storage::entities::access::Viewer;
use storage::entities::closing_merge_requests::{ActiveModel, Column, Entity};
use storage::entities::issuables::lock_rows;
use storage::entities::merge_requests::{self, MergeRequestState, Model};
use storage::entities::{issues, namespaces, notes, now, projects, users};

use super::find;
use super::row::{MergeRequestDetail, decorate_with_paths};
use crate::identity::access::ProjectAccess;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{contains_in, page_with_texts};
use crate::kernel::text::references::{self, Reference, closed_issues};
use crate::kernel::{Backend, urls};
use crate::planning::issues as issues_service;
use crate::planning::mentions::resolve_references;
use crate::review::merge_requests::branch_heads;

/// Maximum number of notes of an issue that are searched for references to merge requests, newest first.
const MAX_NOTES: u64 = 1000;

/// Number of merge requests that a refresh of a project reads at a time.
const BATCH_SIZE: u64 = 100;

/// Context for resolving references.
pub(crate) struct ReferenceContext<'a> {
    /// The target project.
    pub project: &'a projects::Model,
    /// The namespace of the target project.
    pub namespace: &'a namespaces::Model,
    /// The author of the texts. References to issues that the author cannot see are ignored.
    pub viewer: Viewer,
    /// The address of the server.
    pub base_url: &'a str,
    /// The messages of the commits.
    pub messages: Vec<String>,
}

impl<'a> ReferenceContext<'a> {
    /// Creates the context for a caller, with the messages of the commits to be merged.
    ///
    /// # Errors
    /// Returns an error if a Git operation fails.
    pub async fn new(
        backend: &'a Backend,
        target: &'a ProjectAccess,
        source_project_id: Option<i64>,
        head_sha: &str,
        base_sha: &str,
    ) -> Result<Self> {
        let ids = [source_project_id, Some(target.project.id)];
        Ok(Self {
            project: &target.project,
            namespace: &target.namespace,
            viewer: target.caller.viewer(),
            base_url: &backend.instance.base_url,
            messages: branch_heads::messages(backend, ids, head_sha, base_sha).await?,
        })
    }
}

/// Updates the issues that a merge request closes, in the transaction that changes it.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn save(
    transaction: &DatabaseTransaction,
    context: &ReferenceContext<'_>,
    merge_request: &Model,
) -> Result<()> {
    let issue_ids = issues_to_close(transaction, context, merge_request).await?;
    replace(transaction, merge_request.id, issue_ids).await
}

/// Locks the issues whose counts [`save`] will update. Must run before the merge request is locked: other transactions
/// lock issues first. `merge_request` has the new description and target branch.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn lock_affected(
    transaction: &DatabaseTransaction,
    context: &ReferenceContext<'_>,
    merge_request: &Model,
) -> Result<()> {
    let before = closed_issue_ids(transaction, merge_request.id).await?;
    let after = issues_to_close(transaction, context, merge_request).await?;
    lock_issues(transaction, before.symmetric_difference(&after).copied()).await
}

/// Locks the issues that a merge request closes. Must run before the merge request is locked.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn lock_closed_by(transaction: &DatabaseTransaction, id: i64) -> Result<()> {
    let closed = closed_issue_ids(transaction, id).await?;
    lock_issues(transaction, closed.into_iter()).await
}

/// Returns the IDs of the issues that a merge request has to close, if it can close any.
async fn issues_to_close(
    transaction: &DatabaseTransaction,
    context: &ReferenceContext<'_>,
    merge_request: &Model,
) -> Result<BTreeSet<i64>> {
    let closes_issues = context.project.autoclose_referenced_issues
        && context.project.default_branch.as_ref() == Some(&merge_request.target_branch);
    match closes_issues {
        true => find_closed(transaction, context, merge_request).await,
        false => Ok(BTreeSet::new()),
    }
}

/// Records that a merge request closes exactly these issues.
async fn replace(transaction: &DatabaseTransaction, id: i64, issue_ids: BTreeSet<i64>) -> Result<()> {
    let before = closed_issue_ids(transaction, id).await?;
    let removed: Vec<i64> = before.difference(&issue_ids).copied().collect();
    let added: Vec<i64> = issue_ids.difference(&before).copied().collect();
    lock_issues(transaction, removed.iter().chain(&added).copied()).await?;
    if !removed.is_empty() {
        Entity::delete_many()
            .filter(Column::MergeRequestId.eq(id))
            .filter(Column::IssueId.is_in(removed.iter().copied()))
            .exec(transaction)
            .await?;
    }
    if !added.is_empty() {
        let rows = added.iter().map(|issue_id| ActiveModel {
            issue_id: Set(*issue_id),
            merge_request_id: Set(id),
            ..Default::default()
        });
        Entity::insert_many(rows)
            .exec_without_returning(transaction)
            .await?;
    }
    update_counts(transaction, removed.into_iter().chain(added).collect()).await
}

/// Updates the issues that an open merge request closes after its source changed, limited to issues visible
/// to its author.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub(super) async fn refresh(backend: &Backend, id: i64) -> Result<()> {
    let db = backend.database.read();
    let merge_request = merge_requests::Entity::find_by_id(id).one(db).await?;
    let Some(merge_request) =
        merge_request.filter(|merge_request| merge_request.state == MergeRequestState::Opened)
    else {
        return Ok(());
    };
    let author = match merge_request.author_id {
        Some(id) => users::Entity::find_by_id(id).one(db).await?,
        None => None,
    };
    let Some(author) = author else {
        return Ok(());
    };
    let caller = Caller::user(author);
    let target = ProjectAccess::find_visible(backend, &caller, merge_request.target_project_id).await?;
    let Some(target) = target else {
        return Ok(());
    };
    let source = merge_request.source_project_id;
    let context = ReferenceContext::new(
        backend,
        &target,
        source,
        &merge_request.head_sha,
        &merge_request.base_sha,
    )
    .await?;
    backend
        .database
        .transaction(async |transaction| {
            lock_affected(transaction, &context, &merge_request).await?;
            match merge_requests::lock(transaction, id).await? {
                // A concurrent change of the head runs this again.
                Some(locked) if locked.head_sha == merge_request.head_sha => {
                    save(transaction, &context, &locked).await
                }
                _ => Ok(()),
            }
        })
        .await
}

/// Records that an unmerged merge request closes no issues.
///
/// # Errors
/// Returns an error if a database query fails.
async fn clear(backend: &Backend, id: i64) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            lock_closed_by(transaction, id).await?;
            match merge_requests::lock(transaction, id).await? {
                Some(locked) if locked.state != MergeRequestState::Merged => {
                    replace(transaction, id, BTreeSet::new()).await
                }
                _ => Ok(()),
            }
        })
        .await
}

/// Refreshes the closing issues of the merge requests of a project. Those into the default branch close the
/// issues in their texts, if the project closes issues; all others close none. Merged ones are unchanged. The
/// operation is idempotent.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub async fn refresh_project(backend: &Backend, project_id: i64) -> Result<()> {
    use merge_requests::Column as MergeRequest;

    let db = backend.database.read();
    let Some(project) = projects::Entity::find_by_id(project_id).one(db).await? else {
        return Ok(());
    };
    let branch = project
        .default_branch
        .filter(|_| project.autoclose_referenced_issues);
    let closed_issues = Query::select()
        .expr(Expr::val(1))
        .from(Entity)
        .and_where(
            Expr::col((Entity, Column::MergeRequestId))
                .eq(Expr::col((merge_requests::Entity, MergeRequest::Id))),
        )
        .take();
    let affected = Condition::any().add(Expr::exists(closed_issues)).add_option(
        branch
            .as_ref()
            .map(|branch| MergeRequest::TargetBranch.eq(branch)),
    );
    let mut after = 0;
    loop {
        let batch = merge_requests::Entity::find()
            .filter(MergeRequest::TargetProjectId.eq(project_id))
            .filter(MergeRequest::State.ne(MergeRequestState::Merged))
            .filter(MergeRequest::Id.gt(after))
            .filter(affected.clone())
            .order_by_asc(MergeRequest::Id)
            .limit(BATCH_SIZE)
            .all(db)
            .await?;
        let Some(last) = batch.last() else {
            return Ok(());
        };
        after = last.id;
        for merge_request in &batch {
            match branch.as_ref() == Some(&merge_request.target_branch) {
                true => refresh(backend, merge_request.id).await?,
                false => clear(backend, merge_request.id).await?,
            }
        }
    }
}

/// Returns the IDs of the issues that a merge request closes.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn closed_issue_ids(db: &impl ConnectionTrait, id: i64) -> Result<BTreeSet<i64>> {
    let ids: Vec<i64> = Entity::find()
        .select_only()
        .column(Column::IssueId)
        .filter(Column::MergeRequestId.eq(id))
        .into_tuple()
        .all(db)
        .await?;
    Ok(ids.into_iter().collect())
}

/// Locks issues in ascending order, as every change of several issues does.
async fn lock_issues(transaction: &DatabaseTransaction, ids: impl Iterator<Item = i64>) -> Result<()> {
    let rows = Query::select()
        .column("id")
        .from(issues::Entity)
        .and_where(Expr::col("id").is_in(ids))
        .take();
    lock_rows(transaction, "issues", rows).await?;
    Ok(())
}

/// Locks the issues of these rows of `closing_merge_requests`, except those of a project that is being deleted. Returns
/// their IDs.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn lock_closed(
    transaction: &DatabaseTransaction,
    row_ids: &[i64],
    deleted_project_id: i64,
) -> Result<Vec<i64>> {
    let closed = Query::select()
        .column(Column::IssueId)
        .from(Entity)
        .and_where(Column::Id.is_in(row_ids.iter().copied()))
        .take();
    let rows = Query::select()
        .column(issues::Column::Id)
        .from(issues::Entity)
        .and_where(issues::Column::Id.in_subquery(closed))
        .and_where(issues::Column::ProjectId.ne(deleted_project_id))
        .take();
    Ok(lock_rows(transaction, "issues", rows).await?)
}

/// Updates the number of closing merge requests of these issues.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn update_counts(transaction: &DatabaseTransaction, issue_ids: Vec<i64>) -> Result<()> {
    if issue_ids.is_empty() {
        return Ok(());
    }
    let count = Query::select()
        .expr(Func::count(Expr::col(Asterisk)))
        .from(Entity)
        .and_where(Expr::col((Entity, Column::IssueId)).eq(Expr::col((issues::Entity, issues::Column::Id))))
        .take();
    issues::Entity::update_many()
        .col_expr(
            issues::Column::MergeRequestsCount,
            Expr::from(SubQueryStatement::from(count)),
        )
        .filter(issues::Column::Id.is_in(issue_ids))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Returns the issues that the description and the messages close, limited to those visible to their author.
async fn find_closed(
    transaction: &DatabaseTransaction,
    context: &ReferenceContext<'_>,
    merge_request: &Model,
) -> Result<BTreeSet<i64>> {
    let texts = context.messages.iter().map(String::as_str);
    let texts = texts.chain(merge_request.description.as_deref());
    let references: Vec<Reference> = texts
        .flat_map(|text| closed_issues(text, context.base_url))
        .collect();
    let location = (context.project, context.namespace);
    let columns = (issues::Column::ProjectId, issues::Column::Iid);
    let Some(referenced) = resolve_references(transaction, location, references, columns).await? else {
        return Ok(BTreeSet::new());
    };
    let ids: Vec<i64> = issues::Entity::find()
        .select_only()
        .column(issues::Column::Id)
        .filter(referenced)
        .filter(issues::visible(context.viewer, now().date_naive()))
        .into_tuple()
        .all(transaction)
        .await?;
    Ok(ids.into_iter().collect())
}

/// Lists the issues that a merge request closes, limited to those visible to the caller.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub async fn list_closed_issues(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    page: &PageRequest,
) -> Result<Page<issues_service::IssueDetail>> {
    let db = backend.database.read();
    let merge_request = find(db, access, iid).await?;
    let ids = Query::select()
        .column(Column::IssueId)
        .from(Entity)
        .and_where(Column::MergeRequestId.eq(merge_request.id))
        .take();
    let closed = issues::Entity::find()
        .filter(issues::Column::Id.in_subquery(ids))
        .filter(issues::visible(access.caller.viewer(), now().date_naive()))
        .order_by_asc(issues::Column::Id);
    let page = page_with_texts(db, &access.caller, closed, page).await?;
    Ok(Page {
        items: issues_service::decorate(db, &access.caller, page.items).await?,
        rest: page.rest,
    })
}

/// Lists the merge requests that close an issue, limited to those visible to the caller.
///
/// # Errors
/// Returns `NotFound` if the issue does not exist or is not visible to the caller.
pub async fn list_closing_merge_requests(
    backend: &Backend,
    access: &ProjectAccess,
    issue_iid: i64,
    page: &PageRequest,
) -> Result<Page<MergeRequestDetail>> {
    let db = backend.database.read();
    let issue = issues_service::find(db, access, issue_iid).await?;
    let closes_issue = merge_requests::Column::Id.in_subquery(closing_merge_request_ids(issue.id));
    list_matching(db, access, Condition::all().add(closes_issue), page).await
}

/// Lists the merge requests that close an issue or are referenced in its description or notes, limited to
/// those visible to the caller.
///
/// # Errors
/// Returns `NotFound` if the issue does not exist or is not visible to the caller.
pub async fn list_related_merge_requests(
    backend: &Backend,
    access: &ProjectAccess,
    issue_iid: i64,
    page: &PageRequest,
) -> Result<Page<MergeRequestDetail>> {
    let db = backend.database.read();
    let issue = issues_service::find(db, access, issue_iid).await?;
    let bodies: Vec<String> = notes::Entity::find()
        .select_only()
        .column(notes::Column::Body)
        .filter(notes::Column::IssueId.eq(issue.id))
        .filter(notes::Column::Confidential.eq(false))
        .filter(notes::Column::System.eq(false))
        .filter(
            Condition::any()
                .add(contains_in(notes::Column::Body.into_expr(), "!"))
                .add(contains_in(notes::Column::Body.into_expr(), "/merge_requests/")),
        )
        .order_by_desc(notes::Column::Id)
        .limit(MAX_NOTES)
        .into_tuple()
        .all(db)
        .await?;
    let base_url = &backend.instance.base_url;
    let texts = issue.description.iter().chain(&bodies);
    let references = texts.flat_map(|text| references::merge_requests(text, base_url));
    let location = (&access.project, &access.namespace);
    let columns = (
        merge_requests::Column::TargetProjectId,
        merge_requests::Column::Iid,
    );
    let referenced = resolve_references(db, location, references.collect(), columns).await?;
    // A system note has the ID, and its text may have been copied from another project.
    let named_by_system = Query::select()
        .column(notes::Column::ReferencedMergeRequestId)
        .from(notes::Entity)
        .and_where(notes::Column::IssueId.eq(issue.id))
        .and_where(notes::Column::ReferencedMergeRequestId.is_not_null())
        .take();
    let related = Condition::any()
        .add(merge_requests::Column::Id.in_subquery(closing_merge_request_ids(issue.id)))
        .add(merge_requests::Column::Id.in_subquery(named_by_system))
        .add_option(referenced);
    list_matching(db, access, related, page).await
}

fn closing_merge_request_ids(issue_id: i64) -> SelectStatement {
    Query::select()
        .column(Column::MergeRequestId)
        .from(Entity)
        .and_where(Column::IssueId.eq(issue_id))
        .take()
}

async fn list_matching(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    condition: Condition,
    page: &PageRequest,
) -> Result<Page<MergeRequestDetail>> {
    let visible = merge_requests::visible(access.caller.viewer(), now().date_naive());
    let matching: Select<merge_requests::Entity> = merge_requests::Entity::find()
        .filter(condition)
        .filter(visible)
        .order_by_asc(merge_requests::Column::Id);
    let page = page_with_texts(db, &access.caller, matching, page).await?;
    // Most of them belong to the project of the issue.
    let path = urls::project_path(&access.namespace, &access.project);
    let paths = HashMap::from([(access.project.id, path)]);
    Ok(Page {
        items: decorate_with_paths(db, &access.caller, page.items, paths).await?,
        rest: page.rest,
    })
}
