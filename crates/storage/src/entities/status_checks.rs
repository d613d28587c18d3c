//! External status checks of projects: services that decide whether a merge request can be merged.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, LockType, Order, Query};
use sea_orm::{QueryOrder, QuerySelect};

use super::{protected_branches, status_check_branches};

/// External status checks of projects.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "status_checks")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The name.
    pub name: String,
    /// The URL of the service, without credentials.
    pub external_url: String,
    /// The key of the signatures of requests to the service, encrypted.
    pub shared_secret_encrypted: Option<String>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When its settings were last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the checks of a project in creation order.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .order_by_asc(Column::Id)
}

/// Keeps a check from being deleted until the transaction ends. Its settings can change.
///
/// # Errors
/// Any database error.
pub async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).lock(LockType::KeyShare).one(db).await
}

/// Returns the IDs of the checks of a project with the names of their protected branches, in creation order. A check without
/// branches, which applies to all, has no name.
///
/// # Errors
/// Any database error.
pub async fn with_branch_names(
    db: &impl ConnectionTrait,
    project_id: i64,
) -> Result<Vec<(i64, Option<String>)>, DbErr> {
    let of_check = status_check_branches::Column::StatusCheckId
        .into_expr()
        .eq(Column::Id.into_expr());
    let is_branch = protected_branches::Column::Id
        .into_expr()
        .eq(status_check_branches::Column::ProtectedBranchId.into_expr());
    let select = Query::select()
        .expr(Column::Id.into_expr())
        .expr(protected_branches::Column::Name.into_expr())
        .from(Entity)
        .left_join(status_check_branches::Entity, of_check)
        .left_join(protected_branches::Entity, is_branch)
        .and_where(Column::ProjectId.eq(project_id))
        .order_by_expr(Column::Id.into_expr(), Order::Asc)
        .take();
    let rows = db.query_all(&select).await?;
    rows.iter()
        .map(|row| Ok((row.try_get_by_index(0)?, row.try_get_by_index(1)?)))
        .collect()
}
