//! Participants of an issue or merge request.

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder};
use storage::entities::{issues, merge_requests, users};

use super::{IssuableKind, IssuableRow, find};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_of;

/// Returns a page of the author, the assignees and the commenters of an issue or merge request, without
/// duplicates.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or the caller cannot see it.
pub async fn list_participants(
    backend: &Backend,
    access: &ProjectAccess,
    kind: IssuableKind,
    iid: i64,
    page: &PageRequest,
) -> Result<Page<users::Model>> {
    let db = backend.database.read();
    match kind {
        IssuableKind::Issue => list::<issues::Model>(db, access, iid, page).await,
        IssuableKind::MergeRequest => list::<merge_requests::Model>(db, access, iid, page).await,
    }
}

async fn list<T: IssuableRow>(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    iid: i64,
    page: &PageRequest,
) -> Result<Page<users::Model>> {
    let issuable: T = find(db, access, iid).await?;
    let (table, key) = (T::KIND.assignees(), T::KIND.key());
    let assignees = Query::select()
        .column("user_id")
        .from(table)
        .and_where(Expr::col(key).eq(issuable.id()))
        .take();
    let commenters = Query::select()
        .column("author_id")
        .from("notes")
        .and_where(Expr::col(key).eq(issuable.id()))
        .and_where(Expr::col("system").eq(false))
        .and_where(Expr::col("confidential").eq(false))
        .and_where(Expr::col("author_id").is_not_null())
        .take();
    let participates = Condition::any()
        .add_option(issuable.author_id().map(|id| users::Column::Id.eq(id)))
        .add(users::Column::Id.in_subquery(assignees))
        .add(users::Column::Id.in_subquery(commenters));
    let participants = users::Entity::find()
        .filter(participates)
        .order_by_asc(users::Column::Id);
    page_of(db, participants, page).await
}
