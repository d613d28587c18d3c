//! Milestones of releases.

use sea_orm::DbBackend;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Query, SelectStatement};

use super::related_rows::{LinkTable, RelatedPart};
use super::row_conditions::is_among;

/// Milestones of releases.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "release_milestones")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The release.
    pub release_id: i64,
    /// The milestone of the project or of an ancestor group.
    pub milestone_id: i64,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The milestone.
    #[sea_orm(
        belongs_to = "super::milestones::Entity",
        from = "Column::MilestoneId",
        to = "super::milestones::Column::Id"
    )]
    Milestone,
}

impl Related<super::milestones::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Milestone.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Returns a part with the IDs of the milestones of releases; none without IDs. The part selects from `milestones` too.
#[must_use]
pub fn part(database: DbBackend, release_ids: &[i64]) -> Option<RelatedPart> {
    let link = LinkTable {
        name: "release_milestones",
        owner_column: "release_id",
        column: "milestone_id",
        target: "milestones",
    };
    let part = RelatedPart::linked(database, link, release_ids)?;
    Some(
        part.with_id(Column::MilestoneId.into_expr())
            .sorted_by(Column::MilestoneId.into_expr()),
    )
}

/// Selects the IDs of the milestones of releases, for use in other statements.
#[must_use]
pub fn ids_of(database: DbBackend, release_ids: &[i64]) -> SelectStatement {
    Query::select()
        .column(Column::MilestoneId)
        .from(Entity)
        .and_where(is_among(
            database,
            Column::ReleaseId.into_expr(),
            release_ids.iter().copied(),
        ))
        .take()
}
