//! The instance that the database belongs to: one row.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, QuerySelect, sea_query::OnConflict};

/// The ID of the only row.
const ID: i64 = 1;

/// The instance that the database belongs to.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "instances")]
pub struct Model {
    /// Always 1.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// ID of the instance, which its data directory repeats.
    pub instance_id: String,
    /// ID of the repository store, which the directory of the repositories repeats.
    pub repository_store_id: String,
    /// Digest of the key that secrets are encrypted with.
    pub key_fingerprint: String,
    /// When the row was written.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The identity that a database records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceIdentity {
    /// ID of the instance.
    pub instance_id: String,
    /// ID of the repository store.
    pub repository_store_id: String,
    /// Digest of the key.
    pub key_fingerprint: String,
}

/// Returns the identity, if the database has one. It names its columns, because it is read before migrations run.
///
/// # Errors
/// Returns the error of the database.
pub async fn get(db: &impl ConnectionTrait) -> Result<Option<InstanceIdentity>, DbErr> {
    let columns = Entity::find_by_id(ID)
        .select_only()
        .column(Column::InstanceId)
        .column(Column::RepositoryStoreId)
        .column(Column::KeyFingerprint);
    let found: Option<(String, String, String)> = columns.into_tuple().one(db).await?;
    Ok(found.map(
        |(instance_id, repository_store_id, key_fingerprint)| InstanceIdentity {
            instance_id,
            repository_store_id,
            key_fingerprint,
        },
    ))
}

/// Records an identity, unless the database has one.
///
/// # Errors
/// Returns the error of the database.
pub async fn put_first(db: &impl ConnectionTrait, identity: InstanceIdentity) -> Result<(), DbErr> {
    let keep_existing = OnConflict::column(Column::Id).do_nothing().to_owned();
    put(db, identity, keep_existing).await
}

/// Records an identity and replaces the recorded one.
///
/// # Errors
/// Returns the error of the database.
pub async fn replace(db: &impl ConnectionTrait, identity: InstanceIdentity) -> Result<(), DbErr> {
    let replace = OnConflict::column(Column::Id)
        .update_columns([
            Column::InstanceId,
            Column::RepositoryStoreId,
            Column::KeyFingerprint,
            Column::CreatedAt,
        ])
        .to_owned();
    put(db, identity, replace).await
}

async fn put(
    db: &impl ConnectionTrait,
    identity: InstanceIdentity,
    on_conflict: OnConflict,
) -> Result<(), DbErr> {
    let row = ActiveModel {
        id: Set(ID),
        instance_id: Set(identity.instance_id),
        repository_store_id: Set(identity.repository_store_id),
        key_fingerprint: Set(identity.key_fingerprint),
        created_at: Set(super::now()),
    };
    Entity::insert(row)
        .on_conflict(on_conflict)
        .exec_without_returning(db)
        .await?;
    Ok(())
}
