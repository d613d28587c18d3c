//! Cleanup policies of projects, which delete older files of packages.

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{Condition, QueryOrder, QuerySelect};

/// Number of files with the same name that remain in a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum KeptFiles {
    /// All files.
    #[sea_orm(string_value = "all")]
    All,
    /// The newest file.
    #[sea_orm(string_value = "1")]
    V1,
    /// The newest 10 files.
    #[sea_orm(string_value = "10")]
    V10,
    /// The newest 20 files.
    #[sea_orm(string_value = "20")]
    V20,
    /// The newest 30 files.
    #[sea_orm(string_value = "30")]
    V30,
    /// The newest 40 files.
    #[sea_orm(string_value = "40")]
    V40,
    /// The newest 50 files.
    #[sea_orm(string_value = "50")]
    V50,
}

impl KeptFiles {
    /// Returns the number; `None` for all files.
    #[must_use]
    pub fn number(self) -> Option<i64> {
        match self {
            Self::All => None,
            Self::V1 => Some(1),
            Self::V10 => Some(10),
            Self::V20 => Some(20),
            Self::V30 => Some(30),
            Self::V40 => Some(40),
            Self::V50 => Some(50),
        }
    }
}

/// Cleanup policies of projects, which delete older files of packages.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "package_cleanup_policies")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// Number of files with the same name that remain in a package.
    pub kept_files: KeptFiles,
    /// When the policy runs next; none if all files remain.
    pub next_run_at: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the policy of a project.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::ProjectId.eq(project_id))
}

/// Returns a condition for policies that are due. A time more than two intervals away was stored before the clock was set back;
/// the clocks of nodes differ by less than an interval.
fn is_due(now: DateTime<Utc>, interval: TimeDelta) -> Condition {
    Condition::any()
        .add(Column::NextRunAt.lte(now))
        .add(Column::NextRunAt.gt(now + interval + interval))
}

/// Returns due policies, at most `limit`.
///
/// # Errors
/// Any database error.
pub async fn due(
    db: &impl ConnectionTrait,
    now: DateTime<Utc>,
    interval: TimeDelta,
    limit: u64,
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(is_due(now, interval))
        .order_by_asc(Column::NextRunAt)
        .limit(limit)
        .all(db)
        .await
}

/// Sets the next time of a policy to an interval from now. Returns false if it is not due any more.
///
/// # Errors
/// Any database error.
pub async fn advance(
    db: &impl ConnectionTrait,
    id: i64,
    now: DateTime<Utc>,
    interval: TimeDelta,
) -> Result<bool, DbErr> {
    let advanced = Entity::update_many()
        .col_expr(Column::NextRunAt, Expr::value(now + interval))
        .filter(Column::Id.eq(id))
        .filter(is_due(now, interval))
        .exec(db)
        .await?;
    Ok(advanced.rows_affected > 0)
}
