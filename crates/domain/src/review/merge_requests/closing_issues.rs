//! Issues that a merge request closes when it is merged. They are derived from its description and commits
//! and can be read from both sides.

use std::collections::{BTreeSet, HashMap};
use storage::entities::issuables::lock_rows;

use sea_orm::sea_query::{Asterisk, Expr, ExprTrait, Func, Query, SelectStatement, SubQueryStatement};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect, Select,
};
use storage::entities::access::Viewer;
use storage::entities::closing_merge_requests::{ActiveModel, Column, Entity};
use storage::entities::merge_requests::{self, MergeRequestState, Model};
use storage::entities::{issues, namespaces, notes, now, projects, users};

use super::find;
use super::row::{Row, decorate_within};
use crate::identity::access::ProjectAccess;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{contains_in, page_of};
use crate::kernel::text::references::{self, Reference, closed_issues};
use crate::kernel::{Backend, urls};
use crate::planning::issues as issues_service;
use crate::planning::mentions::meant;
use crate::review::merge_requests::branch_heads;

/// Maximum number of notes of an issue that are searched for references to merge requests, newest first.
const MOST_NOTES: u64 = 1000;

/// Context for resolving references.
pub(crate) struct Scene<'a> {
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

impl<'a> Scene<'a> {
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
pub(crate) async fn keep(
    transaction: &DatabaseTransaction,
    scene: &Scene<'_>,
    merge_request: &Model,
) -> Result<()> {
    let in_force = scene.project.autoclose_referenced_issues
        && scene.project.default_branch.as_ref() == Some(&merge_request.target_branch);
    let wanted = match in_force {
        true => said(transaction, scene, merge_request).await?,
        false => BTreeSet::new(),
    };
    enter(transaction, merge_request.id, wanted).await
}

/// Records that a merge request closes exactly these issues.
async fn enter(transaction: &DatabaseTransaction, id: i64, wanted: BTreeSet<i64>) -> Result<()> {
    let before = closed(transaction, id).await?;
    let gone: Vec<i64> = before.difference(&wanted).copied().collect();
    let fresh: Vec<i64> = wanted.difference(&before).copied().collect();
    lock_issues(transaction, gone.iter().chain(&fresh).copied()).await?;
    if !gone.is_empty() {
        Entity::delete_many()
            .filter(Column::MergeRequestId.eq(id))
            .filter(Column::IssueId.is_in(gone.iter().copied()))
            .exec(transaction)
            .await?;
    }
    if !fresh.is_empty() {
        let rows = fresh.iter().map(|issue_id| ActiveModel {
            issue_id: Set(*issue_id),
            merge_request_id: Set(id),
            ..Default::default()
        });
        Entity::insert_many(rows)
            .exec_without_returning(transaction)
            .await?;
    }
    recount(transaction, gone.into_iter().chain(fresh).collect()).await
}

/// Updates the issues that an open merge request closes after its source changed, limited to issues visible
/// to its author.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub(super) async fn renew(backend: &Backend, id: i64) -> Result<()> {
    let db = backend.database.read();
    let found = merge_requests::Entity::find_by_id(id).one(db).await?;
    let Some(found) = found.filter(|found| found.state == MergeRequestState::Opened) else {
        return Ok(());
    };
    let author = match found.author_id {
        Some(id) => users::Entity::find_by_id(id).one(db).await?,
        None => None,
    };
    let Some(author) = author else {
        return Ok(());
    };
    let caller = Caller::user(author);
    let target = ProjectAccess::find_visible(backend, &caller, found.target_project_id).await?;
    let Some(target) = target else {
        return Ok(());
    };
    let source = found.source_project_id;
    let scene = Scene::new(backend, &target, source, &found.head_sha, &found.base_sha).await?;
    backend
        .database
        .transaction(async |transaction| {
            match merge_requests::lock(transaction, id).await? {
                // A concurrent change of the head runs this again.
                Some(now) if now.head_sha == found.head_sha => keep(transaction, &scene, &now).await,
                _ => Ok(()),
            }
        })
        .await
}

/// Records that an unmerged merge request closes no issues.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn forget(backend: &Backend, id: i64) -> Result<()> {
    backend
        .database
        .transaction(
            async |transaction| match merge_requests::lock(transaction, id).await? {
                Some(now) if now.state != MergeRequestState::Merged => {
                    enter(transaction, id, BTreeSet::new()).await
                }
                _ => Ok(()),
            },
        )
        .await
}

/// Returns the issues that a merge request closes.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn closed(db: &impl ConnectionTrait, id: i64) -> Result<BTreeSet<i64>> {
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
    let some = Query::select()
        .column("id")
        .from(issues::Entity)
        .and_where(Expr::col("id").is_in(ids))
        .take();
    lock_rows(transaction, "issues", some).await?;
    Ok(())
}

/// Updates the number of closing merge requests of these issues.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn recount(transaction: &DatabaseTransaction, issue_ids: Vec<i64>) -> Result<()> {
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
async fn said(
    transaction: &DatabaseTransaction,
    scene: &Scene<'_>,
    merge_request: &Model,
) -> Result<BTreeSet<i64>> {
    let texts = scene.messages.iter().map(String::as_str);
    let texts = texts.chain(merge_request.description.as_deref());
    let references: Vec<Reference> = texts
        .flat_map(|text| closed_issues(text, scene.base_url))
        .collect();
    let place = (scene.project, scene.namespace);
    let columns = (issues::Column::ProjectId, issues::Column::Iid);
    let Some(named) = meant(transaction, place, references, columns).await? else {
        return Ok(BTreeSet::new());
    };
    let ids: Vec<i64> = issues::Entity::find()
        .select_only()
        .column(issues::Column::Id)
        .filter(named)
        .filter(issues::visible(scene.viewer, now().date_naive()))
        .into_tuple()
        .all(transaction)
        .await?;
    Ok(ids.into_iter().collect())
}

/// Lists the issues that a merge request closes, limited to those visible to the caller.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub async fn closes(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    page: &PageRequest,
) -> Result<Page<issues_service::Row>> {
    let db = backend.database.read();
    let merge_request = find(db, access, iid).await?;
    let ids = Query::select()
        .column(Column::IssueId)
        .from(Entity)
        .and_where(Column::MergeRequestId.eq(merge_request.id))
        .take();
    let wanted = issues::Entity::find()
        .filter(issues::Column::Id.in_subquery(ids))
        .filter(issues::visible(access.caller.viewer(), now().date_naive()))
        .order_by_asc(issues::Column::Id);
    let page = page_of(db, wanted, page).await?;
    Ok(Page {
        items: issues_service::decorate(db, access.caller.viewer(), page.items).await?,
        rest: page.rest,
    })
}

/// Lists the merge requests that close an issue, limited to those visible to the caller.
///
/// # Errors
/// Returns `NotFound` if the issue does not exist or is not visible to the caller.
pub async fn closing(
    backend: &Backend,
    access: &ProjectAccess,
    issue_iid: i64,
    page: &PageRequest,
) -> Result<Page<Row>> {
    let db = backend.database.read();
    let issue = issues_service::find(db, access, issue_iid).await?;
    let closers = merge_requests::Column::Id.in_subquery(closers(issue.id));
    listed(db, access, Condition::all().add(closers), page).await
}

/// Lists the merge requests that close an issue or are referenced in its description or notes, limited to
/// those visible to the caller.
///
/// # Errors
/// Returns `NotFound` if the issue does not exist or is not visible to the caller.
pub async fn related(
    backend: &Backend,
    access: &ProjectAccess,
    issue_iid: i64,
    page: &PageRequest,
) -> Result<Page<Row>> {
    let db = backend.database.read();
    let issue = issues_service::find(db, access, issue_iid).await?;
    let bodies: Vec<String> = notes::Entity::find()
        .select_only()
        .column(notes::Column::Body)
        .filter(notes::Column::IssueId.eq(issue.id))
        .filter(notes::Column::Confidential.eq(false))
        .filter(
            Condition::any()
                .add(contains_in(notes::Column::Body.into_expr(), "!"))
                .add(contains_in(notes::Column::Body.into_expr(), "/merge_requests/")),
        )
        .order_by_desc(notes::Column::Id)
        .limit(MOST_NOTES)
        .into_tuple()
        .all(db)
        .await?;
    let base_url = &backend.instance.base_url;
    let texts = issue.description.iter().chain(&bodies);
    let references = texts.flat_map(|text| references::merge_requests(text, base_url));
    let place = (&access.project, &access.namespace);
    let columns = (
        merge_requests::Column::TargetProjectId,
        merge_requests::Column::Iid,
    );
    let named = meant(db, place, references.collect(), columns).await?;
    let related = Condition::any()
        .add(merge_requests::Column::Id.in_subquery(closers(issue.id)))
        .add_option(named);
    listed(db, access, related, page).await
}

fn closers(issue_id: i64) -> SelectStatement {
    Query::select()
        .column(Column::MergeRequestId)
        .from(Entity)
        .and_where(Column::IssueId.eq(issue_id))
        .take()
}

async fn listed(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    wanted: Condition,
    page: &PageRequest,
) -> Result<Page<Row>> {
    let visible = merge_requests::visible(access.caller.viewer(), now().date_naive());
    let wanted: Select<merge_requests::Entity> = merge_requests::Entity::find()
        .filter(wanted)
        .filter(visible)
        .order_by_asc(merge_requests::Column::Id);
    let page = page_of(db, wanted, page).await?;
    // Most of them belong to the project of the issue.
    let here = urls::project_path(&access.namespace, &access.project);
    let paths = HashMap::from([(access.project.id, here)]);
    Ok(Page {
        items: decorate_within(db, page.items, paths).await?,
        rest: page.rest,
    })
}
