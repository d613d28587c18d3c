//! Protected branches, by name or pattern.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// Protected branches, by name or pattern.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "protected_branches")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The name, or a pattern with `*`.
    pub name: String,
    /// Minimum role for pushes: 0 no one, 30, 40, 60 administrators.
    pub push_access_level: i32,
    /// Minimum role for merges: 0 no one, 30, 40, 60 administrators.
    pub merge_access_level: i32,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The project.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
}

impl Related<super::projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the protected branches of a project, ordered by name.
///
/// # Errors
/// Any database error.
pub async fn of_project(db: &impl ConnectionTrait, project_id: i64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .order_by_asc(Column::Name)
        .all(db)
        .await
}
