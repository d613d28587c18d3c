//! Programming languages of projects.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::SelectStatement;
use sea_orm::{QueryOrder, QuerySelect, QueryTrait};

use super::fold;
use super::row_conditions::by_code_points;

/// Programming languages of projects.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "project_languages")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The language.
    pub name: String,
    /// The folded name.
    pub name_key: String,
    /// Number of bytes in this language on the default branch.
    pub size: i64,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the languages of a project, largest first.
///
/// # Errors
/// Any database error.
pub async fn of_project(db: &impl ConnectionTrait, project_id: i64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .order_by_desc(Column::Size)
        .order_by_asc(by_code_points(
            db.get_database_backend(),
            Column::Name.into_expr(),
        ))
        .all(db)
        .await
}

/// Selects the IDs of projects that use a language, ignoring case, for use in conditions.
pub fn projects_with(name: &str) -> SelectStatement {
    Entity::find()
        .select_only()
        .column(Column::ProjectId)
        .filter(Column::NameKey.eq(fold(name)))
        .into_query()
}
