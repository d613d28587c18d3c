//! Names that projects and namespaces had in their parents before they were renamed or transferred.
//!
//! A row belongs to the parent, so a rename adds one row, and a later rename of the parent needs no other rows. A lookup
//! follows the names from the longest path that exists. Current names have precedence over former ones.

use chrono::{DateTime, Utc};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{ExprTrait, QueryOrder};

use super::{fold, namespaces, now, numeric_id, projects};

/// Maximum number of former names in one path.
const MAX_FORMER_NAMES: usize = 5;
/// Maximum number of segments of a path.
const MAX_SEGMENTS: usize = 22;

/// Former names of projects and namespaces.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "former_paths")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The namespace that contained it; none at the top level.
    pub parent_id: Option<i64>,
    /// The folded last component of the path.
    pub path_key: String,
    /// The project that had the name.
    pub project_id: Option<i64>,
    /// The namespace that had the name.
    pub namespace_id: Option<i64>,
    /// When it got another name or parent.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Records the former name of a project in a namespace, in place of other projects and namespaces that had it before.
///
/// # Errors
/// Any database error.
pub async fn record_project(
    db: &impl ConnectionTrait,
    namespace_id: i64,
    path: &str,
    project_id: i64,
) -> Result<(), DbErr> {
    record(db, (Some(namespace_id), path), (Some(project_id), None)).await
}

/// As [`record_project`], for a namespace.
///
/// # Errors
/// Any database error.
pub async fn record_namespace(
    db: &impl ConnectionTrait,
    parent_id: Option<i64>,
    path: &str,
    namespace_id: i64,
) -> Result<(), DbErr> {
    record(db, (parent_id, path), (None, Some(namespace_id))).await
}

async fn record(
    db: &impl ConnectionTrait,
    (parent_id, path): (Option<i64>, &str),
    (project_id, namespace_id): (Option<i64>, Option<i64>),
) -> Result<(), DbErr> {
    let path_key = fold(path);
    Entity::delete_many()
        .filter(of_name(parent_id, &path_key))
        .exec(db)
        .await?;
    let row = ActiveModel {
        parent_id: Set(parent_id),
        path_key: Set(path_key),
        project_id: Set(project_id),
        namespace_id: Set(namespace_id),
        created_at: Set(now()),
        ..Default::default()
    };
    row.insert(db).await?;
    Ok(())
}

fn of_name(parent_id: Option<i64>, path_key: &str) -> Expr {
    let parent = match parent_id {
        Some(id) => Column::ParentId.eq(id),
        None => Column::ParentId.is_null(),
    };
    parent.and(Column::PathKey.eq(path_key))
}

/// Returns the project of a full path that contains former names.
///
/// # Errors
/// Any database error.
pub async fn current_project(db: &impl ConnectionTrait, full_path: &str) -> Result<Option<i64>, DbErr> {
    current(db, Target::Project, full_path).await
}

/// Returns the namespace of a full path that contains former names.
///
/// # Errors
/// Any database error.
pub async fn current_namespace(db: &impl ConnectionTrait, full_path: &str) -> Result<Option<i64>, DbErr> {
    if numeric_id(full_path).is_some() {
        return Ok(None);
    }
    current(db, Target::Namespace, full_path).await
}

/// What a path names.
#[derive(Debug, Clone, Copy)]
enum Target {
    /// A project.
    Project,
    /// A group, or the personal namespace of a user.
    Namespace,
}

impl Target {
    /// Returns the ID of the target with this current path.
    async fn at(self, db: &impl ConnectionTrait, path: &str) -> Result<Option<i64>, DbErr> {
        Ok(match self {
            Self::Project => projects::by_reference(db, path).await?.map(|(found, _)| found.id),
            Self::Namespace => namespaces::by_full_path(db, path).await?.map(|found| found.id),
        })
    }
}

async fn current(db: &impl ConnectionTrait, target: Target, full_path: &str) -> Result<Option<i64>, DbErr> {
    let mut path = fold(full_path);
    for _ in 0..MAX_FORMER_NAMES {
        match follow(db, &path).await? {
            Some(Followed::Last(last)) => {
                return Ok(match target {
                    Target::Project => last.project_id,
                    Target::Namespace => last.namespace_id,
                });
            }
            Some(Followed::Below(current)) => path = current,
            None => return Ok(None),
        }
        if let Some(id) = target.at(db, &path).await? {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// Result of the replacement of one former name.
enum Followed {
    /// The last name of the path is a former one.
    Last(Model),
    /// Another name was that of a namespace; contains the path with its current path.
    Below(String),
}

/// Replaces the first name of a path that is not a current one.
async fn follow(db: &impl ConnectionTrait, path: &str) -> Result<Option<Followed>, DbErr> {
    let starts: Vec<&str> = path
        .match_indices('/')
        .take(MAX_SEGMENTS)
        .filter_map(|(end, _)| path.get(..end))
        .collect();
    let existing = namespaces::not_deleted()
        .filter(namespaces::Column::FullPathKey.is_in(starts))
        .all(db)
        .await?;
    let parent = existing.into_iter().max_by_key(|found| found.full_path_key.len());
    let rest = match &parent {
        Some(parent) => path
            .strip_prefix(parent.full_path_key.as_str())
            .map_or(path, |rest| rest.trim_start_matches('/')),
        None => path,
    };
    let (name, below) = match rest.split_once('/') {
        Some((name, below)) => (name, Some(below)),
        None => (rest, None),
    };
    let found = Entity::find()
        .filter(of_name(parent.map(|parent| parent.id), name))
        .order_by_desc(Column::Id)
        .one(db)
        .await?;
    let (Some(found), Some(below)) = (&found, below) else {
        return Ok(found.map(Followed::Last));
    };
    let Some(namespace_id) = found.namespace_id else {
        return Ok(None);
    };
    let namespace = namespaces::Entity::find_by_id(namespace_id).one(db).await?;
    Ok(namespace.map(|namespace| Followed::Below(format!("{}/{below}", namespace.full_path_key))))
}
