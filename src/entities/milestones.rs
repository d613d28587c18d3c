//! Milestones of projects and groups: each belongs to exactly one of the two.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;

/// Whether a milestone is worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum State {
    /// It is.
    Active,
    /// It is not, or not any more.
    Closed,
}

/// Milestones of projects and groups: each belongs to exactly one of the two.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "milestones")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project it belongs to, if it is one.
    pub project_id: Option<i64>,
    /// The group it belongs to, if it is one.
    pub namespace_id: Option<i64>,
    /// The number within the project or group.
    pub iid: i64,
    /// What it is called; unique where it belongs to.
    pub title: String,
    /// What is to be reached.
    pub description: Option<String>,
    /// Whether it is worked on.
    pub state: State,
    /// The day it begins.
    pub start_date: Option<NaiveDate>,
    /// The day it is to be reached.
    pub due_date: Option<NaiveDate>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
