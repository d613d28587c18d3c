//! Lists of groups.

use std::collections::{BTreeMap, HashMap};

use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, ExprTrait, FromQueryResult, JoinType, QueryFilter,
    QueryOrder, QuerySelect, Select,
};
use storage::entities::access::{Viewer, groups_with_level, visible_groups};
use storage::entities::custom_attributes::Column as Attribute;
use storage::entities::namespaces::{self, Column};
use storage::entities::{AccessLevel, fold, namespace_ancestors, now, package_files, projects};

use super::GroupSummary;
use crate::accounts::custom_attributes;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{contains, page_of};
use crate::spaces::namespaces::full_names;

/// Sort order of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupOrder {
    /// By name.
    #[default]
    Name,
    /// By the last part of the path.
    Path,
    /// By ID.
    Id,
}

/// Part of the group hierarchy to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HierarchyPart {
    /// All groups.
    #[default]
    Everything,
    /// Direct subgroups of this group.
    Parent(i64),
    /// All descendants of this group.
    Ancestor(i64),
}

/// Filter of groups, combined with AND.
#[derive(Debug, Clone, Default)]
pub struct GroupFilter {
    /// Part of the hierarchy.
    pub within: HierarchyPart,
    /// IDs of groups to exclude.
    pub skip_groups: Vec<i64>,
    /// Whether all visible groups are included, not only those of which the caller is a member. Defaults to
    /// true for administrators and anonymous callers.
    pub all_available: Option<bool>,
    /// Text that the name or path contains.
    pub search: Option<String>,
    /// Whether only groups are included of which the caller is an Owner.
    pub owned: bool,
    /// Minimum access level of the caller.
    pub min_access_level: Option<i64>,
    /// Whether only top-level groups are included.
    pub top_level_only: bool,
    /// Only groups with all of these attributes; ignored unless the caller is an administrator.
    pub custom_attributes: BTreeMap<String, String>,
    /// Whether sizes are included, for administrators.
    pub statistics: bool,
    /// Sort order.
    pub order: GroupOrder,
    /// Whether the order is descending.
    pub descending: bool,
}

/// Storage used by the projects of a group, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StorageSizes {
    /// Size of the repositories.
    pub repository_size: i64,
    /// Size of the files of packages.
    pub packages_size: i64,
}

/// Returns a page of groups.
///
/// # Errors
/// Returns a validation error for too many custom attributes, and an error if the database fails.
pub async fn list(
    backend: &Backend,
    caller: &Caller,
    filter: &GroupFilter,
    page: &PageRequest,
) -> Result<Page<GroupSummary>> {
    custom_attributes::check_filter(&filter.custom_attributes)?;
    let db = backend.database.read();
    let page = page_of(db, filter.select(caller), page).await?;
    let ids: Vec<i64> = page.items.iter().map(|group| group.id).collect();
    let mut names = full_names(db, ids.iter().copied()).await?;
    let sizes = match filter.statistics && caller.is_admin() {
        true => Some(sizes(db, &ids).await?),
        false => None,
    };
    Ok(page.map(|group| GroupSummary {
        full_name: names.remove(&group.id).unwrap_or_default(),
        sizes: sizes
            .as_ref()
            .map(|sizes| sizes.get(&group.id).copied().unwrap_or_default()),
        group,
    }))
}

impl GroupFilter {
    fn select(&self, caller: &Caller) -> Select<namespaces::Entity> {
        let direction = if self.descending {
            sea_orm::Order::Desc
        } else {
            sea_orm::Order::Asc
        };
        let column = match self.order {
            GroupOrder::Name => Column::NameKey,
            GroupOrder::Path => Column::PathKey,
            GroupOrder::Id => Column::Id,
        };
        let role_condition = self.role_condition(caller);
        // A role on a group implies that the group is visible.
        let viewer = role_condition.as_ref().map_or(caller.viewer(), |_| Viewer::Admin);
        let attributes = caller
            .is_admin()
            .then(|| custom_attributes::has_all(&self.custom_attributes, Column::Id, Attribute::NamespaceId))
            .flatten();
        let select = namespaces::Entity::find()
            .filter(visible_groups(viewer, now().date_naive()))
            .filter(Condition::all().add_option(role_condition).add_option(attributes))
            .filter(self.of_group())
            .order_by(column, direction);
        match self.order {
            GroupOrder::Id => select,
            _ => select.order_by_asc(Column::Id),
        }
    }

    /// Returns the condition for the required role, or for any role if not all visible groups are included.
    fn role_condition(&self, caller: &Caller) -> Option<Condition> {
        let level = self.min_access_level.and_then(AccessLevel::from_number);
        let least = if self.owned {
            Some(AccessLevel::Owner)
        } else {
            level
        };
        let Some(user) = caller.as_user() else {
            let never = || Condition::all().add(Expr::val(1).eq(0));
            return least.map(|_| never());
        };
        let all = self.all_available.unwrap_or(user.admin);
        let least = least.or((!all).then_some(AccessLevel::Guest));
        least.map(|least| groups_with_level(user.id, least, now().date_naive()))
    }

    fn of_group(&self) -> Condition {
        let found = |text: String| {
            Condition::any()
                .add(contains(Column::NameKey, &text))
                .add(contains(Column::PathKey, &text))
        };
        let search = self.search.as_deref().map(fold).filter(|text| !text.is_empty());
        let skipped =
            (!self.skip_groups.is_empty()).then(|| Column::Id.is_not_in(self.skip_groups.iter().copied()));
        let within = match self.within {
            HierarchyPart::Everything => None,
            HierarchyPart::Parent(id) => Some(Column::ParentId.eq(id)),
            HierarchyPart::Ancestor(id) => {
                let inside = Column::Id.in_subquery(namespace_ancestors::at_or_below(id));
                Some(inside.and(Column::Id.ne(id)))
            }
        };
        Condition::all()
            .add_option(within)
            .add_option(skipped)
            .add_option(search.map(found))
            .add_option(self.top_level_only.then(|| Column::ParentId.is_null()))
    }
}

#[derive(FromQueryResult)]
struct SizeSum {
    group_id: i64,
    repository_size: i64,
}

/// Returns the total sizes of all projects in groups and their subgroups, in two statements.
pub(super) async fn sizes(db: &impl ConnectionTrait, ids: &[i64]) -> Result<HashMap<i64, StorageSizes>> {
    use namespace_ancestors::Column as Ancestor;

    let within = namespace_ancestors::Entity::belongs_to(projects::Entity)
        .from(Ancestor::NamespaceId)
        .to(projects::Column::NamespaceId)
        .into();
    let sum = Expr::col((projects::Entity, projects::Column::RepositorySize))
        .sum()
        .cast_as("bigint");
    let rows = namespace_ancestors::Entity::find()
        .select_only()
        .column_as(Ancestor::AncestorId, "group_id")
        .column_as(sum, "repository_size")
        .join(JoinType::InnerJoin, within)
        .filter(Ancestor::AncestorId.is_in(ids.iter().copied()))
        .filter(projects::Column::DeletionStartedAt.is_null())
        .group_by(Ancestor::AncestorId)
        .into_model::<SizeSum>()
        .all(db)
        .await?;
    let packages = package_files::total_sizes_of_groups(db, ids).await?;
    let sizes = rows.into_iter().map(|row| {
        let sizes = StorageSizes {
            repository_size: row.repository_size,
            packages_size: packages.get(&row.group_id).copied().unwrap_or_default(),
        };
        (row.group_id, sizes)
    });
    Ok(sizes.collect())
}
