//! Files of packages.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{ExprTrait, JoinType, QuerySelect};

use super::row_conditions::is_among;
use super::{namespace_ancestors, packages, projects};

/// Files of packages.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "package_files")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The package.
    pub package_id: i64,
    /// The name.
    pub file_name: String,
    /// The name, if the package can have only one file with this name; unique within the package.
    pub distinct_name: Option<String>,
    /// The size in bytes.
    pub size: i64,
    /// The MD5 in hex.
    pub md5: String,
    /// The SHA-1 in hex.
    pub sha1: String,
    /// The SHA-256 in hex.
    pub sha256: String,
    /// The SHA-512 in hex; none if the file was stored before SHA-512 was computed.
    pub sha512: Option<String>,
    /// The versions of Python that the file supports.
    pub requires_python: Option<String>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The package.
    #[sea_orm(
        belongs_to = "super::packages::Entity",
        from = "Column::PackageId",
        to = "super::packages::Column::Id"
    )]
    Package,
    /// The content.
    #[sea_orm(has_one = "super::package_blobs::Entity")]
    Blob,
}

impl Related<packages::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Package.def()
    }
}

impl Related<super::package_blobs::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Blob.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the files of a package.
pub fn of_package(package_id: i64) -> Select<Entity> {
    Entity::find().filter(Column::PackageId.eq(package_id))
}

/// Returns the sum of the sizes, as `bigint`.
fn total_size() -> Expr {
    Expr::col((Entity, Column::Size)).sum().cast_as("bigint")
}

/// Returns the total sizes of the files of projects, in one statement, without entries for projects without files.
///
/// # Errors
/// Any database error.
pub async fn total_sizes(db: &impl ConnectionTrait, project_ids: &[i64]) -> Result<HashMap<i64, i64>, DbErr> {
    let project_id = packages::Column::ProjectId;
    let rows: Vec<(i64, i64)> = Entity::find()
        .select_only()
        .column_as(project_id, "project_id")
        .column_as(total_size(), "size")
        .join(JoinType::InnerJoin, Relation::Package.def())
        .filter(is_among(
            db.get_database_backend(),
            project_id.into_expr(),
            project_ids.iter().copied(),
        ))
        .group_by(project_id)
        .into_tuple()
        .all(db)
        .await?;
    Ok(rows.into_iter().collect())
}

/// Returns the total size of the files of a project, and the highest ID of these files. Both are 0 without files.
///
/// # Errors
/// Any database error.
pub async fn total_size_of_project(db: &impl ConnectionTrait, project_id: i64) -> Result<(i64, i64), DbErr> {
    let row: Option<(Option<i64>, Option<i64>)> = Entity::find()
        .select_only()
        .column_as(total_size(), "size")
        .column_as(Column::Id.max(), "newest")
        .join(JoinType::InnerJoin, Relation::Package.def())
        .filter(packages::Column::ProjectId.eq(project_id))
        .into_tuple()
        .one(db)
        .await?;
    let (size, newest) = row.unwrap_or_default();
    Ok((size.unwrap_or_default(), newest.unwrap_or_default()))
}

/// Returns the total size of the files of a project with IDs above `after`. Reads only files with such IDs.
///
/// # Errors
/// Any database error.
pub async fn total_size_after(db: &impl ConnectionTrait, project_id: i64, after: i64) -> Result<i64, DbErr> {
    // A join lets SQLite start with all packages of the project.
    let of_project = Query::select()
        .expr(Expr::val(1))
        .from(packages::Entity)
        .and_where(Expr::col((packages::Entity, packages::Column::Id)).equals((Entity, Column::PackageId)))
        .and_where(packages::Column::ProjectId.eq(project_id))
        .take();
    let size: Option<Option<i64>> = Entity::find()
        .select_only()
        .column_as(total_size(), "size")
        .filter(Column::Id.gt(after))
        .filter(Expr::exists(of_project))
        .into_tuple()
        .one(db)
        .await?;
    Ok(size.flatten().unwrap_or_default())
}

/// Returns the total sizes of the files of all projects in groups and their subgroups, in one statement, without entries
/// for groups without files.
///
/// # Errors
/// Any database error.
pub async fn total_sizes_of_groups(
    db: &impl ConnectionTrait,
    group_ids: &[i64],
) -> Result<HashMap<i64, i64>, DbErr> {
    use namespace_ancestors::Column as Ancestor;

    let of_project = packages::Entity::belongs_to(projects::Entity)
        .from(packages::Column::ProjectId)
        .to(projects::Column::Id)
        .into();
    let of_namespace = projects::Entity::belongs_to(namespace_ancestors::Entity)
        .from(projects::Column::NamespaceId)
        .to(Ancestor::NamespaceId)
        .into();
    let rows: Vec<(i64, i64)> = Entity::find()
        .select_only()
        .column_as(Ancestor::AncestorId, "group_id")
        .column_as(total_size(), "size")
        .join(JoinType::InnerJoin, Relation::Package.def())
        .join(JoinType::InnerJoin, of_project)
        .join(JoinType::InnerJoin, of_namespace)
        .filter(projects::Column::DeletionStartedAt.is_null())
        .filter(is_among(
            db.get_database_backend(),
            Ancestor::AncestorId.into_expr(),
            group_ids.iter().copied(),
        ))
        .group_by(Ancestor::AncestorId)
        .into_tuple()
        .all(db)
        .await?;
    Ok(rows.into_iter().collect())
}
