//! Commits of merge requests.

use std::collections::HashSet;

use sea_orm::ActiveValue::Set;
use sea_orm::QuerySelect;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{OnConflict, Query, SelectStatement};

/// Maximum number of rows in one statement.
const BATCH_SIZE: usize = 500;

/// Commits of the newest versions of merge requests, and the commits that merged them.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "merge_request_commits")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The merge request.
    pub merge_request_id: i64,
    /// The commit.
    pub sha: String,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Adds commits to a merge request, unless it has them.
///
/// # Errors
/// Any database error.
pub async fn add(db: &impl ConnectionTrait, merge_request_id: i64, shas: &[String]) -> Result<(), DbErr> {
    for shas in shas.chunks(BATCH_SIZE) {
        let rows = shas.iter().map(|sha| ActiveModel {
            merge_request_id: Set(merge_request_id),
            sha: Set(sha.clone()),
            ..Default::default()
        });
        let mut is_known = OnConflict::columns([Column::MergeRequestId, Column::Sha]);
        Entity::insert_many(rows)
            .on_conflict(is_known.do_nothing().to_owned())
            .exec_without_returning(db)
            .await?;
    }
    Ok(())
}

/// Replaces the commits of a merge request, and writes only the differences.
///
/// # Errors
/// Any database error.
pub async fn replace(db: &impl ConnectionTrait, merge_request_id: i64, shas: &[String]) -> Result<(), DbErr> {
    let known = Entity::find()
        .select_only()
        .column(Column::Sha)
        .filter(Column::MergeRequestId.eq(merge_request_id));
    let known: Vec<String> = known.into_tuple().all(db).await?;
    let wanted: HashSet<&String> = shas.iter().collect();
    let gone: Vec<&str> = known
        .iter()
        .filter(|sha| !wanted.contains(sha))
        .map(String::as_str)
        .collect();
    for gone in gone.chunks(BATCH_SIZE) {
        Entity::delete_many()
            .filter(Column::MergeRequestId.eq(merge_request_id))
            .filter(Column::Sha.is_in(gone.iter().copied()))
            .exec(db)
            .await?;
    }
    let known: HashSet<&String> = known.iter().collect();
    let added: Vec<String> = shas.iter().filter(|sha| !known.contains(sha)).cloned().collect();
    add(db, merge_request_id, &added).await
}

/// Returns a subquery with the IDs of the merge requests that contain a commit.
#[must_use]
pub fn merge_request_ids(sha: &str) -> SelectStatement {
    Query::select()
        .column(Column::MergeRequestId)
        .from(Entity)
        .and_where(Column::Sha.eq(sha))
        .take()
}

/// Returns a subquery with the commits of a merge request.
#[must_use]
pub fn shas(merge_request_id: i64) -> SelectStatement {
    Query::select()
        .column(Column::Sha)
        .from(Entity)
        .and_where(Column::MergeRequestId.eq(merge_request_id))
        .take()
}
