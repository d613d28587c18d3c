//! The numbers that were last given out within projects and groups.

use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, OnConflict};

use super::Scope;

/// What is numbered within a project or group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum Subject {
    /// Issues of a project.
    Issues,
    /// Merge requests of a project.
    MergeRequests,
    /// Milestones of a project or group.
    Milestones,
    /// Epics of a group.
    Epics,
    /// Lists of users for feature flags of a project.
    FeatureFlagUserLists,
    /// Deployments of a project.
    Deployments,
}

/// The numbers that were last given out within projects and groups.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "iid_counters")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project it belongs to, if it is one.
    pub project_id: Option<i64>,
    /// The group it belongs to, if it is one.
    pub namespace_id: Option<i64>,
    /// What is numbered.
    pub subject: Subject,
    /// The last number given out.
    pub last: i64,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// What [`next`] fails with when there are no numbers left.
const USED_UP: &str = "the numbers are used up";

/// Whether [`next`] failed because there are no numbers left.
#[must_use]
pub fn are_used_up(error: &DbErr) -> bool {
    matches!(error, DbErr::Custom(text) if text == USED_UP)
}

/// The next number of a subject within a project or group, counted from 1. It is the transaction's until that ends: others
/// wait, and none is left out when it is given up.
///
/// # Errors
/// One that [`are_used_up`] knows when the last one was given out, and whatever the database reports.
pub async fn next(transaction: &impl ConnectionTrait, scope: Scope, subject: Subject) -> Result<i64, DbErr> {
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

/// Takes a number that was asked for, so that none up to it is given out later. Whether it is free is not looked at.
///
/// # Errors
/// Whatever the database reports.
pub async fn reserve(
    transaction: &impl ConnectionTrait,
    scope: Scope,
    subject: Subject,
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

fn counter(scope: Scope, subject: Subject, last: i64) -> ActiveModel {
    ActiveModel {
        project_id: Set(scope.project_id()),
        namespace_id: Set(scope.namespace_id()),
        subject: Set(subject),
        last: Set(last),
        ..Default::default()
    }
}

/// What becomes of the last number where there is one.
fn counted(scope: Scope, last: Expr) -> OnConflict {
    let column = match scope {
        Scope::Project(_) => Column::ProjectId,
        Scope::Group(_) => Column::NamespaceId,
    };
    OnConflict::columns([column, Column::Subject])
        .value(Column::Last, last)
        .to_owned()
}
