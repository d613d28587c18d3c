//! Protected branches to which external status checks apply.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Query;

use super::status_checks;

/// Protected branches to which external status checks apply. A check without rows applies to all target branches.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "status_check_branches")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The status check.
    pub status_check_id: i64,
    /// The protected branch.
    pub protected_branch_id: i64,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the branches of all status checks of a project.
pub fn of_project(project_id: i64) -> Select<Entity> {
    let checks = Query::select()
        .expr(status_checks::Column::Id.into_expr())
        .from(status_checks::Entity)
        .and_where(status_checks::Column::ProjectId.eq(project_id))
        .take();
    Entity::find().filter(Column::StatusCheckId.in_subquery(checks))
}
