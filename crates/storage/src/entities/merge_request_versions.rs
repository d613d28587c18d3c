//! Versions of merge requests.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, Query, SelectStatement};
use sea_orm::{ActiveValue::Set, QueryOrder, QuerySelect};

use super::merge_requests;

/// Versions of merge requests. The newest version has the commits of the merge request.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "merge_request_versions")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The merge request.
    pub merge_request_id: i64,
    /// The head commit of the source branch.
    pub head_sha: String,
    /// The merge base of both branches.
    pub base_sha: String,
    /// The head commit of the target branch when the merge base was determined.
    pub start_sha: String,
    /// The number of changed files, as text that marks a truncated count; none if it is unknown.
    pub real_size: Option<String>,
    /// Whether its commits were stored in the target repository and its files were counted.
    pub collected: bool,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the versions of a merge request.
#[must_use]
pub fn of(merge_request_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::MergeRequestId.eq(merge_request_id))
}

/// Returns a subquery with the heads of the versions of a merge request.
#[must_use]
pub fn heads(merge_request_id: i64) -> SelectStatement {
    Query::select()
        .column(Column::HeadSha)
        .from(Entity)
        .and_where(Column::MergeRequestId.eq(merge_request_id))
        .take()
}

/// Creates a version with the current commits of a merge request, which must be locked or new.
///
/// # Errors
/// Any database error.
pub async fn insert(
    db: &impl ConnectionTrait,
    merge_request: &merge_requests::Model,
    created_at: DateTime<Utc>,
) -> Result<(), DbErr> {
    let row = ActiveModel {
        merge_request_id: Set(merge_request.id),
        head_sha: Set(merge_request.head_sha.clone()),
        base_sha: Set(merge_request.base_sha.clone()),
        start_sha: Set(merge_request.start_sha.clone()),
        created_at: Set(created_at),
        ..Default::default()
    };
    Entity::insert(row).exec_without_returning(db).await.map(drop)
}

/// Copies the merge base and the start of a merge request to its newest version, which must have the same head. The merge
/// request must be locked. The files are counted again if the merge base differs.
///
/// # Errors
/// Any database error.
pub async fn update_newest(
    db: &impl ConnectionTrait,
    merge_request_id: i64,
    (base, start): (&str, &str),
) -> Result<(), DbErr> {
    let newest = Query::select()
        .expr(Expr::col(Column::Id).max())
        .from(Entity)
        .and_where(Column::MergeRequestId.eq(merge_request_id))
        .take();
    let is_same = Expr::col(Column::BaseSha).eq(base);
    let collected = Expr::col(Column::Collected).and(is_same);
    Entity::update_many()
        .col_expr(Column::Collected, collected)
        .col_expr(Column::BaseSha, Expr::value(base))
        .col_expr(Column::StartSha, Expr::value(start))
        .filter(Column::Id.in_subquery(newest))
        .exec(db)
        .await
        .map(drop)
}

/// Returns the IDs of up to `limit` merge requests with versions that were created before a time and are not collected.
///
/// # Errors
/// Any database error.
pub async fn with_uncollected(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<i64>, DbErr> {
    let found = Entity::find()
        .select_only()
        .column(Column::MergeRequestId)
        .filter(Column::Collected.eq(false))
        .filter(Column::CreatedAt.lt(before))
        .order_by_asc(Column::Id)
        .limit(limit);
    found.into_tuple().all(db).await
}
