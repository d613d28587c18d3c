//! Emoji that users awarded.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Emoji that users awarded.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "award_emoji")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The issue it belongs to, if it is one.
    pub issue_id: Option<i64>,
    /// The merge request it belongs to, if it is one.
    pub merge_request_id: Option<i64>,
    /// The snippet it belongs to, if it is one.
    pub snippet_id: Option<i64>,
    /// The epic it belongs to, if it is one.
    pub epic_id: Option<i64>,
    /// The note it belongs to, if it is one.
    pub note_id: Option<i64>,
    /// Who awarded it.
    pub user_id: i64,
    /// Its name, without colons.
    pub name: String,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// Who awarded it.
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
