//! Those who take part in an issue.

use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait};

use super::find;
use crate::api::types::{Page, PageRequest};
use crate::entities::{issue_assignees, notes, users};
use crate::error::Result;
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::listing::page_of;

/// The author of an issue, those it is assigned to, and those who commented on it, each once.
///
/// # Errors
/// 404, also where the caller may not see the issue.
pub async fn participants(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    page: &PageRequest,
) -> Result<Page<users::Model>> {
    let db = backend.database.read();
    let issue = find(db, access, iid).await?;
    let assigned = issue_assignees::Entity::find()
        .select_only()
        .column(issue_assignees::Column::UserId)
        .filter(issue_assignees::Column::IssueId.eq(issue.id))
        .into_query();
    let commented = notes::Entity::find()
        .select_only()
        .column(notes::Column::AuthorId)
        .filter(notes::Column::IssueId.eq(issue.id))
        .filter(notes::Column::System.eq(false))
        .filter(notes::Column::Confidential.eq(false))
        .filter(notes::Column::AuthorId.is_not_null())
        .into_query();
    let taking_part = Condition::any()
        .add_option(issue.author_id.map(|id| users::Column::Id.eq(id)))
        .add(users::Column::Id.in_subquery(assigned))
        .add(users::Column::Id.in_subquery(commented));
    let wanted = users::Entity::find()
        .filter(taking_part)
        .order_by_asc(users::Column::Id);
    page_of(db, wanted, page).await
}
