//! Whom the identity providers of groups provision, and whom they did.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, IntoActiveModel, QueryOrder, QuerySelect, QueryTrait};

use super::{fold, now, saml_providers, users};

/// Whom the identity providers of groups provision, and whom they did.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "scim_identities")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The single sign-on of the group.
    pub saml_provider_id: i64,
    /// Whose account it is, which the provider made; unique for a provider.
    pub user_id: i64,
    /// The id at the provider, as it was given; none when the user is provisioned no more.
    pub extern_uid: Option<String>,
    /// The id at the provider folded; unique for a provider.
    pub extern_uid_key: Option<String>,
    /// The id that the user had at the provider, folded, while they are provisioned no more.
    pub former_uid_key: Option<String>,
    /// What the provider calls the user, folded; the account may be called otherwise, as names are given out once.
    pub user_name_key: String,
    /// When the user was provisioned first.
    pub created_at: DateTime<Utc>,
    /// When the row was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// Whose account it is.
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
    /// Keeps the folded id in step with the id.
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

/// The users that a provider provisions at the moment, in the order they were provisioned in; to be read with their accounts.
pub fn provisioned(saml_provider_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::SamlProviderId.eq(saml_provider_id))
        .filter(Column::ExternUidKey.is_not_null())
        .filter(users::Column::DeletionStartedAt.is_null())
        .order_by_asc(Column::Id)
}

/// The user with this id at the provider, without regard to case.
///
/// # Errors
/// Whatever the database reports.
pub async fn by_extern_uid(
    db: &impl ConnectionTrait,
    saml_provider_id: i64,
    extern_uid: &str,
) -> Result<Option<(Model, users::Model)>, DbErr> {
    let rows = provisioned(saml_provider_id).filter(Column::ExternUidKey.eq(fold(extern_uid)));
    users::one_beside(db, rows).await
}

impl Model {
    /// The identity as it is when the user is provisioned no more: known again by the id that they had, and by no other.
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

/// What is left of the identity of a user whom the provider provisioned once under an id, and does no more.
///
/// # Errors
/// Whatever the database reports.
pub async fn former(
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

/// The accounts that a provider made, whether it still provisions them or not.
pub fn made(saml_provider_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::SamlProviderId.eq(saml_provider_id))
}

/// The identity of a user at the provider of a group itself.
pub fn at_group(namespace_id: i64, user_id: i64) -> Select<Entity> {
    let provider = saml_providers::of_group(namespace_id)
        .select_only()
        .column(saml_providers::Column::Id)
        .into_query();
    Entity::find()
        .filter(Column::SamlProviderId.in_subquery(provider))
        .filter(Column::UserId.eq(user_id))
}

/// The identities that some users have at a provider at the moment.
pub fn among(saml_provider_id: i64, users: impl IntoIterator<Item = i64>) -> Select<Entity> {
    Entity::find()
        .filter(Column::SamlProviderId.eq(saml_provider_id))
        .filter(Column::ExternUidKey.is_not_null())
        .filter(Column::UserId.is_in(users))
}
