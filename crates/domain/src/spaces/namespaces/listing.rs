//! Reads of user and group namespaces.

use sea_orm::{ColumnTrait, Condition, ConnectionTrait, QueryFilter, QueryOrder};
use storage::entities::access::{groups_with_level, visible_groups};
use storage::entities::namespaces::{self, Column};
use storage::entities::related_rows::{RelatedRowSets, RelatedRows};
use storage::entities::users::UserSummary;
use storage::entities::{AccessLevel, fold, now};

use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{contains, uncounted_page_of};

/// A namespace, with its user if it is personal.
#[derive(Debug, Clone)]
pub struct NamespaceDetail {
    /// The namespace.
    pub namespace: namespaces::Model,
    /// The user; `None` for a group.
    pub owner: Option<UserSummary>,
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
    let search = filter.search.as_deref().and_then(with_text);
    let condition = Condition::all()
        .add_option(least.map(|least| groups_with_level(user.id, least, now().date_naive())))
        .add_option(search)
        .add_option(filter.top_level_only.then(|| Column::ParentId.is_null()));
    let query = namespaces::not_deleted()
        .filter(condition)
        .order_by_asc(Column::Id);
    let (found, total) = uncounted_page_of(db, query, page).await?;
    let mut related = RelatedRows::default();
    let counted = related.add(total.part());
    let (items, mut rows) = load_details(db, found, related).await?;
    Ok(Page {
        items,
        rest: total.position(&rows.take(counted)),
    })
}

/// Returns a condition for namespaces with a text in their name or full path; none if the text is empty.
pub(crate) fn with_text(text: &str) -> Option<Condition> {
    let text = fold(text);
    (!text.is_empty()).then(|| {
        Condition::any()
            .add(contains(Column::NameKey, &text))
            .add(contains(Column::FullPathKey, &text))
    })
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
    let (details, _) = load_details(db, vec![namespace], RelatedRows::default()).await?;
    let detail = details.into_iter().next();
    detail.ok_or_else(|| Error::not_found("Namespace"))
}

/// Adds the owners of personal namespaces, in one statement with the parts of `related`.
async fn load_details(
    db: &impl ConnectionTrait,
    found: Vec<namespaces::Model>,
    mut related: RelatedRows,
) -> Result<(Vec<NamespaceDetail>, RelatedRowSets)> {
    let ids = found.iter().filter_map(|namespace| namespace.owner_id);
    let owners = related.add(UserSummary::part(db.get_database_backend(), ids));
    let mut rows = related.load(db).await?;
    let mut owners = rows.take_by_owner(owners, UserSummary::read)?;
    let details = found.into_iter().map(|namespace| NamespaceDetail {
        owner: namespace.owner_id.and_then(|id| owners.remove(&id)),
        namespace,
    });
    Ok((details.collect(), rows))
}
