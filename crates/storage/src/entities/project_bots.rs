//! Bot users of project access tokens.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::SelectStatement;
use sea_orm::{QuerySelect, QueryTrait};

/// Bot users of project access tokens.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "project_bots")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The only project that the bot can be a member of.
    pub project_id: i64,
    /// The bot; unique.
    pub user_id: i64,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The bot.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::UserId",
        to = "super::users::Column::Id"
    )]
    User,
    /// The project.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

impl Related<super::projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the IDs of a project's bots.
pub fn of_project(project_id: i64) -> SelectStatement {
    Entity::find()
        .select_only()
        .column(Column::UserId)
        .filter(Column::ProjectId.eq(project_id))
        .into_query()
}

/// Returns whether a user is a bot of this project.
///
/// # Errors
/// Any database error.
pub async fn is_bot_of(db: &impl ConnectionTrait, user_id: i64, project_id: i64) -> Result<bool, DbErr> {
    let found = Entity::find()
        .filter(Column::UserId.eq(user_id))
        .filter(Column::ProjectId.eq(project_id))
        .one(db)
        .await?;
    Ok(found.is_some())
}
