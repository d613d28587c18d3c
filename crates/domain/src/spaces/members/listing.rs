//! Lists of members: direct ones, and those with a role from any source, each user once.

use std::collections::HashMap;

use chrono::NaiveDate;
use sea_orm::sea_query::{Expr, Func, Order, Query, SelectStatement, UnionType, WindowStatement};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, ExprTrait, FromQueryResult, JoinType, QueryFilter,
    QuerySelect, QueryTrait,
};
use storage::entities::access::{Viewer, visible_groups};
use storage::entities::columns;
use storage::entities::members::{self, MembershipSource};
use storage::entities::{
    AccessLevel, group_shares, namespace_ancestors, namespaces, now, project_shares, unexpired, users,
};

use super::{MemberSource, Membership, identities};
use crate::accounts::users::listing::{SearchableAddresses, matching};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::count_for_page;

/// Filter of a list of members.
#[derive(Debug, Clone, Default)]
pub struct MemberFilter {
    /// Part of the name or user name, or the whole primary email address. An empty text matches all users.
    /// Unconfirmed addresses match only for administrators, and no addresses for anonymous callers.
    pub query: Option<String>,
    /// Only these users.
    pub user_ids: Option<Vec<i64>>,
}

impl MemberFilter {
    /// Returns the filter as a condition on `users`.
    fn condition(&self, caller: &Caller) -> Condition {
        let mut condition = Condition::all();
        if let Some(query) = self.query.as_deref().filter(|query| !query.is_empty()) {
            condition = condition.add(matching(query, SearchableAddresses::of(caller)));
        }
        if let Some(ids) = &self.user_ids {
            condition = condition.add(users::Column::Id.is_in(ids.iter().copied()));
        }
        condition
    }
}

/// Lists the direct members in the order they were added.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn list(
    backend: &Backend,
    member_source: &MemberSource,
    filter: &MemberFilter,
    page: &PageRequest,
) -> Result<Page<Membership>> {
    let db = backend.database.read();
    let select =
        members::of(member_source.source, now().date_naive()).filter(filter.condition(&member_source.caller));
    let all = select.clone().into_query();
    let rows = select.offset(page.offset()).limit(page.limit() + 1);
    let rows = columns::all_joined(db, rows).await?;
    let total = count_for_page(db, page, rows.len(), all).await?;
    let found = rows
        .into_iter()
        .filter_map(|(member, user)| Some(Membership::new(member, user?)));
    let mut page = Page::new(page, found.collect(), total);
    identities::add_identities(backend, member_source, &mut page.items).await?;
    Ok(page)
}

/// Returns a direct member.
///
/// # Errors
/// Returns `NotFound` if the user is not a direct member.
pub async fn get_direct(backend: &Backend, member_source: &MemberSource, user_id: i64) -> Result<Membership> {
    single(list(backend, member_source, &filter_by_user(user_id), &ONE).await?)
}

/// Lists all users with a role here, each once. A role in the project applies first, then the one from the
/// nearest ancestor group. Otherwise the highest role from a group that the project or an ancestor is shared
/// with applies, limited by the share. Groups that are not visible to the caller are omitted, with their
/// members.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn list_all(
    backend: &Backend,
    member_source: &MemberSource,
    filter: &MemberFilter,
    page: &PageRequest,
) -> Result<Page<Membership>> {
    let db = backend.database.read();
    let mut query = with_nearest_role(member_source, filter, now().date_naive());
    let all = query.clone();
    query
        .order_by((users::Entity, users::Column::Id), Order::Asc)
        .offset(page.offset())
        .limit(page.limit() + 1);
    let rows = db.query_all(&query).await?.into_iter();
    let found = rows.map(|row| {
        let nearest = NearestMembership::from_query_result(&row, NEAREST_PREFIX)?;
        Ok(Membership {
            user: users::Model::from_query_result(&row, "")?,
            access_level: nearest.access_level,
            expires_at: nearest.expires_at,
            overridden: nearest.ldap.then_some(nearest.r#override),
            identity: None,
        })
    });
    let found = found.collect::<Result<Vec<_>>>()?;
    let total = count_for_page(db, page, found.len(), all).await?;
    let mut page = Page::new(page, found, total);
    identities::add_identities(backend, member_source, &mut page.items).await?;
    Ok(page)
}

/// Returns a user with a role here.
///
/// # Errors
/// Returns `NotFound` if the user has no role.
pub async fn get_any(backend: &Backend, member_source: &MemberSource, user_id: i64) -> Result<Membership> {
    single(list_all(backend, member_source, &filter_by_user(user_id), &ONE).await?)
}

/// The page of a list with at most one entry.
const ONE: PageRequest = PageRequest {
    number: 1,
    size: 1,
    keyset: false,
};

fn filter_by_user(user_id: i64) -> MemberFilter {
    MemberFilter {
        user_ids: Some(vec![user_id]),
        ..Default::default()
    }
}

fn single(found: Page<Membership>) -> Result<Membership> {
    found.items.into_iter().next().ok_or_else(|| Error::not_found(""))
}

/// The membership that applies to a user.
#[derive(FromQueryResult)]
struct NearestMembership {
    access_level: AccessLevel,
    expires_at: Option<NaiveDate>,
    ldap: bool,
    r#override: bool,
}

/// Prefix of the membership columns in a row with the columns of the user.
const NEAREST_PREFIX: &str = "nearest_";
const NEAREST: &str = "nearest";
const MEMBER: &str = "member";
const ABOVE: &str = "above";
const SHARE: &str = "share";
const GUEST: &str = "guest";
/// Distance of shares: larger than that of any ancestor group.
const SHARED: i32 = 1_000_000;

/// Selects the users with a role, with the columns of the membership that applies to each. It is one
/// statement regardless of the depth of the hierarchy and the number of shares.
fn with_nearest_role(source: &MemberSource, filter: &MemberFilter, today: NaiveDate) -> SelectStatement {
    let sources = sources(MemberScope::from(source), filter.user_ids.as_deref(), today);
    let window = WindowStatement::partition_by("user_id")
        .order_by("distance", Order::Asc)
        .order_by("access_level", Order::Desc)
        .take();
    let ranked = Query::select()
        .columns(["user_id", "access_level", "expires_at", "ldap", "override"])
        .expr_window_as(Func::cust("ROW_NUMBER"), window, "place")
        .from_subquery(sources, "sources")
        .take();
    let mut query = users::Entity::find()
        .filter(filter.condition(&source.caller))
        .into_query();
    query.join_subquery(
        JoinType::InnerJoin,
        ranked,
        NEAREST,
        Expr::col((NEAREST, "user_id")).eq(Expr::col((users::Entity, users::Column::Id))),
    );
    for column in ["access_level", "expires_at", "ldap", "override"] {
        query.expr_as(Expr::col((NEAREST, column)), format!("{NEAREST_PREFIX}{column}"));
    }
    query.and_where(Expr::col((NEAREST, "place")).eq(1)).take()
}

/// Project or group whose roles are searched.
#[derive(Debug, Clone, Copy)]
struct MemberScope {
    source: MembershipSource,
    /// The group, or the namespace of the project.
    namespace_id: i64,
    /// The user who reads the list.
    viewer: Viewer,
}

impl From<&MemberSource> for MemberScope {
    fn from(member_source: &MemberSource) -> Self {
        Self {
            source: member_source.source,
            namespace_id: member_source.namespace.id,
            viewer: member_source.caller.viewer(),
        }
    }
}

/// Returns the highest roles of at most `most` users in a project or group, from any source, as they apply to
/// permissions. If `only` is given, other users are excluded.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn roles(
    db: &impl ConnectionTrait,
    source: MembershipSource,
    namespace: &namespaces::Model,
    only: Option<&[i64]>,
    most: u64,
) -> Result<HashMap<i64, AccessLevel>> {
    let scope = MemberScope {
        source,
        namespace_id: namespace.id,
        viewer: Viewer::Admin,
    };
    let statement = Query::select()
        .column("user_id")
        .expr_as(Expr::col("access_level").max(), "access_level")
        .from_subquery(sources(scope, only, now().date_naive()), "sources")
        .group_by_col("user_id")
        .order_by("user_id", Order::Asc)
        .limit(most)
        .take();
    let mut roles = HashMap::new();
    for row in db.query_all(&statement).await? {
        let level = AccessLevel::try_from(row.try_get::<i32>("", "access_level")?);
        roles.insert(row.try_get("", "user_id")?, level.map_err(Error::internal)?);
    }
    let owner = namespace
        .owner_id
        .filter(|id| only.is_none_or(|only| only.contains(id)));
    roles.extend(owner.map(|id| (id, AccessLevel::Owner)));
    Ok(roles)
}

/// Returns a condition on `users` for users with at least a role in a project, from any source, as it applies to
/// permissions.
pub(crate) fn users_with_role(access: &ProjectAccess, least: AccessLevel) -> Condition {
    let scope = MemberScope {
        source: MembershipSource::Project(access.project.id),
        namespace_id: access.namespace.id,
        viewer: Viewer::Admin,
    };
    let ids = Query::select()
        .column("user_id")
        .from_subquery(sources(scope, None, now().date_naive()), "sources")
        .and_where(Expr::col("access_level").gte(i32::from(least)))
        .take();
    let owner = access.namespace.owner_id.map(|id| users::Column::Id.eq(id));
    Condition::any()
        .add_option(owner)
        .add(users::Column::Id.in_subquery(ids))
}

/// Selects all memberships that apply. A user can occur more than once.
fn sources(scope: MemberScope, only: Option<&[i64]>, today: NaiveDate) -> SelectStatement {
    let mut sources = inherited(scope, only, today);
    sources.union(UnionType::All, shared_above(scope, only, today));
    if let MembershipSource::Project(id) = scope.source {
        sources.union(UnionType::All, own(id, only, today));
        sources.union(UnionType::All, shared(id, scope.viewer, only, today));
    }
    sources
}

/// Adds the columns of every source: user, role, last day, directory state, distance. If `only` is given,
/// rows of other users are not read.
fn columns(
    from: &mut SelectStatement,
    level: Expr,
    distance: Expr,
    only: Option<&[i64]>,
    today: NaiveDate,
) -> SelectStatement {
    let user = || Expr::col((MEMBER, members::Column::UserId));
    from.expr_as(user(), "user_id")
        .expr_as(level, "access_level")
        .expr_as(Expr::col((MEMBER, members::Column::ExpiresAt)), "expires_at")
        .expr_as(Expr::col((MEMBER, members::Column::Ldap)), "ldap")
        .expr_as(Expr::col((MEMBER, members::Column::Override)), "override")
        .expr_as(distance, "distance")
        .cond_where(unexpired((MEMBER, members::Column::ExpiresAt), today));
    if let Some(only) = only {
        from.and_where(user().is_in(only.iter().copied()));
    }
    from.take()
}

fn level() -> Expr {
    Expr::col((MEMBER, members::Column::AccessLevel))
}

/// The member's role, limited by the given column with the role of the share.
fn limited_by_share(share: Expr) -> Expr {
    Expr::case(level().lt(share.clone()), level())
        .finally(share)
        .into()
}

/// Selects direct memberships of the project.
fn own(project_id: i64, only: Option<&[i64]>, today: NaiveDate) -> SelectStatement {
    let from = &mut Query::select();
    from.from_as(members::Entity, MEMBER)
        .and_where(Expr::col((MEMBER, members::Column::ProjectId)).eq(project_id));
    columns(from, level(), Expr::val(-1), only, today)
}

/// Selects memberships of the group, or the project's group, and of its ancestors.
fn inherited(scope: MemberScope, only: Option<&[i64]>, today: NaiveDate) -> SelectStatement {
    let from = &mut line(scope);
    join_members(from, ABOVE);
    let distance = Expr::col((ABOVE, namespace_ancestors::Column::Depth));
    columns(from, level(), distance, only, today)
}

/// Selects memberships of groups that the group, the project's group or an ancestor is shared with, including
/// ancestors of those groups.
fn shared_above(scope: MemberScope, only: Option<&[i64]>, today: NaiveDate) -> SelectStatement {
    use group_shares::Column as Share;

    let from = &mut line(scope);
    let of_line = Expr::col((SHARE, Share::NamespaceId))
        .eq(Expr::col((ABOVE, namespace_ancestors::Column::AncestorId)));
    from.join_as(JoinType::InnerJoin, group_shares::Entity, SHARE, of_line)
        .cond_where(unexpired((SHARE, Share::ExpiresAt), today));
    join_guests(from, Expr::col((SHARE, Share::WithGroupId)), scope.viewer, today);
    let level = limited_by_share(Expr::col((SHARE, Share::AccessLevel)));
    columns(from, level, Expr::val(SHARED), only, today)
}

/// Selects memberships of groups that the project is shared with, and of their ancestors.
fn shared(project_id: i64, viewer: Viewer, only: Option<&[i64]>, today: NaiveDate) -> SelectStatement {
    use project_shares::Column as Share;

    let from = &mut Query::select();
    from.from_as(project_shares::Entity, SHARE)
        .and_where(Expr::col((SHARE, Share::ProjectId)).eq(project_id))
        .cond_where(unexpired((SHARE, Share::ExpiresAt), today));
    join_guests(from, Expr::col((SHARE, Share::GroupId)), viewer, today);
    let level = limited_by_share(Expr::col((SHARE, Share::AccessLevel)));
    columns(from, level, Expr::val(SHARED), only, today)
}

/// Selects the namespace and its ancestors.
fn line(scope: MemberScope) -> SelectStatement {
    Query::select()
        .from_as(namespace_ancestors::Entity, ABOVE)
        .and_where(Expr::col((ABOVE, namespace_ancestors::Column::NamespaceId)).eq(scope.namespace_id))
        .take()
}

/// Joins the members of the group in this column and of its ancestors, if the group is visible to the viewer.
fn join_guests(from: &mut SelectStatement, group: Expr, viewer: Viewer, today: NaiveDate) {
    let above = Expr::col((GUEST, namespace_ancestors::Column::NamespaceId)).eq(group.clone());
    from.join_as(JoinType::InnerJoin, namespace_ancestors::Entity, GUEST, above);
    let seen = namespaces::Entity::find()
        .select_only()
        .column(namespaces::Column::Id)
        .filter(visible_groups(viewer, today))
        .into_query();
    from.and_where(group.in_subquery(seen));
    join_members(from, GUEST);
}

/// Joins the members of the groups in a line of ancestors.
fn join_members(from: &mut SelectStatement, line: &'static str) {
    let of_group = Expr::col((MEMBER, members::Column::NamespaceId))
        .eq(Expr::col((line, namespace_ancestors::Column::AncestorId)));
    from.join_as(JoinType::InnerJoin, members::Entity, MEMBER, of_group);
}
