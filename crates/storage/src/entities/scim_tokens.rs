//! SCIM tokens of the identity providers of groups.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

use super::saml_providers;

/// SCIM tokens of the identity providers of groups.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "scim_tokens")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The single sign-on settings of the group; unique.
    pub saml_provider_id: i64,
    /// The SHA-256 of the token in hex; the token itself is not stored.
    pub digest: String,
    /// When it was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The single sign-on settings of the group.
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

/// Selects the token of a group's single sign-on settings.
pub fn of_provider(saml_provider_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::SamlProviderId.eq(saml_provider_id))
}

/// Returns the single sign-on settings of the token with this digest.
///
/// # Errors
/// Any database error.
pub async fn find_provider(
    db: &impl ConnectionTrait,
    digest: &str,
) -> Result<Option<saml_providers::Model>, DbErr> {
    saml_providers::Entity::find()
        .inner_join(Entity)
        .filter(Column::Digest.eq(digest))
        .one(db)
        .await
}
