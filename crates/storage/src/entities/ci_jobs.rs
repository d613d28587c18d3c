//! Jobs of pipelines. A commit status reported by an external system is a job of a separate stage.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{QueryOrder, QuerySelect, QueryTrait};

use super::{deployments, pipelines, users};
pub use pipelines::PipelineStatus;

/// The stage of jobs that are reported by external systems.
pub const EXTERNAL: &str = "external";

/// Jobs of pipelines.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "ci_jobs")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The pipeline.
    pub pipeline_id: i64,
    /// The name.
    pub name: String,
    /// The stage.
    pub stage: String,
    /// The status.
    pub status: PipelineStatus,
    /// The description given by the reporter.
    pub description: Option<String>,
    /// The URL with details given by the reporter.
    pub target_url: Option<String>,
    /// The test coverage in percent.
    pub coverage: Option<f64>,
    /// Whether the pipeline may succeed if this job fails.
    pub allow_failure: bool,
    /// Whether a newer job with the same name replaced this one.
    pub retried: bool,
    /// The user who reported it; none if deleted.
    pub user_id: Option<i64>,
    /// When it started.
    pub started_at: Option<DateTime<Utc>>,
    /// When it finished; none before.
    pub finished_at: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The pipeline.
    #[sea_orm(
        belongs_to = "super::pipelines::Entity",
        from = "Column::PipelineId",
        to = "super::pipelines::Column::Id"
    )]
    Pipeline,
    /// The user who reported it.
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

/// Returns the jobs of a pipeline that were not retried, oldest first.
///
/// # Errors
/// Any database error.
pub async fn current(db: &impl ConnectionTrait, pipeline_id: i64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::PipelineId.eq(pipeline_id))
        .filter(Column::Retried.eq(false))
        .order_by_asc(Column::Id)
        .all(db)
        .await
}

/// Deletes jobs of a pipeline that newer jobs replaced, except the newest `kept` and those with a deployment. Deletes at
/// most `batch` jobs, the oldest first.
///
/// # Errors
/// Any database error.
pub async fn delete_replaced(
    db: &impl ConnectionTrait,
    pipeline_id: i64,
    kept: u64,
    batch: u64,
) -> Result<(), DbErr> {
    let ids = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::PipelineId.eq(pipeline_id))
        .filter(Column::Retried.eq(true));
    // Most pipelines have fewer jobs, so only the index is read.
    let newest_deleted = ids.clone().order_by_desc(Column::Id).offset(kept).limit(1);
    let Some(newest) = newest_deleted.into_tuple::<i64>().one(db).await? else {
        return Ok(());
    };
    let of_job = Expr::col((deployments::Entity, deployments::Column::JobId)).equals((Entity, Column::Id));
    let deployment = deployments::Entity::find()
        .select_only()
        .column(deployments::Column::Id)
        .filter(of_job)
        .into_query();
    let older = ids
        .filter(Column::Id.lte(newest))
        .filter(Expr::not_exists(deployment))
        .order_by_asc(Column::Id)
        .limit(batch)
        .into_query();
    let deleted = Entity::delete_many().filter(Column::Id.in_subquery(older));
    deleted.exec(db).await.map(drop)
}
