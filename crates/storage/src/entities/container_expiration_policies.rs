//! Expiration policies of the container registry, which delete tags of projects.

use chrono::{DateTime, Months, TimeDelta, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{Condition, DbBackend, Iterable, QueryOrder, QuerySelect};

use super::related_rows::{RelatedPart, RelatedRow};

/// Interval of the runs of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Cadence {
    /// A day.
    #[sea_orm(string_value = "1d")]
    V1d,
    /// Seven days.
    #[sea_orm(string_value = "7d")]
    V7d,
    /// 14 days.
    #[sea_orm(string_value = "14d")]
    V14d,
    /// A month.
    #[sea_orm(string_value = "1month")]
    V1month,
    /// Three months.
    #[sea_orm(string_value = "3month")]
    V3month,
}

impl Cadence {
    /// Returns the time of the run after a run at this time.
    #[must_use]
    pub fn after(self, time: DateTime<Utc>) -> DateTime<Utc> {
        let days = |days| time.checked_add_signed(TimeDelta::days(days));
        let months = |months| time.checked_add_months(Months::new(months));
        let next = match self {
            Self::V1d => days(1),
            Self::V7d => days(7),
            Self::V14d => days(14),
            Self::V1month => months(1),
            Self::V3month => months(3),
        };
        next.unwrap_or(time)
    }
}

/// Minimum age of the tags that a policy deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum MinimumAge {
    /// Seven days.
    #[sea_orm(string_value = "7d")]
    V7d,
    /// 14 days.
    #[sea_orm(string_value = "14d")]
    V14d,
    /// 30 days.
    #[sea_orm(string_value = "30d")]
    V30d,
    /// 60 days.
    #[sea_orm(string_value = "60d")]
    V60d,
    /// 90 days.
    #[sea_orm(string_value = "90d")]
    V90d,
}

impl MinimumAge {
    /// Returns the duration.
    #[must_use]
    pub fn duration(self) -> TimeDelta {
        TimeDelta::days(match self {
            Self::V7d => 7,
            Self::V14d => 14,
            Self::V30d => 30,
            Self::V60d => 60,
            Self::V90d => 90,
        })
    }
}

/// Expiration policies of the container registry, which delete tags of projects.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "container_expiration_policies")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The interval of the runs.
    pub cadence: Cadence,
    /// Number of matching tags that remain in each repository; none if no tag remains for its number.
    pub keep_n: Option<i64>,
    /// The minimum age of the tags to delete.
    pub older_than: Option<MinimumAge>,
    /// The regular expression for the names of the tags to delete.
    pub name_regex_delete: Option<String>,
    /// The regular expression for the names of the tags to preserve.
    pub name_regex_keep: Option<String>,
    /// When the policy runs next; none if it is disabled.
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

/// The settings of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpirationPolicy {
    /// The interval of the runs.
    pub cadence: Cadence,
    /// Number of matching tags that remain in each repository.
    pub keep_n: Option<i64>,
    /// The minimum age of the tags to delete.
    pub older_than: Option<MinimumAge>,
    /// The regular expression for the names of the tags to delete.
    pub name_regex_delete: Option<String>,
    /// The regular expression for the names of the tags to preserve.
    pub name_regex_keep: Option<String>,
    /// When the policy runs next; none if it is disabled.
    pub next_run_at: Option<DateTime<Utc>>,
}

impl Default for ExpirationPolicy {
    /// Returns the policy of a project without a row, which is disabled.
    fn default() -> Self {
        Self {
            cadence: Cadence::V1d,
            keep_n: Some(10),
            older_than: Some(MinimumAge::V90d),
            name_regex_delete: Some(".*".to_owned()),
            name_regex_keep: None,
            next_run_at: None,
        }
    }
}

impl ExpirationPolicy {
    /// Reads a row of [`part`].
    ///
    /// # Errors
    /// Returns an error for unknown values.
    pub fn read(row: RelatedRow) -> Result<Self, DbErr> {
        let [cadence, older_than, name_regex_delete, name_regex_keep] = row.texts;
        Ok(Self {
            cadence: Cadence::try_from_value(&cadence.unwrap_or_default())?,
            keep_n: row.number,
            older_than: older_than
                .map(|text| MinimumAge::try_from_value(&text))
                .transpose()?,
            name_regex_delete,
            name_regex_keep,
            next_run_at: row.time,
        })
    }
}

impl From<Model> for ExpirationPolicy {
    fn from(row: Model) -> Self {
        Self {
            cadence: row.cadence,
            keep_n: row.keep_n,
            older_than: row.older_than,
            name_regex_delete: row.name_regex_delete,
            name_regex_keep: row.name_regex_keep,
            next_run_at: row.next_run_at,
        }
    }
}

/// Selects the policy of a project.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::ProjectId.eq(project_id))
}

/// Returns a part with the policies of projects, which [`ExpirationPolicy::read`] reads; none without IDs.
#[must_use]
pub fn part(database: DbBackend, project_ids: &[i64]) -> Option<RelatedPart> {
    let rows = Query::select().from(Entity).take();
    let part = RelatedPart::of_owners(database, rows, Column::ProjectId.into_expr(), project_ids)?;
    let texts = [
        Column::Cadence,
        Column::OlderThan,
        Column::NameRegexDelete,
        Column::NameRegexKeep,
    ];
    let part = part
        .with_number(Column::KeepN.into_expr())
        .with_time(Column::NextRunAt.into_expr());
    Some(part.with_texts(texts.map(ColumnTrait::into_expr)))
}

/// Returns a condition for policies that are due. A time more than two intervals away was stored before the clock was set back;
/// the clocks of nodes differ by less than an interval.
fn is_due(now: DateTime<Utc>) -> Condition {
    let too_late = Cadence::iter().map(|cadence| {
        let latest = cadence.after(cadence.after(now));
        Condition::all()
            .add(Column::Cadence.eq(cadence))
            .add(Column::NextRunAt.gt(latest))
    });
    too_late.fold(Condition::any().add(Column::NextRunAt.lte(now)), Condition::add)
}

/// Returns due policies, at most `limit`.
///
/// # Errors
/// Any database error.
pub async fn due(db: &impl ConnectionTrait, now: DateTime<Utc>, limit: u64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(is_due(now))
        .order_by_asc(Column::NextRunAt)
        .limit(limit)
        .all(db)
        .await
}

/// Sets the next time of a policy to an interval from now. Returns false if it is not due any more.
///
/// # Errors
/// Any database error.
pub async fn advance(db: &impl ConnectionTrait, policy: &Model, now: DateTime<Utc>) -> Result<bool, DbErr> {
    let advanced = Entity::update_many()
        .col_expr(Column::NextRunAt, Expr::value(policy.cadence.after(now)))
        .filter(Column::Id.eq(policy.id))
        .filter(Column::Cadence.eq(policy.cadence))
        .filter(is_due(now))
        .exec(db)
        .await?;
    Ok(advanced.rows_affected > 0)
}
