//! Archives of exported groups; their content is in the object storage.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder, QuerySelect};

/// Archives of exported groups; their content is in the object storage.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "group_exports")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The group; none if it was deleted.
    pub namespace_id: Option<i64>,
    /// The user who requested it; none if deleted.
    pub user_id: Option<i64>,
    /// The secret part of its storage key: 32 hex digits.
    pub secret: String,
    /// The file name for downloads.
    pub file_name: String,
    /// The size in bytes.
    pub size: i64,
    /// When it was completely stored; until then it is invisible.
    pub stored_at: Option<DateTime<Utc>>,
    /// When it expires, even if it was never completely stored.
    pub expires_at: DateTime<Utc>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the newest complete archive of a group that has not expired. If `user_id` is given, only archives
/// requested by this user count.
///
/// # Errors
/// Any database error.
pub async fn current(
    db: &impl ConnectionTrait,
    namespace_id: i64,
    user_id: Option<i64>,
    now: DateTime<Utc>,
) -> Result<Option<Model>, DbErr> {
    let theirs = user_id.map(|id| Column::UserId.eq(id));
    Entity::find()
        .filter(Column::NamespaceId.eq(namespace_id))
        .filter(Condition::all().add_option(theirs))
        .filter(Column::StoredAt.is_not_null())
        .filter(Column::ExpiresAt.gt(now))
        .order_by_desc(Column::Id)
        .one(db)
        .await
}

/// Returns archives that expired, or that are complete but whose group was deleted, at most `limit`.
///
/// # Errors
/// Any database error.
pub async fn expired(db: &impl ConnectionTrait, now: DateTime<Utc>, limit: u64) -> Result<Vec<Model>, DbErr> {
    let orphaned = Condition::all()
        .add(Column::NamespaceId.is_null())
        .add(Column::StoredAt.is_not_null());
    Entity::find()
        .filter(Condition::any().add(Column::ExpiresAt.lte(now)).add(orphaned))
        .order_by_asc(Column::Id)
        .limit(limit)
        .all(db)
        .await
}
