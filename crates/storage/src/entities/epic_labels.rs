//! Labels of epics.

use std::collections::HashMap;

use sea_orm::QueryOrder;
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

/// Returns the labels of several epics in one statement, ordered by title, without entries for epics without
/// labels.
///
/// # Errors
/// Any database error.
pub async fn of(
    db: &impl ConnectionTrait,
    ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, Vec<labels::Model>>, DbErr> {
    let rows = Entity::find()
        .find_also_related(labels::Entity)
        .filter(Column::EpicId.is_in(ids))
        .order_by_asc(labels::Column::Title)
        .order_by_asc(labels::Column::Id)
        .all(db)
        .await?;
    let mut found: HashMap<i64, Vec<labels::Model>> = HashMap::new();
    for (row, label) in rows {
        found.entry(row.epic_id).or_default().extend(label);
    }
    Ok(found)
}

/// The table that links labels to epics.
pub const LINKS: LinkTable = LinkTable {
    name: "epic_labels",
    owner_column: "epic_id",
    column: "label_id",
    target: "labels",
};
