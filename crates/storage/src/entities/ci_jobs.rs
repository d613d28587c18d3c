//! Jobs of pipelines. A status that a system outside reports of a commit is a job of a stage of its own.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

use super::{pipelines, users};
pub use pipelines::Status;

/// The stage of what is reported from outside.
pub const EXTERNAL: &str = "external";

/// Jobs of pipelines.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "ci_jobs")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project it belongs to.
    pub project_id: i64,
    /// The pipeline it belongs to.
    pub pipeline_id: i64,
    /// What it is called.
    pub name: String,
    /// The stage it is of.
    pub stage: String,
    /// What has become of it.
    pub status: Status,
    /// What its reporter says of it.
    pub description: Option<String>,
    /// Where its reporter tells more.
    pub target_url: Option<String>,
    /// How much of the code it has seen, in percent.
    pub coverage: Option<f64>,
    /// The pipeline goes well even if this does not.
    pub allow_failure: bool,
    /// Another one of the name took its place.
    pub retried: bool,
    /// Who reported it; none when the user is gone.
    pub user_id: Option<i64>,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it finished; none while it goes on.
    pub finished_at: Option<DateTime<Utc>>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The pipeline it belongs to.
    #[sea_orm(
        belongs_to = "super::pipelines::Entity",
        from = "Column::PipelineId",
        to = "super::pipelines::Column::Id"
    )]
    Pipeline,
    /// Who reported it.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::UserId",
        to = "super::users::Column::Id"
    )]
    Reporter,
}

impl Related<pipelines::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Pipeline.def()
    }
}

impl Related<users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Reporter.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// The jobs of a pipeline that count, the oldest first.
///
/// # Errors
/// Whatever the database reports.
pub async fn counting(db: &impl ConnectionTrait, pipeline_id: i64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::PipelineId.eq(pipeline_id))
        .filter(Column::Retried.eq(false))
        .order_by_asc(Column::Id)
        .all(db)
        .await
}
