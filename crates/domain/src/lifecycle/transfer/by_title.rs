//! Lookups of labels and milestones by the title of a former one, from the location of a project.

use sea_orm::sea_query::{Expr, ExprTrait, Func, JoinType, Order, Query, SelectStatement, SubQueryStatement};
use storage::entities::issuables::IssuableKind;

/// Alias of another row of the same table.
pub(super) const OTHER: &str = "other";
/// Alias of the project of a row.
pub(super) const HOME: &str = "home";
/// Alias of the row that is no longer available.
pub(super) const FORMER: &str = "former";
/// Alias of a group or ancestor.
const ABOVE: &str = "above";
/// Alias of the row with the same title.
pub(super) const FOUND: &str = "found";

/// Selects the IDs of the rows of a table that match a condition.
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

/// Returns the project of the issue or merge request with this ID.
pub(super) fn project_of(kind: IssuableKind, id: Expr) -> Expr {
    scalar(
        Query::select()
            .expr(kind.column(kind.project()))
            .from(kind.table())
            .and_where(kind.column("id").eq(id))
            .take(),
    )
}

/// Selects the label or milestone of the project `home` with the title of `former`.
pub(super) fn own(table: &'static str) -> SelectStatement {
    Query::select()
        .column((FOUND, "id"))
        .from_as(table, FOUND)
        .and_where(Expr::col((FOUND, "project_id")).eq(Expr::col((HOME, "id"))))
        .and_where(Expr::col((FOUND, "title")).eq(Expr::col((FORMER, "title"))))
        .take()
}

/// Selects the label or milestone with the title of `former` in the nearest group, from a namespace upward.
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

/// Selects the label or milestone with the title of the one with the former ID. It is the project's own, or
/// that of the nearest group.
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
