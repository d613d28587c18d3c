//! Instance settings that can be changed at run time.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, DatabaseTransaction, DbBackend, sea_query::OnConflict};

/// Instance settings that can be changed at run time.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "settings")]
pub struct Model {
    /// The name of the setting.
    #[sea_orm(primary_key, auto_increment = false)]
    pub key: String,
    /// Its value, as JSON.
    pub value: String,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the value of a setting, as JSON.
///
/// # Errors
/// Any database error.
pub async fn get(db: &impl ConnectionTrait, key: &str) -> Result<Option<String>, DbErr> {
    Ok(Entity::find_by_id(key).one(db).await?.map(|row| row.value))
}

/// Returns all settings that were ever changed, each with its JSON value.
///
/// # Errors
/// Any database error.
pub async fn all(db: &impl ConnectionTrait) -> Result<Vec<Model>, DbErr> {
    Entity::find().all(db).await
}

/// Locks all settings until the transaction ends: other transactions can read them, but not change them. Settings that were
/// never changed have no row to lock.
///
/// # Errors
/// Any database error.
pub async fn lock(transaction: &DatabaseTransaction) -> Result<(), DbErr> {
    // SQLite has a single writer.
    if transaction.get_database_backend() == DbBackend::Postgres {
        transaction
            .execute_unprepared("LOCK TABLE settings IN SHARE ROW EXCLUSIVE MODE")
            .await?;
    }
    Ok(())
}

/// Sets a setting to a JSON value.
///
/// # Errors
/// Any database error.
pub async fn put(db: &impl ConnectionTrait, key: &str, value: &str) -> Result<(), DbErr> {
    let row = ActiveModel {
        key: Set(key.to_owned()),
        value: Set(value.to_owned()),
        updated_at: Set(super::now()),
    };
    let replace = OnConflict::column(Column::Key)
        .update_columns([Column::Value, Column::UpdatedAt])
        .to_owned();
    Entity::insert(row)
        .on_conflict(replace)
        .exec_without_returning(db)
        .await?;
    Ok(())
}
