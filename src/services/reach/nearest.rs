//! Labels and milestones by the titles of others, from where something lies.

use sea_orm::sea_query::{Expr, ExprTrait, Func, JoinType, Order, Query, SelectStatement, SubQueryStatement};
use storage::entities::issuables::Kind;

/// Another row of the same table.
pub(super) const OTHER: &str = "other";
/// The project that something lies in.
pub(super) const HOME: &str = "home";
/// What is not reached any more.
pub(super) const FORMER: &str = "former";
/// A group at or above.
const ABOVE: &str = "above";
/// What is called the same.
pub(super) const FOUND: &str = "found";

/// The ids of the rows of a table that meet a condition.
pub(super) fn ids(table: &'static str, condition: Expr) -> SelectStatement {
    Query::select()
        .column((table, "id"))
        .from(table)
        .and_where(condition)
        .take()
}

pub(super) fn scalar(statement: SelectStatement) -> Expr {
    Expr::from(SubQueryStatement::from(statement))
}

/// The project of the thing with this id.
pub(super) fn project_of(kind: Kind, id: Expr) -> Expr {
    scalar(
        Query::select()
            .expr(kind.column(kind.project()))
            .from(kind.table())
            .and_where(kind.column("id").eq(id))
            .take(),
    )
}

/// The label or milestone of the project `home` that is called as `former`.
pub(super) fn own(table: &'static str) -> SelectStatement {
    Query::select()
        .column((FOUND, "id"))
        .from_as(table, FOUND)
        .and_where(Expr::col((FOUND, "project_id")).eq(Expr::col((HOME, "id"))))
        .and_where(Expr::col((FOUND, "title")).eq(Expr::col((FORMER, "title"))))
        .take()
}

/// The one of the nearest group at or above a namespace that is called as `former`.
pub(super) fn above(table: &'static str, namespace: Expr) -> SelectStatement {
    Query::select()
        .column((FOUND, "id"))
        .from_as("namespace_ancestors", ABOVE)
        .join_as(
            JoinType::InnerJoin,
            table,
            FOUND,
            Expr::col((FOUND, "namespace_id")).eq(Expr::col((ABOVE, "ancestor_id"))),
        )
        .and_where(Expr::col((ABOVE, "namespace_id")).eq(namespace))
        .and_where(Expr::col((FOUND, "title")).eq(Expr::col((FORMER, "title"))))
        .order_by((ABOVE, "depth"), Order::Asc)
        .limit(1)
        .take()
}

/// The one that things of a project reach and that is called as that with the former id: its own, or that of the nearest
/// group.
pub(super) fn nearest(table: &'static str, former: Expr, project: Expr) -> SelectStatement {
    let found = [own(table), above(table, Expr::col((HOME, "namespace_id")))];
    Query::select()
        .expr(Func::coalesce(found.map(scalar)))
        .from_as(table, FORMER)
        .join_as(
            JoinType::InnerJoin,
            "projects",
            HOME,
            Expr::col((HOME, "id")).eq(project),
        )
        .and_where(Expr::col((FORMER, "id")).eq(former))
        .take()
}
