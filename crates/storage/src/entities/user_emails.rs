//! Secondary email addresses of users.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};

use super::users;

/// Secondary email addresses of users.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "user_emails")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The user.
    pub user_id: i64,
    /// The address, as given.
    pub email: String,
    /// The folded address; unique.
    pub email_key: String,
    /// When it was confirmed.
    pub confirmed_at: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The user.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::UserId",
        to = "super::users::Column::Id"
    )]
    User,
}

impl Related<users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the secondary addresses of a user in creation order.
pub fn of_user(user_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::UserId.eq(user_id))
        .order_by_asc(Column::Id)
}

/// Number of addresses that one statement looks up.
const LOOKED_UP: usize = 500;

/// Returns the folded addresses out of a list that are confirmed addresses of users, primary or secondary.
///
/// # Errors
/// Any database error.
pub async fn confirmed(db: &impl ConnectionTrait, keys: Vec<String>) -> Result<HashSet<String>, DbErr> {
    let mut found = HashSet::new();
    for keys in keys.chunks(LOOKED_UP) {
        let primary = users::not_deleted()
            .select_only()
            .column(users::Column::EmailKey)
            .filter(users::Column::EmailKey.is_in(keys))
            .filter(users::Column::ConfirmedAt.is_not_null());
        found.extend(primary.into_tuple::<String>().all(db).await?);
        let secondary = Entity::find()
            .select_only()
            .column(Column::EmailKey)
            .filter(Column::EmailKey.is_in(keys))
            .filter(Column::ConfirmedAt.is_not_null());
        found.extend(secondary.into_tuple::<String>().all(db).await?);
    }
    Ok(found)
}
