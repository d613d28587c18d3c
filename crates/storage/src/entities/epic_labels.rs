//! Labels of epics.

use sea_orm::entity::prelude::*;

use super::labels;
use super::related_rows::LinkTable;

/// Labels of epics.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "epic_labels")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The epic.
    pub epic_id: i64,
    /// The label.
    pub label_id: i64,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The label.
    #[sea_orm(
        belongs_to = "super::labels::Entity",
        from = "Column::LabelId",
        to = "super::labels::Column::Id"
    )]
    Label,
}

impl Related<labels::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Label.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the IDs of the labels of an epic.
///
/// # Errors
/// Any database error.
pub async fn ids_of(db: &impl ConnectionTrait, epic_id: i64) -> Result<Vec<i64>, DbErr> {
    let rows = Entity::find().filter(Column::EpicId.eq(epic_id)).all(db).await?;
    Ok(rows.into_iter().map(|row| row.label_id).collect())
}

/// The table that links labels to epics.
pub const LINKS: LinkTable = LinkTable {
    name: "epic_labels",
    owner_column: "epic_id",
    column: "label_id",
    target: "labels",
};
