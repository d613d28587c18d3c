//! Numbers of fetches of projects by day.

use chrono::NaiveDate;
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{QueryOrder, QuerySelect};

use super::projects;

/// Maximum number of rows in one statement.
const BATCH_SIZE: usize = 500;

/// Numbers of fetches of projects by day.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "project_fetches")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The day, in UTC.
    pub day: NaiveDate,
    /// The number of fetches.
    pub count: i64,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Adds numbers of fetches by project and day. Those of projects that do not exist any more are ignored.
///
/// # Errors
/// Any database error.
pub async fn add(db: &impl ConnectionTrait, counts: &[((i64, NaiveDate), i64)]) -> Result<(), DbErr> {
    for counts in counts.chunks(BATCH_SIZE) {
        let ids = counts.iter().map(|((project, _), _)| *project);
        let existing = projects::Entity::find()
            .select_only()
            .column(projects::Column::Id)
            .filter(projects::Column::Id.is_in(ids));
        let existing: Vec<i64> = existing.into_tuple().all(db).await?;
        let counts = counts
            .iter()
            .filter(|((project, _), _)| existing.contains(project));
        let rows: Vec<ActiveModel> = counts
            .map(|((project_id, day), count)| ActiveModel {
                project_id: Set(*project_id),
                day: Set(*day),
                count: Set(*count),
                ..Default::default()
            })
            .collect();
        if rows.is_empty() {
            continue;
        }
        let sum = Expr::col((Entity, Column::Count)).add(Expr::col(("excluded", Column::Count)));
        let mut known = OnConflict::columns([Column::ProjectId, Column::Day]);
        Entity::insert_many(rows)
            .on_conflict(known.value(Column::Count, sum).to_owned())
            .exec_without_returning(db)
            .await?;
    }
    Ok(())
}

/// Returns the numbers of fetches of a project since a day, newest day first.
///
/// # Errors
/// Any database error.
pub async fn since(db: &impl ConnectionTrait, project_id: i64, day: NaiveDate) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .filter(Column::Day.gte(day))
        .order_by_desc(Column::Day)
        .all(db)
        .await
}

/// Deletes the rows of days before a day, and returns their number.
///
/// # Errors
/// Any database error.
pub async fn delete_before(db: &impl ConnectionTrait, day: NaiveDate) -> Result<u64, DbErr> {
    let deleted = Entity::delete_many().filter(Column::Day.lt(day)).exec(db).await?;
    Ok(deleted.rows_affected)
}
