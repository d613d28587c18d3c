//! Selects the labels and milestones that replace former ones of the same title in a project.

use sea_orm::sea_query::{Expr, ExprTrait, Func, JoinType, Order, Query, SelectStatement, SubQueryStatement};
use storage::entities::issuables::IssuableKind;

/// Alias of another row of the same table.
pub(super) const OTHER: &str = "other";
/// Alias of the project of a row.
pub(super) const PROJECT: &str = "project";
/// Alias of the row that is no longer available.
pub(super) const FORMER: &str = "former";
/// Alias of the rows that link a namespace with its ancestors.
const ANCESTORS: &str = "ancestors";
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

/// Selects the label or milestone of the project `project` with the title of `former`.
pub(super) fn in_project(table: &'static str) -> SelectStatement {
    Query::select()
        .column((FOUND, "id"))
        .from_as(table, FOUND)
        .and_where(Expr::col((FOUND, "project_id")).eq(Expr::col((PROJECT, "id"))))
        .and_where(Expr::col((FOUND, "title")).eq(Expr::col((FORMER, "title"))))
        .take()
}

/// Selects the label or milestone with the title of `former` in the nearest group of a namespace.
pub(super) fn in_nearest_group(table: &'static str, namespace: Expr) -> SelectStatement {
    Query::select()
        .column((FOUND, "id"))
        .from_as("namespace_ancestors", ANCESTORS)
        .join_as(
            JoinType::InnerJoin,
            table,
            FOUND,
            Expr::col((FOUND, "namespace_id")).eq(Expr::col((ANCESTORS, "ancestor_id"))),
        )
        .and_where(Expr::col((ANCESTORS, "namespace_id")).eq(namespace))
        .and_where(Expr::col((FOUND, "title")).eq(Expr::col((FORMER, "title"))))
        .order_by((ANCESTORS, "depth"), Order::Asc)
        .limit(1)
        .take()
}

/// Selects the label or milestone that replaces the one with the former ID: that of the project, or else of the
/// nearest group, with the same title.
pub(super) fn replacement(table: &'static str, former: Expr, project: Expr) -> SelectStatement {
    let candidates = [
        in_project(table),
        in_nearest_group(table, Expr::col((PROJECT, "namespace_id"))),
    ];
    Query::select()
        .expr(Func::coalesce(candidates.map(scalar)))
        .from_as(table, FORMER)
        .join_as(
            JoinType::InnerJoin,
            "projects",
            PROJECT,
            Expr::col((PROJECT, "id")).eq(project),
        )
        .and_where(Expr::col((FORMER, "id")).eq(former))
        .take()
}
