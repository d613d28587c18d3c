//! Deploy keys: SSH keys with access to projects that belong to no user.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Query, SelectStatement};

use super::project_deploy_keys;

/// Deploy keys: SSH keys with access to projects that belong to no user.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "deploy_keys")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The title.
    pub title: String,
    /// The public key in OpenSSH format.
    pub key: String,
    /// The SHA-256 fingerprint of the key in OpenSSH format; unique.
    pub fingerprint: String,
    /// Whether every project can use it. Then it is kept if no project uses it.
    pub is_public: bool,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Deletes those of these keys that no project uses, except public keys.
///
/// # Errors
/// Any database error.
pub async fn remove_unused(db: &impl ConnectionTrait, ids: Vec<i64>) -> Result<(), DbErr> {
    let used: SelectStatement = Query::select()
        .column(project_deploy_keys::Column::DeployKeyId)
        .from(project_deploy_keys::Entity)
        .and_where(project_deploy_keys::Column::DeployKeyId.is_in(ids.iter().copied()))
        .take();
    Entity::delete_many()
        .filter(Column::Id.is_in(ids))
        .filter(Column::Id.not_in_subquery(used))
        .filter(Column::IsPublic.eq(false))
        .exec(db)
        .await
        .map(drop)
}
