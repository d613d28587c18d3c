//! Tokens by which the identity providers of groups provision users.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

use super::saml_providers;

/// Tokens by which the identity providers of groups provision users.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "scim_tokens")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The single sign-on of the group that it is good for; unique.
    pub saml_provider_id: i64,
    /// The SHA-256 of the token in hex; the token itself is not kept.
    pub digest: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The single sign-on of the group.
    #[sea_orm(
        belongs_to = "super::saml_providers::Entity",
        from = "Column::SamlProviderId",
        to = "super::saml_providers::Column::Id"
    )]
    Provider,
}

impl Related<saml_providers::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Provider.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// The token of a group's single sign-on.
pub fn of_provider(saml_provider_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::SamlProviderId.eq(saml_provider_id))
}

/// What the token with this digest is good for.
///
/// # Errors
/// Whatever the database reports.
pub async fn opens(db: &impl ConnectionTrait, digest: &str) -> Result<Option<saml_providers::Model>, DbErr> {
    saml_providers::Entity::find()
        .inner_join(Entity)
        .filter(Column::Digest.eq(digest))
        .one(db)
        .await
}
