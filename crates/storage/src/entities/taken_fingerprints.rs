//! Fingerprints of all SSH keys of users and projects.

use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;

/// Fingerprints of all SSH keys of users and projects: one row for each fingerprint. The unique key prevents
/// a key from being registered twice. A row is deleted with its key.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "taken_fingerprints")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The SHA-256 fingerprint of the key in OpenSSH format; unique.
    pub fingerprint: String,
    /// The user key, if it is one.
    pub user_key_id: Option<i64>,
    /// The deploy key, if it is one.
    pub deploy_key_id: Option<i64>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Owner of a fingerprint.
#[derive(Debug, Clone, Copy)]
pub enum FingerprintOwner {
    /// A key of a user, by its ID.
    UserKey(i64),
    /// A deploy key, by its ID.
    DeployKey(i64),
}

/// Assigns a fingerprint to a key; a violation of `uq_taken_fingerprints_fingerprint` means that it is taken.
///
/// # Errors
/// Any database error.
pub async fn take(
    db: &impl ConnectionTrait,
    fingerprint: &str,
    holder: FingerprintOwner,
) -> Result<(), DbErr> {
    let (user_key_id, deploy_key_id) = match holder {
        FingerprintOwner::UserKey(id) => (Some(id), None),
        FingerprintOwner::DeployKey(id) => (None, Some(id)),
    };
    let row = ActiveModel {
        fingerprint: Set(fingerprint.to_owned()),
        user_key_id: Set(user_key_id),
        deploy_key_id: Set(deploy_key_id),
        ..Default::default()
    };
    row.insert(db).await.map(drop)
}
