//! Single sign-on of groups.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{JoinType, QueryOrder, QuerySelect};

use super::{AccessLevel, namespace_ancestors};

/// Single sign-on of groups; one that was never enabled has no row.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "saml_providers")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The group; unique.
    pub namespace_id: i64,
    /// Whether it is in force.
    pub enabled: bool,
    /// The role of provisioned members.
    pub default_membership_role: AccessLevel,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When the row was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The tokens; one at most.
    #[sea_orm(has_many = "super::scim_tokens::Entity")]
    Tokens,
}

impl Related<super::scim_tokens::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Tokens.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// The single sign-on of a group itself.
pub fn of_group(namespace_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::NamespaceId.eq(namespace_id))
}

/// The single sign-on that is in force in a namespace: that of the nearest group at or above it that has one.
///
/// # Errors
/// Whatever the database reports.
pub async fn in_force(db: &impl ConnectionTrait, namespace_id: i64) -> Result<Option<Model>, DbErr> {
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
