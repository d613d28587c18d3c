//! The instance that the database belongs to: one row.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{ActiveValue::Set, DatabaseTransaction, DbBackend, QuerySelect};

/// The ID of the only row.
const ID: i64 = 1;

/// The instance that the database belongs to.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
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

/// Returns the fingerprint of the current key, if the database has an identity.
///
/// # Errors
/// Returns the error of the database.
pub async fn key_fingerprint(db: &impl ConnectionTrait) -> Result<Option<String>, DbErr> {
    fingerprint_column().into_tuple().one(db).await
}

/// Returns the fingerprint of the current key, which other transactions cannot change until this one ends.
///
/// # Errors
/// Returns the error of the database.
pub async fn lock_key_fingerprint(transaction: &DatabaseTransaction) -> Result<Option<String>, DbErr> {
    let locked = fingerprint_column().lock_shared();
    locked.into_tuple().one(transaction).await
}

fn fingerprint_column() -> Select<Entity> {
    Entity::find_by_id(ID)
        .select_only()
        .column(Column::KeyFingerprint)
}

/// Replaces the fingerprint of the current key, after all transactions that have locked it. Returns `false` if the
/// database does not have the former fingerprint.
///
/// # Errors
/// Returns the error of the database.
pub async fn replace_key_fingerprint(
    transaction: &DatabaseTransaction,
    former: &str,
    new: &str,
) -> Result<bool, DbErr> {
    if transaction.get_database_backend() == DbBackend::Postgres {
        // New transactions could acquire shared row locks before a waiting update, which might then wait forever. A
        // table lock is granted in the order of the requests.
        transaction
            .execute_unprepared("LOCK TABLE instances IN EXCLUSIVE MODE")
            .await?;
    }
    let updated = Entity::update_many()
        .col_expr(Column::KeyFingerprint, Expr::value(new))
        .filter(Column::Id.eq(ID))
        .filter(Column::KeyFingerprint.eq(former))
        .exec(transaction)
        .await?;
    Ok(updated.rows_affected > 0)
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
