//! Reading members: direct ones, and those with a role from anywhere, each user once.

use std::collections::HashMap;

use chrono::NaiveDate;
use sea_orm::sea_query::{
    Expr, Func, IntoColumnRef, Order, Query, SelectStatement, UnionType, WindowStatement,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, ExprTrait, FromQueryResult, JoinType, QueryFilter,
    QuerySelect, QueryTrait,
};

use super::{Membership, Place};
use crate::api::types::{Page, PageRequest};
use crate::entities::members::{self, Source};
use crate::entities::{AccessLevel, fold, namespace_ancestors, now, project_shares, users};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::listing::{bounded_count, containing, lower_contains};

/// Which members are wanted.
#[derive(Debug, Clone, Default)]
pub struct MemberFilter {
    /// Part of the name or user name, or the whole mail address; empty is no filter.
    pub query: Option<String>,
    /// These users only.
    pub user_ids: Option<Vec<i64>>,
}

impl MemberFilter {
    /// As a condition on `users`.
    fn condition(&self) -> Condition {
        let mut condition = Condition::all();
        if let Some(query) = self.query.as_deref().map(fold).filter(|query| !query.is_empty()) {
            let username = Expr::col((users::Entity, users::Column::UsernameKey));
            condition = condition.add(
                Condition::any()
                    .add(lower_contains((users::Entity, users::Column::Name), &query))
                    .add(username.like(containing(&query)))
                    .add(users::Column::EmailKey.eq(query)),
            );
        }
        if let Some(ids) = &self.user_ids {
            condition = condition.add(users::Column::Id.is_in(ids.iter().copied()));
        }
        condition
    }
}

/// The direct members, in the order they were added.
///
/// # Errors
/// Whatever the database reports.
pub async fn list(
    backend: &Backend,
    place: &Place,
    filter: &MemberFilter,
    page: &PageRequest,
) -> Result<Page<Membership>> {
    let db = backend.database.read();
    let select = members::of(place.source).filter(filter.condition());
    let total = bounded_count(db, select.clone().into_query()).await?;
    let rows = select
        .offset(page.offset())
        .limit(page.limit() + 1)
        .all(db)
        .await?;
    let found = rows.into_iter().filter_map(|(member, user)| {
        Some(Membership {
            user: user?,
            access_level: member.access_level,
            expires_at: member.expires_at,
        })
    });
    Ok(Page::new(page, found.collect(), total))
}

/// One direct member.
///
/// # Errors
/// 404 when the user is none.
pub async fn direct(backend: &Backend, place: &Place, user_id: i64) -> Result<Membership> {
    only(list(backend, place, &of_user(user_id), &ONE).await?)
}

/// All who have a role here, each user once: with the role in the project if any, else the one from the nearest
/// group above, else the highest from a group that the project is shared with, no higher than the share.
///
/// # Errors
/// Whatever the database reports.
pub async fn list_all(
    backend: &Backend,
    place: &Place,
    filter: &MemberFilter,
    page: &PageRequest,
) -> Result<Page<Membership>> {
    let db = backend.database.read();
    let nearest = nearest(place, filter, now().date_naive());
    let total = bounded_count(db, nearest.clone()).await?;
    let mut wanted = nearest;
    wanted
        .order_by("user_id", Order::Asc)
        .offset(page.offset())
        .limit(page.limit() + 1);
    let rows = db.query_all(&wanted).await?;
    let rows = rows
        .iter()
        .map(|row| Nearest::from_query_result(row, ""))
        .collect::<Result<Vec<_>, _>>()?;
    let users = users::Entity::find()
        .filter(users::Column::Id.is_in(rows.iter().map(|row| row.user_id)))
        .all(db)
        .await?;
    let mut users: HashMap<i64, users::Model> = users.into_iter().map(|user| (user.id, user)).collect();
    let found = rows.into_iter().filter_map(|row| {
        Some(Membership {
            user: users.remove(&row.user_id)?,
            access_level: row.access_level,
            expires_at: row.expires_at,
        })
    });
    Ok(Page::new(page, found.collect(), total))
}

/// One who has a role here.
///
/// # Errors
/// 404 when the user has none.
pub async fn any(backend: &Backend, place: &Place, user_id: i64) -> Result<Membership> {
    only(list_all(backend, place, &of_user(user_id), &ONE).await?)
}

/// The page of a list that has one entry or none.
const ONE: PageRequest = PageRequest {
    number: 1,
    size: 1,
    keyset: false,
};

fn of_user(user_id: i64) -> MemberFilter {
    MemberFilter {
        user_ids: Some(vec![user_id]),
        ..Default::default()
    }
}

fn only(found: Page<Membership>) -> Result<Membership> {
    found.items.into_iter().next().ok_or_else(|| Error::not_found(""))
}

#[derive(FromQueryResult)]
struct Nearest {
    user_id: i64,
    access_level: AccessLevel,
    expires_at: Option<NaiveDate>,
}

const MEMBER: &str = "member";
const ABOVE: &str = "above";
const SHARE: &str = "share";
/// How far away shares stand: farther than any group above.
const SHARED: i32 = 1_000_000;

/// One row `(user_id, access_level, expires_at)` for each user with a role.
fn nearest(place: &Place, filter: &MemberFilter, today: NaiveDate) -> SelectStatement {
    let mut sources = inherited(place, today);
    if let Source::Project(id) = place.source {
        sources.union(UnionType::All, own(id, today));
        sources.union(UnionType::All, shared(id, today));
    }
    let window = WindowStatement::partition_by("user_id")
        .order_by("distance", Order::Asc)
        .order_by("access_level", Order::Desc)
        .take();
    let ranked = Query::select()
        .columns(["user_id", "access_level", "expires_at"])
        .expr_window_as(Func::cust("ROW_NUMBER"), window, "place")
        .from_subquery(sources, "sources")
        .take();
    let chosen = Query::select()
        .column((users::Entity, users::Column::Id))
        .from(users::Entity)
        .cond_where(filter.condition())
        .take();
    Query::select()
        .columns(["user_id", "access_level", "expires_at"])
        .from_subquery(ranked, "ranked")
        .and_where(Expr::col("place").eq(1))
        .and_where(Expr::col("user_id").in_subquery(chosen))
        .take()
}

fn unexpired(column: impl IntoColumnRef + Clone, today: NaiveDate) -> Condition {
    Condition::any()
        .add(Expr::col(column.clone()).is_null())
        .add(Expr::col(column).gt(today))
}

/// The columns of every source: user, role, last day, distance.
fn columns(from: &mut SelectStatement, level: Expr, distance: Expr, today: NaiveDate) -> SelectStatement {
    from.expr_as(Expr::col((MEMBER, members::Column::UserId)), "user_id")
        .expr_as(level, "access_level")
        .expr_as(Expr::col((MEMBER, members::Column::ExpiresAt)), "expires_at")
        .expr_as(distance, "distance")
        .cond_where(unexpired((MEMBER, members::Column::ExpiresAt), today))
        .take()
}

fn level() -> Expr {
    Expr::col((MEMBER, members::Column::AccessLevel))
}

/// Memberships of the project itself.
fn own(project_id: i64, today: NaiveDate) -> SelectStatement {
    let from = &mut Query::select();
    from.from_as(members::Entity, MEMBER)
        .and_where(Expr::col((MEMBER, members::Column::ProjectId)).eq(project_id));
    columns(from, level(), Expr::val(-1), today)
}

/// Memberships of the group, or of the project's group, and of those above.
fn inherited(place: &Place, today: NaiveDate) -> SelectStatement {
    let from = &mut Query::select();
    from.from_as(namespace_ancestors::Entity, ABOVE)
        .join_as(
            JoinType::InnerJoin,
            members::Entity,
            MEMBER,
            Expr::col((MEMBER, members::Column::NamespaceId))
                .eq(Expr::col((ABOVE, namespace_ancestors::Column::AncestorId))),
        )
        .and_where(Expr::col((ABOVE, namespace_ancestors::Column::NamespaceId)).eq(place.namespace.id));
    let distance = Expr::col((ABOVE, namespace_ancestors::Column::Depth));
    columns(from, level(), distance, today)
}

/// Memberships of groups that the project is shared with, and of those above them.
fn shared(project_id: i64, today: NaiveDate) -> SelectStatement {
    let from = &mut Query::select();
    from.from_as(project_shares::Entity, SHARE)
        .join_as(
            JoinType::InnerJoin,
            namespace_ancestors::Entity,
            ABOVE,
            Expr::col((ABOVE, namespace_ancestors::Column::NamespaceId))
                .eq(Expr::col((SHARE, project_shares::Column::GroupId))),
        )
        .join_as(
            JoinType::InnerJoin,
            members::Entity,
            MEMBER,
            Expr::col((MEMBER, members::Column::NamespaceId))
                .eq(Expr::col((ABOVE, namespace_ancestors::Column::AncestorId))),
        )
        .and_where(Expr::col((SHARE, project_shares::Column::ProjectId)).eq(project_id))
        .cond_where(unexpired((SHARE, project_shares::Column::ExpiresAt), today));
    let share = Expr::col((SHARE, project_shares::Column::AccessLevel));
    let capped = Expr::case(level().lt(share.clone()), level()).finally(share);
    columns(from, capped.into(), Expr::val(SHARED), today)
}
