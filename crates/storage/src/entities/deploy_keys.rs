//! Deploy keys: SSH keys that are good for projects and belong to no user (specification 2.9).

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Query, SelectStatement};

use super::project_deploy_keys;

/// Deploy keys: SSH keys that are good for projects and belong to no user.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "deploy_keys")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// What it is called.
    pub title: String,
    /// The public key as OpenSSH writes it.
    pub key: String,
    /// The SHA-256 of the key, as OpenSSH shows it; unique.
    pub fingerprint: String,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Removes those of these keys that no project has.
///
/// # Errors
/// Whatever the database reports.
pub async fn remove_unused(db: &impl ConnectionTrait, ids: Vec<i64>) -> Result<(), DbErr> {
    let used: SelectStatement = Query::select()
        .column(project_deploy_keys::Column::DeployKeyId)
        .from(project_deploy_keys::Entity)
        .and_where(project_deploy_keys::Column::DeployKeyId.is_in(ids.iter().copied()))
        .take();
    Entity::delete_many()
        .filter(Column::Id.is_in(ids))
        .filter(Column::Id.not_in_subquery(used))
        .exec(db)
        .await
        .map(drop)
}
