//! The fingerprints of SSH keys that somebody has: users and projects.

use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;

/// The fingerprints of SSH keys that somebody has: one row a fingerprint, whose unique key keeps a key from being had
/// twice. A row goes with its key.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "taken_fingerprints")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The SHA-256 of the key, as OpenSSH shows it; unique.
    pub fingerprint: String,
    /// The key, if it is a user's.
    pub user_key_id: Option<i64>,
    /// The key, if it is a deploy key.
    pub deploy_key_id: Option<i64>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Whose key it is.
#[derive(Debug, Clone, Copy)]
pub enum Holder {
    /// A key of a user, by its id.
    UserKey(i64),
    /// A deploy key, by its id.
    DeployKey(i64),
}

/// Takes a fingerprint for a key; a violation of `uq_taken_fingerprints_fingerprint` says that another has it.
///
/// # Errors
/// Whatever the database reports.
pub async fn take(db: &impl ConnectionTrait, fingerprint: &str, holder: Holder) -> Result<(), DbErr> {
    let (user_key_id, deploy_key_id) = match holder {
        Holder::UserKey(id) => (Some(id), None),
        Holder::DeployKey(id) => (None, Some(id)),
    };
    let row = ActiveModel {
        fingerprint: Set(fingerprint.to_owned()),
        user_key_id: Set(user_key_id),
        deploy_key_id: Set(deploy_key_id),
        ..Default::default()
    };
    row.insert(db).await.map(drop)
}
