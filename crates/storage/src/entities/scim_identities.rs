//! Users that the identity providers of groups provision or provisioned.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, IntoActiveModel, QueryOrder, QuerySelect, QueryTrait};

use super::{fold, now, saml_providers, users};

/// Users that the identity providers of groups provision or provisioned.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "scim_identities")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The single sign-on settings of the group.
    pub saml_provider_id: i64,
    /// The user, whose account the provider created; unique for a provider.
    pub user_id: i64,
    /// The ID at the provider, as given; none if the user is no longer provisioned.
    pub extern_uid: Option<String>,
    /// The folded ID at the provider; unique for a provider.
    pub extern_uid_key: Option<String>,
    /// The former folded ID at the provider, if the user is no longer provisioned.
    pub former_uid_key: Option<String>,
    /// The folded user name at the provider; the account may have another name, because user names are
    /// unique.
    pub user_name_key: String,
    /// When the user was first provisioned.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The user.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::UserId",
        to = "super::users::Column::Id"
    )]
    User,
}

impl Related<users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

#[async_trait::async_trait]
impl ActiveModelBehavior for ActiveModel {
    /// Updates the folded ID when the ID changes.
    async fn before_save<C>(mut self, _db: &C, _insert: bool) -> Result<Self, DbErr>
    where
        C: ConnectionTrait,
    {
        if let Set(uid) = &self.extern_uid {
            self.extern_uid_key = Set(uid.as_deref().map(fold));
        }
        Ok(self)
    }
}

/// Selects the users that a provider currently provisions, in the order of provisioning; must be joined with
/// their accounts.
pub fn provisioned(saml_provider_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::SamlProviderId.eq(saml_provider_id))
        .filter(Column::ExternUidKey.is_not_null())
        .filter(users::Column::DeletionStartedAt.is_null())
        .order_by_asc(Column::Id)
}

/// Returns the user with this ID at the provider, ignoring case.
///
/// # Errors
/// Any database error.
pub async fn by_extern_uid(
    db: &impl ConnectionTrait,
    saml_provider_id: i64,
    extern_uid: &str,
) -> Result<Option<(Model, users::Model)>, DbErr> {
    let rows = provisioned(saml_provider_id).filter(Column::ExternUidKey.eq(fold(extern_uid)));
    users::find_with_user(db, rows).await
}

impl Model {
    /// Returns the identity after the end of provisioning: only the former ID matches it again.
    #[must_use]
    pub fn ended(self) -> ActiveModel {
        let key = self.extern_uid_key.clone();
        let mut row = self.into_active_model();
        row.extern_uid = Set(None);
        row.former_uid_key = Set(key);
        row.updated_at = Set(now());
        row
    }
}

/// Returns the identity of a user who was provisioned under an ID and is not any more.
///
/// # Errors
/// Any database error.
pub async fn find_former(
    db: &impl ConnectionTrait,
    saml_provider_id: i64,
    user_id: i64,
    extern_uid: &str,
) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(Column::SamlProviderId.eq(saml_provider_id))
        .filter(Column::UserId.eq(user_id))
        .filter(Column::ExternUidKey.is_null())
        .filter(Column::FormerUidKey.eq(fold(extern_uid)))
        .one(db)
        .await
}

/// Selects the accounts that a provider created, provisioned or not.
pub fn created_by(saml_provider_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::SamlProviderId.eq(saml_provider_id))
}

/// Selects the identity of a user at the provider of a group itself.
pub fn at_group(namespace_id: i64, user_id: i64) -> Select<Entity> {
    let provider = saml_providers::of_group(namespace_id)
        .select_only()
        .column(saml_providers::Column::Id)
        .into_query();
    Entity::find()
        .filter(Column::SamlProviderId.in_subquery(provider))
        .filter(Column::UserId.eq(user_id))
}

/// Selects the current identities of users at a provider.
pub fn of_users(saml_provider_id: i64, users: impl IntoIterator<Item = i64>) -> Select<Entity> {
    Entity::find()
        .filter(Column::SamlProviderId.eq(saml_provider_id))
        .filter(Column::ExternUidKey.is_not_null())
        .filter(Column::UserId.is_in(users))
}
