//! Groups that contain a project or that it is shared with.

use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait};
use storage::entities::access::visible_groups;
use storage::entities::namespaces::{self, Column};
use storage::entities::{AccessLevel, namespace_ancestors, now, project_shares, unexpired};

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_of;
use crate::spaces::namespaces::{full_names, with_text};

/// Filter of the groups of a project; conditions are combined with AND.
#[derive(Debug, Clone, Default)]
pub struct ProjectGroupFilter {
    /// Part of the name or the full path.
    pub search: Option<String>,
    /// IDs of groups to omit.
    pub skip: Vec<i64>,
    /// Whether to include the groups that the project is shared with.
    pub with_shared: bool,
    /// The least access level of a share.
    pub least_share: Option<AccessLevel>,
}

/// A group with the names of its ancestors.
#[derive(Debug, Clone)]
pub struct ProjectGroup {
    /// The group.
    pub group: namespaces::Model,
    /// Its name and those of its ancestors, separated by ` / `.
    pub full_name: String,
}

/// Returns a page of the groups of a project that the caller can see, by ID.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list_groups(
    backend: &Backend,
    access: &ProjectAccess,
    filter: &ProjectGroupFilter,
    page: &PageRequest,
) -> Result<Page<ProjectGroup>> {
    let db = backend.database.read();
    let today = now().date_naive();
    let above = namespace_ancestors::at_or_above(access.namespace.id);
    let shared = project_shares::Entity::find()
        .select_only()
        .column(project_shares::Column::GroupId)
        .filter(project_shares::Column::ProjectId.eq(access.project.id))
        .filter(unexpired(project_shares::Column::ExpiresAt, today))
        .filter(
            Condition::all().add_option(
                filter
                    .least_share
                    .map(|least| project_shares::Column::AccessLevel.gte(least)),
            ),
        );
    let shared = filter
        .with_shared
        .then(|| Column::Id.in_subquery(shared.into_query()));
    let search = filter.search.as_deref().and_then(with_text);
    let groups = namespaces::not_deleted()
        .filter(
            Condition::any()
                .add(Column::Id.in_subquery(above))
                .add_option(shared),
        )
        .filter(Column::Id.is_not_in(filter.skip.iter().copied()))
        .filter(Condition::all().add_option(search))
        // Personal namespaces are not groups.
        .filter(visible_groups(access.caller.viewer(), today))
        .order_by_asc(Column::Id);
    let found = page_of(db, groups, page).await?;
    let mut names = full_names(db, found.items.iter().map(|group| group.id)).await?;
    Ok(found.map(|group| ProjectGroup {
        full_name: names.remove(&group.id).unwrap_or_default(),
        group,
    }))
}
