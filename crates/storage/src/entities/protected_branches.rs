//! Protected branches, by name or pattern.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Query;

use super::related_rows::{RelatedPart, RelatedRow, bigint};

/// Protected branches, by name or pattern.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "protected_branches")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The name, or a pattern with `*`.
    pub name: String,
    /// Minimum role for pushes: 0 no one, 30, 40, 60 administrators.
    pub push_access_level: i32,
    /// Minimum role for merges: 0 no one, 30, 40, 60 administrators.
    pub merge_access_level: i32,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// The rules of a protected branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchProtection {
    /// The name or the pattern.
    pub name: String,
    /// The access level that a push requires; 0 if no role can push.
    pub push_access_level: i32,
    /// The access level that a merge requires; 0 if no role can merge.
    pub merge_access_level: i32,
}

impl From<Model> for BranchProtection {
    fn from(row: Model) -> Self {
        Self {
            name: row.name,
            push_access_level: row.push_access_level,
            merge_access_level: row.merge_access_level,
        }
    }
}

impl BranchProtection {
    /// Returns a part with the protected branches of a project.
    #[must_use]
    pub fn part(project_id: i64) -> RelatedPart {
        let rows = Query::select()
            .from(Entity)
            .and_where(Column::ProjectId.eq(project_id))
            .take();
        RelatedPart::new(rows, Column::ProjectId.into_expr())
            .with_id(bigint(Column::MergeAccessLevel.into_expr()))
            .with_number(bigint(Column::PushAccessLevel.into_expr()))
            .with_texts([Column::Name.into_expr()])
    }

    /// Reads a row of [`Self::part`].
    #[must_use]
    pub fn read(row: RelatedRow) -> Self {
        let [name, ..] = row.texts;
        let level = |number: i64| i32::try_from(number).unwrap_or_default();
        Self {
            name: name.unwrap_or_default(),
            push_access_level: level(row.number.unwrap_or_default()),
            merge_access_level: level(row.id),
        }
    }
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The project.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
}

impl Related<super::projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the protected branches of a project, ordered by name.
///
/// # Errors
/// Any database error.
pub async fn of_project(db: &impl ConnectionTrait, project_id: i64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .order_by_asc(Column::Name)
        .all(db)
        .await
}
