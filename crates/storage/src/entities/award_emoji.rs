//! Award emoji.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Award emoji.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "award_emoji")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The issue, if it belongs to one.
    pub issue_id: Option<i64>,
    /// The merge request, if it belongs to one.
    pub merge_request_id: Option<i64>,
    /// The snippet, if it belongs to one.
    pub snippet_id: Option<i64>,
    /// The epic, if it belongs to one.
    pub epic_id: Option<i64>,
    /// The note, if it belongs to one.
    pub note_id: Option<i64>,
    /// The user who awarded it.
    pub user_id: i64,
    /// Its name, without colons.
    pub name: String,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The user who awarded it.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::UserId",
        to = "super::users::Column::Id"
    )]
    User,
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
