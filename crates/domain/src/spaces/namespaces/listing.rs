//! Reads of user and group namespaces.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder};
use storage::entities::access::{groups_with_level, visible_groups};
use storage::entities::namespaces::{self, Column};
use storage::entities::{AccessLevel, fold, now, users};

use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{contains, page_of};

/// A namespace, with its user if it is personal.
#[derive(Debug, Clone)]
pub struct NamespaceDetail {
    /// The namespace.
    pub namespace: namespaces::Model,
    /// The user; `None` for a group.
    pub owner: Option<users::Model>,
}

/// Filter of a list of namespaces; conditions are combined with AND.
#[derive(Debug, Clone, Default)]
pub struct NamespaceFilter {
    /// Part of the name or the full path.
    pub search: Option<String>,
    /// Whether to return only namespaces that the caller owns.
    pub owned_only: bool,
    /// Whether to return only top-level namespaces.
    pub top_level_only: bool,
}

/// Lists the namespaces in which the caller has a role; all namespaces for administrators.
///
/// # Errors
/// Returns `Unauthorized` without a caller.
pub async fn list(
    backend: &Backend,
    caller: &Caller,
    filter: &NamespaceFilter,
    page: &PageRequest,
) -> Result<Page<NamespaceDetail>> {
    let db = backend.database.read();
    let user = caller.signed_in()?;
    let least = match (filter.owned_only, user.admin) {
        (true, _) => Some(AccessLevel::Owner),
        (false, true) => None,
        (false, false) => Some(AccessLevel::Guest),
    };
    let found = |text: String| {
        Condition::any()
            .add(contains(Column::NameKey, &text))
            .add(contains(Column::FullPathKey, &text))
    };
    let search = filter.search.as_deref().map(fold).filter(|text| !text.is_empty());
    let condition = Condition::all()
        .add_option(least.map(|least| groups_with_level(user.id, least, now().date_naive())))
        .add_option(search.map(found))
        .add_option(filter.top_level_only.then(|| Column::ParentId.is_null()));
    let query = namespaces::not_deleted()
        .filter(condition)
        .order_by_asc(Column::Id);
    let page = page_of(db, query, page).await?;
    let mut owners = owners(db, &page.items).await?;
    Ok(page.map(|namespace| NamespaceDetail {
        owner: namespace.owner_id.and_then(|id| owners.remove(&id)),
        namespace,
    }))
}

/// Returns a namespace: the caller's own, or a group visible to the caller.
///
/// # Errors
/// Returns `NotFound` if the namespace does not exist or is not visible to the caller.
pub async fn get(backend: &Backend, caller: &Caller, reference: &str) -> Result<NamespaceDetail> {
    let db = backend.database.read();
    let user = caller.signed_in()?;
    let own = match user.admin {
        true => Column::OwnerId.is_not_null(),
        false => Column::OwnerId.eq(user.id),
    };
    let visible = Condition::any()
        .add(own)
        .add(visible_groups(caller.viewer(), now().date_naive()));
    let namespace = namespaces::not_deleted()
        .filter(namespaces::named(reference))
        .filter(visible)
        .one(db)
        .await?
        .ok_or_else(|| Error::not_found("Namespace"))?;
    let mut owners = owners(db, std::slice::from_ref(&namespace)).await?;
    Ok(NamespaceDetail {
        owner: namespace.owner_id.and_then(|id| owners.remove(&id)),
        namespace,
    })
}

/// Returns the owners of the personal namespaces among these, in one statement.
async fn owners(
    db: &impl ConnectionTrait,
    found: &[namespaces::Model],
) -> Result<HashMap<i64, users::Model>> {
    let ids = found.iter().filter_map(|namespace| namespace.owner_id);
    let owners = users::Entity::find()
        .filter(users::Column::Id.is_in(ids))
        .all(db)
        .await?;
    Ok(owners.into_iter().map(|user| (user.id, user)).collect())
}
