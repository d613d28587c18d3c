//! Single sign-on settings of groups.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{JoinType, QueryOrder, QuerySelect};

use super::{AccessLevel, namespace_ancestors};

/// Single sign-on settings of groups; a group that never enabled it has no row.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "saml_providers")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The group; unique.
    pub namespace_id: i64,
    /// Whether it is enabled.
    pub enabled: bool,
    /// The role of provisioned members.
    pub default_membership_role: AccessLevel,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The token; at most one.
    #[sea_orm(has_many = "super::scim_tokens::Entity")]
    Tokens,
}

impl Related<super::scim_tokens::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Tokens.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the single sign-on settings of a group itself.
pub fn of_group(namespace_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::NamespaceId.eq(namespace_id))
}

/// Returns the effective single sign-on settings of a namespace: those of the nearest group, starting with
/// itself, that enabled it.
///
/// # Errors
/// Any database error.
pub async fn effective(db: &impl ConnectionTrait, namespace_id: i64) -> Result<Option<Model>, DbErr> {
    use namespace_ancestors::Column as Above;

    Entity::find()
        .join(
            JoinType::InnerJoin,
            Entity::belongs_to(namespace_ancestors::Entity)
                .from(Column::NamespaceId)
                .to(Above::AncestorId)
                .into(),
        )
        .filter(Above::NamespaceId.eq(namespace_id))
        .filter(Column::Enabled.eq(true))
        .order_by_asc(Above::Depth)
        .one(db)
        .await
}
