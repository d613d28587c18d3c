//! Shares of projects with groups.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::DbBackend;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, Query};

use super::access::{Viewer, visible_groups};
use super::related_rows::RelatedPart;
use super::{AccessLevel, ShareSummary, namespaces, unexpired};

/// Shares of projects with groups.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "project_shares")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The shared project.
    pub project_id: i64,
    /// The group with access.
    pub group_id: i64,
    /// The maximum role of its members.
    pub access_level: AccessLevel,
    /// The date from which the share grants no access.
    pub expires_at: Option<NaiveDate>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The group with access.
    #[sea_orm(
        belongs_to = "super::namespaces::Entity",
        from = "Column::GroupId",
        to = "super::namespaces::Column::Id"
    )]
    Group,
    /// The project.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
}

impl Related<namespaces::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Group.def()
    }
}

impl Related<super::projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Returns a part with the shares of projects with groups that are visible to the viewer, for [`ShareSummary::read`]; none
/// without IDs.
#[must_use]
pub fn part(
    database: DbBackend,
    viewer: Viewer,
    today: NaiveDate,
    project_ids: &[i64],
) -> Option<RelatedPart> {
    let is_group = namespaces::Column::Id.into_expr().eq(Column::GroupId.into_expr());
    let rows = Query::select()
        .from(Entity)
        .cross_join(namespaces::Entity)
        .and_where(is_group)
        .cond_where(visible_groups(viewer, today))
        .cond_where(unexpired((Entity, Column::ExpiresAt), today))
        .take();
    let part = RelatedPart::of_owners(database, rows, Column::ProjectId.into_expr(), project_ids)?;
    let part = part.sorted_by(Column::Id.into_expr());
    let (level, expires_at) = (Column::AccessLevel.into_expr(), Column::ExpiresAt.into_expr());
    Some(ShareSummary::columns(part, level, expires_at))
}
