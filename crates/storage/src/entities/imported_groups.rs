//! Groups created by imports, by their ID in the archive. A retried import uses them to continue.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Groups created by imports, by their ID in the archive.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "imported_groups")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The import.
    pub import_id: i64,
    /// The ID in the archive; it has no meaning elsewhere.
    pub source_id: i64,
    /// The group.
    pub namespace_id: i64,
    /// When its records were created.
    pub entered_at: Option<DateTime<Utc>>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the groups that an import created.
///
/// # Errors
/// Any database error.
pub async fn of_import(db: &impl ConnectionTrait, import_id: i64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::ImportId.eq(import_id))
        .all(db)
        .await
}
