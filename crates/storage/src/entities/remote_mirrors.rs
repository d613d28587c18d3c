//! Repositories to which projects push their branches and tags.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// Status of the updates of a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum MirrorStatus {
    /// Never updated.
    None,
    /// An update waits.
    Scheduled,
    /// An update runs.
    Started,
    /// The last update succeeded.
    Finished,
    /// The last update failed.
    Failed,
    /// The last update failed and is tried again.
    ToRetry,
}

/// Repositories to which projects push their branches and tags.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "remote_mirrors")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The URL with masked credentials.
    pub url: String,
    /// The credentials of the URL, encrypted.
    pub credentials_encrypted: Option<String>,
    /// Whether changes of the project are pushed.
    pub enabled: bool,
    /// Whether only protected branches are pushed.
    pub only_protected_branches: bool,
    /// Whether refs that were changed in the mirror keep their targets.
    pub keep_divergent_refs: bool,
    /// The status of the last update.
    pub update_status: MirrorStatus,
    /// When the last update ended.
    pub last_update_at: Option<DateTime<Utc>>,
    /// When the last update started.
    pub last_update_started_at: Option<DateTime<Utc>>,
    /// When the last successful update ended.
    pub last_successful_update_at: Option<DateTime<Utc>>,
    /// The error of the last update, without credentials.
    pub last_error: Option<String>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When its settings were last changed.
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

/// Selects the mirrors of a project in creation order.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .order_by_asc(Column::Id)
}
