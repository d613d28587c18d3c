//! Email domains that administrators verified for groups.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// Email domains that administrators verified for groups.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "verified_domains")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The group.
    pub namespace_id: i64,
    /// The folded domain; unique for a group.
    pub domain: String,
    /// When it was verified.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the domains of a group, oldest first.
pub fn of_group(namespace_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::NamespaceId.eq(namespace_id))
        .order_by_asc(Column::Id)
}

/// Returns whether a folded email address is in a domain of a group. Subdomains are other domains.
///
/// # Errors
/// Any database error.
pub async fn contain(db: &impl ConnectionTrait, namespace_id: i64, email_key: &str) -> Result<bool, DbErr> {
    let Some((_, domain)) = email_key.rsplit_once('@') else {
        return Ok(false);
    };
    let found = of_group(namespace_id).filter(Column::Domain.eq(domain)).one(db);
    Ok(found.await?.is_some())
}
