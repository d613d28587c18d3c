//! The languages that projects are written in.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::SelectStatement;
use sea_orm::{QueryOrder, QuerySelect, QueryTrait};

use super::fold;

/// The languages that projects are written in.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "project_languages")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The language.
    pub name: String,
    /// The language folded.
    pub name_key: String,
    /// How many bytes of the default branch are written in it.
    pub size: i64,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The languages of a project, the largest first.
///
/// # Errors
/// Whatever the database reports.
pub async fn of_project(db: &impl ConnectionTrait, project_id: i64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .order_by_desc(Column::Size)
        .order_by_asc(Column::Name)
        .all(db)
        .await
}

/// The ids of the projects that use a language, without regard to case, as a statement for conditions.
pub fn users_of(name: &str) -> SelectStatement {
    Entity::find()
        .select_only()
        .column(Column::ProjectId)
        .filter(Column::NameKey.eq(fold(name)))
        .into_query()
}
