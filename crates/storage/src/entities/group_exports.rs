//! Archives of exported groups; their bytes lie in the object storage.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder, QuerySelect};

/// Archives of exported groups; their bytes lie in the object storage.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "group_exports")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The group; none when it is gone.
    pub namespace_id: Option<i64>,
    /// Who asked for it; none when the user is gone.
    pub user_id: Option<i64>,
    /// The part of its key that cannot be guessed: 32 hex digits.
    pub secret: String,
    /// The name that it is downloaded under.
    pub file_name: String,
    /// The length in bytes.
    pub size: i64,
    /// When the storage had all of it; until then it is not there for anybody.
    pub stored_at: Option<DateTime<Utc>>,
    /// From when on it is not there any more, whether or not all of it ever was.
    pub expires_at: DateTime<Utc>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The newest archive of a group that is wholly there and has not expired: of those that a user asked for, or of all where
/// none is named.
///
/// # Errors
/// Whatever the database reports.
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

/// Archives whose time is over, or whose group is gone although they were wholly there, at most `limit`.
///
/// # Errors
/// Whatever the database reports.
pub async fn over(db: &impl ConnectionTrait, now: DateTime<Utc>, limit: u64) -> Result<Vec<Model>, DbErr> {
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
