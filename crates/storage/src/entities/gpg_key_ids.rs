//! Key IDs of OpenPGP keys and of their subkeys that can sign.

use sea_orm::entity::prelude::*;

/// Key IDs of OpenPGP keys and of their subkeys that can sign. Different keys can have the same key ID.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "gpg_key_ids")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The OpenPGP key.
    pub gpg_key_id: i64,
    /// The key ID: 16 hexadecimal digits in upper case.
    pub key_id: String,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The OpenPGP key.
    #[sea_orm(
        belongs_to = "super::gpg_keys::Entity",
        from = "Column::GpgKeyId",
        to = "super::gpg_keys::Column::Id"
    )]
    GpgKey,
}

impl Related<super::gpg_keys::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::GpgKey.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
