//! CI/CD variables. Each belongs to the instance, a project or a group.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

use super::Scope;

/// Value of the column for variables of the instance.
pub const INSTANCE_ID: i32 = 1;

/// How jobs receive a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum VariableKind {
    /// As an environment variable.
    EnvVar,
    /// As the path of a file with the value.
    File,
}

/// CI/CD variables. Each belongs to the instance, a project or a group.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "ci_variables")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// [`INSTANCE_ID`] for a variable of the instance.
    pub instance: Option<i32>,
    /// The project, if it belongs to one.
    pub project_id: Option<i64>,
    /// The group, if it belongs to one.
    pub namespace_id: Option<i64>,
    /// The key.
    pub key: String,
    /// The environment scope: a name, with `*` for any text.
    pub environment_scope: String,
    /// The value, encrypted for this row.
    pub value_encrypted: String,
    /// How jobs receive the value.
    pub kind: VariableKind,
    /// Whether only jobs of protected branches and tags receive it.
    pub protected: bool,
    /// Whether job logs hide the value.
    pub masked: bool,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the variables of a project or group itself or, without a scope, of the instance, oldest first.
pub fn within(scope: Option<Scope>) -> Select<Entity> {
    let own = match scope {
        Some(scope) => scope.owns(Column::ProjectId, Column::NamespaceId),
        None => Column::Instance.eq(INSTANCE_ID),
    };
    Entity::find().filter(own).order_by_asc(Column::Id)
}
