//! Links of releases to their assets.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ActiveEnum, DbBackend, QueryOrder};
use serde::{Deserialize, Serialize};

use super::related_rows::{RelatedPart, RelatedRow};

/// Kind of a linked asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum ReleaseLinkType {
    /// Any other asset.
    Other,
    /// A runbook.
    Runbook,
    /// A container image.
    Image,
    /// A package.
    Package,
}

/// Links of releases to their assets.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "release_links")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The release.
    pub release_id: i64,
    /// The name; unique within the release.
    pub name: String,
    /// The URL of the asset; unique within the release.
    pub url: String,
    /// The path below the downloads of the release, which starts with a slash; unique within the release.
    pub filepath: Option<String>,
    /// The kind of the asset.
    pub link_type: ReleaseLinkType,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The columns of a link that a release contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSummary {
    /// The ID.
    pub id: i64,
    /// The name.
    pub name: String,
    /// The URL of the asset.
    pub url: String,
    /// The path below the downloads of the release.
    pub filepath: Option<String>,
    /// The kind of the asset.
    pub link_type: ReleaseLinkType,
}

impl LinkSummary {
    /// Returns a part with the links of releases, newest first; none without IDs.
    #[must_use]
    pub fn part(database: DbBackend, release_ids: &[i64]) -> Option<RelatedPart> {
        let rows = Query::select().from(Entity).take();
        let part = RelatedPart::of_owners(database, rows, Column::ReleaseId.into_expr(), release_ids)?;
        let texts = [Column::Name, Column::Url, Column::Filepath, Column::LinkType];
        Some(
            part.with_id(Column::Id.into_expr())
                .sorted_by(Expr::Constant(0.into()).sub(Column::Id.into_expr()))
                .with_texts(texts.map(ColumnTrait::into_expr)),
        )
    }

    /// Reads a row of the part.
    ///
    /// # Errors
    /// An error if the kind of the asset is unknown.
    pub fn read(row: RelatedRow) -> Result<Self, DbErr> {
        let [name, url, filepath, link_type] = row.texts;
        Ok(Self {
            id: row.id,
            name: name.unwrap_or_default(),
            url: url.unwrap_or_default(),
            filepath,
            link_type: ReleaseLinkType::try_from_value(&link_type.unwrap_or_default())?,
        })
    }
}

impl From<Model> for LinkSummary {
    fn from(link: Model) -> Self {
        Self {
            id: link.id,
            name: link.name,
            url: link.url,
            filepath: link.filepath,
            link_type: link.link_type,
        }
    }
}

/// Selects the links of a release, newest first.
pub fn of_release(release_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ReleaseId.eq(release_id))
        .order_by_desc(Column::Id)
}
