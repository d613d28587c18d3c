//! Evidence of releases: the state of a release and its milestones when it was collected.

use chrono::{DateTime, Utc};
use sea_orm::DbBackend;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Query;

use super::related_rows::{RelatedPart, RelatedRow};

/// Evidence of releases.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "release_evidences")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The release.
    pub release_id: i64,
    /// The SHA-256 of the summary, in hexadecimal digits.
    pub sha256: String,
    /// The collected state, as JSON.
    pub summary: String,
    /// When it was collected.
    pub collected_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// An evidence without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceSummary {
    /// The ID.
    pub id: i64,
    /// The SHA-256 of the content.
    pub sha256: String,
    /// When it was collected.
    pub collected_at: DateTime<Utc>,
}

impl EvidenceSummary {
    /// Returns a part with the evidence of releases, oldest first; none without IDs.
    #[must_use]
    pub fn part(database: DbBackend, release_ids: &[i64]) -> Option<RelatedPart> {
        let rows = Query::select().from(Entity).take();
        let part = RelatedPart::of_owners(database, rows, Column::ReleaseId.into_expr(), release_ids)?;
        Some(
            part.with_id(Column::Id.into_expr())
                .sorted_by(Column::Id.into_expr())
                .with_time(Column::CollectedAt.into_expr())
                .with_texts([Column::Sha256.into_expr()]),
        )
    }
}

impl From<RelatedRow> for EvidenceSummary {
    fn from(row: RelatedRow) -> Self {
        let [sha256, ..] = row.texts;
        Self {
            id: row.id,
            sha256: sha256.unwrap_or_default(),
            collected_at: row.time.unwrap_or_default(),
        }
    }
}
