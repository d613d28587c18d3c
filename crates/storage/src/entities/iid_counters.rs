//! Counters of IIDs within projects and groups.

use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, OnConflict};

use super::Scope;

/// Kind of resource with IIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum IidKind {
    /// Issues of a project.
    Issues,
    /// Merge requests of a project.
    MergeRequests,
    /// Milestones of a project or group.
    Milestones,
    /// Epics of a group.
    Epics,
    /// User lists for feature flags of a project.
    FeatureFlagUserLists,
    /// Deployments of a project.
    Deployments,
}

/// Counters of IIDs within projects and groups.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "iid_counters")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project, if it belongs to one.
    pub project_id: Option<i64>,
    /// The group, if it belongs to one.
    pub namespace_id: Option<i64>,
    /// The kind of resource.
    pub subject: IidKind,
    /// The last IID assigned.
    pub last: i64,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Error text of [`next`] if no IID is left.
const USED_UP: &str = "the numbers are used up";

/// Returns whether [`next`] failed because no IID is left.
#[must_use]
pub fn is_exhausted(error: &DbErr) -> bool {
    matches!(error, DbErr::Custom(text) if text == USED_UP)
}

/// Returns the next IID within a project or group, starting at 1. It is reserved until the transaction ends:
/// others wait, and a rollback leaves no gap.
///
/// # Errors
/// An error for which [`is_exhausted`] returns true if no IID is left, and any database error.
pub async fn next(transaction: &impl ConnectionTrait, scope: Scope, subject: IidKind) -> Result<i64, DbErr> {
    let last = Expr::col((Entity, Column::Last));
    let mut counted = counted(scope, last.clone().add(1));
    counted.action_and_where(last.lt(i64::MAX));
    let row = Entity::insert(counter(scope, subject, 1))
        .on_conflict(counted)
        .exec_with_returning(transaction)
        .await;
    match row {
        Ok(row) => Ok(row.last),
        Err(DbErr::RecordNotInserted | DbErr::RecordNotFound(_)) => Err(DbErr::Custom(USED_UP.to_owned())),
        Err(error) => Err(error),
    }
}

/// Reserves a requested IID, so that no IID up to it is assigned later. Does not check whether it is free.
///
/// # Errors
/// Any database error.
pub async fn reserve(
    transaction: &impl ConnectionTrait,
    scope: Scope,
    subject: IidKind,
    number: i64,
) -> Result<i64, DbErr> {
    let last = Expr::col((Entity, Column::Last));
    let highest = Expr::case(last.clone().lt(number), Expr::val(number)).finally(last);
    Entity::insert(counter(scope, subject, number))
        .on_conflict(counted(scope, highest.into()))
        .exec_without_returning(transaction)
        .await?;
    Ok(number)
}

fn counter(scope: Scope, subject: IidKind, last: i64) -> ActiveModel {
    ActiveModel {
        project_id: Set(scope.project_id()),
        namespace_id: Set(scope.namespace_id()),
        subject: Set(subject),
        last: Set(last),
        ..Default::default()
    }
}

/// Returns the update of an existing counter.
fn counted(scope: Scope, last: Expr) -> OnConflict {
    let column = match scope {
        Scope::Project(_) => Column::ProjectId,
        Scope::Group(_) => Column::NamespaceId,
    };
    OnConflict::columns([column, Column::Subject])
        .value(Column::Last, last)
        .to_owned()
}
