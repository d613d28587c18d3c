//! Groups that imports make, by what they are called in the archive: what tells a second attempt how far the first came.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Groups that imports make, by what they are called in the archive.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "imported_groups")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The import.
    pub import_id: i64,
    /// The number that the archive has for it; it means nothing outside of that.
    pub source_id: i64,
    /// The group.
    pub namespace_id: i64,
    /// When what belongs to it was entered.
    pub entered_at: Option<DateTime<Utc>>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The groups that an import has made.
///
/// # Errors
/// Whatever the database reports.
pub async fn of_import(db: &impl ConnectionTrait, import_id: i64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::ImportId.eq(import_id))
        .all(db)
        .await
}
