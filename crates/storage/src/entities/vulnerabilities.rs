//! Vulnerabilities of projects (specification 2.13).

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// What was decided of a vulnerability (specification 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum State {
    /// Nothing yet.
    Opened,
    /// It is one.
    Confirmed,
    /// It is one no more.
    Resolved,
    /// It was dismissed.
    Closed,
}

/// How bad a vulnerability is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It is good to know.
    Info,
    /// Nobody said.
    Unknown,
    /// Little.
    Low,
    /// Somewhat.
    Medium,
    /// Very.
    High,
    /// As bad as can be.
    Critical,
}

/// How sure a scanner is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// It is none, as far as the scanner knows.
    Ignore,
    /// Nobody said.
    Unknown,
    /// The rule is being tried.
    Experimental,
    /// Hardly.
    Low,
    /// Somewhat.
    Medium,
    /// Very.
    High,
    /// It was looked at.
    Confirmed,
}

/// What kind of scanner found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum ReportType {
    /// One that reads the code.
    Sast,
    /// One that reads what the code depends on.
    DependencyScanning,
    /// One that looks into images.
    ContainerScanning,
    /// One that tries the running program.
    Dast,
    /// One that looks for secrets.
    SecretDetection,
    /// One that follows which code it reaches.
    CoverageFuzzing,
    /// One that tries an interface.
    ApiFuzzing,
    /// One that looks into the images of a cluster.
    ClusterImageScanning,
    /// Any other.
    Generic,
}

/// Vulnerabilities of projects.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "vulnerabilities")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// What reports know it by; unique within the project.
    pub fingerprint: String,
    /// What it is, in a line.
    pub title: String,
    /// What it is, at length.
    pub description: Option<String>,
    /// A digest of the title and the description, by which reports see that these are others.
    pub text_digest: String,
    /// What was decided of it.
    pub state: State,
    /// How bad it is.
    pub severity: Severity,
    /// How sure the scanner is.
    pub confidence: Confidence,
    /// What kind of scanner found it.
    pub report_type: ReportType,
    /// Who sent the report that brought it; none when the user is gone.
    pub author_id: Option<i64>,
    /// Who changed it last, by a decision or a report.
    pub updated_by_id: Option<i64>,
    /// Who sent the last report that changed the title or the description.
    pub last_edited_by_id: Option<i64>,
    /// Who dismissed it.
    pub closed_by_id: Option<i64>,
    /// When work on it is to begin.
    pub start_date: Option<NaiveDate>,
    /// When work on it is to be done.
    pub due_date: Option<NaiveDate>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
    /// When a report changed the title or the description last.
    pub last_edited_at: Option<DateTime<Utc>>,
    /// When it was dismissed.
    pub closed_at: Option<DateTime<Utc>>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The vulnerabilities of a project, the oldest first.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .order_by_asc(Column::Id)
}
