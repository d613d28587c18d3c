//! Attempts to sign in that failed, kept as long as they count.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// Attempts to sign in that failed, kept as long as they count.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "sign_in_failures")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// What failed: the digest of an account or of a network address.
    pub source: String,
    /// When it failed.
    pub failed_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The failures of one source since an instant, the latest first.
pub fn since(source: &str, instant: DateTime<Utc>) -> Select<Entity> {
    Entity::find()
        .filter(Column::Source.eq(source))
        .filter(Column::FailedAt.gt(instant))
        .order_by_desc(Column::FailedAt)
        .order_by_desc(Column::Id)
}
