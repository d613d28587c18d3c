//! Vulnerabilities of projects.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// State of a vulnerability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum VulnerabilityState {
    /// Not decided.
    Opened,
    /// Confirmed.
    Confirmed,
    /// Resolved.
    Resolved,
    /// Dismissed.
    Closed,
}

/// Severity of a vulnerability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Informational.
    Info,
    /// Not specified.
    Unknown,
    /// Low.
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
    /// Critical.
    Critical,
}

/// Confidence of a scanner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Ignored: the scanner considers it a false positive.
    Ignore,
    /// Not specified.
    Unknown,
    /// Found by an experimental rule.
    Experimental,
    /// Low.
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
    /// Confirmed.
    Confirmed,
}

/// Type of the scanner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum ReportType {
    /// Static code analysis.
    Sast,
    /// Analysis of dependencies.
    DependencyScanning,
    /// Analysis of container images.
    ContainerScanning,
    /// Test of the running application.
    Dast,
    /// Search for secrets.
    SecretDetection,
    /// Coverage-guided fuzzing.
    CoverageFuzzing,
    /// API fuzzing.
    ApiFuzzing,
    /// Analysis of the images in a cluster.
    ClusterImageScanning,
    /// Other scanners.
    Generic,
}

/// Vulnerabilities of projects.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "vulnerabilities")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The fingerprint used in reports; unique within the project.
    pub fingerprint: String,
    /// The title.
    pub title: String,
    /// The description.
    pub description: Option<String>,
    /// A digest of title and description, which shows whether a report changes them.
    pub text_digest: String,
    /// The state.
    pub state: VulnerabilityState,
    /// The severity.
    pub severity: Severity,
    /// The confidence.
    pub confidence: Confidence,
    /// The type of the scanner.
    pub report_type: ReportType,
    /// The user who sent the first report; none if deleted.
    pub author_id: Option<i64>,
    /// The user who last changed it, by a decision or a report.
    pub updated_by_id: Option<i64>,
    /// The user who sent the last report that changed the title or the description.
    pub last_edited_by_id: Option<i64>,
    /// The user who dismissed it.
    pub closed_by_id: Option<i64>,
    /// When work on it should start.
    pub start_date: Option<NaiveDate>,
    /// When work on it should be done.
    pub due_date: Option<NaiveDate>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
    /// When a report last changed the title or the description.
    pub last_edited_at: Option<DateTime<Utc>>,
    /// When it was dismissed.
    pub closed_at: Option<DateTime<Utc>>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the vulnerabilities of a project, oldest first.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .order_by_asc(Column::Id)
}
