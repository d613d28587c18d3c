//! CI/CD variables of the instance, of projects and of groups (specification 2.8): each belongs to exactly one of these.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

use super::Scope;

/// What stands in the column of variables of the instance.
pub const INSTANCE: i32 = 1;

/// What jobs get of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum Kind {
    /// Its value.
    EnvVar,
    /// The path of a file that holds it.
    File,
}

/// CI/CD variables of the instance, of projects and of groups: each belongs to exactly one of these.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "ci_variables")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// [`INSTANCE`] if it is the instance's.
    pub instance: Option<i32>,
    /// The project it belongs to, if it is one.
    pub project_id: Option<i64>,
    /// The group it belongs to, if it is one.
    pub namespace_id: Option<i64>,
    /// What it is called.
    pub key: String,
    /// The environments whose jobs get it: a name, with `*` for any text.
    pub environment_scope: String,
    /// What it holds, encrypted for this row.
    pub value_encrypted: String,
    /// What jobs get of it.
    pub kind: Kind,
    /// Only jobs of protected branches and tags get it.
    pub protected: bool,
    /// Logs of jobs hide the value.
    pub masked: bool,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The variables of a project or group itself or, without one, of the instance, the oldest first.
pub fn within(scope: Option<Scope>) -> Select<Entity> {
    let own = match scope {
        Some(scope) => scope.owns(Column::ProjectId, Column::NamespaceId),
        None => Column::Instance.eq(INSTANCE),
    };
    Entity::find().filter(own).order_by_asc(Column::Id)
}
