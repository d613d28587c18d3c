//! Content of manifests, in a separate table because it may be long. The bytes must not change.

use sea_orm::entity::prelude::*;

/// Content of manifests, in a separate table because it may be long. The bytes must not change.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "registry_manifest_contents")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The manifest; each has one row.
    pub manifest_id: i64,
    /// The content.
    pub content: Vec<u8>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the content of a manifest; none if it was deleted.
///
/// # Errors
/// Any database error.
pub async fn of(db: &impl ConnectionTrait, manifest_id: i64) -> Result<Option<Vec<u8>>, DbErr> {
    let found = Entity::find()
        .filter(Column::ManifestId.eq(manifest_id))
        .one(db)
        .await?;
    Ok(found.map(|row| row.content))
}
