//! Addresses of users beside the primary one.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// Addresses of users beside the primary one.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "user_emails")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Whose address it is.
    pub user_id: i64,
    /// The address, as it was given.
    pub email: String,
    /// The address folded; unique.
    pub email_key: String,
    /// When it was confirmed.
    pub confirmed_at: Option<DateTime<Utc>>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// Whose it is.
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

/// The further addresses of a user, in the order they were added.
pub fn of_user(user_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::UserId.eq(user_id))
        .order_by_asc(Column::Id)
}
