//! Failed sign-in attempts within the counted period.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// Failed sign-in attempts within the counted period.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "sign_in_failures")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The source: the digest of an account or of a network address.
    pub source: String,
    /// When the attempt failed.
    pub failed_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the failures of a source since `instant`, latest first.
pub fn since(source: &str, instant: DateTime<Utc>) -> Select<Entity> {
    Entity::find()
        .filter(Column::Source.eq(source))
        .filter(Column::FailedAt.gt(instant))
        .order_by_desc(Column::FailedAt)
        .order_by_desc(Column::Id)
}
