//! Direct memberships of a user in groups and projects.

use std::collections::HashMap;

use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, JoinType, QueryFilter, QueryOrder, QuerySelect, RelationTrait,
};
use storage::entities::members::{self, Column, Relation};
use storage::entities::{AccessLevel, namespaces, projects};

use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_of;

pub use storage::entities::members::MembershipSource;

/// A direct membership with the name of its group or project.
#[derive(Debug, Clone)]
pub struct NamedMembership {
    /// The group or project.
    pub source: MembershipSource,
    /// The name.
    pub name: String,
    /// The role.
    pub access_level: AccessLevel,
}

/// Filter of a list of memberships.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MembershipFilter {
    /// All memberships.
    Any,
    /// Memberships in groups.
    Groups,
    /// Memberships in projects.
    Projects,
}

/// Lists a user's direct memberships in the order of joining. Groups and projects that are being deleted are
/// omitted.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn list(
    backend: &Backend,
    user_id: i64,
    filter: MembershipFilter,
    page: &PageRequest,
) -> Result<Page<NamedMembership>> {
    let db = backend.database.read();
    let rows = members::Entity::find()
        .join(JoinType::LeftJoin, Relation::Project.def())
        .join(JoinType::LeftJoin, Relation::Group.def())
        .filter(Column::UserId.eq(user_id))
        .filter(projects::Column::DeletionStartedAt.is_null())
        .filter(namespaces::Column::DeletionStartedAt.is_null())
        .order_by_asc(Column::Id);
    let rows = match filter {
        MembershipFilter::Any => rows,
        MembershipFilter::Groups => rows.filter(Column::NamespaceId.is_not_null()),
        MembershipFilter::Projects => rows.filter(Column::ProjectId.is_not_null()),
    };
    let found = page_of(db, rows, page).await?;
    let mut projects = project_names(db, found.items.iter().filter_map(|row| row.project_id)).await?;
    let mut groups = group_names(db, found.items.iter().filter_map(|row| row.namespace_id)).await?;
    Ok(found.map(|row| {
        let (source, name) = match (row.project_id, row.namespace_id) {
            (Some(id), _) => (MembershipSource::Project(id), projects.remove(&id)),
            (None, id) => {
                let id = id.unwrap_or_default();
                (MembershipSource::Group(id), groups.remove(&id))
            }
        };
        NamedMembership {
            source,
            name: name.unwrap_or_default(),
            access_level: row.access_level,
        }
    }))
}

async fn project_names(
    db: &impl ConnectionTrait,
    ids: impl Iterator<Item = i64>,
) -> Result<HashMap<i64, String>> {
    let rows: Vec<(i64, String)> = projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .column(projects::Column::Name)
        .filter(projects::Column::Id.is_in(ids))
        .into_tuple()
        .all(db)
        .await?;
    Ok(rows.into_iter().collect())
}

async fn group_names(
    db: &impl ConnectionTrait,
    ids: impl Iterator<Item = i64>,
) -> Result<HashMap<i64, String>> {
    let rows: Vec<(i64, String)> = namespaces::Entity::find()
        .select_only()
        .column(namespaces::Column::Id)
        .column(namespaces::Column::Name)
        .filter(namespaces::Column::Id.is_in(ids))
        .into_tuple()
        .all(db)
        .await?;
    Ok(rows.into_iter().collect())
}
