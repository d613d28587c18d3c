//! The bytes of manifests, apart from their rows: they may be long, and must stay as they came.

use sea_orm::entity::prelude::*;

/// The bytes of manifests, apart from their rows: they may be long, and must stay as they came.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "registry_manifest_contents")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The manifest; each has one row.
    pub manifest_id: i64,
    /// The bytes.
    pub content: Vec<u8>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The bytes of a manifest; none when it is gone.
///
/// # Errors
/// Whatever the database reports.
pub async fn of(db: &impl ConnectionTrait, manifest_id: i64) -> Result<Option<Vec<u8>>, DbErr> {
    let found = Entity::find()
        .filter(Column::ManifestId.eq(manifest_id))
        .one(db)
        .await?;
    Ok(found.map(|row| row.content))
}
